// libcuda.so.1, the driver: loads what nvrtc.cpp compiled and runs its kernels, one launch at a time.
// A module's image is "EMUSO:" and the path of a shared object.
// Refused, by a stub for each call that CuPy looks up and that is not here: linking (RDC), globals of a module, modules
// from a file, cooperative launches (status 801).
// CuPy's wheel has a CUDA runtime of its own inside CUB and jitify; where that looks for the driver, the process ends.
#include "emu.h"
#include <dlfcn.h>
#include <string>
struct Kernel { std::string name; void (*run)(void**, const unsigned*, const unsigned*); };

EXPORT int cuInit(unsigned) { return 0; }
EXPORT int cuDriverGetVersion(int* v) { *v = 12090; return 0; }
EXPORT int cuGetErrorName(int e, const char** s) {
  *s = e == 801 ? "CUDA_ERROR_NOT_SUPPORTED" : "CUDA_ERROR";
  return 0;
}
EXPORT int cuGetErrorString(int e, const char** s) {
  static thread_local std::string text;
  text = e == 801 ? std::string(emu_refused()) + " is not emulated" : "error " + std::to_string(e);
  *s = text.c_str();
  return 0;
}
EXPORT int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
EXPORT int cuCtxGetCurrent(void** c) { *c = (void*)1; return 0; }
EXPORT int cuCtxSetCurrent(void*) { return 0; }
EXPORT int cuCtxCreate_v2(void** c, unsigned, int) { *c = (void*)1; return 0; }
EXPORT int cuCtxDestroy_v2(void*) { return 0; }
EXPORT int cuCtxGetDevice(int* d) { *d = 0; return 0; }
EXPORT int cuStreamGetCtx(void*, void** c) { *c = (void*)1; return 0; }

EXPORT int cuModuleLoadData(void** module, const void* image) {
  const char* text = (const char*)image;
  if (strncmp(text, "EMUSO:", 6)) return emu_refuse("cuModuleLoadData of a real cubin", 801);
  if ((*module = dlopen(text + 6, RTLD_NOW | RTLD_LOCAL))) return 0;
  fprintf(stderr, "emu: %s\n", dlerror());
  return 200;
}
EXPORT int cuModuleUnload(void*) { return 0; }
EXPORT int cuModuleGetFunction(void** f, void* module, const char* name) {
  void* p = dlsym(module, (std::string("emu_launch_") + name).c_str());
  if (!p) { fprintf(stderr, "emu: no kernel %s in the module\n", name); return 500; }
  *f = new Kernel{name, (decltype(Kernel::run))p};
  return 0;
}
EXPORT int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, void*, void** params, void** extra) {
  Kernel* kernel = (Kernel*)f;
  size_t threads = (size_t)bx * by * bz;
  if (!gx || !gy || !gz || !threads || threads > 1024 || bz > 64 || gy > 65535 || gz > 65535 || shared > 49152) {
    fprintf(stderr, "emu: %s: launch of %ux%ux%u blocks of %ux%ux%u threads, %u bytes shared\n", kernel->name.c_str(), gx,
            gy, gz, bx, by, bz, shared);
    return 1;
  }
  if (extra) return emu_refuse("cuLaunchKernel with extra", 801);
  EmuLock lock;
  if (!emu_count("kernel", kernel->name.c_str(), 0, 0)) return 0;
  unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  kernel->run(params, grid, block);
  return 0;
}
EXPORT int cuFuncGetAttribute(int* v, int attribute, void*) { *v = attribute == 0 ? 1024 : 0; return 0; }
EXPORT int cuFuncSetAttribute(void*, int, int) { return 0; }
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void*, int, size_t) { *n = 8; return 0; }
EXPORT int cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void*, void*, size_t, int) {
  *grid = 80; *block = 512;
  return 0;
}
EXPORT int cuGetProcAddress_v2(...) {
  emu_fault("the CUDA runtime inside cupy.cuda.cub or jitify", "is not emulated; leave CUPY_ACCELERATORS empty");
}
EXPORT int cuGetProcAddress(...) { return cuGetProcAddress_v2(); }
