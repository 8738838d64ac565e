"""MNIST as it ships inside the package, and the data sets that are made from it: mnist-rot and mnist.

MNIST is Yann LeCun's and Corinna Cortes's, under CC BY-SA 3.0. The shipped file is the four original idx
files one after another, compressed with xz; ``scripts/build_mnist.py`` rebuilds it.
"""

from __future__ import annotations

import lzma
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.recipes import (
    MNIST_BILINEAR_STREAM,
    MNIST_ROT_STREAM,
    MNIST_STREAM,
    Arrays,
    Progress,
    Recipe,
    Request,
    raw_numbers,
)
from thetarbm_cli.data.rotated_digits import rotating_recipe
from thetarbm_cli.data.sources.idx import IMAGES_HEADER, LABELS_HEADER, read_set
from thetarbm_cli.data.splits import TEST, TRAIN, VALID, split_column
from thetarbm_cli.errors import ThetaRBMError

SHIPPED = "shipped/mnist.idx.xz"
SIDE = 28
TRAIN_IMAGES = 60_000
TEST_IMAGES = 10_000

# The name of the recipe of mnist in sidecars.
MNIST_METHOD = "PCG64 raw numbers"
MNIST_SPLIT = {TRAIN: 10_000, VALID: 2_000, TEST: TEST_IMAGES}

# The four idx files in the order in which they are shipped: name -> MD5 of the uncompressed file.
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
# Bytes of each of the four files: a header of big-endian 32-bit numbers, then one byte a pixel or label.
SIZES = {
    "train-images-idx3-ubyte": IMAGES_HEADER + TRAIN_IMAGES * SIDE * SIDE,
    "train-labels-idx1-ubyte": LABELS_HEADER + TRAIN_IMAGES,
    "t10k-images-idx3-ubyte": IMAGES_HEADER + TEST_IMAGES * SIDE * SIDE,
    "t10k-labels-idx1-ubyte": LABELS_HEADER + TEST_IMAGES,
}


def read_shipped_files() -> dict[str, bytes]:
    """Unpack the shipped file into the four idx files; xz carries a checksum of its own."""
    resource = files("thetarbm_cli.data").joinpath(SHIPPED)
    try:
        content = lzma.decompress(resource.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise ThetaRBMError(f"the MNIST file of the package is damaged ({error}); install thetarbm again") from error
    if len(content) != sum(SIZES.values()):
        raise ThetaRBMError("the MNIST file of the package has the wrong length; install thetarbm again")
    parts: dict[str, bytes] = {}
    start = 0
    for name, size in SIZES.items():
        parts[name] = content[start : start + size]
        start += size
    return parts


@lru_cache(maxsize=1)
def load_mnist() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Load MNIST: the 60,000 training images, then the 10,000 test images, in their original order.

    Returns
    -------
    images : (70000, 28, 28) uint8 array, read-only
    labels : (70000,) uint8 array, read-only
    """
    return read_set(read_shipped_files())


def sample_digits(count: int, size: int = SIDE) -> NDArray[np.float32]:
    """Give the first `count` digits of MNIST at a side of `size` pixels, (count, size²) in [0, 1]."""
    from skimage.transform import resize

    images, _ = load_mnist()
    digits = images[:count].astype(np.float32) / 255
    if size != digits.shape[1]:
        digits = np.stack([resize(digit, (size, size), anti_aliasing=True) for digit in digits])
    return digits.reshape(count, size * size).astype(np.float32)


def rotated_recipe(request: Request) -> Recipe:
    """Make mnist-rot as the official one was made: 62,000 images drawn from MNIST with replacement, rotated."""
    return rotating_recipe(request, load_mnist, MNIST_ROT_STREAM)


def bilinear_recipe(request: Request) -> Recipe:
    """Make mnist-rot of 62,000 distinct images of MNIST, rotated bilinearly."""
    return rotating_recipe(request, load_mnist, MNIST_BILINEAR_STREAM, bilinear=True)


def upright_recipe(request: Request) -> Recipe:
    """Make mnist: the data of the paper's "Training on mnist"."""
    wanted = {"method": MNIST_METHOD}

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        arrays = generate_mnist(request.seed)
        if progress is not None:
            progress(1, 1)
        return arrays, wanted

    return Recipe(wanted, build)


def generate_mnist(seed: int = 0) -> Arrays:
    """Make the arrays of mnist: a random 10,000 of MNIST's training images.

    Validation is 2,000 other training images, test is MNIST's own 10,000 test images in their order. The seed decides
    which training images, in which order; arrays are as those of `generate_rotated`, every angle 0.
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
