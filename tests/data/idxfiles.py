"""Small sets as idx files: their bytes, and folders of them."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def idx(array: NDArray[np.uint8]) -> bytes:
    """An array of bytes as an idx file."""
    header = bytes((0, 0, 8, array.ndim)) + np.array(array.shape, dtype=">u4").tobytes()
    return header + array.tobytes()


def small_set(train: int = 40, test: int = 20, side: int = 8) -> dict[str, bytes]:
    """The four files of a set of random images."""
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
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return folder


def md5_of(parts: dict[str, bytes]) -> dict[str, str]:
    """Checksum of each file."""
    return {name: hashlib.md5(content).hexdigest() for name, content in parts.items()}
