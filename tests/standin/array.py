"""The array of the stand-in: what `cupy.ndarray` lets one do, its refusals, and counts of copies from and to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Copies that a program asks for by name. All others hide in an index, an assignment, an `if`, a `float()`.
ASKED_FOR = ("asarray", "csr_matrix", "get")


@dataclass
class Ledger:
    """Copies since the last `clear`, by what caused them."""

    to_device: Counter[str] = field(default_factory=Counter)
    to_host: Counter[str] = field(default_factory=Counter)

    def clear(self) -> None:
        self.to_device.clear()
        self.to_host.clear()

    def totals(self) -> tuple[int, int]:
        """Copies to the device, copies to the host."""
        return self.to_device.total(), self.to_host.total()

    def hidden(self) -> dict[str, int]:
        """Copies that no one asked for by name."""
        both = self.to_device + self.to_host
        return {cause: count for cause, count in both.items() if cause not in ASKED_FOR}


LEDGER = Ledger()

# What a kernel takes as a scalar argument, without a copy to the device: CuPy's `CScalar`.
SCALARS = (bool, int, float, complex, np.generic)


def on_device(host: Any) -> ndarray:
    """A new device array; CuPy lays new arrays out row by row, whatever the order of the operands."""
    return ndarray(np.asarray(host, order="C"))


def operand(value: Any) -> Any:
    """What NumPy computes with in place of an argument of a kernel; host arrays are refused as CuPy does."""
    if isinstance(value, ndarray):
        return value.host
    if isinstance(value, SCALARS):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def array_operand(value: Any) -> NDArray[Any]:
    """The same for an argument that CuPy declares as an array: no scalars."""
    if isinstance(value, ndarray):
        return value.host
    raise TypeError(f"Argument has incorrect type (expected cupy.ndarray, got {type(value)})")


def index_operand(index: Any) -> tuple[tuple[Any, ...], bool]:
    """An index for NumPy and whether it gathers; lists and host arrays are copied to the device, silently."""
    parts: list[Any] = []
    gathers = False
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, ndarray):
            if part.host.dtype == bool:
                LEDGER.to_host["mask"] += 1  # the size of the result is the number of True
            parts.append(part.host)
            gathers = True
        elif isinstance(part, list | tuple | np.ndarray):
            LEDGER.to_device["index"] += 1
            parts.append(np.asarray(part))
            gathers = True
        elif part is None or part is Ellipsis or isinstance(part, int | np.integer | slice):
            parts.append(part)
        else:
            raise IndexError("only integers, slices, ellipsis, None and arrays are valid indices")
    if Ellipsis not in [part for part in parts if not isinstance(part, np.ndarray)]:
        parts.append(Ellipsis)  # so that one element is a view without axes and no NumPy scalar
    return tuple(parts), gathers


class Flags:
    """Layout of an array, CuPy's three flags."""

    def __init__(self, host: NDArray[Any]) -> None:
        self.c_contiguous: bool = host.flags.c_contiguous
        self.f_contiguous: bool = host.flags.f_contiguous
        self.owndata: bool = host.flags.owndata


class ndarray:  # noqa: N801  CuPy's name, which libraries look for
    """An array "on the device": a NumPy array that only this package may touch."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, host: NDArray[Any]) -> None:
        self.host = host

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    flags = property(lambda self: Flags(self.host))
    T = property(lambda self: ndarray(self.host.T))

    def __len__(self) -> int:
        return len(self.host)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    # NumPy's scalars hand over to the operators below; its functions and host arrays are refused.
    __array_ufunc__ = None

    def _scalar(self, cause: str) -> Any:
        LEDGER.to_host[cause] += 1
        return self.host.item()

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __bool__(self) -> bool:
        return bool(self._scalar("bool"))

    def item(self) -> Any:
        return self._scalar("item")

    def get(self, order: str = "C") -> NDArray[Any]:
        LEDGER.to_host["get"] += 1
        return np.array(self.host, order=order)  # type: ignore[call-overload, no-any-return]

    def __iter__(self) -> Iterator[ndarray]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[row] for row in range(len(self)))

    def __getitem__(self, index: Any) -> ndarray:
        parts, gathers = index_operand(index)
        part = self.host[parts]
        return on_device(part) if gathers else ndarray(part)

    def __setitem__(self, index: Any, value: Any) -> None:
        parts, gathers = index_operand(index)
        if isinstance(value, ndarray):
            self.host[parts] = value.host
        elif isinstance(value, SCALARS):
            self.host[parts] = value
        elif gathers:
            LEDGER.to_device["assignment"] += 1
            self.host[parts] = np.asarray(value)
        else:
            raise ValueError("non-scalar numpy.ndarray cannot be used for fill")

    def transpose(self, *axes: int) -> ndarray:
        return ndarray(self.host.transpose(*axes))

    def reshape(self, *shape: Any, order: Any = "C") -> ndarray:
        return ndarray(self.host.reshape(*shape, order=order))

    def copy(self, order: Any = "C") -> ndarray:
        return ndarray(self.host.copy(order))

    def astype(self, dtype: Any, order: Any = "K", copy: bool = True) -> ndarray:
        return ndarray(self.host.astype(dtype, order=order, copy=copy))

    def sum(self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False) -> ndarray:
        return on_device(self.host.sum(axis=axis, dtype=dtype, keepdims=keepdims))

    def mean(self, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False) -> ndarray:
        return on_device(self.host.mean(axis=axis, dtype=dtype, keepdims=keepdims))

    def max(self, axis: Any = None, out: None = None, keepdims: bool = False) -> ndarray:
        return on_device(self.host.max(axis=axis, keepdims=keepdims))

    def __matmul__(self, other: Any) -> ndarray:
        return on_device(self.host @ array_operand(other))

    def __neg__(self) -> ndarray:
        return on_device(-self.host)


def _operators(name: str) -> tuple[Callable[[ndarray, Any], ndarray], ...]:
    """An operator of two arrays, reflected, and in place, by the name of NumPy's function."""
    function = getattr(np, name)

    def binary(self: ndarray, other: Any) -> ndarray:
        return on_device(function(self.host, operand(other)))

    def reflected(self: ndarray, other: Any) -> ndarray:
        return on_device(function(operand(other), self.host))

    def in_place(self: ndarray, other: Any) -> ndarray:
        function(self.host, operand(other), out=self.host)
        return self

    return binary, reflected, in_place


for _symbol, _name in (
    ("add", "add"),
    ("sub", "subtract"),
    ("mul", "multiply"),
    ("truediv", "true_divide"),
    ("pow", "power"),
    ("mod", "remainder"),
    ("and", "bitwise_and"),
):
    for _prefix, _operator in zip(("", "r", "i"), _operators(_name), strict=True):
        setattr(ndarray, f"__{_prefix}{_symbol}__", _operator)
for _symbol, _name in (
    ("lt", "less"),
    ("le", "less_equal"),
    ("gt", "greater"),
    ("ge", "greater_equal"),
    ("eq", "equal"),
    ("ne", "not_equal"),
):
    setattr(ndarray, f"__{_symbol}__", _operators(_name)[0])
