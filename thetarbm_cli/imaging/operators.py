"""Rotations of the pixel grid as sparse operators T_θ (the paper's R_θ(A) = A T_θ').

A flattened image x is turned counter-clockwise about its centre by ``T_θ @ x``. What falls outside the frame
is lost and what comes in is zero.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.permutation import cyclic_permutation

KINDS = ("bilinear", "replicated", "nearest", "permutation")


def rotation_matrix(size: int, degrees: float, kind: str = "bilinear") -> scipy.sparse.csr_matrix:
    """Build T_θ, which turns a flattened square image counter-clockwise about its centre.

    Parameters
    ----------
    size : int
        Side of the image; V = size².
    degrees : float
        The angle θ. Multiples of 90° give exact permutations of the pixels.
    kind : {"bilinear", "replicated", "nearest"}
        ``bilinear`` is ``skimage.transform.rotate(order=1, mode="constant")`` as a matrix; ``replicated`` has
        the border repeated outside instead of zeros; ``nearest`` takes one pixel for each. A ``permutation``
        exists only for a whole support set: see `rotation_operators`.

    Returns
    -------
    (V, V) float32 CSR matrix
    """
    _check_size(size)
    if not math.isfinite(degrees):
        raise InputError(f"the angle of a rotation must be a finite number of degrees, not {degrees}")
    if kind not in KINDS or kind == "permutation":
        raise InputError(f"a single rotation cannot be of kind {kind!r}: choose bilinear, replicated or nearest")
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
    """Build T_{φ_s + offset} for s = 0 … S−1; the same arguments give the same matrices (do not change them).

    Parameters
    ----------
    size : int
        Side of the image; V = size².
    rotations : int
        S, the number of angles φ_s = 360°·s/S.
    kind : {"bilinear", "replicated", "nearest", "permutation"}
        ``permutation`` gives the powers of one exact cyclic permutation P: T_a T_b = T_{a+b}, T_s' T_s = I.
    offset : float
        Degrees added to every angle (the γ-score uses 20°). A permutation has no such angles: 0 only.

    Returns
    -------
    S float32 CSR matrices of shape (V, V)
    """
    _check_size(size)
    if rotations < 1:
        raise InputError(f"the number of rotations must be at least 1, not {rotations}")
    if kind not in KINDS:
        raise InputError(f"unknown kind of rotation {kind!r}: choose one of {', '.join(KINDS)}")
    if kind != "permutation":
        angles = (360.0 * index / rotations + offset for index in range(rotations))
        return tuple(rotation_matrix(size, angle, kind) for angle in angles)
    if offset != 0:
        raise InputError(f"rotations by permutation exist only at the φ_s: the offset must be 0, not {offset}")
    step = cyclic_permutation(size, rotations)
    source = np.arange(size * size)
    target = source
    operators = []
    for _ in range(rotations):
        operators.append(_matrix(size, target, source, np.ones(size * size)))
        target = step[target]
    return tuple(operators)


@lru_cache(maxsize=64)
def there_and_back_operators(
    size: int, rotations: int, kind: str = "bilinear"
) -> tuple[scipy.sparse.csr_matrix | None, ...]:
    """Build T_s'T_s for s = 0 … S−1, None where it is the identity; parameters as in `rotation_operators`."""
    identity = scipy.sparse.identity(size * size, dtype=np.float32, format="csr")
    products = (operator.T.tocsr() @ operator for operator in rotation_operators(size, rotations, kind))
    return tuple(None if abs(product - identity).max() == 0 else product for product in products)


def _check_size(size: int) -> None:
    if size < 1:
        raise InputError(f"the side of an image must be at least 1 pixel, not {size}")


def _source_places(size: int, degrees: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give, for each pixel of the turned image, the row and column it comes from: two (V,) arrays."""
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
