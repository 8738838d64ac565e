"""Which way digits look: as in MNIST, or mirrored, as when rows and columns were swapped."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.mnist import TRAIN_IMAGES, load_mnist
from thetarbm_cli.data.summary import as_unit_floats
from thetarbm_cli.data.turning import turn_exactly

# Digits that differ from their mirror image in any turn; 0, 1 and 8 tell nothing.
TELLING = (2, 3, 4, 5, 6, 7, 9)
SAMPLE_PER_CLASS = 40
TEMPLATES_PER_CLASS = 60
TURNS = 24


def looks_transposed(images: NDArray[np.generic], labels: NDArray[np.integer]) -> tuple[bool, float, float]:
    """Say whether turned digits resemble MNIST more when they are transposed.

    Each image of a sample is compared with MNIST digits of its class in 24 turns, as it is and transposed;
    what counts is the best normalised correlation of each, on average.

    Parameters
    ----------
    images : (n, 28, 28) array, uint8 or float32 in [0, 1]
    labels : (n,) integer array of digits 0..9

    Returns
    -------
    transposed : whether the transposed images resemble MNIST more
    score_as_is, score_transposed : mean best correlations, in [-1, 1]
    """
    mnist_images, mnist_labels = load_mnist()
    as_is: list[NDArray[np.float32]] = []
    transposed: list[NDArray[np.float32]] = []
    for digit in TELLING:
        templates = _templates(mnist_images[:TRAIN_IMAGES][mnist_labels[:TRAIN_IMAGES] == digit])
        sample = images[np.flatnonzero(labels == digit)[:SAMPLE_PER_CLASS]]
        as_is.append(_best_correlation(sample, templates))
        transposed.append(_best_correlation(sample.transpose(0, 2, 1), templates))
    score_as_is, score_transposed = (_mean(np.concatenate(scores)) for scores in (as_is, transposed))
    return score_transposed > score_as_is, score_as_is, score_transposed


def _templates(digits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Turn the first digits of a class all round: (784, templates) array of unit columns."""
    chosen = np.repeat(digits[:TEMPLATES_PER_CLASS], TURNS, axis=0)
    degrees = np.tile(np.arange(TURNS) * (360.0 / TURNS), len(chosen) // TURNS)
    return _normalised(turn_exactly(chosen, degrees)).T


def _normalised(images: NDArray[np.generic]) -> NDArray[np.float32]:
    """Flatten, subtract each image's mean and scale it to length 1; a blank image stays zero."""
    flat = as_unit_floats(images)
    flat = flat - flat.mean(axis=1, keepdims=True)
    length = np.sqrt(np.square(flat).sum(axis=1, keepdims=True))
    unit: NDArray[np.float32] = flat / np.where(length > 0, length, np.float32(1))
    return unit


def _best_correlation(sample: NDArray[np.generic], templates: NDArray[np.float32]) -> NDArray[np.float32]:
    best: NDArray[np.float32] = (_normalised(sample) @ templates).max(axis=1)
    return best


def _mean(scores: NDArray[np.float32]) -> float:
    return float(scores.mean()) if len(scores) else 0.0
