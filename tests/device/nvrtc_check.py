"""Compile with NVIDIA's own NVRTC, which needs neither driver nor GPU, what programs used on the emulated device.

``python -m tests.device.nvrtc_check [75 80 ...]``: the sources are those that CuPy gave to the emulated NVRTC, with
their options; the numbers are compute capabilities. Exits with 1 if a kernel does not compile, with 2 where there is no
NVRTC.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from tests.device.build import PIP, cache_folder

PACKAGE = "nvidia-cuda-nvrtc-cu12==12.9.86"
CAPABILITIES = ["75", "80", "90", "120"]


def library(folder: Path) -> ctypes.CDLL:
    """Load NVRTC; install its package into a folder the first time."""
    if not folder.exists():
        part = folder.with_suffix(".part")
        install: list[str | Path] = [*PIP, "install", "--no-deps", "--upgrade", "--target", part, PACKAGE]
        if subprocess.run(install, check=False).returncode:
            print(f"{PACKAGE} could not be installed", file=sys.stderr)
            sys.exit(2)
        part.rename(folder)
    libraries = folder / "nvidia" / "cuda_nvrtc" / "lib"
    for builtins in libraries.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(libraries / "libnvrtc.so.12"))


def fault(nvrtc: ctypes.CDLL, kernel: Path, capability: str) -> str | None:
    """What NVRTC says of a kernel that it does not compile."""
    options = [word for word in kernel.with_suffix(".opts").read_bytes().split(b"\n") if word]
    options = [word for word in options if not word.startswith(b"-arch")] + [b"-arch=sm_" + capability.encode()]
    handle, size = ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(handle), kernel.read_bytes(), b"kernel.cu", 0, None, None)
    try:
        if not nvrtc.nvrtcCompileProgram(handle, len(options), (ctypes.c_char_p * len(options))(*options)):
            nvrtc.nvrtcGetCUBINSize(handle, ctypes.byref(size))
            return None if size.value else "no code came out"
        nvrtc.nvrtcGetProgramLogSize(handle, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(handle, log)
        return log.value.decode(errors="replace")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(handle))


def main() -> int:
    """Compile all kernels for all capabilities."""
    home, capabilities = cache_folder(), sys.argv[1:] or CAPABILITIES
    kernels = sorted(home.glob("cache/kernels/*.cu"))
    if not kernels:
        print("no program has used a kernel on the emulated device: make test-cupy", file=sys.stderr)
        return 1
    nvrtc, failed = library(home / "nvrtc"), 0
    with ThreadPoolExecutor(2) as pool:
        pairs = list(product(kernels, capabilities))
        for (kernel, capability), found in zip(pairs, pool.map(lambda pair: fault(nvrtc, *pair), pairs), strict=True):
            if found is not None:
                failed += 1
                print(
                    f"{kernel} does not compile for sm_{capability}; if no program has it any more, delete it:\n{found}"
                )
    print(f"{PACKAGE}: {len(kernels)} kernels for sm_{', sm_'.join(capabilities)}; {failed} did not compile")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
