"""Reading a user's ``.npz`` without trusting it: sizes and types are checked before it is unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError

# 512 MiB: about 680,000 images of 28×28 as uint8, or 170,000 as float32.
LARGEST_ARRAY = 1 << 29


def read_untrusted(path: Path, required: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Read the named arrays of a ``.npz``; others in it are left alone.

    Raises
    ------
    InputError
        If the file is no ``.npz``, lacks a required array, or one is pickled, too large or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            present = set(archive.namelist())
            missing = [name for name in required if f"{name}.npy" not in present]
            if missing:
                raise InputError(f"{path} has no array {missing[0]!r}: it needs {' and '.join(required)}")
            names = [name for name in (*required, *optional) if f"{name}.npy" in present]
            return {name: _read_array(archive, name, path) for name in names}
    except InputError:
        raise
    except Exception as error:  # foreign bytes can make zipfile and NumPy raise almost anything
        raise InputError(f"{path} is not a readable .npz file ({type(error).__name__}: {error})") from error


def _read_array(archive: zipfile.ZipFile, name: str, path: Path) -> NDArray[Any]:
    """Read one array after a look at its header.

    NumPy makes room for the shape that the header claims, and zip members may unpack to thousands of times
    their size; so both claims are compared with the limit, and with each other, first.
    """
    member = archive.getinfo(f"{name}.npy")
    if member.file_size > LARGEST_ARRAY:
        raise InputError(f"{path}: {name!r} unpacks to {member.file_size} bytes; at most {LARGEST_ARRAY} are read")
    with archive.open(member) as stream:
        shape, dtype = _read_header(stream)
        header_bytes = stream.tell()
    if dtype.hasobject:
        raise InputError(f"{path}: {name!r} holds pickled Python objects, which are never loaded: store plain numbers")
    claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed != member.file_size - header_bytes:
        raise InputError(f"{path}: {name!r} is damaged: its header does not fit its size")
    with archive.open(member) as stream:
        array: NDArray[Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return array


def _read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read shape and type of a ``.npy``."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise ValueError(f"unsupported .npy version {version}")
    return shape, dtype
