"""Build CuPy on an emulated device, once, and print its folder: ``python -m tests.device.build [FOLDER]``.

It lies in the user's cache, or in the FOLDER that is given. What is needed comes from packages, by name (pip), and from
`src/`; g++ compiles. Exits with 1 and a sentence where that can't be done.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NoReturn

from filelock import FileLock
from platformdirs import user_cache_dir

CUPY = "14.2.0"
SITE_PACKAGES = [f"cupy-cuda12x=={CUPY}", "cuda-pathfinder==1.9.0"]
BUILD_PACKAGES = ["cython==3.2.9", "nvidia-cuda-runtime-cu12==12.9.79", "nvidia-cuda-nvcc-cu12==12.9.86"]
# This extension of CuPy links the CUDA runtime: it is made again, from CuPy's source, with `src/cudart.cpp` inside.
RUNTIME = "cupy_backends.cuda.api.runtime"
# These start a CUDA runtime of their own. Without the first, CuPy refuses to sort; the other has a stub in `src/`.
LEFT_OUT = ["cupy.cuda.thrust", "cupy.random._generator_api"]
CYTHON_OPTIONS = {  # as in CuPy's own build
    "-E": (
        "CUPY_USE_CUDA_PYTHON=False CUPY_CUFFT_STATIC=False CUPY_CYTHON_VERSION=3.2.9 CUPY_CUDA_VERSION=12090 "
        "CUPY_HIP_VERSION=0"
    ),
    "-X": (
        "linetrace=False profile=False embedsignature=True c_api_binop_methods=True binding=False "
        "warn.deprecated.IF=False freethreading_compatible=True"
    ),
}
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
KIND = f"cupy-device-{sys.version_info.major}.{sys.version_info.minor}"
SOURCES = Path(__file__).resolve().parent / "src"
UNUSED_AFTER = 30 * 24 * 3600.0  # seconds after which a folder of other sources goes

RUN = """#!/bin/sh
# Runs a command with CuPy on the emulated device: run python ...
EMU_HOME=$(cd "$(dirname "$0")" && pwd -P)
export EMU_HOME EMU_CACHE="$EMU_HOME/cache/kernels" CUPY_CACHE_DIR="$EMU_HOME/cache/cupy" CUPY_CACHE_IN_MEMORY=0
export CUPY_ACCELERATORS= CUDA_PATH="$EMU_HOME/cuda" CUDA_HOME="$EMU_HOME/cuda"
export PYTHONPATH="$EMU_HOME/site${PYTHONPATH:+:$PYTHONPATH}"
for name in cuda.so.1 nvrtc.so.12 cublasLt.so.12 cublas.so.12; do
  LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$EMU_HOME/cuda/lib/lib$name"
done
export LD_PRELOAD
exec "$@"
"""


def stop(sentence: str) -> NoReturn:
    sys.exit(f"the emulated device can't be built: {sentence}")


def call(*command: str | Path, failed: str = "", cwd: Path | None = None, **variables: str) -> str:
    """Run a command quietly and give what it said; show that and stop, with a sentence, if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        stop(failed or f"this command failed: {' '.join(map(str, command))}")
    return done.stdout


