"""The γ-score: how much of a feature's variance remains when it is averaged over rotations (Table 2).

For an image x and a set S' of rotations, μ_j(x) = 1/S Σ_{s ∈ S'} h_j(T_s x) (Eq. 8), and
γ_j = var_x(μ_j) / var_x(h_j) (Eq. 9). A feature that ignores rotation has γ_j = 1; one whose values
under rotation are independent has 1/S, not 0. As the denominator sees the originals only, γ_j can pass 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import Rotations

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
    """γ-score of H features, the `units`, that come in chunks of images; all sums in float64, on their backend."""

    def __init__(self, units: int, backend: Backend | None = None) -> None:
        self.units = units
        self.backend = Backend() if backend is None else backend
        self._originals = Moments(self.backend)
        self._averages = Moments(self.backend)
        self._copies = Moments(self.backend)
        self._rounding = 0.0
        self._room: Array | None = None

    def add(self, original: Array, rotated: Iterable[Array]) -> None:
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

    def _room_for(self, images: int) -> Array:
        """Give two float64 arrays of at least `images` rows, made once: new memory costs as much as a sum."""
        if self._room is None or self._room.shape[1] < images:
            self._room = self.backend.xp.empty((2, images, self.units), dtype=np.float64)
        return self._room

    def result(self) -> GammaScore:
        """Compute the γ-score of all images so far, from moments that only now come to the host."""
        (mean, original), (_, average), (_, copies) = (
            each.on_host() for each in (self._originals, self._averages, self._copies)
        )
        spread = DEAD_ROUNDINGS * self._rounding * np.abs(mean)
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
    features_of: Callable[..., Array],
    images: NDArray[np.float32],
    *,
    size: int,
    rotations: int = 9,
    offset: float = 20.0,
    sample: Callable[[Array, int, int], Array] | None = None,
    orientations: Callable[[Array, int, int], NDArray[np.int64]] | None = None,
    copies_of: Callable[[Array, int], Iterable[Array]] | None = None,
    progress: Callable[[int, int], None] | None = None,
    backend: Backend | None = None,
) -> GammaScore:
    """Compute the γ-score of a model's features under the rotations S' = {φ_s + Δ}.

    Parameters
    ----------
    features_of : callable (n, V) array -> (n, H) array
        The model's transform, with whatever it does to an image first: a rotated image's orientation is
        estimated again. On another `backend` than NumPy, it takes and gives arrays of that.
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
    copies_of : callable (images, first) -> iterable of features, optional
        Gives the features of a chunk's rotated copies, for one rotation after the other; by default `features_of` them.
    progress : callable (done, total), optional
        Called after each chunk with the number of images.
    backend : Backend, optional
        Where images are rotated and features summed up; NumPy by default.
    """
    backend = Backend() if backend is None else backend
    if not 0 <= offset < 360 / rotations:
        raise InputError(
            f"the offset of the γ-score is {offset}°, but with {rotations} rotations it must be at least 0° "
            f"and below {360 / rotations:g}°"
        )
    if len(images) < 2:
        raise InputError(f"the γ-score needs at least 2 images, there are {len(images)}")
    support = Rotations(size, rotations, "bilinear", offset, backend)
    accumulator = None
    for start in range(0, len(images), DEFAULT_CHUNK):
        batch = backend.asarray(np.asarray(images[start : start + DEFAULT_CHUNK], dtype=np.float32))
        chunks = itertools.chain([batch], support.rotate_each(batch) if copies_of is None else ())
        features: Iterator[Array]
        if orientations is None:
            features = (features_of(each) for each in chunks)
        else:
            features = (
                features_of(each, orientations=orientations(each, start, copy)) for copy, each in enumerate(chunks)
            )
        if copies_of is not None:
            features = itertools.chain(features, copies_of(batch, start))
        if sample is not None:
            features = (sample(each, start, copy) for copy, each in enumerate(features))
        original = next(features)
        accumulator = accumulator or GammaAccumulator(original.shape[1], backend)
        accumulator.add(original, features)
        if progress is not None:
            progress(start + len(batch), len(images))
    assert accumulator is not None
    return accumulator.result()


class Moments:
    """Count, mean and sum of squared deviations of each column, merged chunk by chunk (Chan et al. 1979).

    Each chunk is centred at its own mean before squaring, and chunks are merged by the distance of their
    means: no large numbers are subtracted, whatever the offset of a column, and the order and size of the
    chunks matter to rounding only.
    """

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.count = 0
        # Numbers until the first chunk makes them (H,) arrays.
        self._mean: Any = 0.0
        self._squares: Any = 0.0

    def add(self, rows: Array) -> None:
        """Take in float64 rows (n, H), n ≥ 1, which are overwritten: a copy would cost as much as the sums."""
        count = len(rows)
        total = self.count + count
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is refused in the end
            mean = rows.mean(axis=0)
            rows -= mean
            rows *= rows
            distance = mean - self._mean
            self._mean = self._mean + distance * (count / total)
            self._squares = self._squares + rows.sum(axis=0) + distance * distance * (self.count * (count / total))
        self.count = total

    def on_host(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Give mean and population variance of each column, (H,) each, as NumPy gives them."""
        mean, squares = (np.asarray(self.backend.to_host(each)) for each in (self._mean, self._squares))
        if not (np.isfinite(mean).all() and np.isfinite(squares).all()):
            raise InputError("the given features have NaN or infinite values; train the model again")
        return mean, squares / max(self.count, 1)
