"""Counters and switches of the emulated device, for programs started with run.

As a pytest plugin (-p cupy_device) with EMU_FENCED=1, every array of a test run gets fences of its own.
"""

import collections
import ctypes
import os

_core = ctypes.CDLL(os.path.join(os.environ["EMU_HOME"], "cuda", "lib", "libemucore.so"))
_core.emu_report.restype = ctypes.c_size_t
_core.emu_report.argtypes = ctypes.c_char_p, ctypes.c_size_t
Count = collections.namedtuple("Count", "calls bytes flop")


def detail():
    """Return {(kind, name): Count}; a name of kind gemm holds the shape."""
    text = ctypes.create_string_buffer(_core.emu_report(None, 0) + 1)
    _core.emu_report(text, len(text))
    rows = (line.split("\t") for line in text.value.decode().splitlines())
    return {(kind, name): Count(int(calls), float(size), float(flop)) for kind, name, calls, size, flop in rows}


def counters():
    """Return {kind: Count}: kernel, gemm, HtoD, DtoH, DtoD, sync, memset, alloc."""
    sums = {}
    for (kind, name), count in detail().items():
        kind = name.split()[0] if kind == "memcpy" else kind
        sums[kind] = Count(*map(sum, zip(sums.get(kind, (0, 0, 0)), count, strict=True)))
    return sums


def reset():
    """Set all counters to zero."""
    _core.emu_reset()


def skip(on=True):
    """Leave out, but count, kernels, products and copies on the device: what is left is the host's time."""
    _core.emu_skip(int(on))


def fence_every_array():
    """Take CuPy's memory pool away: every array is a poisoned and fenced block, checked when it is freed."""
    import cupy

    cupy.cuda.set_allocator(None)


if os.environ.get("EMU_FENCED", "0") not in ("", "0"):
    fence_every_array()
