"""The stand-ins of cuBLAS, cuSPARSE and cuRAND, as far as the package asks CuPy for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from tests.standin.array import LEDGER, array_operand, ndarray


def gemm(transa: str, transb: str, a: ndarray, b: ndarray, out: ndarray, alpha: float = 1.0, beta: float = 0.0) -> None:
    """`cupy.cublas.gemm`: out = alpha · op(a) @ op(b) + beta · out, with the same assertions."""
    left, right = array_operand(a), array_operand(b)
    assert left.ndim == right.ndim == 2
    assert left.dtype == right.dtype
    if left.dtype.char not in "fdFD":
        raise TypeError("invalid dtype")
    left, right = left.T if transa == "T" else left, right.T if transb == "T" else right
    assert left.shape[1] == right.shape[0]
    product = left.dtype.type(alpha) * (left @ right)
    target = array_operand(out)
    assert target.shape == product.shape
    assert target.dtype == product.dtype
    if beta != 0:  # a beta of 0 does not read `out`
        product += target.dtype.type(beta) * target
    target[...] = product


class csr_matrix:  # noqa: N801  CuPy's name
    """`cupyx.scipy.sparse.csr_matrix` of a SciPy matrix; its products are laid out column by column.

    CuPy looks at the indices before the first product and waits for the answer: a hidden copy, unless
    `sum_duplicates` was called before.
    """

    def __init__(self, arg1: Any, shape: None = None, dtype: None = None, copy: bool = False) -> None:
        if not isinstance(arg1, scipy.sparse.csr_matrix):
            raise ValueError("the stand-in makes sparse matrices of SciPy's CSR matrices only")
        if arg1.dtype.char not in "?fdFD":
            raise ValueError("Only bool, float32, float64, complex64 and complex128 are supported.")
        LEDGER.to_device["csr_matrix"] += 3  # values, indices, pointers
        self._host = arg1.copy()
        self._canonical = False
        self.shape: tuple[int, int] = self._host.shape

    def sum_duplicates(self) -> None:
        if not self._canonical:
            LEDGER.to_host["canonical format"] += 1
            self._host.sum_duplicates()
            self._canonical = True

    def __matmul__(self, other: ndarray) -> ndarray:
        dense = array_operand(other)
        self.sum_duplicates()
        return ndarray(np.asfortranarray(self._host @ dense))

    def __array__(self, dtype: Any = None, copy: Any = None) -> None:
        raise TypeError("a sparse matrix of the device does not become a NumPy array")


class Philox4x3210:
    """A bit generator; as in CuPy, whatever the seed is goes through a `numpy.random.SeedSequence`."""

    def __init__(self, seed: Any = None, *, size: int = -1) -> None:
        given = isinstance(seed, np.random.SeedSequence)
        self.seed = seed if given else np.random.SeedSequence(seed)


class Generator:
    """The numbers are PCG64's: NumPy's, if the seed is the same."""

    def __init__(self, bit_generator: Philox4x3210) -> None:
        self._numpy = np.random.Generator(np.random.PCG64(bit_generator.seed))

    @staticmethod
    def _check(dtype: Any, size: Any, out: ndarray) -> None:
        if out.dtype.char != np.dtype(dtype).char:
            raise TypeError("Supplied output array has the wrong type.")
        if not (out.flags.c_contiguous or out.flags.f_contiguous):
            raise ValueError("Supplied output array is not contiguous, writable or aligned.")
        if size is not None and tuple(size) != out.shape:
            raise ValueError("size must match out.shape when used together")

    def random(self, size: Any = None, dtype: Any = np.float64, *, out: ndarray) -> None:
        """Draws `size` numbers (None: one) and copies them into `out`, where one number spreads over all."""
        self._check(dtype, size, out)
        out.host[...] = self._numpy.random(size, dtype=dtype)

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, *, out: ndarray) -> None:
        """Fills `out`, whether `size` is given or not."""
        self._check(dtype, size, out)
        out.host[...] = self._numpy.standard_normal(out.shape, dtype=dtype)
