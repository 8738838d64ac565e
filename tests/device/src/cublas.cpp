// libcublas.so.12: gemm (plain, Ex, batched, strided) in float32 and float64, each product a plain sum on the CPU.
// Checked as cuBLAS does: sizes and leading dimensions; and, as a GPU would fault: that operands lie on the device, and
// that alpha and beta lie where the pointer mode says. beta = 0 does not read C, as in cuBLAS.
// Refused: half, integer and complex types (NOT_SUPPORTED), and, by a stub for each, all other calls that CuPy links.
// Types are plain ints here: values as in cublas_api.h and library_types.h.
#include "emu.h"
#include <tuple>
#include <vector>
enum { OK = 0, INVALID_VALUE = 7, NOT_SUPPORTED = 15, R_32F = 0, R_64F = 1, POINTER_HOST = 0 };
struct Handle { int pointers = POINTER_HOST, math = 0; void* stream = nullptr; };
struct Sizes { int ta, tb, m, n, k, lda, ldb, ldc, batch; };
typedef long long Stride;

EXPORT int cublasCreate_v2(Handle** h) { *h = new Handle; return OK; }
EXPORT int cublasDestroy_v2(Handle* h) { delete h; return OK; }
EXPORT int cublasGetVersion_v2(Handle*, int* v) { *v = 120902; return OK; }
EXPORT int cublasGetPointerMode_v2(Handle* h, int* m) { *m = h->pointers; return OK; }
EXPORT int cublasSetPointerMode_v2(Handle* h, int m) { h->pointers = m; return OK; }
EXPORT int cublasGetStream_v2(Handle* h, void** s) { *s = h->stream; return OK; }
EXPORT int cublasSetStream_v2(Handle* h, void* s) { h->stream = s; return OK; }
EXPORT int cublasGetMathMode(Handle* h, int* m) { *m = h->math; return OK; }
EXPORT int cublasSetMathMode(Handle* h, int m) { h->math = m; return OK; }
EXPORT int cublasSetWorkspace_v2(Handle*, void*, size_t) { return OK; }

template <class T> static T scalar(Handle* h, const T* p) {
  if (emu_on_device(p) != (h->pointers != POINTER_HOST))
    emu_fault("cublas", "alpha or beta does not lie where the pointer mode says");
  return *p;
}
template <class T> static void need(const char* call, const T* p, int rows, int cols, int ld) {
  if (rows > 0 && cols > 0) emu_need(call, p, sizeof(T) * ((size_t)(cols - 1) * ld + rows));
}
// One product. A, B and C are column-major.
template <class T> static void multiply(const Sizes& s, T alpha, const T* A, const T* B, T beta, T* C) {
  need("gemm A", A, s.ta ? s.k : s.m, s.ta ? s.m : s.k, s.lda);
  need("gemm B", B, s.tb ? s.n : s.k, s.tb ? s.k : s.n, s.ldb);
  need("gemm C", C, s.m, s.n, s.ldc);
  std::vector<T> a((size_t)s.m * s.k), b((size_t)s.n * s.k);  // rows of op(A), columns of op(B)
  for (int i = 0; i < s.m; i++)
    for (int l = 0; l < s.k; l++) a[(size_t)i * s.k + l] = s.ta ? A[(size_t)i * s.lda + l] : A[(size_t)l * s.lda + i];
  for (int j = 0; j < s.n; j++)
    for (int l = 0; l < s.k; l++) b[(size_t)j * s.k + l] = s.tb ? B[(size_t)l * s.ldb + j] : B[(size_t)j * s.ldb + l];
  for (int j = 0; j < s.n; j++)
    for (int i = 0; i < s.m; i++) {
      const T *x = a.data() + (size_t)i * s.k, *y = b.data() + (size_t)j * s.k;
      T part[8] = {0}, sum = 0;  // eight partial sums, so that the compiler may use vectors
      int l = 0;
      for (; l + 8 <= s.k; l += 8) for (int q = 0; q < 8; q++) part[q] += x[l + q] * y[l + q];
      for (; l < s.k; l++) sum += x[l] * y[l];
      for (T p : part) sum += p;
      T& c = C[(size_t)j * s.ldc + i];
      c = beta == 0 ? alpha * sum : alpha * sum + beta * c;
    }
}
// A batch of products; operands(i) gives A, B and C of the i-th.
template <class T, class Operands>
static int products(Handle* h, const char* call, const Sizes& s, const T* alpha, const T* beta, Operands operands) {
  char name[120];
  int end = snprintf(name, sizeof name, "%s m%d n%d k%d", call, s.m, s.n, s.k);
  if (s.batch != 1) snprintf(name + end, sizeof name - end, " x%d", s.batch);
  double entries = (double)s.m * s.k + (double)s.n * s.k + (double)s.m * s.n;
  if (!emu_count("gemm", name, sizeof(T) * s.batch * entries, 2.0 * s.batch * s.m * s.n * s.k)) return OK;
  bool fits_a = s.lda >= (s.ta ? s.k : s.m) && s.lda >= 1, fits_b = s.ldb >= (s.tb ? s.n : s.k) && s.ldb >= 1;
  if (s.m < 0 || s.n < 0 || s.k < 0 || !fits_a || !fits_b || s.ldc < s.m || s.ldc < 1) {
    fprintf(stderr, "emu: %s with leading dimensions %d %d %d (transposed: %d %d)\n", name, s.lda, s.ldb, s.ldc, s.ta, s.tb);
    return INVALID_VALUE;
  }
  if (!s.m || !s.n) return OK;
  EmuLock lock;
  T x = scalar(h, alpha), y = scalar(h, beta);
  for (int i = 0; i < s.batch; i++) {
    auto [A, B, C] = operands(i);
    multiply<T>(s, x, A, B, y, C);
  }
  return OK;
}
template <class T>
static int strided(Handle* h, const char* call, const Sizes& s, const void* alpha, const void* A, Stride sa,
                   const void* B, Stride sb, const void* beta, void* C, Stride sc) {
  return products(h, call, s, (const T*)alpha, (const T*)beta, [&](int i) {
    return std::tuple((const T*)A + i * sa, (const T*)B + i * sb, (T*)C + i * sc);
  });
}
template <class T>
static int batched(Handle* h, const char* call, const Sizes& s, const T* alpha, const T* const* A, const T* const* B,
                   const T* beta, T* const* C) {
  for (const void* list : {(const void*)A, (const void*)B, (const void*)C})
    emu_need("gemmBatched pointers", list, sizeof(void*) * s.batch);
  return products(h, call, s, alpha, beta, [&](int i) { return std::tuple(A[i], B[i], C[i]); });
}

