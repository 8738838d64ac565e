"""The official mnist-rot archive of Larochelle et al. (2007): a copy that the user has, read and checked.

Two text files of 785 columns, 784 pixels in [0, 1] and the label: 12,000 rows for training (the first 10,000)
and validation (the last 2,000), and 50,000 for test. Nothing is ever unpacked to the disk. The host that had the
archive is gone, so nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.recipes import (
    PARTS,
    TEST,
    TRAIN,
    VALID,
    Arrays,
    PartName,
    Progress,
    Recipe,
    Request,
    split_column,
)
from thetarbm_cli.data.rotated_digits import ROTATED_SPLIT
from thetarbm_cli.data.sources.mnist import SIDE
from thetarbm_cli.errors import InputError
from thetarbm_cli.followup import command_line

CHECKSUM = "e67f72fa42029f62fd8eb92b0638c1b9761c9a63"  # SHA-1, the one that is published for the archive
TRAIN_VALID_FILE = "mnist_all_rotation_normalized_float_train_valid.amat"
TEST_FILE = "mnist_all_rotation_normalized_float_test.amat"

# What a true copy has: images of each class in each part.
CLASS_COUNTS: dict[PartName, tuple[int, ...]] = {
    "train": (984, 1156, 1044, 1026, 966, 909, 1001, 1029, 939, 946),
    "valid": (200, 223, 220, 189, 187, 179, 186, 210, 209, 197),
    "test": (4999, 5668, 4965, 5108, 4804, 4537, 4971, 5221, 4864, 4863),
}
CLASSES = 10

# Characters a number may take, with the space after it: what is longer is not a table of pixels.
LONGEST_NUMBER = 40
# Interpolation may overshoot by a rounding; such values are cut to [0, 1].
OVERSHOOT = 1e-3
REPORT_EVERY = 500
BUFFER = 1 << 20


def recipe(request: Request) -> Recipe:
    """Read mnist-rot from the official archive; without one, what was prepared from it before is right."""
    archive = request.archive
    # What an older version prepared may not have been turned round.
    wanted: dict[str, Any] = {"transposed": True}
    if archive is not None:
        wanted["archive_sha1"] = archive_checksum(archive)

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        if archive is None:
            raise InputError(
                "the official archive cannot be downloaded any more: give a copy with "
                f"{command_line('prepare-data', '--source', 'official', '--archive', 'FILE')}, "
                "or use --source generated"
            )
        arrays = read_official(archive, progress=progress)
        if wanted["archive_sha1"] != CHECKSUM:
            problem = differences(arrays["labels"], arrays["split"])
            if problem:
                raise InputError(f"{archive} is not the official archive: {problem}")
        return arrays, wanted

    return Recipe(wanted, build, takes_archive=True)


def archive_checksum(archive: Path) -> str:
    """Compute the SHA-1 of a local copy: of the zip, or of the two files of a folder one after the other."""
    parts = [archive / TRAIN_VALID_FILE, archive / TEST_FILE] if archive.is_dir() else [archive]
    digest = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        if not part.is_file():
            raise InputError(
                f"{part} is missing: --archive takes mnist_rotation_new.zip or a folder with its two files"
            )
        with part.open("rb") as stream:
            hashlib.file_digest(stream, lambda: digest)
    return digest.hexdigest()


def read_official(archive: Path, *, sizes: dict[int, int] = ROTATED_SPLIT, progress: Progress | None = None) -> Arrays:
    """Read a local copy of the archive.

    Its rows have the pixels column by column: they are turned round, so that the digits are not mirrored.

    Parameters
    ----------
    archive : the zip, or a folder with the two ``.amat`` files
    sizes : rows of each part

    Returns
    -------
    dict
        ``images`` (N, 28, 28) float32 in [0, 1], ``labels`` (N,) int64, ``split`` (N,) uint8
    """
    split = split_column({part: sizes[part] for part in (TRAIN, VALID, TEST)})
    images = np.empty((len(split), SIDE * SIDE), dtype="<f4")
    labels = np.empty(len(split), dtype="<i8")
    middle = sizes[TRAIN] + sizes[VALID]
    for name, first, last in ((TRAIN_VALID_FILE, 0, middle), (TEST_FILE, middle, len(split))):

        def report(rows: int, first: int = first) -> None:
            if progress is not None:
                progress(first + rows, len(split))

        with open_table(archive, name, (last - first) * (SIDE * SIDE + 1) * LONGEST_NUMBER) as (stream, where):
            read_table(stream, where, images[first:last], labels[first:last], report)
    upright = np.ascontiguousarray(images.reshape(-1, SIDE, SIDE).transpose(0, 2, 1))
    return {"images": upright, "labels": labels, "split": split}


def differences(labels: NDArray[np.generic], split: NDArray[np.generic]) -> str:
    """Say what tells labels from those of the official archive, by the classes of each part; empty if nothing does."""
    wrong = []
    for name, expected in CLASS_COUNTS.items():
        found = np.bincount(labels[split == PARTS[name]], minlength=CLASSES)
        for digit in np.flatnonzero(found != expected)[:1]:
            wrong.append(f"{name} has {found[digit]} images of class {digit}, not {expected[digit]}")
    return "; ".join(wrong)


@contextmanager
def open_table(archive: Path, name: str, largest: int) -> Iterator[tuple[IO[bytes], str]]:
    """Open one table of a zip or a folder: its bytes, no more than `largest`, and how messages name it.

    A zip's members are found by the last part of their name and are read in place, so that no path inside
    the zip is ever followed.
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


def read_table(
    stream: IO[bytes],
    where: str,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    report: Callable[[int], None] = lambda rows: None,
) -> None:
    """Read a table, one line at a time, into images (rows, pixels) float32 and labels (rows,) int64.

    Their length says how many rows it must have; `where` is how messages name it.
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
        if (row + 1) % REPORT_EVERY == 0 or row + 1 == rows:
            report(row + 1)
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
        detail = str(error) if len(str(error)) <= 80 else f"{str(error)[:80]}…"
        raise InputError(f"{place} has something that is not a number: {detail}") from error
    # Written so that NaN, which is neither smaller nor larger, is caught too.
    wrong = ~((values[:-1] >= -OVERSHOOT) & (values[:-1] <= 1.0 + OVERSHOOT))
    if wrong.any():
        column = int(np.argmax(wrong))
        raise InputError(f"{place}, column {column + 1}: {values[column]} is not a pixel value in [0, 1]")
    if values[-1] not in range(CLASSES):
        raise InputError(f"{place}: {values[-1]} is not a label in 0..{CLASSES - 1}")
    return values
