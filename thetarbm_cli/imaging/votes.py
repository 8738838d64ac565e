"""Votes of pixels for the direction of their gradient, counted in bins around the circle.

Everything is done in place, in arrays that are made once, and without masks: where NumPy has no vector
instructions (masked operations, mixed types, ``arctan2``) an operation takes as long as ten others.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

# Squared gradients of images in [0, 1] below this are rounding noise: such a pixel has no direction.
_FLAT = np.float32(1e-12)
# Lost in the rounding of any gradient that is not flat, and no zero where it is.
_TINY = np.float32(1e-30)


def _arctangent_series() -> list[np.float32]:
    """Give float32 coefficients of P with arctan(a) = a·P(a²) on 0 ≤ a ≤ 1, to 2e-7, highest power first.

    NumPy's ``arctan2`` takes most of the time where it is not vectorised; this one costs a quarter of it.
    """

    def ratio(square: NDArray[np.float64]) -> NDArray[np.float64]:
        root = np.sqrt(square)
        return np.asarray(np.arctan(root) / root)

    series = Chebyshev.interpolate(ratio, 8, domain=[0, 1]).convert(kind=Polynomial)
    return [np.float32(coefficient) for coefficient in series.coef[::-1]]


_ARCTANGENT = _arctangent_series()


class VoteCounter:
    """Counts votes of images, at most `images` at a time.

    Parameters
    ----------
    images, pixels : int
        Largest n, and V, of the gradients to come.
    bins : int
        Bins around the circle, the first one centred at the right.
    weighting : {"squared", "magnitude", "count"}
        The weight of a vote: squared gradient magnitude, gradient magnitude, or 1.
    shared : bool
        Whether a vote is split linearly between the two nearest bins, or goes to the nearest one.
    """

    def __init__(self, images: int, pixels: int, bins: int, weighting: str, shared: bool) -> None:
        self.bins = bins
        self.weighting = weighting
        self.shared = shared
        self._work = [np.empty((images, pixels), dtype=np.float32) for _ in range(6)]
        # A sparse matrix adds up repeated entries, in their own precision and without the copies that bincount
        # makes. A vote is a complex number, its weight and the share of the upper bin: both are added in one pass.
        self._rows = scipy.sparse.csr_array(
            (
                np.zeros(images * pixels, dtype=np.complex64),
                np.zeros(images * pixels, dtype=np.int32),
                np.arange(0, images * pixels + 1, pixels, dtype=np.int32),
            ),
            shape=(images, bins + 2),
        )
        self._votes = self._rows.data.reshape(images, pixels)
        self._bin = self._rows.indices.reshape(images, pixels)

    def count(self, right: NDArray[np.float32], down: NDArray[np.float32]) -> NDArray[np.complex64]:
        """Add up the votes of gradients along the columns and along the rows, (n, V).

        Returns
        -------
        (n, bins + 2) array
            Weights by the lower of the two nearest bins (by the nearest one, if votes are not shared), and as
            imaginary part what of them belongs to the upper one; `shares` makes histograms of them.
        """
        count = len(right)
        weight, position, rest, *free = (array[:count] for array in self._work)
        squared, votes = weight, self._votes[:count]
        np.multiply(right, right, out=squared)
        squared += np.multiply(down, down, out=rest)
        _direction(right, down, position, rest, *free)
        position *= np.float32(self.bins)
        steep = squared > _FLAT
        if self.weighting == "count":
            weight[...] = steep
        else:
            if self.weighting == "magnitude":
                np.sqrt(squared, out=weight)
            weight *= steep
        if not self.shared:
            position += np.float32(0.5)
        lower = np.floor(position, out=rest)
        np.copyto(self._bin[:count], lower, casting="unsafe")
        votes.real = weight
        if self.shared:
            position -= lower
            np.multiply(position, weight, out=votes.imag)
        return np.asarray(self._rows.toarray()[:count])


def shares(sums: NDArray[np.complex64]) -> NDArray[np.float32]:
    """Make (n, bins) histograms of what `VoteCounter.count` gave for n images."""
    upper = sums.imag
    lower = np.maximum(sums.real - upper, 0)  # not −1e-9 by rounding
    lower[:, 1:] += upper[:, :-1]
    # The two bins beyond the circle belong to its start.
    bins = sums.shape[1] - 2
    histogram: NDArray[np.float32] = lower[:, :bins].copy()
    for beyond in (bins, bins + 1):
        histogram[:, beyond % bins] += lower[:, beyond]
    return histogram


def _direction(
    right: NDArray[np.float32],
    down: NDArray[np.float32],
    turn: NDArray[np.float32],
    ratio: NDArray[np.float32],
    across: NDArray[np.float32],
    up: NDArray[np.float32],
    corner: NDArray[np.float32],
) -> None:
    """Write directions, counter-clockwise from the right, as shares of the circle in [0, 1] into `turn`.

    All arrays have one shape; `ratio`, `across`, `up` and `corner` are overwritten.
    """
    np.abs(right, out=across)
    np.abs(down, out=up)
    np.minimum(across, up, out=ratio)
    np.maximum(across, up, out=turn)
    turn += _TINY
    ratio /= turn
    np.greater(up, across, out=corner)
    square = np.multiply(ratio, ratio, out=across)
    np.multiply(square, _ARCTANGENT[0], out=turn)
    turn += _ARCTANGENT[1]
    for coefficient in _ARCTANGENT[2:]:
        turn *= square
        turn += coefficient
    turn *= ratio
    turn *= np.float32(0.5 / math.pi)
    # From the first eighth of the circle to the first quarter, the upper half, the whole: c − turn is |turn − c|.
    corner *= np.float32(0.25)
    turn -= corner
    np.abs(turn, out=turn)
    np.less(right, 0, out=corner)
    corner *= np.float32(0.5)
    turn -= corner
    np.abs(turn, out=turn)
    np.greater(down, 0, out=corner)
    turn -= corner
    np.abs(turn, out=turn)
