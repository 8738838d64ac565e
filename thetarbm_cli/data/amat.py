"""The ``.amat`` text tables of the official archive, read line by line and checked as they are read."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.turning import Progress
from thetarbm_cli.errors import InputError

# Characters a number may take, with the space after it: what is longer is not a table of pixels.
LONGEST_NUMBER = 40
# Interpolation may overshoot by a rounding; such values are cut to [0, 1].
OVERSHOOT = 1e-3
CLASSES = 10
REPORT_EVERY = 500
BUFFER = 1 << 20


@contextmanager
def open_table(archive: Path, name: str, largest: int) -> Iterator[tuple[IO[bytes], str]]:
    """Open one table of a zip or a folder.

    A zip's members are found by the last part of their name and are read in place, so that no path inside
    the zip is ever followed.

    Parameters
    ----------
    archive : zip file or folder
    name : file name of the table
    largest : bytes that the table may have when unpacked

    Yields
    ------
    stream : the table's bytes
    where : how messages name it

    Raises
    ------
    InputError
        If the archive is no zip, or the table is missing, twice there, too large or damaged.
    """
    if archive.is_dir():
        where = str(archive / name)
        try:
            table = (archive / name).open("rb")
        except OSError as error:
            raise InputError(f"{where} cannot be read ({error.strerror})") from error
        with table:
            yield table, where
        return
    where = f"{name} in {archive}"
    try:
        with zipfile.ZipFile(archive) as opened:
            members = [entry for entry in opened.infolist() if entry.filename.split("/")[-1] == name]
            if len(members) != 1:
                raise InputError(f"{where} is {'missing' if not members else 'there more than once'}")
            if members[0].file_size > largest:
                raise InputError(f"{where} unpacks to {members[0].file_size} bytes, more than such a table can have")
            # zipfile's own readline with a limit is slow; a buffer in between takes a third of the time.
            with opened.open(members[0]) as member, io.BufferedReader(cast(io.RawIOBase, member), BUFFER) as stream:
                yield stream, where
    except InputError:
        raise
    except Exception as error:  # foreign bytes can make zipfile raise almost anything
        raise InputError(f"{archive} is not a whole zip file ({error}): get it again") from error


def largest_size(rows: int, columns: int) -> int:
    """Bytes that a table of so many rows and columns may have."""
    return rows * columns * LONGEST_NUMBER


def read_table(
    stream: IO[bytes],
    where: str,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    progress: Progress | None = None,
) -> None:
    """Read a table of pixels and labels into arrays, whose length says how many rows it must have.

    One line is in memory at a time.

    Parameters
    ----------
    stream : the table: in each line the pixels of one image, then its label
    where : how messages name the table
    images : (rows, pixels) float32 array, filled
    labels : (rows,) int64 array, filled
    progress : called with (rows done, rows in all)

    Raises
    ------
    InputError
        If the table is wrong; the message names the line.
    """
    rows, pixels = images.shape
    longest = (pixels + 1) * LONGEST_NUMBER
    for row in range(rows):
        place = f"{where}, line {row + 1}"
        line = _read_line(stream, longest + 1, place)
        if not line:
            raise InputError(f"{where} ends after {row} lines, and {rows} are expected")
        if len(line) > longest:
            raise InputError(f"{place} is longer than {longest} characters: this is not a table of images")
        values = _parse_line(line, pixels + 1, place)
        np.clip(values[:-1], 0.0, 1.0, out=images[row], casting="same_kind")
        labels[row] = int(values[-1])
        if progress is not None and ((row + 1) % REPORT_EVERY == 0 or row + 1 == rows):
            progress(row + 1, rows)
    if _read_line(stream, longest, f"{where}, line {rows + 1}").strip():
        raise InputError(f"{where} has more than the {rows} lines that are expected")


def _read_line(stream: IO[bytes], longest: int, place: str) -> bytes:
    """Read one line, or as much of it as may be."""
    try:
        return stream.readline(longest)
    except Exception as error:  # a damaged zip can make its decompressor raise almost anything
        raise InputError(f"{place} cannot be read, the file is damaged ({error}): get it again") from error


def _parse_line(line: bytes, columns: int, place: str) -> NDArray[np.float64]:
    """Read one line's numbers: (columns,) float64 array, pixels near [0, 1] and the label last."""
    fields = line.split()
    if len(fields) != columns:
        raise InputError(f"{place} has {len(fields)} columns, and {columns} are expected")
    try:
        values = np.array(fields, dtype=np.float64)
    except ValueError as error:
        raise InputError(f"{place} has something that is not a number: {_shorten(error)}") from error
    # Written so that NaN, which is neither smaller nor larger, is caught too.
    wrong = ~((values[:-1] >= -OVERSHOOT) & (values[:-1] <= 1.0 + OVERSHOOT))
    if wrong.any():
        column = int(np.argmax(wrong))
        raise InputError(f"{place}, column {column + 1}: {values[column]} is not a pixel value in [0, 1]")
    if values[-1] not in range(CLASSES):
        raise InputError(f"{place}: {values[-1]} is not a label in 0..{CLASSES - 1}")
    return values


def _shorten(error: ValueError) -> str:
    """Keep a message to a length that fits one sentence."""
    text = str(error)
    return text if len(text) <= 80 else text[:80] + "…"
