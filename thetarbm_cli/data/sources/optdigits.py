"""optdigits-rot: the 1,797 handwritten digits that come with scikit-learn, enlarged and rotated.

They are the test part of *Optical Recognition of Handwritten Digits* (Alpaydin and Kaynak 1998, UCI Machine Learning
Repository, CC BY 4.0), 8×8 pixels of 17 grey levels, by other writers than MNIST's. Each is enlarged to 20×20 pixels
in a frame of 28×28, as MNIST's digits are, and occurs once.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.recipes import OPTDIGITS_STREAM, TEST, TRAIN, VALID, Recipe, Request
from thetarbm_cli.data.rotated_digits import rotating_recipe

SPLIT = {TRAIN: 1000, VALID: 197, TEST: 600}
SIDE, FRAME, LEVELS = 20, 28, 16


def rotated_recipe(request: Request) -> Recipe:
    """Make optdigits-rot: every digit once, rotated bilinearly."""
    return rotating_recipe(request, load_enlarged, OPTDIGITS_STREAM, bilinear=True, sizes=SPLIT)


def load_enlarged() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Load the digits, (1797, 28, 28) and (1797,) uint8, enlarged bilinearly in whole numbers."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    small = digits.images.astype(np.int64)
    # Pixel i of the large image lies at (i + 1/2)·8/20 - 1/2 of the small one, a whole number of tenths.
    tenths = np.clip(4 * np.arange(SIDE) - 3, 0, 10 * (small.shape[1] - 1))
    before = np.minimum(tenths // 10, small.shape[1] - 2)
    weights = np.zeros((SIDE, small.shape[1]), dtype=np.int64)
    weights[np.arange(SIDE), before] = 10 * (before + 1) - tenths
    weights[np.arange(SIDE), before + 1] = tenths - 10 * before
    large = weights @ small @ weights.T  # of 100 · LEVELS
    edge = (FRAME - SIDE) // 2
    images = np.zeros((len(small), FRAME, FRAME), dtype=np.uint8)
    images[:, edge : edge + SIDE, edge : edge + SIDE] = (255 * large + 50 * LEVELS) // (100 * LEVELS)
    return images, digits.target.astype(np.uint8)
