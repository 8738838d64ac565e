"""Rotations of the pixel grid as sparse operators T_θ (the paper's R_θ(A) = A T_θ'), on the host or on a device.

A flattened image x is rotated counter-clockwise about its centre by ``T_θ @ x``. What falls outside the frame is lost
and what comes in is zero. The operators of a support set φ_s = 360°·s/S are built once and brought to the device once;
batches of images are rotated by sparse products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.permutation import cyclic_permutation

# Images in one sparse product. On the host few enough that a block and its rotated copy stay in the
# processor's cache, and no power of two, whose rows would share their places there; a device wants large products.
_HOST_BLOCK = 120
_DEVICE_BLOCK = 4096


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
    size: int, rotations: int, kind: str = "bilinear", offset: float = 0.0
) -> tuple[scipy.sparse.csr_matrix, ...]:
    """Build T_{φ_s + offset}, φ_s = 360°·s/S, for s = 0 … S−1: (V, V) each, made once (do not change them).

    The kind ``permutation`` gives the powers of one exact cyclic permutation P: T_a T_b = T_{a+b}, T_s'T_s = I; it has
    no angles between, and so no `offset`. For the others see `rotation_matrix`.
    """
    if kind != "permutation":
        angles = (360.0 * index / rotations + offset for index in range(rotations))
        return tuple(rotation_matrix(size, angle, kind) for angle in angles)
    step = cyclic_permutation(size, rotations)
    source = np.arange(size * size)
    target = source
    operators = []
    for _ in range(rotations):
        operators.append(_matrix(size, target, source, np.ones(size * size)))
        target = step[target]
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
    """The rotations of one support set (see `rotation_operators`), on the device of the backend.

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

    @cached_property
    def operators(self) -> tuple[Any, ...]:
        """T_{φ_s + offset} for s = 0 … S−1: sparse (V, V) matrices on the device."""
        return tuple(self.backend.sparse(operator) for operator in self._on_host())

    @cached_property
    def transposed(self) -> tuple[Any, ...]:
        """T'_{φ_s + offset} for s = 0 … S−1: sparse (V, V) matrices on the device."""
        return tuple(self.backend.sparse(operator.T.tocsr()) for operator in self._on_host())

    def bring(self) -> None:
        """Bring the operators to the device now instead of with the first rotation."""
        _ = self.operators

    def rotate(self, images: Array, indices: ArrayLike, transpose: bool = False) -> Array:
        """Rotate each image (N, V) on the device by its own rotation: T_{s_i} x_i, or T'_{s_i} x_i, C-contiguous.

        The `indices` (N,) s_i in 0 … S−1 are on the host. There is one product for each group of equal ones.
        """
        index = np.asarray(indices, dtype=np.int64)
        if index.size and not 0 <= index.min() <= index.max() < self.rotations:
            raise InputError(f"an orientation index lies outside 0..{self.rotations - 1}")
        if index.size and index.min() == index.max():
            return self.rotate_by(images, int(index[0]), transpose)
        operators = self.transposed if transpose else self.operators
        rotated = self.backend.xp.empty(images.shape, dtype=np.float32)
        order = np.argsort(index, kind="stable")
        ends = np.cumsum(np.bincount(index, minlength=self.rotations)).tolist()
        for operator, start, stop in zip(operators, [0, *ends], ends, strict=False):
            for rows in self._blocks(start, stop):
                chosen = order[rows]
                # Of sorted images a block is a slice, which is read and written without lists of places.
                sliced = chosen[-1] - chosen[0] == chosen.size - 1
                block = slice(chosen[0], chosen[-1] + 1) if sliced else self.backend.asarray(chosen)
                rotated[block] = (operator @ images[block].T).T
        return rotated

    def rotate_by(self, images: Array, index: int, transpose: bool = False) -> Array:
        """Rotate all images (N, V) by one rotation: T_s x_i, or T'_s x_i, C-contiguous; `index` is s."""
        rotated = self.backend.xp.empty(images.shape, dtype=np.float32)
        operator = (self.transposed if transpose else self.operators)[index]
        for block, columns in self._columns(images):
            rotated[block] = (operator @ columns).T
        return rotated

    def rotate_all(self, images: Array, out: Array | None = None) -> Array:
        """Rotate all images (N, V) by all rotations: (S, N, V), in `out` if it is given."""
        if out is None:
            out = self.backend.xp.empty((self.rotations, *images.shape), dtype=np.float32)
        for block, columns in self._columns(images):
            for rotated, operator in zip(out, self.operators, strict=True):
                rotated[block] = (operator @ columns).T
        return out

    def rotate_each(self, images: Array) -> Iterator[Array]:
        """Rotate all images (N, V) by one rotation after the other; each result is overwritten by the next."""
        blocks = list(self._columns(images))
        rotated = self.backend.xp.empty(images.shape, dtype=np.float32)
        for operator in self.operators:
            for block, columns in blocks:
                rotated[block] = (operator @ columns).T
            yield rotated

    def _columns(self, images: Array) -> Iterator[tuple[slice, Array]]:
        """Give blocks of images (N, V) as columns (V, n), each with the slice of its rows."""
        for block in self._blocks(0, images.shape[0]):
            # A sparse product on the host copies what is not contiguous: here once for all rotations. For the
            # device the transpose of rows is the column-major layout that its sparse product wants.
            yield block, np.ascontiguousarray(images[block].T) if self.backend.xp is np else images[block].T

    def _blocks(self, start: int, stop: int) -> Iterator[slice]:
        """Cut the rows start … stop−1 into equal parts for one product each."""
        most = _HOST_BLOCK if self.backend.xp is np else _DEVICE_BLOCK
        parts = math.ceil((stop - start) / most)
        step = math.ceil((stop - start) / max(parts, 1))
        for part in range(parts):
            yield slice(start + part * step, min(start + (part + 1) * step, stop))

    def _on_host(self) -> tuple[scipy.sparse.csr_matrix, ...]:
        return rotation_operators(self.size, self.rotations, self.kind, self.offset)


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
