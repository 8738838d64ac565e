"""Files that are whole or not there: atomic writes, appended lines, locks and who holds them, checksums."""

from __future__ import annotations

import dataclasses
import errno
import fcntl
import glob
import hashlib
import json
import logging
import os
import platform
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

import filelock

from thetarbm_cli.errors import ReadOnlyError, StorageError

LOCK_PATIENCE_SECONDS = 3600.0
# So long another process is waited for without a word.
SILENT_SECONDS = 0.5
# The least time between two reports of one step.
REPORT_SECONDS = 0.2
# Whether a process of another host is alive cannot be asked: its last report counts for so long.
FOREIGN_SECONDS = 900.0
LARGEST_REPORT = 1 << 16

T = TypeVar("T")

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
        os.close(handle)


def _new_held_file(target: Path) -> tuple[Path, int]:
    """Make a new file that no other process takes for a leftover as long as its handle, which locks it, is open."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
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
            handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
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


def append_line(target: Path, line: bytes) -> None:
    """Add one line to the end of a file, in one write that is on disk when this returns.

    Processes may do so at once. A last line that a crash left without its end is ended first, so that only it is lost.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # What is behind a link, and a pipe or a device, is not ours.
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        handle = os.open(target, flags, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "Not a plain file")
            # Of two processes the second waits: it would take what the first has half written for a torn line.
            with suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_EX)
            size = os.fstat(handle).st_size
            torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
            content = (b"\n" if torn else b"") + line + b"\n"
            if os.write(handle, content) != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise _refusal(target, error) from error


@dataclass(frozen=True)
class Progress:
    """What the holder of a lock says of itself.

    Attributes
    ----------
    host, pid : its process
    started : when that process began, so that another one with the same number is not taken for it
    step : what it does; empty as long as it has not said so
    done, total : how much of that step; 0 of 0 if it has not said so
    """

    host: str
    pid: int
    started: str
    step: str = ""
    done: int = 0
    total: int = 0


class Held:
    """A lock that this process holds, and its word on how far the work is, in the file ``<target>.progress``."""

    def __init__(self, target: Path) -> None:
        self._path = progress_path(target)
        self._new = self._path.with_name(f"{self._path.name}.new")
        self._said = Progress(platform.node(), os.getpid(), _started(os.getpid()) or "")
        self._due = 0.0
        self._write()

    def report(self, step: str, done: int, total: int) -> None:
        """Say how much of a step is done; a few times a second at most is enough to be told."""
        changed = step != self._said.step
        self._said = dataclasses.replace(self._said, step=step, done=done, total=total)
        if changed or time.monotonic() >= self._due:
            self._write()

    def _write(self) -> None:
        """Replace the file. It is a courtesy: where it cannot be written, the work goes on."""
        self._due = time.monotonic() + REPORT_SECONDS
        # Only the holder of the lock writes it.
        with suppress(OSError):
            self._new.write_text(json.dumps(dataclasses.asdict(self._said)))
            self._new.replace(self._path)

    def end(self) -> None:
        """Remove the file, and what a full disk has left of a new one."""
        for path in (self._path, self._new):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def progress_path(target: Path) -> Path:
    """Name the file in which the holder of a target's lock says how far it is."""
    return target.with_name(f"{target.name}.progress")


def _started(pid: int) -> str | None:
    """Find when a living process of this host began; None if there is none."""
    try:
        # The name of the program, in brackets, may hold anything; state and start are the 1st and 20th field after it.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
    # macOS has no /proc.
    asked = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, start = asked.stdout.strip().partition(" ")
    return None if not start or state.startswith("Z") else start.strip()


def holder(target: Path) -> Progress | None:
    """Find who holds the lock that belongs to `target` at this moment, without touching the lock.

    Of a process on another host its last report tells, if it is not older than a quarter of an hour.
    """
    try:
        with open_plain(progress_path(target)) as stream:
            written = os.fstat(stream.fileno()).st_mtime
            said = Progress(**json.loads(stream.read(LARGEST_REPORT)))
    except (OSError, ValueError, TypeError, RecursionError):
        return None
    kinds = (str, int, str, str, int, int)
    if any(type(value) is not kind for value, kind in zip(dataclasses.astuple(said), kinds, strict=True)):
        return None
    if said.host != platform.node():
        return said if time.time() - written <= FOREIGN_SECONDS else None
    return said if _started(said.pid) == said.started else None


@contextmanager
def locked(target: Path) -> Iterator[Held]:
    """Hold the lock that belongs to `target`: another process waits here until the block ends.

    The lock is the operating system's on the file ``<target>.lock``; it ends with its process, so a dead
    process never blocks a living one. What is yielded takes reports for those who ask who is the `holder`.
    """
    path = target.with_name(f"{target.name}.lock")
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
        held = Held(target)
        try:
            yield held
        finally:
            held.end()
    finally:
        lock.release()


def get_or_make(target: Path, read: Callable[[], T | None], make: Callable[[Held], T]) -> tuple[T, bool]:
    """Find a thing or make it, and say whether it was found.

    Of processes that need it at once, one makes it and the others find it.

    Parameters
    ----------
    target : what is locked while it is made
    read : gives it, or None if it is not there; first called without the lock, so that a folder that cannot be
        written to serves as well
    make : makes it; called with the lock held
    """
    found = read()
    if found is not None:
        return found, True
    with locked(target) as held:
        found = read()
        return (make(held), False) if found is None else (found, True)


def open_plain(path: Path) -> BufferedReader:
    """Open a file for reading; a folder, a device or a pipe, whose reading may never end, is an `OSError`."""
    # Without blocking: to open a pipe would wait for somebody who writes to it.
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "Not a plain file", str(path))
    return os.fdopen(handle, "rb")


def sha256_of_file(path: Path) -> str:
    """Compute the hex SHA-256 of a file's content."""
    with open_plain(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
