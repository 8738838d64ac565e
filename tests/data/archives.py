"""Small copies of the official archive, whole or broken, for tests."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.sources.official import TEST_FILE, TRAIN_VALID_FILE

# Rows of the three parts in a small copy.
SMALL = {0: 60, 1: 12, 2: 90}


def table(images: NDArray[np.generic], labels: NDArray[np.integer]) -> bytes:
    """Write images (n, 28, 28) in [0, 1] and labels as the archive does, the label last."""
    rows = np.column_stack([images.reshape(len(images), -1), labels])
    return b"".join(b"   " + b"   ".join(b"%.10e" % value for value in row) + b"\n" for row in rows)


def small_tables(images: NDArray[np.generic], labels: NDArray[np.integer]) -> tuple[bytes, bytes]:
    """The two tables of a small copy: of bytes (n, 28, 28), the first of them."""
    middle, rows = SMALL[0] + SMALL[1], sum(SMALL.values())
    pixels = images[:rows] / 255
    return table(pixels[:middle], labels[:middle]), table(pixels[middle:], labels[middle:rows])


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
