"""Real digits for the tests of this room: pixels and random-projection features."""

import functools

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.sources.mnist import load_mnist


@functools.cache
def digits(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the first `count` digits as (count, 784) pixels in [0, 1], and their labels."""
    images, labels = load_mnist()
    return (images[:count].reshape(count, -1) / np.float32(255)).astype(np.float32), labels[:count].astype(np.int64)


@functools.cache
def sigmoid_features(count: int, units: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return sigmoid features of a random projection of the first `count` digits, and their labels."""
    pixels, labels = digits(count)
    random = np.random.default_rng(5)
    weights = random.normal(0, 0.3, (pixels.shape[1], units)).astype(np.float32)
    bias = random.normal(-1, 0.5, units).astype(np.float32)
    return (1 / (1 + np.exp(-(pixels @ weights + bias)))).astype(np.float32), labels
