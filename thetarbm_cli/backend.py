"""NumPy or CuPy: the one place that knows which, and the only one that imports CuPy.

A `Backend` holds an array namespace ``xp``, the matrix products, and what lies between them (`thetarbm_cli.kernels`).
Everything after the data is loaded goes through it, so that the same model code runs on both.
"""

from __future__ import annotations

import copy
import logging
import math
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.kernels import Array, CupyKernels, Draw, NumpyKernels, RandomStream, SparseStack

__all__ = ["BACKENDS", "Array", "Backend", "CupyBackend", "Draw", "RandomStream", "SparseStack", "select_backend"]

BACKENDS = ("auto", "numpy", "cupy")

logger = logging.getLogger("thetarbm")

# Who has set one of these has chosen the number of BLAS threads.
THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
# Rows × units of a product from which on a second thread gains more than it costs.
THREADED_FROM = 2_000_000
# Of `Backend.map`: each item at work has its own memory.
MOST_THREADS = 4

Item = TypeVar("Item")
Result = TypeVar("Result")


class Backend(NumpyKernels):
    """An array library, its products, and what lies between them: here NumPy, and the BLAS of NumPy and SciPy."""

    name: Literal["numpy", "cupy"] = "numpy"

    def __init__(self, reason: str = "asked for") -> None:
        self.reason = reason

    def asarray(self, array: Any, dtype: Any = None) -> Array:
        """Bring a host array to the device (no copy where it is there already)."""
        return self.xp.asarray(array, dtype=dtype)

    def to_host(self, array: Array) -> NDArray[Any]:
        """Bring an array of the device to the host."""
        return np.asarray(array)

    def multiply(self, rows: Array, weights: Array, out: Array | None = None) -> Array:
        """Compute ``rows @ weights.T`` of rows (n, a) or (S, n, a) and weights (b, a), in `out` if it is given.

        SciPy's BLAS does it where all are C-contiguous matrices: for the few rows of a batch it was measured to be
        faster than NumPy's by 10 to 25 %. NumPy, which knows of products with a vector, does less than two rows.
        """
        if rows.ndim > 2 or len(rows) < 2:
            return np.matmul(rows, weights.T, out=out)
        out = np.empty((len(rows), len(weights)), dtype=rows.dtype) if out is None else out
        return _gemm(1.0, weights.T, rows.T, out, keep=0.0, trans_a=True)

    def combine(self, states: Array, weights: Array, out: Array | None = None) -> Array:
        """Compute ``states @ weights`` of states (n, a) or (S, n, a) and weights (a, b), in `out` if it is given."""
        return self.xp.matmul(states, weights, out=out)

    def accumulate(self, left: Array, right: Array, out: Array, *, scale: float, keep: float) -> None:
        """Compute ``out = keep * out + scale * left.T @ right`` in place, summed over a first axis if there is one.

        Parameters
        ----------
        left : (n, a) or (S, n, a) array, C-contiguous
        right : (n, b) or (S, n, b) array, its matrices C- or F-contiguous
        out : (a, b) C-contiguous array, overwritten
        """
        if left.ndim > 2:
            for s, (each, other) in enumerate(zip(left, right, strict=True)):
                self.accumulate(each, other, out, scale=scale, keep=1.0 if s else keep)
            return
        # BLAS is column-major: the transpose of a C-ordered array is a view it takes without a copy.
        columns = right if right.flags.f_contiguous else right.T
        _gemm(scale, columns, left.T, out, keep=keep, trans_a=columns is right, trans_b=True)

    def accumulate_each(self, left: Array, rights: Iterable[Array], out: Array, *, scale: float, keep: float) -> None:
        """Do the same for one `left` (n, a) and each of the S `rights` (n, b), into the slices of `out` (S, a, b)."""
        for right, each in zip(rights, out, strict=True):
            self.accumulate(left, right, each, scale=scale, keep=keep)

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


