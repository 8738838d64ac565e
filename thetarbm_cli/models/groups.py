"""Which orientation each row of a batch has, in the three forms that products and gathers need."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend


@dataclass(frozen=True)
class Groups:
    """Orientation of each of n rows that are sorted by orientation (the one-hot r of Eq. 2).

    Attributes
    ----------
    segments : (s, rows) for every orientation s that occurs, rows a slice
    index : (n,) device array of s
    memberships : (n, S) device array, the one-hot rows r
    """

    segments: tuple[tuple[int, slice], ...]
    index: Array
    memberships: Array

    @classmethod
    def of(cls, backend: Backend, sorted_index: NDArray[np.int64], count: int) -> Groups:
        """Describe host indices that are sorted already; `count` is S."""
        index = backend.asarray(sorted_index)
        return cls(segments_of(sorted_index, count), index, one_hot(backend, index, count))


def one_hot(backend: Backend, index: Array, count: int) -> Array:
    """Rows of r: (n, `count`) float32 with a 1 where the index is."""
    xp = backend.xp
    return (index[:, None] == xp.arange(count)[None, :]).astype(xp.float32)


def segments_of(sorted_index: NDArray[np.int64], count: int) -> tuple[tuple[int, slice], ...]:
    """Slices of equal values in a sorted host array."""
    edges = np.searchsorted(sorted_index, np.arange(count + 1))
    return tuple((s, slice(int(edges[s]), int(edges[s + 1]))) for s in range(count) if edges[s] < edges[s + 1])
