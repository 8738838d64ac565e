"""The official mnist-rot archive of Larochelle et al. (2007): downloaded, or a local copy, read and checked.

Two text files of 785 columns, 784 pixels in [0, 1] and the label: 12,000 rows for training (the first 10,000)
and validation (the last 2,000), and 50,000 for test. Nothing is ever unpacked to the disk.
"""

from __future__ import annotations

import hashlib
import io
import logging
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
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
    as_unit_floats,
    split_column,
)
from thetarbm_cli.data.rotated_digits import BILINEAR, ROTATED_SPLIT, rotate_exactly
from thetarbm_cli.data.sources.mnist import SIDE, TRAIN_IMAGES, load_mnist
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.followup import command_line

ARCHIVE = "mnist_rotation_new.zip"
URL = f"http://www.iro.umontreal.ca/~lisa/icml2007data/{ARCHIVE}"
CHECKSUM = "e67f72fa42029f62fd8eb92b0638c1b9761c9a63"  # SHA-1, the one that is published for the archive
TRAIN_VALID_FILE = "mnist_all_rotation_normalized_float_train_valid.amat"
TEST_FILE = "mnist_all_rotation_normalized_float_test.amat"

# What a true copy has: images of each class in each part, and the labels of some rows of the test file.
CLASS_COUNTS: dict[PartName, tuple[int, ...]] = {
    "train": (984, 1156, 1044, 1026, 966, 909, 1001, 1029, 939, 946),
    "valid": (200, 223, 220, 189, 187, 179, 186, 210, 209, 197),
    "test": (4999, 5668, 4965, 5108, 4804, 4537, 4971, 5221, 4864, 4863),
}
TEST_ROWS = (0, 1, 3, 4, 5, 7, 8, 9, 10, 11, 12, 14, 15, 16, 18, 21, 22, 26, 37, 43)
TEST_LABELS = (6, 0, 2, 6, 7, 2, 1, 1, 4, 0, 7, 3, 8, 5, 9, 9, 8, 4, 3, 5)

# Characters a number may take, with the space after it: what is longer is not a table of pixels.
LONGEST_NUMBER = 40
# Interpolation may overshoot by a rounding; such values are cut to [0, 1].
OVERSHOOT = 1e-3
CLASSES = 10
REPORT_EVERY = 500
BUFFER = 1 << 20

# Digits that differ from their mirror image in any rotation; 0, 1 and 8 tell nothing.
TELLING = (2, 3, 4, 5, 6, 7, 9)
SAMPLE_PER_CLASS = 40
TEMPLATES_PER_CLASS = 60
ANGLES = 24

logger = logging.getLogger("thetarbm")


def recipe(request: Request) -> Recipe:
    """Read mnist-rot from the official archive.

    Without an archive and with transpose "auto", any official file that was prepared before is right.
    """
    archive, transpose = request.archive, request.transpose
    wanted: dict[str, Any] = {}
    if archive is not None:
        wanted["archive_sha1"] = archive_checksum(archive)
    if transpose != "auto":
        wanted["transposed"] = transpose == "yes"

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        if archive is None:
            local = download_archive(request.data_dir / "downloads", _stage(progress, 0.0, 0.5))
            checksum, progress = CHECKSUM, _stage(progress, 0.5, 1.0)
        else:
            local, checksum = archive, wanted["archive_sha1"]
        arrays, transposed = read_official(local, transpose, progress=progress)
        if local.is_file() and checksum != CHECKSUM:
            logger.warning(
                "%s has another checksum than the published archive; its contents hold, so it is used", local
            )
        return arrays, {"archive_sha1": checksum, "transposed": transposed}

    return Recipe(wanted, build, takes_archive=True)


def _stage(progress: Progress | None, start: float, stop: float) -> Progress | None:
    """Show one stage of a longer step as its share of the whole, in thousandths."""
    if progress is None:
        return None

    def show(done: int, total: int) -> None:
        progress(round(1000 * (start + (stop - start) * done / max(total, 1))), 1000)

    return show


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


class _DownloadProgress:
    """Pass the calls that pooch makes to a progress bar on as (bytes done, bytes in all)."""

    def __init__(self, progress: Progress) -> None:
        self.total = 0
        self._done = 0
        self._progress = progress

    def update(self, count: int) -> None:
        self._done += count
        self._progress(self._done, self.total)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        pass


def download_archive(folder: Path, progress: Progress | None = None) -> Path:
    """Download the archive into `folder`, or find it there, and check its checksum."""
    import pooch

    pooch.get_logger().setLevel(logging.WARNING)
    bar: Any = False if progress is None else _DownloadProgress(progress)
    try:
        with storage.locked(folder / ARCHIVE):
            # A download that was killed leaves its temporary file, as pooch names it.
            for leftover in folder.glob("tmp*"):
                leftover.unlink()
            path = pooch.retrieve(
                URL,
                known_hash=f"sha1:{CHECKSUM}",
                fname=ARCHIVE,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar),
            )
    except (OSError, ValueError) as error:
        # pooch raises ValueError for a wrong checksum; the errors of requests are OSErrors.
        wrong = isinstance(error, ValueError)
        what = "has another checksum than the published one" if wrong else "cannot be downloaded"
        # The system's words, such as of a full disk, or the kind of the error: the words of requests fill many lines.
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ThetaRBMError(
            f"{URL} {what} ({why}): give a local copy with "
            f"{command_line('prepare-data', '--source', 'official', '--archive', 'FILE')}, or use --source generated"
        ) from error
    return Path(path)


