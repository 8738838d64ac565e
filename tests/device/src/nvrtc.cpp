// libnvrtc.so.12: compiles CuPy's own kernel source with g++ (and device.h) into a shared object that cuda.cpp loads.
// In EMU_CACHE it leaves HASH.cu and HASH.opts, as CuPy gave them to NVRTC (nvrtc-check reads these), and HASH.so.
// A kernel runs in one of three ways: as one thread where CUPY_FOR alone walks the data (elementwise kernels);
// thread after thread; or, where it synchronises or shares memory, as fibers that take turns (device.h).
// Refused: LTO, name expressions (templates in RawModule). What g++ does not know (warp shuffles, cooperative groups, inline
// PTX) is a CompileException with g++'s words.
#include "emu.h"
#include <fstream>
#include <functional>
#include <regex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>
struct Program { std::string source, log, image; };
typedef std::string Text;

EXPORT const char* nvrtcGetErrorString(int) { return "emulated NVRTC: compilation failed or call not emulated"; }
EXPORT int nvrtcVersion(int* major, int* minor) { *major = 12; *minor = 9; return 0; }
EXPORT int nvrtcGetNumSupportedArchs(int* n) { *n = 5; return 0; }
EXPORT int nvrtcGetSupportedArchs(int* a) { for (int v : {75, 80, 86, 90, 120}) *a++ = v; return 0; }
EXPORT int nvrtcCreateProgram(Program** p, const char* source, const char*, int, const char**, const char**) {
  *p = new Program{source};
  return 0;
}
EXPORT int nvrtcDestroyProgram(Program** p) { delete *p; *p = nullptr; return 0; }

static Text setting(const char* name) {
  const char* s = getenv(name);
  if (!s) emu_fault(name, "is not set: start the program with run");
  return s;
}
static Text quoted(const Text& s) { return "'" + std::regex_replace(s, std::regex("'"), "'\\''") + "'"; }
static bool starts(const Text& s, const char* with) { return s.rfind(with, 0) == 0; }
static void write(const Text& path, const Text& text) {  // whole or not at all: processes share the cache
  Text part = path + "." + std::to_string(getpid());
  std::ofstream(part) << text;
  rename(part.c_str(), path.c_str());
}

static Text host_source(const Text& source) {
  auto has = [&](const char* word) { return source.find(word) != Text::npos; };
  int mode = has("__sync") || has("__shared__") ? 2 : has("CUPY_FOR") && !has("threadIdx") ? 1 : 0;
  std::regex dynamic("extern\\s+__shared__\\s+([^;\\[]*?)(\\w+)\\s*\\[\\s*\\]");
  Text out = std::regex_replace(source, dynamic, "static __attribute__((aligned(64))) $1 $2[49152]");
  std::regex kernel("__global__\\s+void\\s+(?:__launch_bounds__\\s*\\([^)]*\\)\\s*)?(\\w+)\\s*\\(");
  for (std::sregex_iterator it(source.begin(), source.end(), kernel), end; it != end; ++it) {
    Text name = (*it)[1];
    out += "\nextern \"C\" __attribute__((visibility(\"default\"))) void emu_launch_" + name +
           "(void** p, const unsigned* g, const unsigned* b) { emu_run(" + name + ", p, g, b, " + std::to_string(mode) + "); }\n";
  }
  return out;
}

EXPORT int nvrtcCompileProgram(Program* p, int n, const char** options) {
  EmuLock lock;
  Text all = p->source, given;
  for (int i = 0; i < n; i++) { given += Text(options[i]) + "\n"; if (!starts(options[i], "-arch")) all += options[i]; }
  char hash[32];
  snprintf(hash, sizeof hash, "%016zx", std::hash<Text>{}(all));
  Text base = setting("EMU_CACHE") + "/" + hash, object = base + ".so";
  struct stat found;
  if (stat(object.c_str(), &found) != 0) {
    write(base + ".opts", given);
    write(base + ".cu", p->source);
    Text own = base + "." + std::to_string(getpid()), home = setting("EMU_HOME");
    std::ofstream(own + ".cpp") << host_source(p->source);
    Text command = "env -u LD_PRELOAD g++ -O1 -fPIC -shared -w -fpermissive -fno-strict-aliasing -fvisibility=hidden "
                   "-D__CUDACC_VER_MAJOR__=12 -D__CUDACC_VER_MINOR__=9 -include " +
                   quoted(home + "/cuda/include/device.h") + " -I" + quoted(home + "/cuda/include");
    for (int i = 0; i < n; i++) {
      Text o = options[i];
      if (starts(o, "-I") || starts(o, "-D")) command += " " + quoted(o);
      if (starts(o, "--std=") || starts(o, "-std=")) command += " -std=" + o.substr(o.find('=') + 1);
    }
    command += " " + quoted(own + ".cpp") + " -o " + quoted(own + ".so") + " > " + quoted(own + ".log") + " 2>&1";
    if (system(command.c_str()) != 0) {
      std::stringstream words; words << std::ifstream(own + ".log").rdbuf();
      p->log = "emulated NVRTC (g++):\n" + words.str();
      fprintf(stderr, "emu: g++ could not compile a kernel, see %s.log\n", own.c_str());
      return 6;
    }
    rename((own + ".so").c_str(), object.c_str());
    unlink((own + ".cpp").c_str()); unlink((own + ".log").c_str());
  }
  p->image = "EMUSO:" + object;
  return 0;
}
static int size(const Text& s, size_t* n) { *n = s.size() + 1; return 0; }
static int give(const Text& s, char* out) { memcpy(out, s.c_str(), s.size() + 1); return 0; }
EXPORT int nvrtcGetPTXSize(Program* p, size_t* n) { return size(p->image, n); }
EXPORT int nvrtcGetPTX(Program* p, char* out) { return give(p->image, out); }
EXPORT int nvrtcGetCUBINSize(Program* p, size_t* n) { return size(p->image, n); }
EXPORT int nvrtcGetCUBIN(Program* p, char* out) { return give(p->image, out); }
EXPORT int nvrtcGetProgramLogSize(Program* p, size_t* n) { return size(p->log, n); }
EXPORT int nvrtcGetProgramLog(Program* p, char* out) { return give(p->log, out); }
