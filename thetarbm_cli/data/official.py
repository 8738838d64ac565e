"""The official mnist-rot archive of Larochelle et al. (2007): downloaded, or a local copy, read and checked.

Two text files of 785 columns, 784 pixels in [0, 1] and the label: 12,000 rows for training (the first 10,000)
and validation (the last 2,000), and 50,000 for test. Nothing is ever unpacked to the disk.
"""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.data.amat import largest_size, open_table, read_table
from thetarbm_cli.data.chirality import looks_transposed
from thetarbm_cli.data.generated import ROTATED_SPLIT, Arrays
from thetarbm_cli.data.mnist import SIDE
from thetarbm_cli.data.splits import TEST, TRAIN, VALID, split_column
from thetarbm_cli.data.turning import Progress
from thetarbm_cli.errors import InputError, ThetaRBMError

ARCHIVE = "mnist_rotation_new.zip"
URL = f"http://www.iro.umontreal.ca/~lisa/icml2007data/{ARCHIVE}"
CHECKSUM = "e67f72fa42029f62fd8eb92b0638c1b9761c9a63"  # SHA-1, the one that is published for the archive
TRAIN_VALID_FILE = "mnist_all_rotation_normalized_float_train_valid.amat"
TEST_FILE = "mnist_all_rotation_normalized_float_test.amat"

logger = logging.getLogger("thetarbm")


def archive_checksum(archive: Path) -> str:
    """SHA-1 of a local copy: of the zip, or of the two files of a folder one after the other.

    Raises
    ------
    InputError
        If the copy or one of its files is missing.
    """
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
    """The part of a progress bar that pooch calls, passed on as (bytes done, bytes in all)."""

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
    """Download the archive into `folder`, or find it there, and check its checksum.

    Raises
    ------
    ThetaRBMError
        If it cannot be had, or is not the published file.
    """
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
        what = (
            "has another checksum than the published one" if isinstance(error, ValueError) else "cannot be downloaded"
        )
        # The system's words, such as of a full disk, or the kind of the error: the words of requests fill many lines.
        why = getattr(error, "strerror", None) or type(error).__name__
        raise ThetaRBMError(
            f"{URL} {what} ({why}): give a local copy with --archive, or use --source generated"
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
    sizes : rows of each part; the published ones unless a test says otherwise
    progress : called with (rows done, rows in all)

    Returns
    -------
    arrays : ``images`` (N, 28, 28) float32 in [0, 1], ``labels`` (N,) int64, ``split`` (N,) uint8
    transposed : whether the images were transposed

    Raises
    ------
    InputError
        If a file is missing, cut off or wrong; the message names file and line.
    """
    split = split_column({part: sizes[part] for part in (TRAIN, VALID, TEST)})
    images = np.empty((len(split), SIDE * SIDE), dtype="<f4")
    labels = np.empty(len(split), dtype="<i8")
    first = 0
    for name, rows in ((TRAIN_VALID_FILE, sizes[TRAIN] + sizes[VALID]), (TEST_FILE, sizes[TEST])):
        with open_table(archive, name, largest_size(rows, SIDE * SIDE + 1)) as (stream, where):
            part = slice(first, first + rows)
            read_table(stream, where, images[part], labels[part], _counting_from(first, len(split), progress))
        first += rows
    pictures = images.reshape(-1, SIDE, SIDE)
    transposed = _decide(pictures, labels, transpose)
    if transposed:
        pictures = np.ascontiguousarray(pictures.transpose(0, 2, 1))
    return {"images": pictures, "labels": labels, "split": split}, transposed


def _counting_from(first: int, total: int, progress: Progress | None) -> Progress | None:
    """Count the rows of the second file on from those of the first."""
    return None if progress is None else lambda done, _: progress(first + done, total)


def _decide(images: NDArray[np.float32], labels: NDArray[np.int64], transpose: str) -> bool:
    """Decide whether to transpose, and say which way the digits look."""
    mirrored, as_is, swapped = looks_transposed(images, labels)
    likeness = f"likeness to MNIST {as_is:.2f} as they are, {swapped:.2f} transposed"
    if transpose == "auto":
        logger.info(
            "the archive's digits look %s (%s)",
            "mirrored, so they are transposed" if mirrored else "the right way round",
            likeness,
        )
        return mirrored
    if mirrored != (transpose == "yes"):
        better = "no" if transpose == "yes" else "yes"
        logger.warning(
            "with --transpose %s the digits look mirrored (%s); --transpose %s turns them round",
            transpose,
            likeness,
            better,
        )
    return transpose == "yes"
