"""Sets of turned images, and mnist, with the same bytes on every machine and NumPy version.

Three things ensure that. Random numbers are the raw 64-bit output of PCG64, whose stream NumPy guarantees (it
does not guarantee the methods of ``Generator``): a permutation is the stable order of such numbers, an angle
their upper 53 bits as a fraction of 360°. The turning uses single IEEE operations only
(:mod:`thetarbm_cli.data.turning`). And pixels are rounded to whole values in 0..255, as in MNIST itself.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.mnist import TEST_IMAGES, TRAIN_IMAGES, load_mnist
from thetarbm_cli.data.splits import TEST, TRAIN, VALID, split_column
from thetarbm_cli.data.turning import Progress, turn_exactly

# Of mnist-rot, and of every set that is made in its way.
ROTATED_SPLIT = {TRAIN: 10_000, VALID: 2_000, TEST: 50_000}
MNIST_SPLIT = {TRAIN: 10_000, VALID: 2_000, TEST: TEST_IMAGES}

# Keeps data sets made from one seed independent of each other; the numbers are part of every prepared file.
# Stream 0 of a seed is also what numpy.random.default_rng(seed) gives, from which users may have made their images:
# their split has a stream of its own.
MNIST_ROT_STREAM, MNIST_STREAM, FASHION_ROT_STREAM, OWN_STREAM = 0, 1, 2, 3

Arrays = dict[str, NDArray[np.generic]]


def raw_numbers(count: int, seed: int, stream: int = MNIST_ROT_STREAM) -> NDArray[np.uint64]:
    """Draw 64-bit numbers from PCG64.

    Parameters
    ----------
    count : how many
    seed : the data seed
    stream : keeps data sets made from one seed independent of each other

    Returns
    -------
    (count,) uint64 array
    """
    return np.random.PCG64([seed, stream]).random_raw(count)


def uniform_degrees(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Turn raw numbers into angles, uniform on [0°, 360°)."""
    fractions = np.multiply((numbers >> np.uint64(11)).astype(np.float64), 2.0**-53)
    return np.multiply(fractions, 360.0)


def generate_rotated(
    images: NDArray[np.uint8],
    labels: NDArray[np.uint8],
    seed: int = 0,
    *,
    stream: int,
    sizes: dict[int, int] = ROTATED_SPLIT,
    progress: Progress | None = None,
) -> Arrays:
    """Make a set in the way of mnist-rot: distinct images, each turned by its own uniform angle.

    Parameters
    ----------
    images : (m, h, h) uint8 array
    labels : (m,) uint8 array
    seed : the data seed; it decides which images, in which order, and the angles
    stream : as in `raw_numbers`
    sizes : images of each part; those of mnist-rot unless a test says otherwise
    progress : called with (images done, images in all)

    Returns
    -------
    dict
        For n images in all parts: ``images`` (n, h, h) uint8; ``labels`` (n,) int64; ``split`` (n,) uint8, by
        default 10,000 zeros (train), 2,000 ones (valid), 50,000 twos (test); ``angles`` (n,) float64,
        counter-clockwise degrees; ``source_indices`` (n,) int64 into the m images.
    """
    split = split_column(sizes)
    numbers = raw_numbers(len(images) + len(split), seed, stream)
    chosen = np.argsort(numbers[: len(images)], kind="stable")[: len(split)]
    angles = uniform_degrees(numbers[len(images) :])
    return {
        "images": turn_exactly(images[chosen], angles, progress),
        "labels": labels[chosen].astype("<i8"),
        "split": split,
        "angles": angles.astype("<f8"),
        "source_indices": chosen.astype("<i8"),
    }


def generate_mnist_rot(seed: int = 0, progress: Progress | None = None) -> Arrays:
    """Make mnist-rot: 62,000 distinct images of the shipped MNIST, turned; see `generate_rotated`."""
    return generate_rotated(*load_mnist(), seed, stream=MNIST_ROT_STREAM, progress=progress)


def generate_mnist(seed: int = 0) -> Arrays:
    """Make the data of the paper's "Training on mnist": a random 10,000 of MNIST's training images.

    Validation is 2,000 other training images, test is MNIST's own 10,000 test images in their order.

    Parameters
    ----------
    seed : the data seed; it decides which training images, in which order

    Returns
    -------
    dict
        As `generate_rotated`, with 22,000 images and every angle 0.
    """
    images, labels = load_mnist()
    split = split_column(MNIST_SPLIT)
    order = np.argsort(raw_numbers(TRAIN_IMAGES, seed, MNIST_STREAM), kind="stable")
    drawn = order[: MNIST_SPLIT[TRAIN] + MNIST_SPLIT[VALID]]
    chosen = np.concatenate([drawn, np.arange(TRAIN_IMAGES, TRAIN_IMAGES + TEST_IMAGES)])
    return {
        "images": images[chosen],
        "labels": labels[chosen].astype("<i8"),
        "split": split,
        "angles": np.zeros(len(chosen), dtype="<f8"),
        "source_indices": chosen.astype("<i8"),
    }
