"""Rotations of the pixel grid as sparse operators T_θ (the paper's R_θ(A) = A T_θ'), on the host or on a device.

A flattened image x is rotated counter-clockwise about its centre by ``T_θ @ x``. What falls outside the frame is lost
and what comes in is zero. The operators of a support set φ_s = 360°·s/S are built once and brought to the device once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from thetarbm_cli.backend import Array, Backend, SparseStack
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.permutation import cyclic_permutation


def rotation_matrix(size: int, degrees: float, kind: str = "bilinear") -> scipy.sparse.csr_matrix:
    """Build T_θ, which rotates a flattened size × size image counter-clockwise about its centre: (V, V), float32.

    ``bilinear`` is ``skimage.transform.rotate(order=1, mode="constant")`` as a matrix; ``replicated`` has the border
    repeated outside instead of zeros; ``nearest`` takes one pixel for each. A ``permutation`` exists only for a whole
    support set: see `rotation_operators`. Multiples of 90° give exact permutations of the pixels.
    """
    row, column = _source_places(size, degrees)
    if kind == "nearest":
        corners = [(np.floor(row + 0.5), np.floor(column + 0.5), np.ones(size * size))]
    else:
        top, left = np.floor(row), np.floor(column)
        down, right = row - top, column - left
        corners = [
            (top, left, (1 - down) * (1 - right)),
            (top, left + 1, (1 - down) * right),
            (top + 1, left, down * (1 - right)),
            (top + 1, left + 1, down * right),
        ]
    target = np.tile(np.arange(size * size), len(corners))
    rows, columns, weights = (np.concatenate(parts) for parts in zip(*corners, strict=True))
    if kind == "replicated":
        rows, columns = rows.clip(0, size - 1), columns.clip(0, size - 1)
    keep = (weights > 0) & (rows >= 0) & (rows < size) & (columns >= 0) & (columns < size)
    source = (rows[keep] * size + columns[keep]).astype(np.int64)
    return _matrix(size, target[keep], source, weights[keep])


@lru_cache(maxsize=64)
def rotation_operators(
    size: int, rotations: int, kind: str = "bilinear", offset: float = 0.0, step: float | None = None
) -> tuple[scipy.sparse.csr_matrix, ...]:
    """Build T_{φ_s + offset}, φ_s = 360°·s/S, for s = 0 … S−1: (V, V) each, made once (do not change them).

    With a `step` in degrees, φ_s is s times that instead. The kind ``permutation`` gives the powers of one exact cyclic
    permutation P: T_a T_b = T_{a+b}, T_s'T_s = I; it has no angles between, and so neither `offset` nor `step`. For the
    others see `rotation_matrix`.
    """
    if kind != "permutation":
        turns = (360.0 * index / rotations if step is None else step * index for index in range(rotations))
        angles = (turn + offset for turn in turns)
        return tuple(rotation_matrix(size, angle, kind) for angle in angles)
    following = cyclic_permutation(size, rotations)
    source = np.arange(size * size)
    target = source
    operators = []
    for _ in range(rotations):
        operators.append(_matrix(size, target, source, np.ones(size * size)))
        target = following[target]
    return tuple(operators)


@lru_cache(maxsize=64)
def round_trip_operators(
    size: int, rotations: int, kind: str = "bilinear"
) -> tuple[scipy.sparse.csr_matrix | None, ...]:
    """Build T_s'T_s for s = 0 … S−1, None where it is the identity."""
    identity = scipy.sparse.identity(size * size, dtype=np.float32, format="csr")
    products = (operator.T.tocsr() @ operator for operator in rotation_operators(size, rotations, kind))
    return tuple(None if abs(product - identity).max() == 0 else product for product in products)


@dataclass(frozen=True)
class Rotations:
    """The rotations of one support set, or in other steps (see `rotation_operators`), on the device of the backend.

    Examples
    --------
    >>> import numpy as np
    >>> quarter_turns = Rotations(size=2, rotations=4)
    >>> quarter_turns.rotate(np.array([[1, 2, 3, 4]], dtype=np.float32), [1])
    array([[2., 4., 1., 3.]], dtype=float32)
    """

    size: int
    rotations: int = 9
    kind: str = "bilinear"
    offset: float = 0.0
    backend: Backend = field(default_factory=Backend, compare=False, repr=False)
    step: float | None = None

    @cached_property
    def forth(self) -> SparseStack:
        """T_{φ_s + offset} for s = 0 … S−1."""
        return self.backend.stack(self._on_host())

    @cached_property
    def back(self) -> SparseStack:
        """T'_{φ_s + offset} for s = 0 … S−1."""
        return self.backend.stack([operator.T.tocsr() for operator in self._on_host()])

    def rotate(self, images: Array, indices: ArrayLike, transpose: bool = False) -> Array:
        """Rotate each image (N, V) by its own rotation: T_{s_i} x_i, or T'_{s_i} x_i, C-contiguous.

        The `indices` (N,) are s_i in 0 … S−1.
        """
        stack = self.back if transpose else self.forth
        if self.backend.name == "numpy" or isinstance(indices, list | np.ndarray):
            index = np.asarray(indices, dtype=np.int64)
            if index.size and not 0 <= index.min() <= index.max() < self.rotations:
                raise InputError(f"an orientation index lies outside 0..{self.rotations - 1}")
            if index.size and index.min() == index.max():
                return stack.one(images, int(index[0]))
            indices = self.backend.asarray(index)
        return stack.each(images, indices)

    def rotate_by(self, images: Array, index: int, transpose: bool = False) -> Array:
        """Rotate all images (N, V) by one rotation: T_s x_i, or T'_s x_i, C-contiguous; `index` is s."""
        return (self.back if transpose else self.forth).one(images, index)

    def rotate_all(self, images: Array) -> Array:
        """Rotate all images (N, V) by all rotations: (S, N, V)."""
        return self.forth.all(images)

    def rotate_each(self, images: Array) -> Iterator[Array]:
        """Rotate all images (N, V) by one rotation after the other; each result is overwritten by the next."""
        return self.forth.copies(images)

    def _on_host(self) -> tuple[scipy.sparse.csr_matrix, ...]:
        return rotation_operators(self.size, self.rotations, self.kind, self.offset, self.step)


def _source_places(size: int, degrees: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give, for each pixel of the rotated image, the row and column it comes from: two (V,) arrays."""
    quarters, rest = divmod(degrees % 360.0, 90.0)
    # The quarter turns are exact, so that multiples of 90° land on pixels and not beside them.
    cosine, sine = math.cos(math.radians(rest)), math.sin(math.radians(rest))
    for _ in range(int(quarters) % 4):
        cosine, sine = -sine, cosine
    centre = (size - 1) / 2
    row, column = np.divmod(np.arange(size * size), size)
    down, right = row - centre, column - centre
    return cosine * down + sine * right + centre, cosine * right - sine * down + centre


def _matrix(
    size: int, target: NDArray[np.int64], source: NDArray[np.int64], weights: NDArray[np.float64]
) -> scipy.sparse.csr_matrix:
    """Build the float32 (V, V) matrix that adds ``weights`` times pixel ``source`` to pixel ``target``."""
    shape = (size * size, size * size)
    return scipy.sparse.csr_matrix((weights.astype(np.float32), (target, source)), shape=shape)
