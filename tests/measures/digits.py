"""Real digits for the tests of this room: pixels and random-projection features, read from the package."""

import functools
import lzma
from importlib import resources

import numpy as np
from numpy.typing import NDArray

PIXELS = 28 * 28


@functools.cache
def digits(count: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return the first `count` digits as (count, 784) pixels in [0, 1], and their labels."""
    packed = resources.files("thetarbm_cli").joinpath("data/shipped/mnist.idx.xz")
    with packed.open("rb") as stream, lzma.open(stream) as content:
        header = content.read(16)
        total = int.from_bytes(header[4:8], "big")
        pixels = np.frombuffer(content.read(total * PIXELS), np.uint8).reshape(total, PIXELS)[:count]
        content.read(8)
        labels = np.frombuffer(content.read(count), np.uint8)
    return (pixels / np.float32(255)).astype(np.float32), labels.astype(np.int64)


@functools.cache
def sigmoid_features(count: int, units: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return sigmoid features of a random projection of the first `count` digits, and their labels."""
    pixels, labels = digits(count)
    random = np.random.default_rng(5)
    weights = random.normal(0, 0.3, (PIXELS, units)).astype(np.float32)
    bias = random.normal(-1, 0.5, units).astype(np.float32)
    return (1 / (1 + np.exp(-(pixels @ weights + bias)))).astype(np.float32), labels