def side_by_side(jobs: Iterable[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(job) for job in jobs]:
            done.result()


class Build:
    """The build of one folder."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work, self.site = home / "work", home / "site"
        self.include, self.lib = home / "cuda" / "include", home / "cuda" / "lib"
        self.sdist = self.work / f"cupy-{CUPY}"

    def packages(self) -> None:
        """Fetch CuPy, its source, Cython and the headers of CUDA."""
        failed = "a package could not be fetched"
        install = ["install", "--no-deps", "--no-compile", "--only-binary", ":all:", "--target"]
        jobs: list[list[str | Path]] = [
            [*install, self.site, *SITE_PACKAGES],
            [*install, self.work / "packages", *BUILD_PACKAGES],
            ["download", "--no-deps", "--no-binary", "cupy", "--dest", self.work, f"cupy=={CUPY}"],
        ]
        # CuPy's setup.py looks for CUDA, also where only the source is wanted, unless it is to build its stub.
        side_by_side(partial(call, *PIP, *job, failed=failed, CUPY_INSTALL_USE_STUB="1") for job in jobs)
        for package in ("cuda_runtime", "cuda_nvcc"):
            headers = self.work / "packages" / "nvidia" / package / "include"
            shutil.copytree(headers, self.include, dirs_exist_ok=True)
        # In no package of headers; CuPy includes it.
        profiler = "\n".join(f'extern "C" cudaError_t cudaProfiler{verb}(void);' for verb in ("Start", "Stop"))
        (self.include / "cuda_profiler_api.h").write_text(f"#pragma once\n{profiler}\n")
        shutil.unpack_archive(f"{self.sdist}.tar.gz", self.work)
        for module in LEFT_OUT:
            self.extension(module).unlink()
        shutil.copy(SOURCES / "_generator_api.py", self.site / "cupy" / "random")

    def libraries(self) -> None:
        """Compile `src/` and CuPy's extension, and link them."""
        self.lib.mkdir()
        names = ["core", "cudart", "cuda", "nvrtc", "cublas"]
        side_by_side([self.runtime, *(partial(self.compile, SOURCES / f"{name}.cpp") for name in names)])
        self.link(self.lib / "libemucore.so", ["core"], "-Wl,-soname,libemucore.so")
        cuda = self.sdist / "cupy_backends" / "cuda"
        self.library("cuda", "libcuda.so.1", 801, looked_up(cuda / "api" / "_driver_extern.pxi", "cu"))
        self.library("nvrtc", "libnvrtc.so.12", 7, looked_up(cuda / "libs" / "_cnvrtc.pxi", "nvrtc"))
        cublas = undefined(self.extension("cupy_backends.cuda.libs.cublas"), "--dynamic")
        self.library("cublas", "libcublas.so.12", 15, {name for name in cublas if name.startswith("cublas")})
        self.link(self.lib / "libcublasLt.so.12", [], "-Wl,-soname,libcublasLt.so.12")  # looked for, and not used
        runtime = {name for name in undefined(self.work / f"{RUNTIME}.o") if name.startswith("cuda")}
        objects = [RUNTIME, "cudart", self.refusals("cudart", 801, runtime)]
        self.link(self.extension(RUNTIME), objects, f"-L{self.lib}", "-lemucore")

    def launcher(self) -> None:
        """Write what a program that is run there needs."""
        shutil.copy(SOURCES / "cupy_device.py", self.site)
        shutil.copy(SOURCES / "device.h", self.include)
        for cache in ("kernels", "cupy"):
            (self.home / "cache" / cache).mkdir(parents=True)
        (self.home / "run").write_text(RUN)
        (self.home / "run").chmod(0o755)

    def extension(self, module: str) -> Path:
        path = self.site / f"{module.replace('.', '/')}{SUFFIX}"
        if not path.exists():
            stop(f"CuPy's wheel has no {path.name}")
        return path

    def runtime(self) -> None:
        """Translate and compile CuPy's extension of the CUDA runtime."""
        options = [part for flag, names in CYTHON_OPTIONS.items() for name in names.split() for part in (flag, name)]
        target = self.work / f"{RUNTIME}.cpp"
        cython: list[str | Path] = [sys.executable, "-m", "cython", "-3", "--cplus", *options]
        source = f"{RUNTIME.replace('.', '/')}.pyx"
        call(*cython, source, "-o", target, cwd=self.sdist, PYTHONPATH=str(self.work / "packages"))
        self.compile(target, "-O1", '-DCYTHON_EXTERN_C=extern "C"')

    def compile(self, source: Path, *options: str) -> None:
        """Compile a C++ file into an object of its name."""
        python, api = sysconfig.get_path("include"), self.sdist / "cupy_backends" / "cuda" / "api"
        flags = ["-std=c++17", "-O2", "-fPIC", "-w"]
        flags += [f"-I{folder}" for folder in (SOURCES, self.include, api, self.sdist, python)]
        call("g++", *flags, *options, "-c", source, "-o", self.work / f"{source.stem}.o")

    def refusals(self, name: str, status: int, wanted: set[str]) -> str:
        """Compile a function for each call that CuPy may make and `src/` lacks: it says its name and fails."""
        symbols = call("nm", "--defined-only", self.work / f"{name}.o").splitlines()
        missing = sorted(wanted - {line.split()[-1] for line in symbols})
        lines = [f'EXPORT int {call}(...) {{ return emu_refuse("{call}", {status}); }}\n' for call in missing]
        source = self.work / f"{name}_refused.cpp"
        source.write_text("".join(['#include "emu.h"\n', *lines]))
        self.compile(source)
        return source.stem

    def library(self, name: str, soname: str, status: int, wanted: set[str]) -> None:
        """Link an emulated library of all calls that are wanted."""
        version = self.work / f"{name}.map"
        version.write_text(f"{soname} {{ global: *; }};\n")
        objects = [name, self.refusals(name, status, wanted)]
        options = [f"-Wl,-soname,{soname}", f"-Wl,--version-script={version}", "-Wl,-rpath,$ORIGIN", "-ldl"]
        self.link(self.lib / soname, objects, f"-L{self.lib}", "-lemucore", *options)

    def link(self, target: Path, objects: list[str], *options: str) -> None:
        call("g++", "-shared", *(self.work / f"{name}.o" for name in objects), "-o", target, *options)


def looked_up(source: Path, prefix: str) -> set[str]:
    """Names of the calls that CuPy looks up in a library of CUDA 12."""
    names = re.findall(r"\.get\(\s*f?'([^']+)'", source.read_text())
    return {prefix + name.replace("{version}", "_v2") for name in names}


def undefined(path: Path, *options: str) -> set[str]:
    """Names that a compiled file takes from others."""
    return {line.split()[-1].split("@")[0] for line in call("nm", "--undefined-only", *options, path).splitlines()}


def check(folder: Path) -> None:
    """Stop where it can't be built."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        stop("it is for Linux on x86-64")
    for tool in ("g++", "nm"):
        if not shutil.which(tool):
            stop(f"{tool} was not found; install a C++ compiler (Debian: apt install g++)")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        stop("Python.h was not found; install the headers of this Python (Debian: apt install python3-dev)")
    if re.search(r"[\s:]", str(folder)):
        stop(f"a path of libraries has no space and no colon, and the folder's has: {folder}")


def cache_folder(parent: Path | None = None) -> Path:
    """Where the device of these sources and this Python lies, or will lie."""
    files = [Path(__file__), *sorted(path for path in SOURCES.iterdir() if path.is_file())]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()[:12]
    return (parent or Path(user_cache_dir("thetarbm"))) / f"{KIND}-{digest}"


def build(home: Path) -> None:
    """Build the folder, unless it is there."""
    check(home)
    home.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(home.parent / f"{KIND}.lock"):
        if not home.exists():
            part = home.parent / f"{KIND}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            making = Build(part)
            making.packages()
            making.libraries()
            making.launcher()
            shutil.rmtree(making.work)
            part.rename(home)
        os.utime(home)
        for other in home.parent.glob(f"{KIND}-*"):
            if time.time() - other.stat().st_mtime > UNUSED_AFTER:
                shutil.rmtree(other, ignore_errors=True)


def main() -> None:
    """Build, and print the folder."""
    home = cache_folder(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else None)
    build(home)
    print(home)


if __name__ == "__main__":
    main()
