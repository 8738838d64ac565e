"""The functions of the stand-in's `cupy`: the ones the package calls, with CuPy's arguments and no others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.standin.array import LEDGER, array_operand, ndarray, on_device, operand

__all__ = [
    "arange", "asarray", "ascontiguousarray", "asnumpy", "clip", "concatenate", "dot", "einsum", "empty", "empty_like",
    "exp", "fill_diagonal", "full", "less", "log", "logaddexp", "matmul", "maximum", "minimum", "negative",
    "reciprocal", "sqrt", "stack", "subtract", "take", "tile", "zeros", "zeros_like",
]  # fmt: skip


class Ufunc:
    """An elementwise function; CuPy's ufuncs know `out`, `dtype` and `casting`, but not NumPy's `where`."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._numpy = getattr(np, name)

    def __call__(self, *operands: Any, out: Any = None, dtype: Any = None, casting: Any = "same_kind") -> ndarray:
        hosts = [operand(value) for value in operands]
        if out is None:
            return on_device(self._numpy(*hosts, dtype=dtype, casting=casting))
        self._numpy(*hosts, out=array_operand(out), dtype=dtype, casting=casting)
        return out  # type: ignore[no-any-return]


exp, log, logaddexp = Ufunc("exp"), Ufunc("log"), Ufunc("logaddexp")
negative, reciprocal, sqrt = Ufunc("negative"), Ufunc("reciprocal"), Ufunc("sqrt")
subtract, maximum, minimum, less = Ufunc("subtract"), Ufunc("maximum"), Ufunc("minimum"), Ufunc("less")


def clip(a: ndarray, a_min: Any, a_max: Any, out: ndarray | None = None) -> ndarray:
    host = np.clip(array_operand(a), operand(a_min), operand(a_max), out=None if out is None else array_operand(out))
    return on_device(host) if out is None else out


def asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> ndarray:
    if isinstance(a, ndarray):
        same = dtype is None or a.dtype == np.dtype(dtype)
        return a if same else ndarray(a.host.astype(dtype))
    LEDGER.to_device["asarray"] += 1
    return ndarray(np.array(a, dtype=dtype, order=order or "K"))


def asnumpy(a: Any, order: Any = "C") -> NDArray[Any]:
    return a.get(order=order) if isinstance(a, ndarray) else np.asarray(a, order=order)


def _poisoned(host: NDArray[Any]) -> ndarray:
    """Memory as it is found: a NaN that is read before it is written shows in every result."""
    host.fill(np.nan if host.dtype.kind == "f" else 77)
    return ndarray(host)


def empty(shape: Any, dtype: Any = float, order: Any = "C") -> ndarray:
    return _poisoned(np.empty(shape, dtype, order))


def empty_like(prototype: ndarray, dtype: Any = None, order: Any = "K") -> ndarray:
    return _poisoned(np.empty_like(array_operand(prototype), dtype=dtype, order=order))


def zeros(shape: Any, dtype: Any = float, order: Any = "C") -> ndarray:
    return ndarray(np.zeros(shape, dtype, order))


def zeros_like(a: ndarray, dtype: Any = None, order: Any = "K") -> ndarray:
    return ndarray(np.zeros_like(array_operand(a), dtype=dtype, order=order))


def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C") -> ndarray:
    return ndarray(np.full(shape, operand(fill_value), dtype, order))


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> ndarray:
    first, last = (0, start) if stop is None else (start, stop)
    return ndarray(np.arange(first, last, step, dtype=dtype))


def ascontiguousarray(a: ndarray, dtype: Any = None) -> ndarray:
    return ndarray(np.ascontiguousarray(array_operand(a), dtype=dtype))


def concatenate(tup: Any, axis: int = 0) -> ndarray:
    return on_device(np.concatenate([array_operand(part) for part in tup], axis))


def stack(tup: Any, axis: int = 0) -> ndarray:
    return on_device(np.stack([array_operand(part) for part in tup], axis))


def tile(A: ndarray, reps: Any) -> ndarray:
    return on_device(np.tile(array_operand(A), reps))


def take(a: ndarray, indices: Any, axis: int | None = None, out: ndarray | None = None) -> ndarray:
    """`numpy.take` without a `mode`: CuPy wraps indices that are out of range; these are refused here."""
    taken = np.take(array_operand(a), operand(indices), axis)
    if out is None:
        return on_device(taken)
    if out.dtype != a.dtype:
        raise TypeError("Output dtype mismatch")
    if out.shape != taken.shape:
        raise ValueError("Output shape mismatch")
    out.host[...] = taken
    return out


def fill_diagonal(a: ndarray, val: Any, wrap: bool = False) -> None:
    np.fill_diagonal(array_operand(a), operand(val), wrap)


def dot(a: ndarray, b: ndarray) -> ndarray:
    return on_device(np.dot(array_operand(a), array_operand(b)))


def matmul(*args: ndarray, out: ndarray | None = None) -> ndarray:
    left, right = (array_operand(value) for value in args)
    if out is None:
        return on_device(np.matmul(left, right))
    # CuPy wants the exact shape and takes any layout: where `out` is not contiguous it copies once more.
    product = np.matmul(left, right)
    if out.shape != product.shape:
        raise ValueError("Output array has an invalid size")
    np.copyto(out.host, product, casting="same_kind")
    return out


def einsum(*operands: Any, dtype: Any = None, optimize: Any = False) -> ndarray:
    subscripts, *arrays = operands
    return on_device(np.einsum(subscripts, *(array_operand(a) for a in arrays), dtype=dtype, optimize=optimize))
