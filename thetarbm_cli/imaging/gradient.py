"""Gradients of small images by matrix products.

Each gradient mask is an outer product: a smoothing along one axis, a derivative along the other. Written as
band matrices they turn a batch of images into its derivatives by two BLAS products each.

Beyond the frame the border pixels are repeated. For a digit on black that is the same as zero outside unless
the digit touches the frame; for any other image the frame itself makes no edge, and a constant image has no
gradient at all.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@lru_cache(maxsize=16)
def gradient_matrices(size: int, operator: str, scale: float) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Give the smoothing and the derivative of a line of pixels as matrices, made once (do not change them).

    Parameters
    ----------
    size : int
        Side of the images.
    operator : {"gaussian", "central", "sobel"}
        A Gaussian and its derivative (cut off at 4σ), no smoothing and central differences, or Sobel's masks.
    scale : float
        σ of the Gaussian in pixels; the others have no scale.

    Returns
    -------
    smooth, derive : (size, size) float32 arrays
        Brightness that grows by 1 a pixel has derivative 1 (for the Gaussian up to the cut-off).
    """
    if operator == "gaussian":
        reach = math.ceil(4 * scale)
        offset = np.arange(-reach, reach + 1)
        smoothing = np.exp(-0.5 * (offset / scale) ** 2)
        smoothing /= smoothing.sum()
        return _band_matrix(size, smoothing), _band_matrix(size, offset / scale**2 * smoothing)
    smoothing = np.array([0.0, 1, 0]) if operator == "central" else np.array([1, 2, 1]) / 4
    return _band_matrix(size, smoothing), _band_matrix(size, np.array([-0.5, 0, 0.5]))


class GradientFilter:
    """Takes the derivatives of square images, at most `images` at a time, in arrays that are made once.

    Parameters
    ----------
    images, size : int
        Largest n, and the side, of the images to come.
    operator, scale
        As in `gradient_matrices`.
    """

    def __init__(self, images: int, size: int, operator: str, scale: float) -> None:
        self.smooth, self.derive = gradient_matrices(size, operator, scale)
        self._half, self._right, self._down = (np.empty((images, size, size), dtype=np.float32) for _ in range(3))

    def __call__(self, images: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Give the derivatives along the columns and along the rows.

        Parameters
        ----------
        images : (n, V) float32 array, C-contiguous

        Returns
        -------
        right, down : (n, V) float32 arrays, good until the next call
        """
        size = len(self.smooth)
        lines = images.reshape(-1, size)
        half, right, down = (part[: len(images)] for part in (self._half, self._right, self._down))
        np.matmul(lines, self.derive.T, out=half.reshape(-1, size))
        np.matmul(self.smooth, half, out=right)
        np.matmul(lines, self.smooth.T, out=half.reshape(-1, size))
        np.matmul(self.derive, half, out=down)
        return right.reshape(images.shape), down.reshape(images.shape)


def _band_matrix(size: int, mask: NDArray[np.float64]) -> NDArray[np.float32]:
    """Write the correlation of a line of pixels with a mask as a (size, size) matrix, border repeated."""
    matrix = np.zeros((size, size))
    pixel = np.arange(size)
    for offset, factor in enumerate(mask, start=-(len(mask) // 2)):
        np.add.at(matrix, (pixel, np.clip(pixel + offset, 0, size - 1)), factor)
    return matrix.astype(np.float32)