#define SIZES int ta, int tb, int m, int n, int k
#define BOTH(S, T, letter) \
  EXPORT int cublas##S##gemm_v2(Handle* h, SIZES, const T* alpha, const T* A, int lda, const T* B, int ldb, \
                                const T* beta, T* C, int ldc) { \
    Sizes s{ta, tb, m, n, k, lda, ldb, ldc, 1}; \
    return strided<T>(h, letter "gemm", s, alpha, A, 0, B, 0, beta, C, 0); \
  } \
  EXPORT int cublas##S##gemmStridedBatched(Handle* h, SIZES, const T* alpha, const T* A, int lda, Stride sa, \
                                           const T* B, int ldb, Stride sb, const T* beta, T* C, int ldc, Stride sc, \
                                           int batch) { \
    Sizes s{ta, tb, m, n, k, lda, ldb, ldc, batch}; \
    return strided<T>(h, letter "gemmStridedBatched", s, alpha, A, sa, B, sb, beta, C, sc); \
  } \
  EXPORT int cublas##S##gemmBatched(Handle* h, SIZES, const T* alpha, const T* const* A, int lda, \
                                    const T* const* B, int ldb, const T* beta, T* const* C, int ldc, int batch) { \
    Sizes s{ta, tb, m, n, k, lda, ldb, ldc, batch}; \
    return batched<T>(h, letter "gemmBatched", s, alpha, A, B, beta, C); \
  }
BOTH(S, float, "s")
BOTH(D, double, "d")

EXPORT int cublasGemmStridedBatchedEx(Handle* h, SIZES, const void* alpha, const void* A, int at, int lda, Stride sa,
                                      const void* B, int bt, int ldb, Stride sb, const void* beta, void* C, int ct,
                                      int ldc, Stride sc, int batch, int compute, int) {
  if (at != bt || bt != ct || (ct != R_32F && ct != R_64F)) return emu_refuse("cublasGemmEx of this type", NOT_SUPPORTED);
  char call[64];
  snprintf(call, sizeof call, "gemmEx(compute %d)", compute);
  Sizes s{ta, tb, m, n, k, lda, ldb, ldc, batch};
  return (ct == R_32F ? strided<float> : strided<double>)(h, call, s, alpha, A, sa, B, sb, beta, C, sc);
}
EXPORT int cublasGemmEx(Handle* h, SIZES, const void* alpha, const void* A, int at, int lda, const void* B, int bt,
                        int ldb, const void* beta, void* C, int ct, int ldc, int compute, int algorithm) {
  return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, A, at, lda, 0, B, bt, ldb, 0, beta, C, ct, ldc, 0, 1,
                                    compute, algorithm);
}
