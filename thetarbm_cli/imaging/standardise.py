"""What images go through before a network sees them: standardisation, or whitening.

Standardised, each pixel has zero mean and unit variance, over all images or by orientation group. Whitened, the
contrast of every image is normalised by itself, then all pixels are decorrelated (ZCA).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend

# As the TI-RBM's authors have them: added to the variance of an image, 10 for grey levels of 0 to 255, and to the
# eigenvalues of the covariance.
LEAST_VARIANCE = 10 / 255**2
RIDGE = 0.1

# Images whose float64 copy is held at once.
_CHUNK = 1024
# Images standardised at once: few enough for the processor's cache.
_BLOCK = 64

Images = NDArray[np.floating[Any]]
Orientations = NDArray[np.int64]


class Standardiser:
    """Centres each pixel and divides it by its standard deviation.

    Fit it on training images only. A group with no or one image at `fit` has no variance of its own: it takes
    the statistics of all images, so that every index in 0 … S−1 can be transformed later.

    Parameters
    ----------
    floor : float
        A pixel whose standard deviation is at most `floor`, or which is constant up to rounding, keeps
        scale 1: it is only centred. 0 means constant pixels alone, as the paper reads.
    rotations : int
        S: one group for each orientation index 0 … S−1; 1 for one group of all images.

    Attributes
    ----------
    mean_, scale_ : (S, V) float32 arrays
    """

    # As weights are stored.
    ARRAYS = ("standard_mean", "standard_scale")

    mean_: NDArray[np.float32]
    scale_: NDArray[np.float32]

    def __init__(self, floor: float = 0.0, rotations: int = 1) -> None:
        self.floor = floor
        self.rotations = rotations

    @classmethod
    def from_arrays(cls, mean: NDArray[np.float32], scale: NDArray[np.float32]) -> Self:
        """Restore a fitted standardiser from its `mean_` and `scale_` arrays."""
        standardiser = cls(rotations=len(mean))
        standardiser.mean_, standardiser.scale_ = mean, scale
        return standardiser

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        """Give what was learned; the inverse of `from_arrays`."""
        return dict(zip(self.ARRAYS, (self.mean_, self.scale_), strict=True))

    def fit(self, images: Images, orientations: Orientations | None = None) -> Self:
        """Learn mean and scale of each pixel of images (N, V), N ≥ 1, in each group; by orientations (N,), if any."""
        group = self._groups(images, orientations)
        every = np.arange(len(images))
        few = np.bincount(group, minlength=self.rotations).min() < 2
        groups = [_PixelSums.of(images, np.flatnonzero(group == index)) for index in range(self.rotations)]
        return self._take(groups, _PixelSums.of(images, every) if few else _PixelSums())

    def fit_parts(self, parts: Iterable[tuple[Images, Orientations | None]]) -> Self:
        """Learn the same, to rounding, from images and orientations that come some at a time."""
        everything, groups = _PixelSums(), [_PixelSums() for _ in range(self.rotations)]
        for images, orientations in parts:
            everything.add(images)
            group = self._groups(images, orientations)
            for index in np.unique(group):
                groups[index].add(images[group == index])
        return self._take(groups, everything)

    def _take(self, groups: list[_PixelSums], everything: _PixelSums) -> Self:
        """Take mean and scale of each group; of one without a variance, those of all images."""
        statistics = [(own if own.count >= 2 else everything).statistics(self.floor) for own in groups]
        self.mean_, self.scale_ = (np.array(each, dtype=np.float32) for each in zip(*statistics, strict=True))
        return self

    def on(self, backend: Backend) -> Self:
        """Copy it to a device, to transform images that are there."""
        copied = type(self)(self.floor, self.rotations)
        copied.mean_, copied.scale_ = backend.asarray(self.mean_), backend.asarray(self.scale_)
        return copied

    def transform(self, images: Array, orientations: Array | None = None) -> Array:
        """Standardise images (N, V) by the statistics of their groups."""
        if not isinstance(images, np.ndarray):
            of = slice(0, 1) if orientations is None else orientations
            return (images - self.mean_[of]) / self.scale_[of]
        group = self._groups(images, orientations)
        result = np.empty(images.shape, dtype=np.float32)
        for start in range(0, len(images), _BLOCK):
            block, of = slice(start, start + _BLOCK), group[start : start + _BLOCK]
            np.subtract(images[block], self.mean_[of], out=result[block], casting="same_kind")
            result[block] /= self.scale_[of]
        return result

    def inverse(
        self, images: Images, orientations: Orientations | None = None, like: Images | None = None
    ) -> NDArray[np.float32]:
        """Undo `transform`: images (N, V) back in the scale of their pixels, which no image `like` them changes."""
        group = self._groups(images, orientations)
        return np.asarray(images * self.scale_[group] + self.mean_[group], dtype=np.float32)

    def _groups(self, images: Images, orientations: Orientations | None) -> Orientations:
        """Give the group of each image, (N,): its orientation, or 0."""
        return np.zeros(len(images), dtype=np.int64) if orientations is None else orientations


class _PixelSums:
    """Sums over images, in float64, of which mean and deviation of each pixel follow."""

    count = 0

    @classmethod
    def of(cls, images: Images, rows: NDArray[np.int64]) -> _PixelSums:
        """Sum up some of the images."""
        sums = cls()
        for start in range(0, rows.size, _CHUNK):
            sums.add(images[rows[start : start + _CHUNK]])
        return sums

    def add(self, images: Images) -> None:
        """Take in images (n, V), n ≥ 1."""
        if not self.count:
            # Sums around the first image: no cancellation where pixels hardly vary, exact zero where never.
            self._origin = images[0].astype(np.float64)
            self._total, self._squares = np.zeros_like(self._origin), np.zeros_like(self._origin)
        offset = images - self._origin
        self._total += offset.sum(axis=0)
        self._squares += np.einsum("nv,nv->v", offset, offset)
        self.count += len(images)

    def statistics(self, floor: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Compute mean and scale of each pixel, two (V,) arrays; the scale is 1 where the deviation is at the floor."""
        shift = self._total / self.count
        deviation = np.sqrt(np.maximum(self._squares / self.count - shift**2, 0))
        # Below the resolution of float32 there are no two different values.
        noise = np.finfo(np.float32).eps * np.abs(self._origin + shift)
        deviation[(deviation <= floor) | (deviation <= noise)] = 1
        return self._origin + shift, deviation


