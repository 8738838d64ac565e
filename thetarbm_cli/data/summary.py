"""What prepared data looks like in numbers: parts, classes, pixel statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.splits import PARTS

CHUNK = 2000


def summarise(images: NDArray[np.generic], labels: NDArray[np.int64], split: NDArray[np.uint8]) -> dict[str, Any]:
    """Count and average.

    Parameters
    ----------
    images : (n, h, h) uint8 or float32 array
    labels : (n,) int64 array
    split : (n,) uint8 array

    Returns
    -------
    dict
        ``splits`` {part: images}; ``classes`` {part: {class as text: images}}; ``pixel_mean`` and
        ``pixel_std`` over all pixels, in [0, 1].
    """
    classes: dict[str, dict[str, int]] = {}
    for name, number in PARTS.items():
        values, counts = np.unique(labels[split == number], return_counts=True)
        classes[name] = {str(value): int(count) for value, count in zip(values, counts, strict=True)}
    mean, std = _pixel_statistics(images)
    return {
        "splits": {name: int((split == number).sum()) for name, number in PARTS.items()},
        "classes": classes,
        "pixel_mean": mean,
        "pixel_std": std,
    }


def _pixel_statistics(images: NDArray[np.generic]) -> tuple[float, float]:
    """Mean and standard deviation of all pixels in [0, 1], in double precision without a double copy."""
    scale = 255.0 if images.dtype == np.uint8 else 1.0
    total = squares = 0.0
    for start in range(0, len(images), CHUNK):
        values = images[start : start + CHUNK].astype(np.float64)
        total += float(values.sum())
        squares += float(np.square(values).sum())
    mean = total / images.size
    variance = max(squares / images.size - mean * mean, 0.0)
    return mean / scale, variance**0.5 / scale


def as_unit_floats(images: NDArray[np.generic]) -> NDArray[np.float32]:
    """Give images (n, h, h), uint8 or float32, as (n, h*h) float32 in [0, 1]."""
    flat = images.reshape(len(images), images.shape[1] * images.shape[2])
    if flat.dtype == np.uint8:
        return flat.astype(np.float32) / np.float32(255)
    return flat.astype(np.float32, copy=False)
