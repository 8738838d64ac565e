"""Whitening: the contrast of every image normalised by itself, then all pixels decorrelated (ZCA)."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError

# As the TI-RBM's authors have them: added to the variance of an image, 10 for grey levels of 0 to 255, and to the
# eigenvalues of the covariance.
LEAST_VARIANCE = 10 / 255**2
RIDGE = 0.1

# Images handled at once.
_CHUNK = 1024


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

    mean_: NDArray[np.float32]
    matrix_: NDArray[np.float32]
    contrast_: NDArray[np.float32]

    @classmethod
    def from_arrays(cls, mean: NDArray[np.float32], matrix: NDArray[np.float32], contrast: NDArray[np.float32]) -> Self:
        """Restore a fitted whitener from its arrays."""
        if mean.ndim != 1 or matrix.shape != (mean.size, mean.size) or contrast.shape != (2,):
            raise InputError(f"mean {mean.shape}, matrix {matrix.shape} and contrast {contrast.shape} do not fit")
        whitener = cls()
        whitener.mean_, whitener.matrix_, whitener.contrast_ = (
            np.asarray(array, dtype=np.float32) for array in (mean, matrix, contrast)
        )
        return whitener

    def fit(self, images: NDArray[np.floating]) -> Self:
        """Learn the mean, the covariance and the usual contrast of images (N, V), N ≥ 1."""
        if images.ndim != 2 or not images.size:
            raise InputError(f"whitening needs images of shape (N, V) and at least one, not {images.shape}")
        count, pixels = images.shape
        total, products, contrast = np.zeros(pixels), np.zeros((pixels, pixels)), np.zeros(2)
        for start in range(0, count, _CHUNK):
            normalised, brightness, spread = normalise_contrast(images[start : start + _CHUNK].astype(np.float64))
            total += normalised.sum(axis=0)
            products += normalised.T @ normalised
            contrast += brightness.sum(), spread.sum()
        mean = total / count
        values, vectors = np.linalg.eigh(products / count - np.outer(mean, mean))
        # Rounding may leave eigenvalues a little below 0.
        self.mean_ = mean.astype(np.float32)
        self.matrix_ = ((vectors / np.sqrt(np.maximum(values, 0) + RIDGE)) @ vectors.T).astype(np.float32)
        self.contrast_ = (contrast / count).astype(np.float32)
        return self

    def transform(self, images: NDArray[np.floating]) -> NDArray[np.float32]:
        """Whiten images (N, V)."""
        result = np.empty(images.shape, dtype=np.float32)
        for start in range(0, len(images), _CHUNK):
            block = slice(start, start + _CHUNK)
            normalised, _, _ = normalise_contrast(images[block])
            normalised -= self.mean_
            np.matmul(normalised, self.matrix_, out=result[block])
        return result

    def inverse(self, whitened: NDArray[np.floating], like: NDArray[np.floating] | None = None) -> NDArray[np.float32]:
        """Undo `transform`, with the brightness and contrast of the images `like` (N, V), or else the usual ones."""
        normalised = np.linalg.solve(self.matrix_.astype(np.float64), whitened.T).T + self.mean_
        brightness, spread = self.contrast_ if like is None else normalise_contrast(like)[1:]
        return np.asarray(normalised * spread + brightness, dtype=np.float32)


def normalise_contrast(
    images: NDArray[np.floating],
) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.floating]]:
    """Centre images (N, V) in [0, 1] and divide by their spread; also what was taken off and divided by, (N, 1)."""
    brightness = images.mean(axis=1, keepdims=True)
    centred = images - brightness
    spread = np.sqrt((centred * centred).mean(axis=1, keepdims=True) + images.dtype.type(LEAST_VARIANCE))
    centred /= spread
    return centred, brightness, spread
