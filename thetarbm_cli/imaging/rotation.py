"""Images turned by the operators T_θ of a support set φ_s = 360°·s/S, on the host or on a device.

The operators are built once and brought to the device once; batches of images are turned by sparse products.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from thetarbm_cli.backend import Array, Backend, NumpyBackend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.operators import rotation_operators

# Images in one sparse product. On the host few enough that a block and its turned copy stay in the
# processor's cache, and no power of two, whose rows would share their places there; a device wants large products.
_HOST_BLOCK = 120
_DEVICE_BLOCK = 4096


@dataclass(frozen=True)
class Rotations:
    """The rotations of one support set, on one device.

    Parameters
    ----------
    size : int
        Side of the images; V = size².
    rotations : int
        S, the number of angles.
    kind, offset
        As in `rotation_operators`.
    backend : Backend
        Where the operators and the images are.

    Examples
    --------
    >>> import numpy as np
    >>> quarter_turns = Rotations(size=2, rotations=4)
    >>> quarter_turns.turn(np.array([[1, 2, 3, 4]], dtype=np.float32), [1])
    array([[2., 4., 1., 3.]], dtype=float32)
    """

    size: int
    rotations: int = 9
    kind: str = "bilinear"
    offset: float = 0.0
    backend: Backend = field(default_factory=NumpyBackend, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._on_host()

    @cached_property
    def operators(self) -> tuple[Any, ...]:
        """T_{φ_s + offset} for s = 0 … S−1: sparse (V, V) matrices on the device."""
        return tuple(self.backend.sparse(operator) for operator in self._on_host())

    @cached_property
    def transposed(self) -> tuple[Any, ...]:
        """T'_{φ_s + offset} for s = 0 … S−1: sparse (V, V) matrices on the device."""
        return tuple(self.backend.sparse(operator.T.tocsr()) for operator in self._on_host())

    def bring(self) -> None:
        """Bring the operators to the device now instead of with the first turn."""
        _ = self.operators

    def turn(self, images: Array, indices: ArrayLike, transpose: bool = False) -> Array:
        """Turn each image by its own rotation: T_{s_i} x_i (or T'_{s_i} x_i), one product a group.

        Parameters
        ----------
        images : (N, V) float32 array on the device
        indices : (N,) integers on the host, each in 0 … S−1
        transpose : bool
            Whether to apply T' (for a permutation: turn back).

        Returns
        -------
        (N, V) array on the device, C-contiguous
        """
        self._check_images(images)
        index = np.asarray(indices)
        if index.shape != (images.shape[0],) or (index.size and index.dtype.kind not in "iu"):
            raise InputError(f"turn needs one integer index for each of the {images.shape[0]} images")
        if index.size and (index.min() < 0 or index.max() >= self.rotations):
            raise InputError(f"an orientation index lies outside 0..{self.rotations - 1}")
        operators = self.transposed if transpose else self.operators
        turned = self.backend.xp.empty(images.shape, dtype=np.float32)
        order = np.argsort(index, kind="stable")
        ends = np.cumsum(np.bincount(index.astype(np.int64), minlength=self.rotations)).tolist()
        for operator, start, stop in zip(operators, [0, *ends], ends, strict=False):
            for rows in self._blocks(start, stop):
                chosen = order[rows]
                # Of sorted images a block is a slice, which is read and written without lists of places.
                sliced = chosen[-1] - chosen[0] == chosen.size - 1
                block = slice(chosen[0], chosen[-1] + 1) if sliced else self.backend.asarray(chosen)
                turned[block] = (operator @ images[block].T).T
        return turned

    def turn_by(self, images: Array, index: int, transpose: bool = False) -> Array:
        """Turn all images by one rotation: T_s x_i (or T'_s x_i).

        Parameters
        ----------
        images : (N, V) float32 array on the device
        index : int
            s, in 0 … S−1.
        transpose : bool
            Whether to apply T'.

        Returns
        -------
        (N, V) array on the device, C-contiguous
        """
        self._check_images(images)
        if not 0 <= index < self.rotations:
            raise InputError(f"orientation index {index} lies outside 0..{self.rotations - 1}")
        turned = self.backend.xp.empty(images.shape, dtype=np.float32)
        self._apply((self.transposed if transpose else self.operators)[index], images, turned)
        return turned

    def turn_all_ways(self, images: Array, out: Array | None = None) -> Array:
        """Turn all images by all rotations.

        Parameters
        ----------
        images : (N, V) float32 array on the device
        out : (S, N, V) float32 array on the device, optional
            Where to write the turned images.

        Returns
        -------
        (S, N, V) array on the device, C-contiguous unless `out` is not
        """
        self._check_images(images)
        if out is None:
            out = self.backend.xp.empty((self.rotations, *images.shape), dtype=np.float32)
        for block, columns in self._columns(images):
            for turned, operator in zip(out, self.operators, strict=True):
                turned[block] = (operator @ columns).T
        return out

    def turn_each_way(self, images: Array) -> Iterator[Array]:
        """Turn all images by one rotation after the other, as `turn_by` does, in one array.

        Parameters
        ----------
        images : (N, V) float32 array on the device

        Yields
        ------
        S arrays (N, V) on the device, C-contiguous; each is overwritten by the next
        """
        self._check_images(images)
        blocks = list(self._columns(images))
        turned = self.backend.xp.empty(images.shape, dtype=np.float32)
        for operator in self.operators:
            for block, columns in blocks:
                turned[block] = (operator @ columns).T
            yield turned

    def _columns(self, images: Array) -> Iterator[tuple[slice, Array]]:
        """Blocks of images (N, V) as columns (V, n), each with the slice of its rows."""
        for block in self._blocks(0, images.shape[0]):
            # A sparse product on the host copies what is not contiguous: here once for all rotations. For the
            # device the transpose of rows is the column-major layout that its sparse product wants.
            yield block, np.ascontiguousarray(images[block].T) if self.backend.xp is np else images[block].T

    def _apply(self, operator: Any, images: Array, out: Array) -> None:
        """Write ``operator @ x`` for each of the (N, V) images x into the rows of `out`."""
        for block, columns in self._columns(images):
            out[block] = (operator @ columns).T

    def _blocks(self, start: int, stop: int) -> Iterator[slice]:
        """Cut the rows start … stop−1 into equal parts for one product each."""
        most = _HOST_BLOCK if self.backend.xp is np else _DEVICE_BLOCK
        parts = math.ceil((stop - start) / most)
        step = math.ceil((stop - start) / max(parts, 1))
        for part in range(parts):
            yield slice(start + part * step, min(start + (part + 1) * step, stop))

    def _on_host(self) -> tuple[scipy.sparse.csr_matrix, ...]:
        return rotation_operators(self.size, self.rotations, self.kind, self.offset)

    def _check_images(self, images: Array) -> None:
        if images.ndim != 2 or images.shape[1] != self.size**2:
            raise InputError(
                f"rotations of {self.size}×{self.size} images need an array of shape (N, {self.size**2}), "
                f"not {tuple(images.shape)}"
            )
