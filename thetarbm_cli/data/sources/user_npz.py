"""Images of a user: a ``.npz`` with ``images`` and perhaps ``labels`` and ``split``, checked.

The file is not trusted: sizes and types are checked before anything is unpacked.
"""

from __future__ import annotations

import logging
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.arrays import UnreadableArrayError, read_array
from thetarbm_cli.data.recipes import (
    NO_LABEL,
    PARTS,
    TEST,
    TRAIN,
    USER_STREAM,
    Arrays,
    Recipe,
    Request,
    draw_split,
    raw_numbers,
)
from thetarbm_cli.errors import InputError
from thetarbm_cli.registry import offered_sources

SMALLEST_SIDE = 4
LARGEST_SIDE = 256
LARGEST_LABEL = 9999
# Labels that are words, or arrays, that a message names.
MOST_WORDS = 20
# 512 MiB: about 680,000 images of 28×28 as uint8, or 170,000 as float32.
LARGEST_ARRAY = 1 << 29
# The name of this recipe in sidecars.
METHOD = "split by PCG64 raw numbers of stream 3"

logger = logging.getLogger("thetarbm")


def recipe(request: Request) -> Recipe:
    """Read the file of a user, whose path is the source."""
    path = Path(request.source)
    if not path.is_file():
        problem = f"there is no file {path}" if path.suffix == ".npz" else f"unknown source {str(path)!r}"
        problem = f"{path} is a folder" if path.is_dir() else problem
        raise InputError(f"{problem}: use {', '.join(offered_sources())}, or the path of a .npz file")
    checksum = storage.sha256_of_file(path)
    wanted = {"file_sha256": checksum, "method": METHOD}
    # The name becomes part of file names: plain characters only, and not too many.
    name = re.sub(r"[^\w.-]+", "_", path.stem)[:60]
    return Recipe(
        wanted, lambda progress: (read_user_file(path, request.seed), wanted), name=name, content=checksum[:12]
    )


def read_user_file(path: Path, seed: int = 0) -> Arrays:
    """Read and check a file of the user.

    Parameters
    ----------
    path : ``.npz`` with ``images`` (N, h, h), with a channel (N, 1, h, h) or (N, h, h, 1), or (N, h·h), bool, uint8 or
        floats in [0, 1]; optionally ``labels`` (N,) of integers from 0 or words, which are numbered in their order;
        optionally ``split`` (N,) of 0 train, 1 valid, 2 test
    seed : decides the split where the file has none: 60 % train, 10 % valid, 30 % test of every class

    Returns
    -------
    dict
        ``images`` (N, h, h) uint8 or float32, ``labels`` (N,) int64, all `NO_LABEL` without any, ``split`` (N,) uint8
    """
    arrays = read_untrusted(path, ("images",), ("labels", "split"))
    images = _check_images(arrays["images"], path)
    if "labels" in arrays:
        labels = _check_labels(arrays["labels"], len(images), path)
    else:
        logger.info("%s has no labels: a model can learn from it and γ be measured, but no error", path)
        labels = np.full(len(images), NO_LABEL, dtype="<i8")
    if "split" in arrays:
        split = _check_split(arrays["split"], len(images), path)
    else:
        split = draw_split(labels, raw_numbers(len(labels), seed, USER_STREAM))
    _check_parts(labels, split, path)
    return {"images": images, "labels": labels, "split": split}


def read_user_images(path: Path) -> NDArray[Any]:
    """Read the images alone of a file of the user, checked: (N, h, h) uint8 or float32."""
    return _check_images(read_untrusted(path, ("images",), ())["images"], path)


def read_untrusted(path: Path, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a ``.npz``; others in it are left alone."""
    try:
        with zipfile.ZipFile(path) as archive:
            present = set(archive.namelist())
            missing = [name for name in required if f"{name}.npy" not in present]
            if missing:
                found = [name.removesuffix(".npy") for name in sorted(present)[:MOST_WORDS]]
                raise InputError(
                    f"{path} has no array {missing[0]!r}: it needs {' and '.join(required)}, "
                    f"and has {', '.join(map(repr, found)) or 'none'}"
                )
            names = [name for name in (*required, *optional) if f"{name}.npy" in present]
            return {name: read_array(archive, name, LARGEST_ARRAY) for name in names}
    except InputError:
        raise
    except UnreadableArrayError as error:
        raise InputError(f"{path}: {error}") from error
    except Exception as error:  # foreign bytes can make zipfile and NumPy raise almost anything
        raise InputError(f"{path} is not a readable .npz file ({type(error).__name__}: {error})") from error


def _check_images(images: NDArray[Any], path: Path) -> NDArray[Any]:
    """Bring images into (N, h, h) C order, as uint8 or little-endian float32."""
    shape = images.shape
    if len(shape) == 4 and 1 in (shape[1], shape[3]):
        # One channel, first or last.
        return _check_images(images[:, 0] if shape[1] == 1 else images[..., 0], path)
    side = math.isqrt(math.prod(shape[1:]))
    if shape[1:] not in ((side, side), (side * side,)):
        hint = ""
        if len(shape) == 4 and shape[3] in (3, 4):
            hint = ": make them grey, as images[..., :3].mean(axis=-1)"
        elif len(shape) == 3:
            hint = ": crop or pad them"
        raise InputError(f"{path}: images have the shape {shape}; square images (N, h, h) or (N, h·h) are needed{hint}")
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
        low, high = images.min(), images.max()
        if low >= 0 and np.isfinite(high):
            # Bytes as floats need not reach 255; any other scale, such as 0 to 16, is told by its largest value.
            scale = "255, or store uint8" if 128 <= high <= 255 else f"{high:g}"
            raise InputError(f"{path}: pixels go from {low:g} to {high:g}, and [0, 1] is needed: divide by {scale}")
        raise InputError(f"{path}: image {place[0]} has the value {images[place]}, which is not in [0, 1]")
    return np.ascontiguousarray(images, dtype="<f4")


def _check_labels(labels: NDArray[Any], count: int, path: Path) -> NDArray[np.int64]:
    """Bring labels into (N,) little-endian int64."""
    if labels.shape != (count,):
        raise InputError(f"{path}: labels have the shape {labels.shape}, and {count} images need ({count},)")
    empty = 0
    if labels.dtype.kind in "US":
        empty = int(np.sum(np.char.str_len(np.char.strip(labels)) == 0))
    elif labels.dtype.kind == "f":
        empty = int(np.isnan(labels).sum())
    if empty:
        hint = "leave those images out, or leave labels out, which training does not need"
        raise InputError(f"{path}: {empty} of {count} labels {'is' if empty == 1 else 'are'} empty; {hint}")
    if labels.dtype.kind in "US":
        words, labels = np.unique(labels, return_inverse=True)
        shown = [word.decode(errors="replace") if isinstance(word, bytes) else str(word) for word in words]
        more = f" and {len(words) - MOST_WORDS} more" if len(words) > MOST_WORDS else ""
        numbered = ", ".join(f"{number} {word}" for number, word in enumerate(shown[:MOST_WORDS]))
        logger.info("%s: labels are numbered: %s%s", path, numbered, more)
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
    if learned[0] == NO_LABEL:
        return
    if len(learned) < 2:
        raise InputError(f"{path}: the train part has only class {learned[0]}; at least two classes are needed")
    unseen = np.setdiff1d(labels[split == TEST], learned)
    if len(unseen):
        logger.warning("%s: class %d is in the test part, but not in the train part", path, unseen[0])
