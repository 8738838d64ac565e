// What the source of a CUDA kernel needs to be a C++ function of the host: the words of the language, the built-in variables,
// a few intrinsics, and a launcher. Threads of a block that synchronise are fibers; each barrier gives way to the next.
// __shared__ memory is not poisoned. x86-64 only (emu_switch).
#pragma once
#include <algorithm>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <math.h>
#include <type_traits>
#include <utility>
#include <vector_functions.h>
#include <vector_types.h>
#undef __device__
#undef __global__
#undef __host__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#undef __noinline__
#define __device__
#define __global__
#define __host__
#define __shared__ static __attribute__((aligned(16)))
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __noinline__
#define __restrict__
#define __threadfence()
#define __threadfence_block()
#define __trap() abort()

static uint3 threadIdx, blockIdx;
static dim3 blockDim, gridDim;
static const int warpSize = 32;

using std::max; using std::min;
template <class A, class B> using EmuMixed = typename std::enable_if<std::is_arithmetic<A>::value && std::is_arithmetic<B>::value &&
                                                                      !std::is_same<A, B>::value, typename std::common_type<A, B>::type>::type;
template <class A, class B> static inline EmuMixed<A, B> max(A a, B b) { using C = EmuMixed<A, B>; return (C)a < (C)b ? (C)b : (C)a; }
template <class A, class B> static inline EmuMixed<A, B> min(A a, B b) { using C = EmuMixed<A, B>; return (C)b < (C)a ? (C)b : (C)a; }
static inline float rsqrt(float x) { return 1.f / std::sqrt(x); }
static inline double rsqrt(double x) { return 1. / std::sqrt(x); }
static inline float rsqrtf(float x) { return 1.f / std::sqrt(x); }
template <class T> static inline T __ldg(const T* p) { return *p; }
static inline unsigned int __umulhi(unsigned int a, unsigned int b) { return (unsigned long long)a * b >> 32; }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned __int128)a * b >> 64; }
template <class T> static inline T atomicAdd(T* p, T v) { T o = *p; *p = o + v; return o; }
template <class T> static inline T atomicExch(T* p, T v) { T o = *p; *p = v; return o; }
template <class T> static inline T atomicMax(T* p, T v) { T o = *p; if (v > o) *p = v; return o; }
template <class T> static inline T atomicMin(T* p, T v) { T o = *p; if (v < o) *p = v; return o; }
template <class T> static inline T atomicCAS(T* p, T c, T v) { T o = *p; if (o == c) *p = v; return o; }
template <class To, class From> static inline To emu_bits(From f) { To t; memcpy(&t, &f, sizeof t); return t; }
static inline int __float_as_int(float f) { return emu_bits<int>(f); }
static inline float __int_as_float(int i) { return emu_bits<float>(i); }
static inline unsigned __float_as_uint(float f) { return emu_bits<unsigned>(f); }
static inline float __uint_as_float(unsigned i) { return emu_bits<float>(i); }
static inline long long __double_as_longlong(double f) { return emu_bits<long long>(f); }
static inline double __longlong_as_double(long long i) { return emu_bits<double>(i); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }

// Fibers
struct EmuFiber { void* sp; char* stack; bool done; };
static void* emu_main; static EmuFiber* emu_now; static void (*emu_body)(void*); static void* emu_argument;
static EmuFiber* emu_fibers; static size_t emu_fiber_count;
static const size_t EMU_STACK = 1 << 15;
extern "C" void emu_switch(void** from, void* to);
asm(R"(
.text
.local emu_switch
.type emu_switch,@function
emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
static inline void emu_yield() { if (emu_now) emu_switch(&emu_now->sp, emu_main); }
#define __syncthreads() emu_yield()
#define __syncwarp(...) emu_yield()
static void emu_entry() { emu_body(emu_argument); emu_now->done = true; emu_yield(); abort(); }
static void emu_block(void (*body)(void*), void* argument) {
  size_t n = (size_t)blockDim.x * blockDim.y * blockDim.z, left = n;
  if (emu_fiber_count < n) {
    emu_fibers = (EmuFiber*)realloc(emu_fibers, n * sizeof(EmuFiber));
    for (; emu_fiber_count < n; emu_fiber_count++) emu_fibers[emu_fiber_count].stack = (char*)aligned_alloc(64, EMU_STACK);
  }
  emu_body = body; emu_argument = argument;
  for (size_t i = 0; i < n; i++) {
    void** top = (void**)(emu_fibers[i].stack + EMU_STACK - 64);
    *--top = nullptr; *--top = (void*)emu_entry;
    for (int r = 0; r < 6; r++) *--top = nullptr;
    emu_fibers[i].sp = top; emu_fibers[i].done = false;
  }
  while (left)
    for (size_t i = 0; i < n; i++) {
      EmuFiber& f = emu_fibers[i];
      if (f.done) continue;
      size_t y = i / blockDim.x, z = y / blockDim.y;
      threadIdx = uint3{(unsigned)(i % blockDim.x), (unsigned)(y % blockDim.y), (unsigned)z};
      emu_now = &f;
      emu_switch(&emu_main, f.sp);
      if (f.done) left--;
    }
  emu_now = nullptr;
}

// mode 0: thread after thread; 1: one thread walks all the data; 2: fibers
template <class... A, size_t... I> static void emu_call(void (*f)(A...), void** p, std::index_sequence<I...>) {
  f(*(typename std::decay<A>::type*)p[I]...);
}
template <class... A> static void emu_run(void (*f)(A...), void** p, const unsigned* g, const unsigned* b, int mode) {
  struct Call {
    void (*f)(A...); void** p;
    void operator()() { emu_call(f, p, std::index_sequence_for<A...>()); }
  } call{f, p};
  threadIdx = blockIdx = uint3{0, 0, 0};
  if (mode == 1) { gridDim = blockDim = dim3(1, 1, 1); call(); return; }
  gridDim = dim3(g[0], g[1], g[2]); blockDim = dim3(b[0], b[1], b[2]);
  for (unsigned z = 0; z < g[2]; z++) for (unsigned y = 0; y < g[1]; y++) for (unsigned x = 0; x < g[0]; x++) {
    blockIdx = uint3{x, y, z};
    if (mode == 2) { emu_block([](void* c) { (*(Call*)c)(); }, &call); continue; }
    for (unsigned w = 0; w < b[2]; w++) for (unsigned v = 0; v < b[1]; v++) for (unsigned u = 0; u < b[0]; u++) {
      threadIdx = uint3{u, v, w};
      call();
    }
  }
}
