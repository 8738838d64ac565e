"""MNIST as it ships inside the package, the idx files of it and sets of its form, and what is made from it.

MNIST is Yann LeCun's and Corinna Cortes's, under CC BY-SA 3.0. The shipped file is the four original idx
files one after another, compressed with xz; ``scripts/build_mnist.py`` rebuilds it.
"""

from __future__ import annotations

import lzma
import math
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.recipes import (
    MNIST_BILINEAR_STREAM,
    MNIST_ROT_STREAM,
    MNIST_STREAM,
    TEST,
    TRAIN,
    VALID,
    Arrays,
    Recipe,
    Request,
    raw_numbers,
    split_column,
)
from thetarbm_cli.data.rotated_digits import rotating_recipe
from thetarbm_cli.errors import InputError, ThetaRBMError

# The four files of a set, images and labels of its training half and of its test half, as MNIST's are shipped.
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# A header is four bytes (two zeros, the type of the values, the number of axes), then a 32-bit number an axis.
UNSIGNED_BYTES = 8
IMAGES_HEADER = 16
LABELS_HEADER = 8

Bytes = NDArray[np.uint8]

SHIPPED = "shipped/mnist.idx.xz"
SIDE = 28
TRAIN_IMAGES = 60_000
TEST_IMAGES = 10_000

# The name of the recipe of mnist in sidecars.
MNIST_METHOD = "PCG64 raw numbers"
MNIST_SPLIT = {TRAIN: 10_000, VALID: 2_000, TEST: TEST_IMAGES}

# Bytes of each of the four files: a header, then one byte a pixel or label.
SIZES = (
    IMAGES_HEADER + TRAIN_IMAGES * SIDE * SIDE,
    LABELS_HEADER + TRAIN_IMAGES,
    IMAGES_HEADER + TEST_IMAGES * SIDE * SIDE,
    LABELS_HEADER + TEST_IMAGES,
)


def read_idx(content: bytes, where: str) -> Bytes:
    """Read one whole, uncompressed idx file of unsigned bytes, which messages name `where`; read-only."""
    axes = content[3] if len(content) >= 4 else 0
    header = 4 + 4 * axes
    if content[:3] != bytes((0, 0, UNSIGNED_BYTES)) or axes == 0 or len(content) < header:
        raise InputError(f"{where} is not an idx file of unsigned bytes")
    shape = [int(length) for length in np.frombuffer(content, dtype=">u4", count=axes, offset=4)]
    expected = header + math.prod(shape)
    if len(content) != expected:
        raise InputError(f"{where} has {len(content)} bytes, and {expected} are expected from its header")
    return np.frombuffer(content, dtype=np.uint8, offset=header).reshape(shape)


def read_set(parts: Mapping[str, bytes]) -> tuple[Bytes, Bytes]:
    """Read a set from its four `FILES`: the training images, then the test images, in their original order.

    Returns
    -------
    images : (n, h, h) uint8 array, read-only
    labels : (n,) uint8 array, read-only
    """
    images, labels = [], []
    for half in ("train", "t10k"):
        pictures = read_idx(parts[f"{half}-images-idx3-ubyte"], f"{half}-images-idx3-ubyte")
        classes = read_idx(parts[f"{half}-labels-idx1-ubyte"], f"{half}-labels-idx1-ubyte")
        if pictures.ndim != 3 or pictures.shape[1] != pictures.shape[2]:
            raise InputError(f"{half}-images-idx3-ubyte has the shape {pictures.shape}; (n, h, h) is needed")
        if classes.shape != pictures.shape[:1]:
            raise InputError(f"{half}-labels-idx1-ubyte has {classes.size} labels for {len(pictures)} images")
        images.append(pictures)
        labels.append(classes)
    if images[0].shape[1:] != images[1].shape[1:]:
        raise InputError("the images of the training half and of the test half are of different sizes")
    joined = np.concatenate(images), np.concatenate(labels)
    for array in joined:
        array.setflags(write=False)
    return joined


def read_shipped_files() -> dict[str, bytes]:
    """Unpack the shipped file into the four idx files; xz carries a checksum of its own."""
    resource = files("thetarbm_cli.data").joinpath(SHIPPED)
    try:
        content = lzma.decompress(resource.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise ThetaRBMError(f"the MNIST file of the package is damaged ({error}); install thetarbm again") from error
    if len(content) != sum(SIZES):
        raise ThetaRBMError("the MNIST file of the package has the wrong length; install thetarbm again")
    ends = list(accumulate(SIZES))
    return {name: content[end - size : end] for name, size, end in zip(FILES, SIZES, ends, strict=True)}


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
    return Recipe(wanted, lambda progress: (generate_mnist(request.seed), wanted))


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
