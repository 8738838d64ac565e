"""CuPy on a machine without a GPU: its real wheel over an emulated device (`build.py` makes it, `src/` is it).

CuPy's own Python and Cython run as they are, down to each call of a library and the source of each kernel. ``libcuda``,
NVRTC (g++ compiles the kernels that CuPy generates), cuBLAS and the CUDA runtime are small libraries for the CPU::

    folder=$(.venv/bin/python -m tests.device.build)  # once: half a minute
    THETARBM_BACKEND=cupy $folder/run .venv/bin/python -m pytest tests/models -m cupy

**What it shows.** That a function exists in CuPy and takes these arguments, types and memory layouts; that results
agree with NumPy's; what stays on the device, and what is copied, launched and waited for (`src/cupy_device.py` counts
it). Memory that is new or freed is ``0xFF`` (NaN as a float), so that what is read before it is written shows. Blocks
lie between fences, and a write beside one ends the process; ``EMU_FENCED=1`` with ``pytest -p cupy_device`` fences
every array. ``EMU_SMS`` (40) and ``EMU_CC`` (80) set the number of multiprocessors and the compute capability.
`nvrtc_check.py` compiles the kernels that were used with NVIDIA's own NVRTC.

**What it does not show.** Speed; rounding (a product is a plain sum, and FMA, TF32 and flushed denormals play no part);
races, as threads of a block take turns and blocks follow each other; a missing synchronisation, as every call is done
when it returns.

What is not emulated says so by its name: graphs, managed memory, textures and most of cuBLAS in an exception, with a
line on stderr; cuSPARSE, cuRAND, cuFFT and cuSOLVER in an ImportError; sorting, and generators of random numbers, in a
RuntimeError; warp shuffles and cooperative groups as kernels that do not compile; CUB and jitify end the process.
"""
