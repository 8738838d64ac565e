from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.runs import PATIENCE_SECONDS
from thetarbm_cli import storage
from thetarbm_cli.errors import ThetaRBMError


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def started(block: str, target: Path) -> subprocess.Popen[str]:
    """A process that is inside of a block of `storage` for a minute."""
    script = f"""
import time
from pathlib import Path
from thetarbm_cli import storage
with storage.{block}(Path({str(target)!r})) as temporary:
    if temporary:
        temporary.write_bytes(b"half of the ne")
    print("ready", flush=True)
    time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def test_file_is_written_with_its_folders_and_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "file.txt"
    storage.write_text(target, "θ-RBM\n")
    with target.open("rb") as reader:
        storage.write_bytes(target, b"new")
        assert reader.read() == "θ-RBM\n".encode()
    assert target.read_bytes() == b"new"
    assert names_in(target.parent) == ["file.txt"]


def test_failure_in_the_block_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def write_half() -> None:
        with storage.replacing(target) as temporary:
            temporary.write_bytes(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_half()
    assert target.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_folder_in_the_place_of_a_file_and_file_of_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "target" / "inside").mkdir(parents=True)
    with pytest.raises(ThetaRBMError, match=r"cannot write .*target"):
        storage.write_bytes(tmp_path / "target", b"new")
    assert names_in(tmp_path) == ["target"]
    (tmp_path / "file").touch()
    with pytest.raises(ThetaRBMError, match=r"cannot write .*file/inside"):
        storage.write_bytes(tmp_path / "file" / "inside", b"new")


def test_content_is_on_disk_before_the_rename_and_permissions_are_those_of_any_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    seen: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: seen.append(target.read_bytes()))
    before = os.umask(0o027)
    try:
        storage.write_bytes(target, b"new")
    finally:
        os.umask(before)
    assert seen == [b"old"]
    assert target.stat().st_mode & 0o777 == 0o640


def test_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    with started("replacing", target) as process:
        # What a living process writes is left alone.
        storage.remove_leftovers(tmp_path)
        storage.write_bytes(target, b"old as well")
        assert len(names_in(tmp_path)) == 2
        process.kill()
    assert target.read_bytes() == b"old as well"
    assert len(names_in(tmp_path)) == 2
    storage.write_bytes(tmp_path / "other", b"")
    assert len(names_in(tmp_path)) == 3
    # What a dead one has left goes with the next write of the same file.
    storage.write_bytes(target, b"new")
    assert target.read_bytes() == b"new"
    assert names_in(tmp_path) == ["file", "other"]


def test_a_temporary_file_that_another_process_takes_for_a_leftover_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = fcntl.flock
    quick = iter([True])

    def lock_late(handle: int, operation: int) -> None:
        """Before the new file is locked, all that are not are removed, once."""
        if next(quick, False):
            for path in tmp_path.iterdir():
                path.unlink()
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", lock_late)
    with storage.replacing(tmp_path / "file") as temporary:
        temporary.write_bytes(b"new")
        # The new one is held, and stays.
        storage.remove_leftovers(tmp_path)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert names_in(tmp_path) == ["file"]


def test_without_locks_files_are_written_and_leftovers_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    (tmp_path / ".file.xyz.part").touch()
    storage.write_bytes(tmp_path / "file", b"new")
    assert names_in(tmp_path) == [".file.xyz.part", "file"]


def test_lock_that_is_held_too_long_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "thetarbm")
    monkeypatch.setattr(storage, "SILENT_SECONDS", 0.01)
    monkeypatch.setattr(storage, "LOCK_PATIENCE_SECONDS", 0.05)
    with started("locked", tmp_path / "file") as process:
        held = pytest.raises(ThetaRBMError, match=r"file\.lock is held by another process")
        with held, storage.locked(tmp_path / "file"):
            pytest.fail("two processes hold one lock")
        process.kill()
    assert caplog.messages == [f"another process holds {tmp_path / 'file'}.lock: waiting until it is done"]


def test_lock_of_a_dead_process_or_after_an_error_does_not_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "made by the lock" / "file"
    with started("locked", target) as process:
        process.kill()
        process.wait(timeout=PATIENCE_SECONDS)
    assert target.with_name("file.lock").exists()
    monkeypatch.setattr(storage, "LOCK_PATIENCE_SECONDS", 0)
    with pytest.raises(ValueError, match="stop"), storage.locked(target):
        raise ValueError("stop")
    with storage.locked(target):
        pass


WITHOUT_UNIX = """
import os, sys, filelock
from pathlib import Path
sys.modules["fcntl"] = None
sys.platform = "win32"
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
    delattr(os, name)
from thetarbm_cli import storage
target = Path(sys.argv[1])
fresh, old = (target.with_name(f".{target.name}.{name}.part") for name in ("fresh", "old"))
for path in (fresh, old):
    path.write_bytes(b"half")
os.utime(old, (0, 0))
storage.write_bytes(target, b"new")
assert storage.open_plain(target).read() == b"new"
assert sorted(path.name for path in target.parent.iterdir()) == [fresh.name, "file"]
"""


def test_files_are_written_and_leftovers_removed_without_unix_calls(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", WITHOUT_UNIX, str(tmp_path / "file")], check=True, timeout=PATIENCE_SECONDS)
    assert (tmp_path / "file").read_bytes() == b"new"
