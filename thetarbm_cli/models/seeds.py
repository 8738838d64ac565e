"""One seed, several independent axes: models that share a seed share splits and batch orders."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# The position of an axis is part of every stored result: append, never reorder.
AXES = ("data", "initial", "order", "sampling", "perturbation", "fields", "states", "controls", "distances")


def seed_of(seed: int, axis: str, *keys: int) -> np.random.SeedSequence:
    """Seed of one axis of randomness, further split by `keys` (an epoch, a cell of a table).

    Each epoch has a seed of its own, so that training resumes at an epoch with no more than its number.
    """
    return np.random.SeedSequence(entropy=seed, spawn_key=(AXES.index(axis), *keys))


def generator_of(seed: int, axis: str, *keys: int) -> np.random.Generator:
    """Host random generator of one axis."""
    return np.random.Generator(np.random.PCG64(seed_of(seed, axis, *keys)))


def batch_order(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Order of the `count` training images in an epoch; equal for all models of a seed."""
    return generator_of(seed, "order", epoch).permutation(count)
