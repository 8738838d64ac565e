"""Small files that images come from: the official archive, idx files, and files of a user."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.sources.official import TEST_FILE, TRAIN_VALID_FILE

# Rows of the three parts in a small copy of the official archive.
SMALL = {0: 60, 1: 12, 2: 90}


def small_tables(images: NDArray[np.generic], labels: NDArray[np.integer]) -> tuple[bytes, bytes]:
    """The two tables of a small copy, of the first bytes (n, 28, 28) and labels.

    As in the archive, a row has the pixels column by column, and the label last.
    """
    count = sum(SMALL.values())
    rows = np.column_stack([images[:count].transpose(0, 2, 1).reshape(count, -1) / 255, labels[:count]])
    lines = [b"   " + b"   ".join(b"%.10e" % value for value in row) + b"\n" for row in rows]
    middle = SMALL[0] + SMALL[1]
    return b"".join(lines[:middle]), b"".join(lines[middle:])


def write_folder(folder: Path, train_valid: bytes, test: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TRAIN_VALID_FILE).write_bytes(train_valid)
    (folder / TEST_FILE).write_bytes(test)
    return folder


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def idx(array: NDArray[np.uint8]) -> bytes:
    """An array of bytes as an idx file."""
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.tobytes()


def small_set(train: int = 40, test: int = 20, side: int = 8) -> dict[str, bytes]:
    """The four idx files of a set of random images."""
    generator = np.random.default_rng(0)
    parts = {}
    for half, count in (("train", train), ("t10k", test)):
        images = generator.integers(0, 256, (count, side, side), dtype=np.uint8)
        parts[f"{half}-images-idx3-ubyte"] = idx(images)
        parts[f"{half}-labels-idx1-ubyte"] = idx(np.arange(count, dtype=np.uint8) % 10)
    return parts


def write_set(folder: Path, parts: dict[str, bytes], *, packed: bool = False) -> Path:
    """Write the four files into a folder, packed or as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in parts.items():
        (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)
    return folder


def write_own(path: Path, count: int = 60, side: int = 8, **changes: Any) -> Path:
    """Write a file of a user: random images of two classes, unless something else is given."""
    images = np.random.default_rng(0).integers(0, 256, (count, side, side), dtype=np.uint8)
    np.savez(path, **{"images": images, "labels": np.arange(count) % 2, **changes})
    return path
