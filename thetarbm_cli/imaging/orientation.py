"""The dominant orientation of an image, as an index into the support set φ_s = 360°·s/S.

A histogram of gradient directions: each pixel counts for the direction in which the image gets brighter, signed
(0–360°, counter-clockwise from the right), with a weight that grows with the contrast. It has S bins centred at the
φ_s, and the fullest bin is the orientation. So rotating an image counter-clockwise by φ_k moves its index by
k (mod S), as far as pixels allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError

# Bins of the fine histogram of "smoothed" (at least; a multiple of S), and how it is smoothed.
_FINE_BINS = 36
_SMOOTHING = np.array([1, 4, 6, 4, 1], dtype=np.float32) / 16
# Pixels handled at once: few enough for the processor's cache, many enough to hide the cost of a call.
_CHUNK_PIXELS = 1 << 16
# Squared gradients of images in [0, 1] below this are rounding noise: such a pixel has no direction.
_FLAT = np.float32(1e-12)
# Lost in the rounding of any gradient that is not flat, and no zero where it is.
_TINY = np.float32(1e-30)


@dataclass(frozen=True)
class OrientationEstimator:
    """Estimates dominant orientations; runs on the host.

    Parameters
    ----------
    rotations : int
        S, the number of orientations.
    operator : {"gaussian", "central", "sobel"}
        How gradients are taken: derivatives of a Gaussian, central differences, or Sobel's 3×3 masks.
    scale : float
        σ of the Gaussian in pixels; the others have no scale.
    weighting : {"squared", "magnitude", "count"}
        The weight of a pixel: squared gradient magnitude, gradient magnitude, or 1.
    binning : {"shared", "hard", "smoothed"}
        ``shared`` splits a weight linearly between the two nearest bins, ``hard`` gives it to the nearest one
        (the next one, if halfway).
        ``smoothed`` shares weights in a fine histogram (36 bins, or the next multiple of S), smooths it
        circularly by (1 4 6 4 1)/16 and takes its peak to the nearest φ_s (the next one, if halfway). Bin s
        of the histogram it returns is then the highest value among the fine bins that belong to φ_s.
    smoothing : float
        Standard deviation in degrees of a Gaussian that the histogram is smoothed by, around the circle; 0 for none.
        Useful if bins are far narrower than the spread of directions along a stroke.
    border : {"repeated", "mirrored"}
        What gradients see beyond the frame: the border pixels repeated, or the image mirrored there (``reflect`` in
        SciPy). The two differ for the Gaussian alone: the others reach one pixel beyond.

    Examples
    --------
    >>> ramp = np.tile(np.linspace(0, 1, 28, dtype=np.float32), (28, 1))
    >>> OrientationEstimator(rotations=4)(np.stack([ramp, np.rot90(ramp), ramp[:, ::-1]]))
    array([0, 1, 2])
    """

    rotations: int = 9
    operator: str = "gaussian"
    scale: float = 2.0
    weighting: str = "squared"
    binning: str = "shared"
    smoothing: float = 0.0
    border: str = "repeated"

    def __call__(self, images: NDArray[np.floating]) -> NDArray[np.int64]:
        """Estimate the dominant orientation of each image (N, V) or (N, h, h) in [0, 1].

        Gives the fullest bin (N,), the first one of equals, 0 for an image without contrast.
        """
        return np.asarray(self.histogram(images).argmax(axis=1), dtype=np.int64)

    def candidate_orientations(
        self, images: NDArray[np.floating], share: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find every orientation that an image may have: the peaks of its histogram that come near the highest one.

        The `share` is the least height of a further peak, of the highest.
        Gives the image of each hypothesis, ascending, and its orientation, of each image the dominant one first, then
        ascending: two (M,) arrays, M ≥ N.
        """
        histograms = self.histogram(images)
        dominant = histograms.argmax(axis=1).astype(np.int64)
        # A plateau counts once, at its end; an image without contrast has none.
        peaks = (histograms >= np.roll(histograms, 1, axis=1)) & (histograms > np.roll(histograms, -1, axis=1))
        peaks &= histograms >= share * histograms.max(axis=1, keepdims=True)
        everyone = np.arange(len(dominant))
        peaks[everyone, dominant] = False
        rows, indices = np.nonzero(peaks)
        rows, indices = np.concatenate([everyone, rows]), np.concatenate([dominant, indices])
        order = np.argsort(rows, kind="stable")
        return rows[order], indices[order]

    def histogram(self, images: NDArray[np.floating]) -> NDArray[np.float32]:
        """Add up the weights of each orientation in images (N, V) or (N, h, h): (N, S), zero without contrast."""
        size = _side(images)
        flat = images.reshape(len(images), size * size)
        bins = self._fine_bins() if self.binning == "smoothed" else self.rotations
        sums = np.empty((len(flat), bins + 2), dtype=np.complex64)
        chunk = max(_CHUNK_PIXELS // (size * size), 1)
        most = min(chunk, len(flat))
        gradients = GradientFilter(most, size, self.operator, self.scale, self.border)
        counter = DirectionCounter(most, size * size, bins, self.weighting, shared=self.binning != "hard")
        for start in range(0, len(flat), chunk):
            block = np.ascontiguousarray(flat[start : start + chunk], dtype=np.float32)
            sums[start : start + chunk] = counter.count(*gradients(block))
        histograms = as_histograms(sums)
        if self.binning == "smoothed":
            histograms = self._coarse(histograms)
        return histograms @ self._blur() if self.smoothing else histograms

    def _blur(self) -> NDArray[np.float32]:
        """Give the (S, S) matrix that smooths histograms around the circle."""
        steps = np.abs(np.subtract.outer(np.arange(self.rotations), np.arange(self.rotations)))
        degrees = np.minimum(steps, self.rotations - steps) * (360.0 / self.rotations)
        weights = np.exp(-0.5 * (degrees / self.smoothing) ** 2)
        return np.asarray(weights / weights.sum(axis=0), dtype=np.float32)

    def _fine_bins(self) -> int:
        return math.ceil(_FINE_BINS / self.rotations) * self.rotations

    def _coarse(self, fine: NDArray[np.float32]) -> NDArray[np.float32]:
        """Smooth (N, F) fine histograms and take the maximum around each φ_s: an (N, S) array."""
        reach = len(_SMOOTHING) // 2
        smooth = np.zeros_like(fine)
        for shift, factor in enumerate(_SMOOTHING, start=-reach):
            smooth += factor * np.roll(fine, shift, axis=1)
        width = fine.shape[1] // self.rotations
        around = np.roll(smooth, width // 2, axis=1).reshape(len(fine), self.rotations, width)
        return np.asarray(around.max(axis=2))


def _side(images: NDArray[np.floating]) -> int:
    """Give the side of square images of shape (N, V) or (N, h, h)."""
    if images.ndim in (2, 3):
        side = math.isqrt(math.prod(images.shape[1:]))
        if side > 0 and images.shape[1:] in ((side * side,), (side, side)):
            return side
    raise InputError(f"orientation needs square images of shape (N, V) or (N, h, h), not {images.shape}")


# Gradients by matrix products. Each gradient mask is an outer product: a smoothing along one axis, a derivative along
# the other. Written as band matrices they map a batch of images to its derivatives by two BLAS products each.
# Beyond the frame the border pixels are repeated or mirrored. For a digit on black that is the same as zero outside
# unless it comes near the frame; for any other image the frame itself makes no edge, and a constant one no gradient.


@lru_cache(maxsize=16)
def _gradient_matrices(
    size: int, operator: str, scale: float, border: str
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Give the smoothing and the derivative of a line of pixels as (size, size) matrices (do not change them).

    They are a Gaussian and its derivative (cut off at 4σ), no smoothing and central differences, or Sobel's masks.
    Brightness that grows by 1 a pixel has derivative 1 (for the Gaussian up to the cut-off).
    """
    if operator == "gaussian":
        reach = math.ceil(4 * scale)
        offset = np.arange(-reach, reach + 1)
        smoothing = np.exp(-0.5 * (offset / scale) ** 2)
        smoothing /= smoothing.sum()
        return _band_matrix(size, smoothing, border), _band_matrix(size, offset / scale**2 * smoothing, border)
    smoothing = np.array([0.0, 1, 0]) if operator == "central" else np.array([1, 2, 1]) / 4
    return _band_matrix(size, smoothing, border), _band_matrix(size, np.array([-0.5, 0, 0.5]), border)


class GradientFilter:
    """Takes the derivatives of square images, at most `images` at a time, in arrays that are made once."""

    def __init__(self, images: int, size: int, operator: str, scale: float, border: str) -> None:
        self.smooth, self.derive = _gradient_matrices(size, operator, scale, border)
        self._half, self._right, self._down = (np.empty((images, size, size), dtype=np.float32) for _ in range(3))

    def __call__(self, images: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Give the derivatives of images (n, V) to the right and down, good until the next call."""
        size = len(self.smooth)
        lines = images.reshape(-1, size)
        half, right, down = (part[: len(images)] for part in (self._half, self._right, self._down))
        np.matmul(lines, self.derive.T, out=half.reshape(-1, size))
        np.matmul(self.smooth, half, out=right)
        np.matmul(lines, self.smooth.T, out=half.reshape(-1, size))
        np.matmul(self.derive, half, out=down)
        return right.reshape(images.shape), down.reshape(images.shape)


def _band_matrix(size: int, mask: NDArray[np.float64], border: str) -> NDArray[np.float32]:
    """Write the correlation of a line of pixels with a mask as a (size, size) matrix."""
    matrix = np.zeros((size, size))
    pixel = np.arange(size)
    for offset, factor in enumerate(mask, start=-(len(mask) // 2)):
        seen = pixel + offset
        if border == "mirrored":
            seen = seen % (2 * size)
            seen = np.minimum(seen, 2 * size - 1 - seen)
        np.add.at(matrix, (pixel, np.clip(seen, 0, size - 1)), factor)
    return matrix.astype(np.float32)


# Histograms of the directions of gradients. Everything is done in place, in arrays that are made once, and without
# masks: where NumPy has no vector instructions (masked operations, mixed types, ``arctan2``) an operation takes as long
# as ten others.


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


class DirectionCounter:
    """Adds up weights of gradient directions in bins around the circle, at most `images` images at a time.

    The first bin is centred at the right; weightings are those of `OrientationEstimator`. A weight is `shared` linearly
    between the two nearest bins, or goes to the nearest one.
    """

    def __init__(self, images: int, pixels: int, bins: int, weighting: str, shared: bool) -> None:
        import scipy.sparse

        self.bins = bins
        self.weighting = weighting
        self.shared = shared
        self._work = [np.empty((images, pixels), dtype=np.float32) for _ in range(6)]
        # A sparse matrix adds up repeated entries, in their own precision and without the copies that bincount
        # makes. An entry is a complex number, a weight and the share of the upper bin: both are added in one pass.
        self._rows = scipy.sparse.csr_array(
            (
                np.zeros(images * pixels, dtype=np.complex64),
                np.zeros(images * pixels, dtype=np.int32),
                np.arange(0, images * pixels + 1, pixels, dtype=np.int32),
            ),
            shape=(images, bins + 2),
        )
        self._entries = self._rows.data.reshape(images, pixels)
        self._bin = self._rows.indices.reshape(images, pixels)

    def count(self, right: NDArray[np.float32], down: NDArray[np.float32]) -> NDArray[np.complex64]:
        """Add up the weights of gradients along the columns and along the rows, (n, V).

        Returns
        -------
        (n, bins + 2) array
            Weights by the lower of the two nearest bins (by the nearest one, if weights are not shared), and as
            imaginary part what of them belongs to the upper one; `as_histograms` makes histograms of them.
        """
        count = len(right)
        weight, position, rest, *free = (array[:count] for array in self._work)
        squared, entries = weight, self._entries[:count]
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
        entries.real = weight
        if self.shared:
            position -= lower
            np.multiply(position, weight, out=entries.imag)
        return np.asarray(self._rows.toarray()[:count])


def as_histograms(sums: NDArray[np.complex64]) -> NDArray[np.float32]:
    """Make (n, bins) histograms of what `DirectionCounter.count` gave for n images."""
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
    angle: NDArray[np.float32],
    ratio: NDArray[np.float32],
    across: NDArray[np.float32],
    up: NDArray[np.float32],
    corner: NDArray[np.float32],
) -> None:
    """Write directions, counter-clockwise from the right, as shares of the circle in [0, 1] into `angle`.

    All arrays have one shape; `ratio`, `across`, `up` and `corner` are overwritten.
    """
    np.abs(right, out=across)
    np.abs(down, out=up)
    np.minimum(across, up, out=ratio)
    np.maximum(across, up, out=angle)
    angle += _TINY
    ratio /= angle
    np.greater(up, across, out=corner)
    square = np.multiply(ratio, ratio, out=across)
    np.multiply(square, _ARCTANGENT[0], out=angle)
    angle += _ARCTANGENT[1]
    for coefficient in _ARCTANGENT[2:]:
        angle *= square
        angle += coefficient
    angle *= ratio
    angle *= np.float32(0.5 / math.pi)
    # From the first eighth of the circle to the first quarter, the upper half, the whole: c − angle is |angle − c|.
    corner *= np.float32(0.25)
    angle -= corner
    np.abs(angle, out=angle)
    np.less(right, 0, out=corner)
    corner *= np.float32(0.5)
    angle -= corner
    np.abs(angle, out=angle)
    np.greater(down, 0, out=corner)
    angle -= corner
    np.abs(angle, out=angle)
