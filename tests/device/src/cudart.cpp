// The CUDA runtime, linked into the rebuilt cupy_backends.cuda.api.runtime. One device; every call is done when it returns,
// so streams and events are names without effect. The direction of each copy is checked against where its pointers lie.
// EMU_SMS (40): multiprocessors of the device; EMU_CC (80): its compute capability.
// Refused, by a stub that build makes for each call that CuPy links and that is not here: graphs, textures, arrays, managed
// memory, peers, IPC, host functions (status 801, and the call's name in the exception).
#include "emu.h"
#include <atomic>
#include <cuda_runtime.h>
#include <string>
#define CALL(name, ...) extern "C" cudaError_t name(__VA_ARGS__)
#define NOTHING(name, ...) CALL(name, __VA_ARGS__) { return cudaSuccess; }
static const cudaError_t OK = cudaSuccess;

// Memory
static cudaError_t allocate(void** p, size_t n, const char* call) {
  emu_count("alloc", call, n, 0);
  return (*p = emu_alloc(n)) ? OK : cudaErrorMemoryAllocation;
}
CALL(cudaMalloc, void** p, size_t n) { return allocate(p, n, "cudaMalloc"); }
CALL(cudaMallocAsync, void** p, size_t n, cudaStream_t) { return allocate(p, n, "cudaMallocAsync"); }
CALL(cudaFree, void* p) { emu_free(p); return OK; }
CALL(cudaFreeAsync, void* p, cudaStream_t) { emu_free(p); return OK; }
CALL(cudaHostAlloc, void** p, size_t n, unsigned) {
  return (*p = aligned_alloc(4096, (n + 4095) / 4096 * 4096)) ? OK : cudaErrorMemoryAllocation;
}
CALL(cudaFreeHost, void* p) { free(p); return OK; }
CALL(cudaMemGetInfo, size_t* left, size_t* all) { *left = *all = (size_t)16 << 30; return OK; }

static cudaError_t copy(void* to, const void* from, size_t n, int kind, const char* suffix) {
  static const char* kinds[] = {"HtoH", "HtoD", "DtoH", "DtoD", "default"};
  std::string name = std::string(kinds[kind]) + suffix;
  bool work = emu_count("memcpy", name.c_str(), n, 0);
  if (!n) return OK;
  if (kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice) emu_need(("memcpy " + name + " to").c_str(), to, n);
  if (kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice) emu_need(("memcpy " + name + " from").c_str(), from, n);
  if (kind == cudaMemcpyHostToDevice && emu_on_device(from)) emu_fault("memcpy HtoD", "the source lies on the device");
  if (kind == cudaMemcpyDeviceToHost && emu_on_device(to)) emu_fault("memcpy DtoH", "the destination lies on the device");
  if (work || kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToHost) memmove(to, from, n);
  return OK;
}
CALL(cudaMemcpy, void* to, const void* from, size_t n, cudaMemcpyKind kind) { return copy(to, from, n, kind, " sync"); }
CALL(cudaMemcpyAsync, void* to, const void* from, size_t n, cudaMemcpyKind kind, cudaStream_t) {
  return copy(to, from, n, kind, "");
}
CALL(cudaMemset, void* to, int value, size_t n) {
  emu_need("cudaMemset", to, n);
  if (emu_count("memset", "memset", n, 0)) memset(to, value, n);
  return OK;
}
CALL(cudaMemsetAsync, void* to, int value, size_t n, cudaStream_t) { return cudaMemset(to, value, n); }
CALL(cudaPointerGetAttributes, cudaPointerAttributes* a, const void* p) {
  memset(a, 0, sizeof *a);
  bool device = emu_on_device(p);
  a->type = device ? cudaMemoryTypeDevice : cudaMemoryTypeUnregistered;
  (device ? a->devicePointer : a->hostPointer) = (void*)p;
  return OK;
}

// Errors and versions
extern "C" const char* cudaGetErrorName(cudaError_t e) {
  return e == cudaErrorNotSupported ? "cudaErrorNotSupported" : e == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
       : e == cudaErrorInvalidDevice ? "cudaErrorInvalidDevice" : "cudaError";
}
extern "C" const char* cudaGetErrorString(cudaError_t e) {
  static thread_local std::string text;
  text = e == cudaErrorNotSupported ? std::string(emu_refused()) + " is not emulated" : "error " + std::to_string((int)e);
  return text.c_str();
}
NOTHING(cudaGetLastError)
CALL(cudaDriverGetVersion, int* v) { *v = 12090; return OK; }
CALL(cudaRuntimeGetVersion, int* v) { *v = 12090; return OK; }

