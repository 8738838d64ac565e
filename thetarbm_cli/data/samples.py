"""A few shipped digits at once, for checks that need no prepared data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from skimage.transform import resize

from thetarbm_cli.data.mnist import load_mnist


def sample_digits(count: int, size: int = 28) -> NDArray[np.float32]:
    """The first `count` digits of MNIST at a side of `size` pixels, (count, size²) in [0, 1]."""
    images, _ = load_mnist()
    digits = images[:count].astype(np.float32) / 255
    if size != digits.shape[1]:
        digits = np.stack([resize(digit, (size, size), anti_aliasing=True) for digit in digits])
    return digits.reshape(count, size * size).astype(np.float32)