class CupyBackend(CupyKernels, Backend):
    """Arrays on a CUDA device, products by cuBLAS."""

    name = "cupy"

    def __init__(self, reason: str = "asked for") -> None:
        import cupy

        super().__init__(reason)
        self.xp = cupy
        self._device = cupy.cuda.runtime.getDevice()

    def to_host(self, array: Array) -> NDArray[Any]:
        """Copy an array of the device to the host."""
        host: NDArray[Any] = self.xp.asnumpy(array)
        return host

    def multiply(self, rows: Array, weights: Array, out: Array | None = None) -> Array:
        """Compute ``rows @ weights.T`` by one product."""
        out = self._room((*rows.shape[:-1], len(weights)), out)
        return self._product(rows, weights, out, transpose_b=True)

    def combine(self, states: Array, weights: Array, out: Array | None = None) -> Array:
        """Compute ``states @ weights`` by one product."""
        return self._product(states, weights, self._room((*states.shape[:-1], weights.shape[1]), out))

    def accumulate(self, left: Array, right: Array, out: Array, *, scale: float, keep: float) -> None:
        """Compute ``out = keep * out + scale * left.T @ right`` by one product, also where there is a first axis."""
        left, right = (self.xp.ascontiguousarray(each).reshape(-1, each.shape[-1]) for each in (left, right))
        self._product(left, right, out, transpose_a=True, scale=scale, keep=keep)

    def accumulate_each(self, left: Array, rights: Iterable[Array], out: Array, *, scale: float, keep: float) -> None:
        """Do the same for all slices by one product; the `rights` are one array (S, n, b)."""
        self._product(left, rights, out, transpose_a=True, scale=scale, keep=keep)

    def _room(self, shape: tuple[int, ...], out: Array | None) -> Array:
        return self.xp.empty(shape, dtype=np.float32) if out is None else out

    def _product(
        self,
        a: Array,
        b: Array,
        out: Array,
        *,
        transpose_a: bool = False,
        transpose_b: bool = False,
        scale: float = 1.0,
        keep: float = 0.0,
    ) -> Array:
        """Compute ``out = keep * out + scale * a @ b`` of float32 matrices, or stacks of them, by one call of cuBLAS.

        Rows must be contiguous; what has two axes is the same for all matrices of a stack.
        """
        from cupy_backends.cuda.libs import cublas

        if out.ndim > 2 and b.ndim == 2 and not transpose_a and all(each.flags.c_contiguous for each in (a, out)):
            # The matrices of a stack lie one below the other: one product of all their rows.
            self._product(
                a.reshape(-1, a.shape[-1]), b, out.reshape(-1, out.shape[-1]), transpose_b=transpose_b, scale=scale,
                keep=keep,
            )  # fmt: skip
            return out
        # cuBLAS has columns where we have rows: it computes the transpose, from transposes that are only views.
        rows, columns = out.shape[-2:]
        inner = a.shape[-2 if transpose_a else -1]
        factors = np.array([scale, keep], dtype=np.float32)
        alpha, beta = factors.ctypes.data, factors.ctypes.data + factors.itemsize
        handle = self.xp.cuda.device.get_cublas_handle()
        kinds = (int(transpose_b), int(transpose_a))
        lines = [max(each.strides[-2] // 4, each.shape[-1]) for each in (b, a, out)]
        pointers = [each.data.ptr for each in (b, a, out)]
        if out.ndim == 2:
            cublas.sgemm(
                handle, *kinds, columns, rows, inner, alpha, pointers[0], lines[0], pointers[1], lines[1], beta,
                pointers[2], lines[2],
            )  # fmt: skip
        else:
            steps = [each.strides[0] // 4 if each.ndim > 2 else 0 for each in (b, a, out)]
            cublas.sgemmStridedBatched(
                handle, *kinds, columns, rows, inner, alpha, pointers[0], lines[0], steps[0], pointers[1], lines[1],
                steps[1], beta, pointers[2], lines[2], steps[2], len(out),
            )  # fmt: skip
        return out

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to items, in their order, on a thread of the host for each core.

        What a thread does on the host goes on beside what others do on the device.
        """

        def choose_device() -> None:
            self.xp.cuda.runtime.setDevice(self._device)

        with ThreadPoolExecutor(min(cores(), MOST_THREADS), initializer=choose_device) as pool:
            yield from pool.map(function, items)


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


@contextmanager
def naming_memory(backend: Backend, what: str) -> Iterator[None]:
    """Say in one sentence what a device has no memory for."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        # cuBLAS has a status of its own for it.
        if backend.name == "numpy" or not (isinstance(error, MemoryError) or "ALLOC_FAILED" in str(error)):
            raise
        raise ThetaRBMError(
            f"the GPU has too little memory for {what} ({error}); take a smaller batch_size or fewer hidden units, "
            "free the GPU, or use --backend numpy"
        ) from error


@cache
def _device() -> tuple[CupyBackend | None, str]:
    """Find a CUDA device that computes what is needed, and say in words what was found; once in a process."""
    # Reductions by CUB may add up in another order on another GPU; CuPy's own do not.
    os.environ.setdefault("CUPY_ACCELERATORS", "")
    try:
        import cupy
    except ImportError as error:
        return None, "CuPy is not installed" if error.name == "cupy" else f"CuPy cannot be imported ({error})"
    try:
        count = int(cupy.cuda.runtime.getDeviceCount())
        if count == 0:
            return None, "CuPy finds no CUDA device"
        device = CupyBackend()
        if not np.allclose(_tried(device), _tried(Backend()), rtol=1e-4):
            return None, "the CUDA device computes other numbers than the processor"
    except Exception as error:  # noqa: BLE001  any failure of the driver means: no device
        return None, f"no CUDA device answers CuPy ({type(error).__name__}: {error})"
    return device, f"CuPy finds {count} CUDA device{'s' if count > 1 else ''}"


def _tried(backend: Backend) -> NDArray[Any]:
    """Compute a little of all that is used: a driver alone is not enough, cuBLAS and NVRTC must be there."""
    import scipy.sparse

    numbers = backend.xp.empty((4, 5), dtype=np.float32)
    random = backend.random(np.random.SeedSequence(0))
    random.uniform(numbers)
    turned = backend.stack([scipy.sparse.identity(5, dtype=np.float32, format="csr")] * 3).turned(numbers)
    products = backend.multiply(turned, numbers)
    states = backend.xp.empty_like(products)
    backend.softmax(products, draw=(random, states))
    return backend.to_host(backend.sigmoid(products.sum(axis=0)))


@cache
def select_backend(name: str = "auto") -> Backend:
    """Choose a backend by name, one of `BACKENDS`; ``auto`` takes CuPy only if a device answers.

    The answer is the same as long as the process runs.
    """
    if name == "numpy":
        return Backend()
    if name not in BACKENDS:
        raise InputError(f"unknown backend {name!r}: choose one of {', '.join(BACKENDS)}")
    device, found = _device()
    if device is not None:
        chosen = copy.copy(device)
        chosen.reason = found if name == "auto" else device.reason
        return chosen
    if name == "cupy":
        raise InputError(
            f"backend cupy was asked for, but {found}; install the extra cuda12 or cuda13 on a "
            "machine with a GPU, or use --backend numpy"
        )
    if found != "CuPy is not installed":
        logger.info("NumPy is used: %s", found)
    return Backend(found)
