"""NumPy or CuPy: the one place that knows which, and the only one that imports CuPy.

A `Backend` holds an array namespace ``xp`` and the few operations whose call differs between the two
libraries. Everything after the data is loaded goes through it, so that the same model code runs on both.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse

BACKENDS = ("auto", "numpy", "cupy")

# Who has set one of these has chosen the number of BLAS threads.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Rows × units of a product from which on a second thread gains more than it costs.
THREADED_FROM = 2_000_000
# Of `Backend.map`: each item at work has its own memory.
MOST_THREADS = 4

# An array of the backend: numpy.ndarray or cupy.ndarray. CuPy has no types to import without a GPU.
Array = Any

Item = TypeVar("Item")
Result = TypeVar("Result")


class RandomStream:
    """Random numbers that are drawn where the arrays live: here by NumPy's PCG64."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def uniform(self, out: Array) -> None:
        """Fill the contiguous float32 array `out` from the uniform distribution on [0, 1)."""
        self._generator.random(out=out, dtype=np.float32)

    def normal(self, out: Array) -> None:
        """Fill the contiguous float32 array `out` from the standard normal distribution."""
        self._generator.standard_normal(out=out, dtype=np.float32)


class Backend:
    """An array library and the operations that differ between the two: here NumPy, and the BLAS of NumPy and SciPy."""

    name: Literal["numpy", "cupy"] = "numpy"
    xp: Any = np

    def __init__(self, reason: str = "asked for") -> None:
        self.reason = reason

    def asarray(self, array: Any, dtype: Any = None) -> Array:
        """Bring a host array to the device (no copy where it is there already)."""
        return self.xp.asarray(array, dtype=dtype)

    def to_host(self, array: Array) -> NDArray[Any]:
        """Bring an array of the device to the host."""
        return np.asarray(array)

    def sparse(self, matrix: scipy.sparse.csr_matrix) -> Any:
        """Bring a SciPy CSR matrix to the device."""
        return matrix

    def random(self, seed: np.random.SeedSequence) -> RandomStream:
        """Start a stream of random numbers on the device."""
        return RandomStream(seed)

    def multiply(self, rows: Array, weights: Array, out: Array | None = None) -> Array:
        """Compute ``rows @ weights.T`` of two C-contiguous arrays, in the C-contiguous `out` if it is given.

        SciPy's BLAS does it: for the few rows of a batch it was measured to be faster than NumPy's by 10 to 25 %.
        NumPy, which knows of products with a vector, does less than two rows.
        """
        if len(rows) < 2:
            return np.matmul(rows, weights.T, out=out)
        out = np.empty((len(rows), len(weights)), dtype=rows.dtype) if out is None else out
        return _gemm(1.0, weights.T, rows.T, out, keep=0.0, trans_a=True)

    def accumulate(self, left: Array, right: Array, out: Array, *, scale: float, keep: float) -> None:
        """Compute ``out = keep * out + scale * left.T @ right`` by one ``gemm``, in place.

        Parameters
        ----------
        left : (n, a) C-contiguous array
        right : (n, b) C- or F-contiguous array
        out : (a, b) C-contiguous array, overwritten
        """
        # BLAS is column-major: the transpose of a C-ordered array is a view it takes without a copy.
        columns = right if right.flags.f_contiguous else right.T
        _gemm(scale, columns, left.T, out, keep=keep, trans_a=columns is right, trans_b=True)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to items, in their order, on as many threads as BLAS may use, each with products of its own.

        Products side by side have the bits of those one after the other, and gain more than threads within a product.
        """
        threads = min(max(_blas_threads(), default=1), MOST_THREADS)
        if threads == 1:
            yield from map(function, items)
            return
        _one_thread.enter()
        try:
            with ThreadPoolExecutor(threads) as pool:
                yield from pool.map(function, items)
        finally:
            _one_thread.leave()


def _gemm(scale: float, a: Array, b: Array, out: Array, *, keep: float, **transposed: bool) -> Array:
    """Compute ``out = keep * out + scale * (a @ b).T`` by SciPy's BLAS in the C-contiguous `out`, and give that."""
    from scipy.linalg import blas

    gemm = blas.sgemm if out.dtype == np.float32 else blas.dgemm
    if not np.may_share_memory(gemm(scale, a, b, beta=keep, c=out.T, overwrite_c=True, **transposed), out):
        raise ValueError("a product in place needs C-contiguous arrays of one dtype")
    return out


class _CupyStream(RandomStream):
    """Random numbers from CuPy's Philox generator, on the device."""

    def __init__(self, cupy: Any, seed: np.random.SeedSequence) -> None:
        state = int(seed.generate_state(1, np.uint64)[0])
        self._generator = cupy.random.Generator(cupy.random.Philox4x3210(state))

    # CuPy's `random` draws `size` numbers and copies them into `out`; without `size` it would draw one and spread it.
    def uniform(self, out: Array) -> None:
        self._generator.random(size=out.shape, dtype=np.float32, out=out)

    def normal(self, out: Array) -> None:
        self._generator.standard_normal(size=out.shape, dtype=np.float32, out=out)


