"""The γ-score: how much of a feature's variance remains when it is averaged over rotations (Table 2).

For an image x and a set S' of rotations, μ_j(x) = 1/S Σ_{s ∈ S'} h_j(T_s x) (Eq. 8), and
γ_j = var_x(μ_j) / var_x(h_j) (Eq. 9). A feature that ignores rotation has γ_j = 1; one whose values
under rotation are independent has 1/S, not 0. As the denominator sees the originals only, γ_j can pass 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import all_finite
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import Rotations

Features = NDArray[np.floating[Any]]

# Enough rows for an efficient product with the weights, few enough for the processor's cache.
DEFAULT_CHUNK = 1000

# A unit is dead if its features spread by no more than this many roundings of their mean. A unit that is
# stuck (at σ(b), or saturated at 1) has a variance of 0 up to the last bit of its values, and γ_j would be a
# ratio of rounding errors. The bound is relative: a unit of tiny but varying values is alive.
DEAD_ROUNDINGS = 4.0


@dataclass(frozen=True)
class GammaScore:
    """The γ-score of a set of features; units are dead whose features do not vary over the originals.

    Attributes
    ----------
    mean : of γ_j over the live units (the paper's γ); NaN if all are dead
    ratio_of_sums : Σ_j var(μ_j) / Σ_j var(h_j) over the live units; NaN if all are dead
    per_unit : (H,) array of γ_j, NaN for dead units
    bounded : mean over live units of var(μ_j) / var over all rotated copies, which is in [0, 1]; 0 for a unit whose
        rotated copies do not vary
    """

    mean: float
    ratio_of_sums: float
    per_unit: NDArray[np.float64]
    dead_units: int
    bounded: float
    images: int


class GammaAccumulator:
    """γ-score of H features, the `units`, that come in chunks of images; all sums in float64."""

    def __init__(self, units: int) -> None:
        self.units = units
        self._originals = Moments()
        self._averages = Moments()
        self._copies = Moments()
        self._rounding = 0.0
        self._room: Features | None = None

    def add(self, original: Features, rotated: Iterable[Features]) -> None:
        """Take in one chunk of images: features h_j(x), (n, H), and h_j(T_s x) of the same images for each rotation.

        One is asked for after the other, and `original` is done with before the first, so all may share one buffer.
        """
        self._rounding = max(self._rounding, float(np.finfo(original.dtype).eps))
        wide, total = (room[: len(original)] for room in self._room_for(len(original)))
        wide[...] = original
        self._originals.add(wide)
        copies = 0
        total[...] = 0
        for features in rotated:
            wide[...] = features
            total += wide
            self._copies.add(wide)
            copies += 1
        total /= copies
        self._averages.add(total)

    def _room_for(self, images: int) -> Features:
        """Give two float64 arrays of at least `images` rows, made once: new memory costs as much as a sum."""
        if self._room is None or self._room.shape[1] < images:
            self._room = np.empty((2, images, self.units), dtype=np.float64)
        return self._room

    def result(self) -> GammaScore:
        """Compute the γ-score of all images so far."""
        original, average, copies = (each.variance for each in (self._originals, self._averages, self._copies))
        spread = DEAD_ROUNDINGS * self._rounding * np.abs(self._originals.mean)
        live = np.sqrt(original) > spread
        per_unit = np.full(self.units, np.nan)
        per_unit[live] = average[live] / original[live]
        varied = live & (copies > 0)
        bounded = np.zeros(self.units)
        bounded[varied] = average[varied] / copies[varied]
        some = bool(live.any())
        return GammaScore(
            mean=float(per_unit[live].mean()) if some else math.nan,
            ratio_of_sums=float(average[live].sum() / original[live].sum()) if some else math.nan,
            per_unit=per_unit,
            dead_units=int(np.count_nonzero(~live)),
            bounded=float(bounded[live].mean()) if some else math.nan,
            images=self._originals.count,
        )


def gamma_score(
    features_of: Callable[..., Features],
    images: NDArray[np.float32],
    *,
    size: int,
    rotations: int = 9,
    offset: float = 20.0,
    sample: Callable[[Features, int, int], Features] | None = None,
    orientations: Callable[[Features, int, int], NDArray[np.int64]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> GammaScore:
    """Compute the γ-score of a model's features under the rotations S' = {φ_s + Δ}.

    Parameters
    ----------
    features_of : callable (n, V) array -> (n, H) array
        The model's transform, with whatever it does to an image first: a rotated image's orientation is
        estimated again.
    images : (N, V) float32 array
        Square images, row-major; only `DEFAULT_CHUNK` of them are held in rotated form at a time.
    size : int
        Side of an image; V = size².
    rotations : int
        S, the number of rotations φ_s = 360°·s/S.
    offset : float
        Δ in degrees, 0 ≤ Δ < 360/S.
    sample : callable (features, first, copy) -> features, optional
        Applied to the features of a chunk that begins with the image `first`; `copy` is 0 for the originals and counts
        the rotations from 1.
    orientations : callable (images, first, copy) -> (n,) array, optional
        Gives the orientations of such a chunk, for `features_of` to take as such.
    progress : callable (done, total), optional
        Called after each chunk with the number of images.
    """
    if not 0 <= offset < 360 / rotations:
        raise InputError(
            f"the offset of the γ-score is {offset}°, but with {rotations} rotations it must be at least 0° "
            f"and below {360 / rotations:g}°"
        )
    if len(images) < 2:
        raise InputError(f"the γ-score needs at least 2 images, there are {len(images)}")
    support = Rotations(size, rotations, "bilinear", offset)
    accumulator = GammaAccumulator(features_of(images[:1]).shape[1])
    for start in range(0, len(images), DEFAULT_CHUNK):
        batch = np.asarray(images[start : start + DEFAULT_CHUNK], dtype=np.float32)
        chunks = itertools.chain([batch], support.rotate_each(batch))
        if orientations is None:
            features = (features_of(each) for each in chunks)
        else:
            features = (
                features_of(each, orientations=orientations(each, start, copy)) for copy, each in enumerate(chunks)
            )
        if sample is not None:
            features = (sample(each, start, copy) for copy, each in enumerate(features))
        accumulator.add(next(features), features)
        if progress is not None:
            progress(start + len(batch), len(images))
    return accumulator.result()


class Moments:
    """Count, mean and sum of squared deviations of each column, merged chunk by chunk (Chan et al. 1979).

    Each chunk is centred at its own mean before squaring, and chunks are merged by the distance of their
    means: no large numbers are subtracted, whatever the offset of a column, and the order and size of the
    chunks matter to rounding only.
    """

    def __init__(self) -> None:
        self.count = 0
        # Numbers until the first chunk makes them (H,) arrays.
        self.mean: Any = 0.0
        self._squares: Any = 0.0

    def add(self, rows: Features) -> None:
        """Take in float64 rows (n, H), n ≥ 1, which are overwritten: a copy would cost as much as the sums."""
        count = len(rows)
        with np.errstate(invalid="ignore"):  # ∞ − ∞ is refused in the next line
            mean = rows.mean(axis=0)
        if not all_finite(mean):
            raise InputError("the given features have NaN or infinite values; train the model again")
        rows -= mean
        rows *= rows
        squares = rows.sum(axis=0)
        total = self.count + count
        distance = mean - self.mean
        self.mean = self.mean + distance * (count / total)
        self._squares = self._squares + squares + distance * distance * (self.count * (count / total))
        self.count = total

    @property
    def variance(self) -> Any:
        """Population variance of each column, (H,), as ``numpy.var`` gives it."""
        return self._squares / self.count
