"""Train, validation and test parts: their names, drawing them, and balanced subsets of them."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

TRAIN, VALID, TEST = 0, 1, 2
PartName = Literal["train", "valid", "test"]
PARTS: dict[PartName, int] = {"train": TRAIN, "valid": VALID, "test": TEST}
# The label of every image of a user's file that has no labels.
NO_LABEL = -1


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
