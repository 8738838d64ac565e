"""The idx files in which MNIST and sets of its form are published: four of them, read and checked."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError

# The four files of a set, images and labels of its training half and of its test half.
FILES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
# A header is four bytes (two zeros, the type of the values, the number of axes), then a 32-bit number an axis.
UNSIGNED_BYTES = 8
IMAGES_HEADER = 16
LABELS_HEADER = 8

Bytes = NDArray[np.uint8]


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
