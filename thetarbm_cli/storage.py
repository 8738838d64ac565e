"""Files that are whole or not there: atomic writes, locks, checksums, JSON, deterministic ``.npz``."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import ThetaRBMError

LOCK_PATIENCE_SECONDS = 3600.0

# A list without texts, objects and lists, as an indenting writer lays it out. A text has no line break of its own in
# JSON, so that nothing inside of one can look like this.
NUMBER_LIST = re.compile(r"\[\n[^\[\]{}\"]*\]")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target` that replaces it when the block ends well.

    The content is on disk before the rename, so that a crash leaves the old file or the new one, never half
    of one. If the block raises, the temporary file is removed and `target` is as it was.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    except OSError as error:
        raise ThetaRBMError(f"cannot write {target}: {error.strerror}") from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes private files; the result gets the permissions any new file would have.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.replace(target)
    except OSError as error:
        raise ThetaRBMError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(target: Path, content: bytes) -> None:
    """Write `content` to `target` atomically."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def write_text(target: Path, content: str) -> None:
    """Write `content` to `target` atomically, as UTF-8."""
    write_bytes(target, content.encode())


def json_text(value: Any) -> str:
    """Write `value` as JSON that reads well and stays small: indented, but each list of plain numbers on one line.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)
    return NUMBER_LIST.sub(lambda found: "".join(found[0].split()), text) + "\n"


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Hold the lock that belongs to `target`: another process waits here until the block ends.

    The lock is the operating system's on the file ``<target>.lock``; it ends with its process, so a dead
    process never blocks a living one.
    """
    path = target.with_name(target.name + ".lock")
    lock = filelock.FileLock(path, timeout=LOCK_PATIENCE_SECONDS)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except filelock.Timeout as error:
        raise ThetaRBMError(f"{path} is held by another process for an hour; wait for it or end it") from error
    except OSError as error:
        raise ThetaRBMError(f"cannot lock {path}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def is_locked(target: Path) -> bool:
    """Whether a process holds the lock that belongs to `target` at this moment."""
    path = target.with_name(target.name + ".lock")
    if not path.exists():
        return False
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return True
    except OSError:
        return False
    lock.release()
    return False


def sha256_of_file(path: Path) -> str:
    """Hex SHA-256 of a file's content."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_arrays(target: Path, arrays: Mapping[str, NDArray[np.generic]]) -> None:
    """Write a ``.npz`` whose bytes depend on the arrays alone.

    ``numpy.savez`` leaves the zip's details to the library; here time stamps, system and order are fixed and
    nothing is compressed, so that equal arrays give an equal checksum on every machine.
    """
    with replacing(target) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
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


def read_arrays(path: Path) -> dict[str, NDArray[np.generic]]:
    """Read every array of a ``.npz``, refusing pickled objects.

    Raises
    ------
    OSError, ValueError, zipfile.BadZipFile, EOFError
        If the file is missing or not a readable ``.npz``: callers say what that means for them.
    """
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
