"""The user's own images: a ``.npz`` with ``images``, ``labels`` and perhaps ``split``, checked."""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.generated import OWN_STREAM, Arrays, raw_numbers
from thetarbm_cli.data.npz import read_untrusted
from thetarbm_cli.data.splits import PARTS, TEST, TRAIN, draw_split
from thetarbm_cli.errors import InputError

SMALLEST_SIDE = 4
LARGEST_SIDE = 256
LARGEST_LABEL = 9999

logger = logging.getLogger("thetarbm")


def read_own(path: Path, seed: int = 0) -> Arrays:
    """Read and check a file of the user.

    Parameters
    ----------
    path : ``.npz`` with ``images`` (N, h, h) or (N, h·h), bool, uint8 or floats in [0, 1]; ``labels`` (N,)
        integers from 0; optionally ``split`` (N,) of 0 train, 1 valid, 2 test
    seed : decides the split where the file has none: 60 % train, 10 % valid, 30 % test of every class

    Returns
    -------
    dict
        ``images`` (N, h, h) uint8 or float32, ``labels`` (N,) int64, ``split`` (N,) uint8

    Raises
    ------
    InputError
        If the file is not of this kind; the message says what to change.
    """
    arrays = read_untrusted(path, ("images", "labels"), ("split",))
    images = _check_images(arrays["images"], path)
    labels = _check_labels(arrays["labels"], len(images), path)
    if "split" in arrays:
        split = _check_split(arrays["split"], len(images), path)
    else:
        split = draw_split(labels, raw_numbers(len(labels), seed, OWN_STREAM))
    _check_parts(labels, split, path)
    return {"images": images, "labels": labels, "split": split}


def read_own_images(path: Path) -> NDArray[Any]:
    """Read the images alone of a file of the user, checked: (N, h, h) uint8 or float32."""
    return _check_images(read_untrusted(path, ("images",), ())["images"], path)


def _check_images(images: NDArray[Any], path: Path) -> NDArray[Any]:
    """Bring images into (N, h, h) C order, as uint8 or little-endian float32."""
    shape = images.shape
    if len(shape) == 2 and math.isqrt(shape[1]) ** 2 == shape[1]:
        side = math.isqrt(shape[1])
    elif len(shape) == 3 and shape[1] == shape[2]:
        side = shape[1]
    else:
        raise InputError(f"{path}: images have the shape {shape}; square images (N, h, h) or (N, h·h) are needed")
    if shape[0] == 0:
        raise InputError(f"{path} has no images")
    if not SMALLEST_SIDE <= side <= LARGEST_SIDE:
        raise InputError(
            f"{path}: images of {side}×{side} pixels are not supported, only {SMALLEST_SIDE}×{SMALLEST_SIDE} "
            f"to {LARGEST_SIDE}×{LARGEST_SIDE}"
        )
    images = images.reshape(shape[0], side, side)
    if images.dtype == np.bool_:
        return np.ascontiguousarray(images) * np.uint8(255)
    if images.dtype == np.uint8:
        if images.max() == 1:
            logger.warning("%s: no pixel is above 1 of 255; images of 0 and 1 are better stored as bool", path)
        return np.ascontiguousarray(images)
    if images.dtype.kind != "f":
        raise InputError(f"{path}: images are of type {images.dtype}; store them as uint8, or as floats in [0, 1]")
    return _check_floats(images, path)


def _check_floats(images: NDArray[Any], path: Path) -> NDArray[Any]:
    """Refuse floats outside [0, 1], and give the others as little-endian float32."""
    # Written so that NaN, which is neither smaller nor larger, is caught too.
    wrong = ~((images >= 0) & (images <= 1))
    if wrong.any():
        place = np.unravel_index(int(np.argmax(wrong)), images.shape)
        hint = "; divide by 255, or store uint8" if images[place] > 1 and np.isfinite(images[place]) else ""
        raise InputError(f"{path}: image {place[0]} has the value {images[place]}, which is not in [0, 1]{hint}")
    return np.ascontiguousarray(images, dtype="<f4")


def _check_labels(labels: NDArray[Any], count: int, path: Path) -> NDArray[np.int64]:
    """Bring labels into (N,) little-endian int64."""
    if labels.shape != (count,):
        raise InputError(f"{path}: labels have the shape {labels.shape}, and {count} images need ({count},)")
    if labels.dtype.kind not in "biu":
        hint = "; number the classes from 0, e.g. numpy.unique(labels, return_inverse=True)[1]"
        raise InputError(f"{path}: labels are of type {labels.dtype}, and whole numbers are needed{hint}")
    if labels.min() < 0 or labels.max() > LARGEST_LABEL:
        raise InputError(f"{path}: labels go from {labels.min()} to {labels.max()}; 0 to {LARGEST_LABEL} is possible")
    return labels.astype("<i8")


def _check_split(split: NDArray[Any], count: int, path: Path) -> NDArray[np.uint8]:
    """Bring the split column into (N,) uint8."""
    if split.shape != (count,) or split.dtype.kind not in "iu":
        raise InputError(f"{path}: split is {split.dtype} of the shape {split.shape}; {count} whole numbers are needed")
    wrong = (split < 0) | (split > TEST)
    if wrong.any():
        raise InputError(f"{path}: split may hold 0 (train), 1 (valid) and 2 (test), and it holds {split[wrong][0]}")
    return split.astype(np.uint8)


def _check_parts(labels: NDArray[np.int64], split: NDArray[np.uint8], path: Path) -> None:
    """See to it that there is something to learn from and something to test on."""
    for name in ("train", "test"):
        if not (split == PARTS[name]).any():
            raise InputError(
                f"{path}: the {name} part is empty; give more images, or set split to {PARTS[name]} for some"
            )
    learned = np.unique(labels[split == TRAIN])
    if len(learned) < 2:
        raise InputError(f"{path}: the train part has only class {learned[0]}; at least two classes are needed")
    unseen = np.setdiff1d(labels[split == TEST], learned)
    if len(unseen):
        logger.warning("%s: class %d is in the test part, but not in the train part", path, unseen[0])