class CupyBackend(Backend):
    """Arrays on a CUDA device, products by cuBLAS and cuSPARSE."""

    name = "cupy"

    def __init__(self, reason: str = "asked for") -> None:
        import cupy

        super().__init__(reason)
        self.xp = cupy

    def to_host(self, array: Array) -> NDArray[Any]:
        """Copy an array of the device to the host."""
        host: NDArray[Any] = self.xp.asnumpy(array)
        return host

    def sparse(self, matrix: scipy.sparse.csr_matrix) -> Any:
        """Copy a SciPy CSR matrix to the device."""
        from cupyx.scipy import sparse

        device_matrix = sparse.csr_matrix(matrix)
        # CuPy asks the device whether the indices are sorted and waits for the answer: now, not at the first product.
        device_matrix.sum_duplicates()
        return device_matrix

    def random(self, seed: np.random.SeedSequence) -> RandomStream:
        """Start a Philox stream."""
        return _CupyStream(self.xp, seed)

    def multiply(self, rows: Array, weights: Array, out: Array | None = None) -> Array:
        """Compute ``rows @ weights.T`` by cuBLAS."""
        return self.xp.matmul(rows, weights.T, out=out)

    def accumulate(self, left: Array, right: Array, out: Array, *, scale: float, keep: float) -> None:
        """Compute ``out = keep * out + scale * left.T @ right`` by cuBLAS."""
        from cupy import cublas

        cublas.gemm("T", "N", left, right, out=out, alpha=scale, beta=keep)

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to items, one after the other: a thread of its own would forget the chosen device."""
        yield from map(function, items)


def all_finite(values: Array) -> bool:
    """Say whether no value is NaN or infinite, for an array of any shape on any device, without an array of flags."""
    # A sum is NaN or infinite if a term is; in float64 it does not overflow for what is measured here.
    with np.errstate(invalid="ignore"):
        return math.isfinite(float(values.sum(dtype=np.float64)))


@contextmanager
def few_threads(rows: int = 0, units: int = 0) -> Iterator[None]:
    """Use one BLAS thread for products of so many rows and units, unless they are large or a number was chosen.

    NumPy and SciPy have a BLAS each, whose threads would fight for the same cores: small products take many times as
    long on two threads as on one. A number is chosen by a variable of the environment, or by a limit of threadpoolctl
    below the number of cores.
    """
    if rows * units >= THREADED_FROM or any(os.environ.get(name) for name in THREAD_VARIABLES):
        yield
        return
    if not _one_thread.enter(unless_fewer_than=cores()):
        yield
        return
    try:
        yield
    finally:
        _one_thread.leave()


class _OneThread:
    """The limit of one BLAS thread, one for the whole process: the first in sets it, the last out undoes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._before: list[int] = []

    def enter(self, *, unless_fewer_than: int = 0) -> bool:
        """Hold the limit until `leave`; do not if nobody holds it and a BLAS has fewer threads than so many."""
        with self._lock:
            if not self._holders:
                self._before = _blas_threads()
                if any(threads < unless_fewer_than for threads in self._before):
                    return False
            _set_blas_threads([1] * len(self._before))
            self._holders += 1
            return True

    def leave(self) -> None:
        """Hold it no longer."""
        with self._lock:
            self._holders -= 1
            if not self._holders:
                _set_blas_threads(self._before)


_one_thread = _OneThread()


def _blas_threads() -> list[int]:
    """Threads of the BLAS of NumPy and of SciPy."""
    return [library.num_threads for library in _blas_controller().lib_controllers]


def _set_blas_threads(numbers: list[int]) -> None:
    for library, threads in zip(_blas_controller().lib_controllers, numbers, strict=True):
        # Since threadpoolctl 3.8 only the thread that was first to set a limit can set another.
        release = getattr(library, "clear_controlling_thread", lambda **_: None)
        release(force=True)
        library.set_num_threads(threads)
        release(force=True)


@cache
def _blas_controller() -> Any:
    """Find the BLAS of NumPy and of SciPy, which takes as long as an epoch of few images, once."""
    import scipy.linalg.blas  # noqa: F401
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _device_answers() -> tuple[bool, str]:
    """Say whether CuPy is installed and a CUDA device answers, and the reason in words."""
    try:
        import cupy
    except ImportError:
        return False, "CuPy is not installed"
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
        if count == 0:
            return False, "CuPy finds no CUDA device"
        # A product needs cuBLAS and a sum of two arrays NVRTC: a driver alone, without these libraries, is not enough.
        unit = cupy.asarray([[1.0, 0.0], [0.0, 1.0]])
        (unit @ unit + unit).sum().item()
    except Exception as error:  # noqa: BLE001  any failure of the driver means: no device
        return False, f"no CUDA device answers CuPy ({type(error).__name__}: {error})"
    return True, f"CuPy finds {count} CUDA device{'s' if count > 1 else ''}"


def select_backend(name: str = "auto") -> Backend:
    """Choose a backend by name, one of `BACKENDS`; ``auto`` takes CuPy only if a device answers."""
    if name == "numpy":
        return Backend()
    if name not in BACKENDS:
        raise InputError(f"unknown backend {name!r}: choose one of {', '.join(BACKENDS)}")
    answers, reason = _device_answers()
    if answers:
        return CupyBackend(reason if name == "auto" else "asked for")
    if name == "cupy":
        raise InputError(
            f"backend cupy was asked for, but {reason}; install the extra cuda12 or cuda13 on a "
            "machine with a GPU, or use --backend numpy"
        )
    return Backend(reason)