def read_official(
    archive: Path,
    transpose: str = "auto",
    *,
    sizes: dict[int, int] = ROTATED_SPLIT,
    progress: Progress | None = None,
) -> tuple[Arrays, bool]:
    """Read a local copy of the archive.

    Parameters
    ----------
    archive : the zip, or a folder with the two ``.amat`` files
    transpose : "auto" (look at the digits and decide), "yes" or "no"
    sizes : rows of each part

    Returns
    -------
    arrays : ``images`` (N, 28, 28) float32 in [0, 1], ``labels`` (N,) int64, ``split`` (N,) uint8
    transposed : whether the images were transposed
    """
    split = split_column({part: sizes[part] for part in (TRAIN, VALID, TEST)})
    images = np.empty((len(split), SIDE * SIDE), dtype="<f4")
    labels = np.empty(len(split), dtype="<i8")
    middle = sizes[TRAIN] + sizes[VALID]
    for name, first, last in ((TRAIN_VALID_FILE, 0, middle), (TEST_FILE, middle, len(split))):
        with open_table(archive, name, (last - first) * (SIDE * SIDE + 1) * LONGEST_NUMBER) as (stream, where):
            stage = _stage(progress, first / len(split), last / len(split))
            read_table(stream, where, images[first:last], labels[first:last], stage)
    pictures = images.reshape(-1, SIDE, SIDE)
    transposed = _decide(pictures, labels, transpose)
    if transposed:
        pictures = np.ascontiguousarray(pictures.transpose(0, 2, 1))
    return {"images": pictures, "labels": labels, "split": split}, transposed


def recognise(labels: NDArray[np.int64], split: NDArray[np.uint8]) -> str:
    """Say whether labels are those of the official archive: by the classes of each part, and by known rows."""
    wrong = []
    for name, expected in CLASS_COUNTS.items():
        found = np.bincount(labels[split == PARTS[name]], minlength=CLASSES)
        for digit in np.flatnonzero(found != expected)[:1]:
            wrong.append(f"{name} has {found[digit]} images of class {digit}, not {expected[digit]}")
    tested = labels[split == TEST]
    rows = [(row, label) for row, label in zip(TEST_ROWS, TEST_LABELS, strict=True) if row < len(tested)]
    strange = sum(int(tested[row]) != label for row, label in rows)
    if strange:
        wrong.append(f"{strange} of {len(rows)} known test rows have another label")
    return f"its contents are not the official ones: {'; '.join(wrong)}" if wrong else "this is the official archive"


def _decide(images: NDArray[np.float32], labels: NDArray[np.int64], transpose: str) -> bool:
    """Decide whether to transpose, and say which way the digits look."""
    mirrored, as_is, swapped = looks_transposed(images, labels)
    likeness = f"likeness to MNIST {as_is:.2f} as they are, {swapped:.2f} transposed"
    if transpose == "auto":
        look = "mirrored, so they are transposed" if mirrored else "the right way round"
        logger.info("the archive's digits look %s (%s)", look, likeness)
        return mirrored
    if mirrored != (transpose == "yes"):
        better = "no" if transpose == "yes" else "yes"
        message = "with --transpose %s the digits look mirrored (%s); --transpose %s turns them round"
        logger.warning(message, transpose, likeness, better)
    return transpose == "yes"


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
    progress: Progress | None = None,
) -> None:
    """Read a table of pixels and labels into arrays, whose length says how many rows it must have.

    Each line has the pixels of one image, then its label; one is in memory at a time.

    Parameters
    ----------
    stream : the table
    where : how messages name the table
    images : (rows, pixels) float32 array, filled
    labels : (rows,) int64 array, filled
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
        # No longer than fits one sentence.
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


def looks_transposed(images: NDArray[np.generic], labels: NDArray[np.integer]) -> tuple[bool, float, float]:
    """Say whether rotated digits resemble MNIST more when they are transposed.

    Each image of a sample is compared with MNIST digits of its class at 24 angles, as it is and transposed;
    what counts is the best normalised correlation of each, on average. Both averages, in [-1, 1], are given too.
    """
    mnist_images, mnist_labels = load_mnist()
    scores = []
    for digit in TELLING:
        templates = _templates(mnist_images[:TRAIN_IMAGES][mnist_labels[:TRAIN_IMAGES] == digit])
        sample = images[np.flatnonzero(labels == digit)[:SAMPLE_PER_CLASS]]
        both_ways = (sample, sample.transpose(0, 2, 1))
        scores.append([(_normalised(seen) @ templates).max(axis=1) for seen in both_ways])
    found = np.concatenate(scores, axis=1)
    as_is, transposed = (float(score) for score in found.mean(axis=1)) if found.size else (0.0, 0.0)
    return transposed > as_is, as_is, transposed


def _templates(digits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Rotate the first digits of a class all round: (784, templates) array of unit columns."""
    chosen = np.repeat(digits[:TEMPLATES_PER_CLASS], ANGLES, axis=0)
    degrees = np.tile(np.arange(ANGLES) * (360.0 / ANGLES), len(chosen) // ANGLES)
    return _normalised(rotate_exactly(chosen, degrees, BILINEAR)).T


def _normalised(images: NDArray[np.generic]) -> NDArray[np.float32]:
    """Flatten, subtract each image's mean and scale it to length 1; a blank image stays zero."""
    flat = as_unit_floats(images)
    flat = flat - flat.mean(axis=1, keepdims=True)
    length = np.sqrt(np.square(flat).sum(axis=1, keepdims=True))
    unit: NDArray[np.float32] = flat / np.where(length > 0, length, np.float32(1))
    return unit
