"""Stand-ins for a disk that is full and for a folder that cannot be written to, at the level of the system's calls.

They hold for every user (root may write where permissions forbid it) and need no file system of their own.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CREATING = os.O_CREAT
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "os.link", "os.symlink", "os.truncate")


class FullDisk:
    """A disk on which the calls that need room fail, from the n-th on, as long as it is in force.

    Attributes
    ----------
    calls : how many there were so far
    """

    def __init__(self, folder: Path, room_for: int) -> None:
        self.folder = folder
        self.room_for = room_for
        self.calls = 0

    @property
    def was_full(self) -> bool:
        """Whether a call has failed."""
        return self.calls > self.room_for

    def take(self) -> None:
        """Count a call, which may fail."""
        self.calls += 1
        if self.was_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """New files and folders, and new names, need room in a folder."""
        creates = event == "open" and arguments[2] & CREATING
        if (creates or event in ("os.mkdir", "os.rename")) and _is_in(self.folder, arguments[0]):
            self.take()

    @contextmanager
    def in_force(self) -> Iterator[FullDisk]:
        """Let it be full while the block lasts."""
        disk, plain_open, plain_fsync, plain_write = self, io.open, os.fsync, os.write

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                disk.take()
                return super().write(data)

        def counting_open(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            if mode not in ("wb", "w+b") or not _is_in(disk.folder, path):
                return plain_open(path, mode, *arguments, **options)
            file = File(path, mode.replace("b", ""))
            return io.BufferedRandom(file) if "+" in mode else io.BufferedWriter(file)

        def counting_fsync(handle: int) -> None:
            disk.take()
            plain_fsync(handle)

        def counting_write(handle: int, data: bytes) -> int:
            if not _is_in(disk.folder, os.readlink(f"/proc/self/fd/{handle}")):
                return plain_write(handle, data)
            disk.calls += 1
            # The last block takes what fits.
            return plain_write(handle, data[: len(data) // 2] if disk.was_full else data)

        with pytest.MonkeyPatch.context() as patched, _audited_by(self):
            patched.setattr(io, "open", counting_open)
            patched.setattr(os, "write", counting_write)
            patched.setattr(os, "fsync", counting_fsync)
            yield self


class ReadOnly:
    """A folder in which nothing can be changed: a file system mounted so, or one of another user."""

    def __init__(self, folder: Path, error: int) -> None:
        self.folder = folder
        self.error = error

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse every call that would change something."""
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITING
        if (writes or event in CHANGES) and _is_in(self.folder, arguments[0]):
            raise OSError(self.error, os.strerror(self.error), str(arguments[0]))

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """Let it be so while the block lasts."""
        with _audited_by(self):
            yield


def _is_in(folder: Path, path: Any) -> bool:
    return isinstance(path, str | os.PathLike) and Path(path).absolute().is_relative_to(folder)


# A hook stays for the life of its process: there is one, and it asks whoever is in force.
_auditors: list[FullDisk | ReadOnly] = []
_is_hooked: list[bool] = []


@contextmanager
def _audited_by(auditor: FullDisk | ReadOnly) -> Iterator[None]:
    def ask(event: str, arguments: tuple[Any, ...]) -> None:
        for each in _auditors:
            each.audit(event, arguments)

    if not _is_hooked:
        sys.addaudithook(ask)
        _is_hooked.append(True)
    _auditors.append(auditor)
    try:
        yield
    finally:
        _auditors.remove(auditor)