class Whitener:
    """Normalises the contrast of each image and whitens by ZCA, W = V (D + ridge)^(-1/2) V' of the covariance V D V'.

    Fit it on training images only. In grey levels an image becomes (x - its mean) / √(its variance + 10): what is lost
    of it by that, its brightness and contrast, `inverse` takes from the image itself or from the mean of all.

    Attributes
    ----------
    mean_ : (V,) float32 array
        Mean of the training images of normalised contrast.
    matrix_ : (V, V) float32 array
        W, symmetric.
    contrast_ : (2,) float32 array
        Brightness and contrast of the training images, on average.
    """

    # As weights are stored.
    ARRAYS = ("whiten_mean", "whiten_matrix", "whiten_contrast")

    mean_: NDArray[np.float32]
    matrix_: NDArray[np.float32]
    contrast_: NDArray[np.float32]

    @classmethod
    def from_arrays(cls, mean: NDArray[np.float32], matrix: NDArray[np.float32], contrast: NDArray[np.float32]) -> Self:
        """Restore a fitted whitener from its arrays."""
        whitener = cls()
        whitener.mean_, whitener.matrix_, whitener.contrast_ = mean, matrix, contrast
        return whitener

    def to_arrays(self) -> dict[str, NDArray[np.float32]]:
        """Give what was learned; the inverse of `from_arrays`."""
        return dict(zip(self.ARRAYS, (self.mean_, self.matrix_, self.contrast_), strict=True))

    def fit(self, images: Images) -> Self:
        """Learn the mean, the covariance and the usual contrast of images (N, V), N ≥ 1."""
        return self.fit_parts((images[start : start + _CHUNK], None) for start in range(0, len(images), _CHUNK))

    def fit_parts(self, parts: Iterable[tuple[Images, Orientations | None]]) -> Self:
        """Learn the same from images that come some at a time, whatever their orientations."""
        count, total, products, contrast = 0, np.zeros(()), np.zeros(()), np.zeros(2)
        for images, _ in parts:
            normalised, brightness, spread = normalise_contrast(images.astype(np.float64))
            total = total + normalised.sum(axis=0)
            products = products + normalised.T @ normalised
            contrast += brightness.sum(), spread.sum()
            count += len(images)
        mean = total / count
        values, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
        # Rounding may leave eigenvalues a little below 0.
        self.mean_ = mean.astype(np.float32)
        self.matrix_ = ((vectors / np.sqrt(np.maximum(values, 0) + RIDGE)) @ vectors.T).astype(np.float32)
        self.contrast_ = (contrast / count).astype(np.float32)
        return self

    def on(self, backend: Backend) -> Self:
        """Copy it to a device, to transform images that are there."""
        return self.from_arrays(*map(backend.asarray, (self.mean_, self.matrix_, self.contrast_)))

    def transform(self, images: Array, orientations: Array | None = None) -> Array:
        """Whiten images (N, V), whatever their orientations."""
        if not isinstance(images, np.ndarray):
            return (normalise_contrast(images)[0] - self.mean_) @ self.matrix_
        result = np.empty(images.shape, dtype=np.float32)
        for start in range(0, len(images), _CHUNK):
            block = slice(start, start + _CHUNK)
            normalised, _, _ = normalise_contrast(images[block])
            normalised -= self.mean_
            np.matmul(normalised, self.matrix_, out=result[block])
        return result

    def inverse(
        self, whitened: Images, orientations: Orientations | None = None, like: Images | None = None
    ) -> NDArray[np.float32]:
        """Undo `transform`, with the brightness and contrast of the images `like` (N, V), or else the usual ones."""
        normalised = np.linalg.solve(self.matrix_.astype(np.float64), whitened.T).T + self.mean_
        brightness, spread = self.contrast_ if like is None else normalise_contrast(like)[1:]
        return np.asarray(normalised * spread + brightness, dtype=np.float32)


def normalise_contrast(images: Array) -> tuple[Array, Array, Array]:
    """Centre images (N, V) in [0, 1] and divide by their spread; also what was taken off and divided by, (N, 1)."""
    brightness = images.mean(axis=1, keepdims=True)
    centred = images - brightness
    spread = ((centred * centred).mean(axis=1, keepdims=True) + images.dtype.type(LEAST_VARIANCE)) ** 0.5
    centred /= spread
    return centred, brightness, spread
