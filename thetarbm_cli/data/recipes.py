"""What recipes share: the request, the random numbers, and how images are stored.

A recipe makes the arrays of one data set from one source. The registry names it under its data set and source; it is a
function of a `Request` that returns a `Recipe`. Equal requests give equal bytes on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[int, int], None]
Arrays = dict[str, NDArray[np.generic]]
# Makes the arrays, and tells what the sidecar records of how they were made.
Build = Callable[[Progress | None], tuple[Arrays, dict[str, Any]]]

# Keeps data sets made from one seed independent of each other; the numbers are part of every prepared file.
# Stream 0 of a seed is also what numpy.random.default_rng(seed) gives, from which users may have made their images:
# their split has a stream of its own.
MNIST_BILINEAR_STREAM, MNIST_STREAM, FASHION_BILINEAR_STREAM, USER_STREAM = 0, 1, 2, 3
MNIST_ROT_STREAM, FASHION_ROT_STREAM = 4, 5


@dataclass(frozen=True)
class Request:
    """What is asked for; attributes as the parameters of `thetarbm_cli.data.prepare.prepare`."""

    data_dir: Path
    source: str
    seed: int = 0
    archive: Path | None = None
    transpose: str = "auto"


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
