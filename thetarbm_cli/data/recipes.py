"""What recipes share: the request, the random numbers, how images are stored, and their parts (train, valid, test).

A recipe makes the arrays of one data set from one source. The registry names it under its data set and source; it is a
function of a `Request` that returns a `Recipe`. Equal requests give equal bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

TRAIN, VALID, TEST = 0, 1, 2
PartName = Literal["train", "valid", "test"]
PARTS: dict[PartName, int] = {"train": TRAIN, "valid": VALID, "test": TEST}
# The label of every image of a user's file that has no labels.
NO_LABEL = -1

Progress = Callable[[int, int], None]
Arrays = dict[str, NDArray[np.generic]]
# Makes the arrays, and tells what the sidecar records of how they were made.
Build = Callable[[Progress | None], tuple[Arrays, dict[str, Any]]]

# Keeps data sets made from one seed independent of each other; the numbers are part of every prepared file.
# Stream 0 of a seed is also what numpy.random.default_rng(seed) gives, from which users may have made their images:
# their split has a stream of its own.
MNIST_BILINEAR_STREAM, MNIST_STREAM, FASHION_BILINEAR_STREAM, USER_STREAM = 0, 1, 2, 3
# 6 was that of a data set that is gone.
MNIST_ROT_STREAM, FASHION_ROT_STREAM = 4, 5


@dataclass(frozen=True)
class Request:
    """What is asked for; attributes as the parameters of `thetarbm_cli.data.prepare.prepare`."""

    data_dir: Path
    source: str
    seed: int = 0
    archive: Path | None = None


@dataclass(frozen=True)
class Recipe:
    """How one prepared file is made.

    Attributes
    ----------
    wanted : what the recorded recipe of an existing file must hold, so that the file is what is asked for. Its
        ``method`` is the name of the recipe: another name makes older files outdated
    takes_archive : whether ``--archive`` means something to it
    name : of a file of a user, which is no data set that the registry has: the name it goes by
    content : what a file name has instead of the source
    """

    wanted: dict[str, Any]
    build: Build
    takes_archive: bool = False
    name: str | None = None
    content: str | None = None


def raw_numbers(count: int, seed: int, stream: int) -> NDArray[np.uint64]:
    """Draw 64-bit numbers from PCG64; the stream keeps data sets made from one seed independent of each other.

    The raw output is the one thing whose stream NumPy guarantees; it does not guarantee the methods of ``Generator``.
    """
    return np.random.PCG64([seed, stream]).random_raw(count)


def as_unit_floats(images: NDArray[np.generic]) -> NDArray[np.float32]:
    """Give images (n, h, h), uint8 or float32, as (n, h*h) float32 in [0, 1]."""
    flat = images.reshape(len(images), images.shape[1] * images.shape[2])
    if flat.dtype == np.uint8:
        return flat.astype(np.float32) / np.float32(255)
    return flat.astype(np.float32, copy=False)


def split_column(sizes: dict[int, int]) -> NDArray[np.uint8]:
    """Write part numbers one after another, each as often as `sizes` says: (sum of sizes,) uint8 array."""
    return np.repeat(np.array(list(sizes), dtype=np.uint8), list(sizes.values()))


def rank_within_class(labels: NDArray[np.integer]) -> NDArray[np.int64]:
    """Count for each image how many of its class come before it: (n,) int64 array."""
    order = np.argsort(labels, kind="stable")
    _, first, counts = np.unique(labels[order], return_index=True, return_counts=True)
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[order] = np.arange(len(labels)) - np.repeat(first, counts)
    return ranks


def balanced_choice(labels: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """Choose `count` images (all if there are fewer), classes in equal numbers as far as they reach.

    The first image of every class, then the second of every class, and so on; the indices are ascending.
    """
    by_rank = np.lexsort((labels, rank_within_class(labels)))
    return np.sort(by_rank[:count])


def draw_split(labels: NDArray[np.integer], numbers: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Draw 60 % train, 10 % valid and 30 % test of every class, to rounding, by the order of random numbers (n,)."""
    shuffled = np.argsort(numbers, kind="stable")
    ranks = np.empty(len(labels), dtype=np.int64)
    ranks[shuffled] = rank_within_class(labels[shuffled])
    _, members, counts = np.unique(labels, return_inverse=True, return_counts=True)
    class_size = counts[members]
    split = np.full(len(labels), TEST, dtype=np.uint8)
    split[ranks < (7 * class_size + 5) // 10] = VALID
    split[ranks < (6 * class_size + 5) // 10] = TRAIN
    return split
