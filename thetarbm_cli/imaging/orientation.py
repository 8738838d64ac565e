"""The dominant orientation of an image, as an index into the support set φ_s = 360°·s/S.

Each pixel votes for the direction in which the image gets brighter, signed (0–360°, counter-clockwise from
the right), with a weight that grows with the contrast. The votes fall into S bins centred at the φ_s, and the
fullest bin is the orientation. So turning an image counter-clockwise by φ_k moves its index by k (mod S), as
far as pixels allow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.gradient import GradientFilter
from thetarbm_cli.imaging.votes import VoteCounter, shares

OPERATORS = ("gaussian", "central", "sobel")
WEIGHTINGS = ("squared", "magnitude", "count")
BINNINGS = ("shared", "hard", "smoothed")
# A narrower Gaussian is zero beside its centre, and a wider one flat over any image.
SMALLEST_SCALE, LARGEST_SCALE = 0.1, 100.0

# Bins of the fine histogram of "smoothed" (at least; a multiple of S), and how it is smoothed.
_FINE_BINS = 36
_SMOOTHING = np.array([1, 4, 6, 4, 1], dtype=np.float32) / 16
# Pixels handled at once: few enough for the processor's cache, many enough to hide the cost of a call.
_CHUNK_PIXELS = 1 << 16


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
        The weight of a vote: squared gradient magnitude, gradient magnitude, or 1.
    binning : {"shared", "hard", "smoothed"}
        ``shared`` splits a vote linearly between the two nearest bins, ``hard`` gives it to the nearest one
        (the next one, if halfway).
        ``smoothed`` shares votes in a fine histogram (36 bins, or the next multiple of S), smooths it
        circularly by (1 4 6 4 1)/16 and takes its peak to the nearest φ_s (the next one, if halfway). Bin s
        of the histogram it returns is then the highest value among the fine bins that belong to φ_s.
    smoothing : float
        Standard deviation in degrees of a Gaussian that the histogram is smoothed by, around the circle; 0 for none.
        Bins far narrower than the votes of a stroke spread want it.

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

    def __post_init__(self) -> None:
        if self.rotations < 1:
            raise InputError(f"the number of rotations must be at least 1, not {self.rotations}")
        for what, value, known in (
            ("gradient operator", self.operator, OPERATORS),
            ("weighting", self.weighting, WEIGHTINGS),
            ("binning", self.binning, BINNINGS),
        ):
            if value not in known:
                raise InputError(f"unknown {what} {value!r}: choose one of {', '.join(known)}")
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            raise InputError(
                f"the scale of the Gaussian must be in {SMALLEST_SCALE}..{LARGEST_SCALE} pixels, not {self.scale}"
            )
        if not 0 <= self.smoothing <= 180:
            raise InputError(f"the smoothing of the orientations must be in 0..180 degrees, not {self.smoothing}")

    def __call__(self, images: NDArray[np.floating]) -> NDArray[np.int64]:
        """Estimate the orientations only: as `estimate`, without the histograms."""
        return self.estimate(images)[0]

    def estimate(self, images: NDArray[np.floating]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Estimate the dominant orientation of each image.

        Parameters
        ----------
        images : (N, V) or (N, h, h) array in [0, 1]

        Returns
        -------
        indices : (N,) int64 array
            The fullest bin, the first one of equals. An image without contrast gets 0.
        histograms : (N, S) float32 array
        """
        histograms = self.histogram(images)
        return histograms.argmax(axis=1).astype(np.int64), histograms

    def hypotheses(self, images: NDArray[np.floating], share: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Find every orientation that an image may have: the peaks of its histogram that come near the highest one.

        Parameters
        ----------
        images : (N, V) or (N, h, h) array in [0, 1]
        share : float
            Least height of a further peak, as a share of the highest. At 1 there is the dominant orientation alone.

        Returns
        -------
        rows : (M,) int64 array
            The image of each hypothesis, ascending, M ≥ N.
        indices : (M,) int64 array
            Its orientation; of each image the dominant one first, then ascending.
        """
        dominant, histograms = self.estimate(images)
        peaks = np.zeros(histograms.shape, dtype=bool)
        if share < 1:
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
        """Count the votes for each orientation.

        Parameters
        ----------
        images : (N, V) or (N, h, h) array in [0, 1]

        Returns
        -------
        (N, S) float32 array; zero for an image without contrast
        """
        size = _side(images)
        flat = images.reshape(len(images), size * size)
        bins = self._fine_bins() if self.binning == "smoothed" else self.rotations
        votes = np.empty((len(flat), bins + 2), dtype=np.complex64)
        chunk = max(_CHUNK_PIXELS // (size * size), 1)
        most = min(chunk, len(flat))
        gradients = GradientFilter(most, size, self.operator, self.scale)
        counter = VoteCounter(most, size * size, bins, self.weighting, shared=self.binning != "hard")
        for start in range(0, len(flat), chunk):
            block = np.ascontiguousarray(flat[start : start + chunk], dtype=np.float32)
            votes[start : start + chunk] = counter.count(*gradients(block))
        histograms = self._coarse(shares(votes)) if self.binning == "smoothed" else shares(votes)
        return histograms @ self._blur() if self.smoothing else histograms

    def _blur(self) -> NDArray[np.float32]:
        """Give the (S, S) matrix that smooths histograms around the circle."""
        steps = np.abs(np.subtract.outer(np.arange(self.rotations), np.arange(self.rotations)))
        degrees = np.minimum(steps, self.rotations - steps) * (360.0 / self.rotations)
        weights = np.exp(-0.5 * (degrees / self.smoothing) ** 2)
        return np.asarray(weights / weights.sum(axis=0), dtype=np.float32)

    def _fine_bins(self) -> int:
        return math.ceil(_FINE_BINS / self.rotations) * self.rotations

    def _coarse(self, votes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Smooth (N, F) fine histograms and take the maximum around each φ_s: an (N, S) array."""
        reach = len(_SMOOTHING) // 2
        smooth = np.zeros_like(votes)
        for shift, factor in enumerate(_SMOOTHING, start=-reach):
            smooth += factor * np.roll(votes, shift, axis=1)
        width = votes.shape[1] // self.rotations
        around = np.roll(smooth, width // 2, axis=1).reshape(len(votes), self.rotations, width)
        return np.asarray(around.max(axis=2))


def _side(images: NDArray[np.floating]) -> int:
    """Give the side of square images of shape (N, V) or (N, h, h)."""
    if images.ndim in (2, 3):
        side = math.isqrt(math.prod(images.shape[1:]))
        if side > 0 and images.shape[1:] in ((side * side,), (side, side)):
            return side
    raise InputError(f"orientation needs square images of shape (N, V) or (N, h, h), not {images.shape}")
