"""Arrays in ``.npz`` files: written with fixed bytes, read without trusting what the file says of itself."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage


class UnreadableArrayError(ValueError):
    """An array of a ``.npz`` is not loaded; the message names it and says why."""


def write_arrays(target: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write a ``.npz`` whose bytes depend on the arrays alone.

    ``numpy.savez`` leaves the zip's details to the library; here time stamps, system and order are fixed and
    nothing is compressed, so that equal arrays give an equal checksum on every machine.
    """
    with storage.replacing(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            member.create_system = 3
            member.external_attr = 0o644 << 16
            with archive.open(member, "w", force_zip64=True) as stream:
                content = np.asarray(array, order="C")
                header = io.BytesIO()
                np.lib.format.write_array_header_1_0(header, np.lib.format.header_data_from_array_1_0(content))
                stream.write(header.getvalue())
                stream.write(content.reshape(-1).view(np.uint8).data if content.size else b"")


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """Read every array of a file that `write_arrays` made; a `ValueError` says why it is no whole ``.npz``."""
    try:
        with storage.open_plain(path) as stream, zipfile.ZipFile(stream) as archive:
            # Nothing in such a file is compressed: no array in it can be larger than the file.
            largest = os.fstat(stream.fileno()).st_size
            names = [name.removesuffix(".npy") for name in archive.namelist()]
            if len(names) != _claimed_count(stream):
                raise ValueError("it does not have as many arrays as it says")
            return {name: read_array(archive, name, largest) for name in names}
    except (OSError, MemoryError, UnreadableArrayError):
        raise
    except Exception as error:  # foreign bytes can make zipfile and NumPy raise almost anything
        raise ValueError(f"it is not a whole .npz file ({error})") from error


def _claimed_count(stream: IO[bytes]) -> int:
    """Read how many members the end of a zip without a comment says there are.

    zipfile does not compare: a changed byte in the list of members can make one entry swallow those after it.
    """
    stream.seek(-12, os.SEEK_END)
    return int.from_bytes(stream.read(2), "little")


def read_array(archive: zipfile.ZipFile, name: str, largest: int) -> NDArray[Any]:
    """Read one array of a ``.npz`` without trusting it: no pickled objects, and no more than `largest` bytes.

    NumPy takes memory for the shape that a header claims, zip members may unpack to thousands of times their size,
    and the zip's checksum is compared only when a member is read to its end. So the claims are compared with the
    limit, and with each other, first: a header that one changed byte makes claim less would hide the rest.

    Raises
    ------
    UnreadableArrayError
        If it is pickled, too large or damaged.
    Exception
        Almost any, as zipfile and NumPy raise it for foreign bytes.
    """
    member = archive.getinfo(f"{name}.npy")
    if member.file_size > largest:
        raise UnreadableArrayError(f"{name!r} unpacks to {member.file_size} bytes; at most {largest} are read")
    with archive.open(member) as stream:
        shape, dtype = _read_header(stream)
        header_bytes = stream.tell()
    if dtype.hasobject:
        raise UnreadableArrayError(
            f"{name!r} holds pickled Python objects, which are never loaded; words need astype(str)"
        )
    claimed = int(np.prod(shape, dtype=object)) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed != member.file_size - header_bytes:
        raise UnreadableArrayError(f"{name!r} is damaged: its header does not fit its size")
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