// The device
static int setting(const char* name, int usual) { const char* s = getenv(name); return s && *s ? atoi(s) : usual; }
static int sms() { return setting("EMU_SMS", 40); }
static int capability() { return setting("EMU_CC", 80); }
CALL(cudaGetDeviceCount, int* n) { *n = 1; return OK; }
CALL(cudaGetDevice, int* d) { *d = 0; return OK; }
CALL(cudaSetDevice, int d) { return d ? cudaErrorInvalidDevice : OK; }
CALL(cudaDeviceGetAttribute, int* v, cudaDeviceAttr attribute, int) {
  switch ((int)attribute) {
    case cudaDevAttrComputeCapabilityMajor: *v = capability() / 10; break;
    case cudaDevAttrComputeCapabilityMinor: *v = capability() % 10; break;
    case cudaDevAttrMultiProcessorCount: *v = sms(); break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = 2048; break;
    case cudaDevAttrMaxThreadsPerBlock: case cudaDevAttrMaxBlockDimX: case cudaDevAttrMaxBlockDimY: *v = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *v = 64; break;
    case cudaDevAttrMaxGridDimX: *v = 2147483647; break;
    case cudaDevAttrMaxGridDimY: case cudaDevAttrMaxGridDimZ: *v = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = 49152; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMemoryPoolsSupported: case cudaDevAttrUnifiedAddressing: *v = 1; break;
    default: *v = 0;
  }
  return OK;
}
CALL(cudaGetDeviceProperties_v2, cudaDeviceProp* p, int) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "CPU emulation");
  p->totalGlobalMem = (size_t)16 << 30;
  p->major = capability() / 10; p->minor = capability() % 10;
  p->multiProcessorCount = sms(); p->warpSize = 32; p->maxThreadsPerBlock = 1024;
  return OK;
}
CALL(cudaDeviceSynchronize) { emu_count("sync", "device", 0, 0); emu_check_fences(); return OK; }

// Streams and events
static std::atomic<long> handles{16};
CALL(cudaStreamSynchronize, cudaStream_t) { emu_count("sync", "stream", 0, 0); return OK; }
CALL(cudaEventSynchronize, cudaEvent_t) { emu_count("sync", "event", 0, 0); return OK; }
CALL(cudaStreamCreate, cudaStream_t* s) { *s = (cudaStream_t)handles++; return OK; }
CALL(cudaStreamCreateWithFlags, cudaStream_t* s, unsigned) { return cudaStreamCreate(s); }
CALL(cudaStreamCreateWithPriority, cudaStream_t* s, unsigned, int) { return cudaStreamCreate(s); }
CALL(cudaStreamIsCapturing, cudaStream_t, cudaStreamCaptureStatus* c) { *c = cudaStreamCaptureStatusNone; return OK; }
CALL(cudaStreamGetFlags, cudaStream_t, unsigned* f) { *f = 0; return OK; }
CALL(cudaStreamGetPriority, cudaStream_t, int* p) { *p = 0; return OK; }
CALL(cudaEventCreate, cudaEvent_t* e) { *e = (cudaEvent_t)handles++; return OK; }
CALL(cudaEventCreateWithFlags, cudaEvent_t* e, unsigned) { return cudaEventCreate(e); }
CALL(cudaEventElapsedTime, float* ms, cudaEvent_t, cudaEvent_t) { *ms = 0; return OK; }
NOTHING(cudaStreamDestroy, cudaStream_t)
NOTHING(cudaStreamQuery, cudaStream_t)
NOTHING(cudaStreamWaitEvent, cudaStream_t, cudaEvent_t, unsigned)
NOTHING(cudaEventDestroy, cudaEvent_t)
NOTHING(cudaEventRecord, cudaEvent_t, cudaStream_t)
NOTHING(cudaEventQuery, cudaEvent_t)
NOTHING(cudaProfilerStart)
NOTHING(cudaProfilerStop)
