"""Files that are whole or not there: atomic writes, locks, checksums."""

from __future__ import annotations

import errno
import glob
import hashlib
import logging
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

import filelock

from thetarbm_cli.errors import ReadOnlyError, StorageError

if sys.platform != "win32":
    import fcntl

LOCK_PATIENCE_SECONDS = 3600.0
# So long another process is waited for without a word.
SILENT_SECONDS = 0.5
# Where a living process cannot hold its temporary file, one that is older than this is a leftover.
LEFTOVER_SECONDS = 86400.0
# What Windows lacks: not to follow links, not to wait for who writes to a pipe; and what it needs for plain bytes.
_READ_FLAGS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NOFOLLOW, _NONBLOCK = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)

logger = logging.getLogger("thetarbm")


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside `target` that replaces it when the block ends well.

    The content is on disk before the rename, so that a crash leaves the old file or the new one, never half
    of one. If the block raises, the temporary file is removed and `target` is as it was.
    """
    with temporary_beside(target) as temporary:
        try:
            yield temporary
            with temporary.open("rb+") as written:
                os.fsync(written.fileno())
            # mkstemp makes private files; the result gets the permissions any new file would have.
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(target)
        except OSError as error:
            raise _refusal(target, error) from error


def _refusal(target: Path, error: OSError) -> StorageError:
    """Say why a file cannot be written."""
    kind = ReadOnlyError if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else StorageError
    return kind(f"cannot write {target}: {error.strerror or error}")


@contextmanager
def temporary_beside(target: Path) -> Iterator[Path]:
    """Yield a new, empty file ``.<target>.….part`` in the folder of `target`, which is removed when the block ends.

    A process that is killed leaves its file. It is removed the next time that one is made for the same target.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent, target.name)
        temporary, handle = _new_held_file(target)
    except OSError as error:
        raise _refusal(target, error) from error
    try:
        yield temporary
    finally:
        # What cannot be removed now is a leftover like that of a killed process.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _new_held_file(target: Path) -> tuple[Path, int | None]:
    """Make a new file that no other process takes for a leftover as long as its handle is open.

    It is locked by that handle. Windows renames no file that is open: there it is closed, and its age counts.
    """
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
        if sys.platform == "win32":
            os.close(handle)
            return Path(name), None
        # On a file system without locks no other process removes what it cannot lock.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.lexists(name):
            return Path(name), handle
        # Another process was quicker than the lock.
        os.close(handle)


def remove_leftovers(folder: Path, name: str = "*") -> None:
    """Remove the temporary files of processes that were killed, of one target or of all in a folder.

    A living process holds its own with a lock of the operating system, which ends with it; see `_new_held_file`.
    """
    pattern = name if name == "*" else glob.escape(name)
    for path in folder.glob(f".{pattern}.*.part"):
        with suppress(OSError):
            if sys.platform == "win32":
                if time.time() - path.stat().st_mtime > LEFTOVER_SECONDS:
                    path.unlink(missing_ok=True)
                continue
            handle = os.open(path, os.O_RDWR | _NOFOLLOW | _READ_FLAGS)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)
            finally:
                os.close(handle)


def write_bytes(target: Path, content: bytes) -> None:
    """Write `content` to `target` atomically."""
    with replacing(target) as temporary:
        temporary.write_bytes(content)


def write_text(target: Path, content: str) -> None:
    """Write `content` to `target` atomically, as UTF-8."""
    write_bytes(target, content.encode())


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
        try:
            lock.acquire(timeout=SILENT_SECONDS)
        except filelock.Timeout:
            logger.info("another process holds %s: waiting until it is done", path)
            lock.acquire()
    except filelock.Timeout as error:
        raise StorageError(f"{path} is held by another process for an hour; wait for it or end it") from error
    except OSError as error:
        raise StorageError(f"cannot lock {path}: {error.strerror}") from error
    try:
        yield
    finally:
        lock.release()


def is_locked(target: Path) -> bool:
    """Say whether a process holds the lock that belongs to `target` at this moment."""
    path = target.with_name(target.name + ".lock")
    if not path.exists():
        return False
    try:
        with filelock.FileLock(path, timeout=0):
            return False
    except filelock.Timeout:
        return True
    except OSError:
        return False


def open_plain(path: Path) -> BufferedReader:
    """Open a file for reading; a folder, a device or a pipe, whose reading may never end, is an `OSError`."""
    # Without blocking: to open a pipe would wait for somebody who writes to it.
    handle = os.open(path, os.O_RDONLY | _NONBLOCK | _READ_FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "Not a plain file", str(path))
    return os.fdopen(handle, "rb")


def sha256_of_file(path: Path) -> str:
    """Compute the hex SHA-256 of a file's content."""
    with open_plain(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
