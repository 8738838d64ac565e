from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.runs import PATIENCE_SECONDS
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
with storage.{block}(Path({str(target)!r})) as given:
    if {block!r} == "replacing":
        given.write_bytes(b"half of the ne")
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


def test_holder_is_known_while_it_lives_with_its_reports_and_no_longer(tmp_path: Path) -> None:
    target = tmp_path / "file"
    assert storage.holder(target) is None
    with storage.locked(target) as held:
        assert storage.holder(target).pid == os.getpid()
        held.report("training", 3, 50)
        said = storage.holder(target)
        assert (said.step, said.done, said.total) == ("training", 3, 50)
    assert storage.holder(target) is None
    assert names_in(tmp_path) == ["file.lock"]
    with started("locked", target) as process:
        assert storage.holder(target).pid == process.pid
        process.kill()
        # Dead, though nobody has asked for its exit code yet.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert storage.holder(target) is None
    assert storage.progress_path(target).exists()
    assert storage.holder(target) is None
    with storage.locked(target):
        assert storage.holder(target).pid == os.getpid()
    assert names_in(tmp_path) == ["file.lock"]


def test_two_who_ask_never_find_a_holder_where_there_is_none_nor_keep_one_from_holding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "thetarbm")
    monkeypatch.setattr(storage, "SILENT_SECONDS", 0)
    target = tmp_path / "file"
    with storage.locked(target):
        pass
    found: list[object] = []
    askers = [threading.Thread(target=lambda: found.extend(storage.holder(target) for _ in range(400))) for _ in "ab"]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert found == [None] * 800
    askers = [threading.Thread(target=lambda: [storage.holder(target) for _ in range(400)]) for _ in "ab"]
    for asker in askers:
        asker.start()
    for _ in range(100):
        with storage.locked(target) as held:
            held.report("a", 1, 2)
    for asker in askers:
        asker.join()
    assert caplog.messages == []


def write_report(target: Path, **changes: Any) -> None:
    """The report of a living holder, with something changed."""
    with storage.locked(target):
        said = json.loads(storage.progress_path(target).read_text())
    storage.progress_path(target).write_text(json.dumps({**said, **changes}))


@pytest.mark.parametrize("changes", [{"started": "12345"}, {"pid": 2**22 + 1}, {"pid": -1}, {"pid": "1"}, {"step": 1}])
def test_report_of_another_process_with_the_same_number_of_none_and_of_nonsense_is_not_believed(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    write_report(tmp_path / "file")
    assert storage.holder(tmp_path / "file") is not None
    write_report(tmp_path / "file", **changes)
    assert storage.holder(tmp_path / "file") is None


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b'{"pid": 1}', b"[" * 65_000])
def test_report_that_is_none_is_no_holder(tmp_path: Path, text: bytes) -> None:
    storage.progress_path(tmp_path / "file").write_bytes(text)
    assert storage.holder(tmp_path / "file") is None


def test_report_from_another_host_counts_for_a_quarter_of_an_hour(tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_report(target, host="another", pid=1, step="training")
    assert storage.holder(target).step == "training"
    before = time.time() - 16 * 60
    os.utime(storage.progress_path(target), (before, before))
    assert storage.holder(target) is None


def test_reports_are_written_at_most_five_times_a_second_but_for_a_new_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(storage.time, "monotonic", lambda: now[0])
    seen = []
    with storage.locked(tmp_path / "file") as held:
        for done in range(65):
            now[0] = 100 + done / 64
            held.report("first", done, 64)
            seen.append(storage.holder(tmp_path / "file").done)
        assert sorted(set(seen)) == [0, 13, 26, 39, 52]
        held.report("second", 0, 7)
        assert storage.holder(tmp_path / "file").step == "second"


def test_where_reports_cannot_be_written_the_work_goes_on(tmp_path: Path) -> None:
    storage.progress_path(tmp_path / "file").mkdir()
    with storage.locked(tmp_path / "file") as held:
        held.report("training", 1, 2)
        assert storage.holder(tmp_path / "file") is None


def test_without_proc_ps_tells_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoProc(type(Path())):
        def __new__(cls, name: str) -> Path:
            return Path("/nowhere")

    monkeypatch.setattr(storage, "Path", NoProc)
    with subprocess.Popen(["sleep", "60"]) as process:
        began = storage._started(process.pid)
        assert began == storage._started(process.pid)
        assert ":" in began
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert storage._started(process.pid) is None
    assert storage._started(process.pid) is None


def test_a_thing_is_made_once_and_found_without_the_lock(tmp_path: Path) -> None:
    target = tmp_path / "file"

    def read() -> str | None:
        return target.read_text() if target.exists() else None

    def make(held: storage.Held) -> str:
        assert storage.holder(target) is not None
        target.write_text("made")
        return "made"

    assert storage.get_or_make(target, read, make) == ("made", False)
    with started("locked", target) as process:
        assert storage.get_or_make(target, read, pytest.fail) == ("made", True)
        process.kill()
    # What another process makes while this one waits for the lock is found.
    reads = iter([None, "theirs"])
    assert storage.get_or_make(target, lambda: next(reads), pytest.fail) == ("theirs", True)
    with pytest.raises(KeyError):
        storage.get_or_make(target, lambda: None, lambda held: {}["no"])
    assert storage.holder(target) is None


def test_lines_of_processes_at_once_are_all_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "lines"
    script = """
import sys
from pathlib import Path
from thetarbm_cli import storage
for number in range(50):
    storage.append_line(Path(sys.argv[1]), sys.argv[2].encode() * 5000)
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, str(target), name]) for name in "ab"]
    assert [writer.wait(timeout=PATIENCE_SECONDS) for writer in writers] == [0, 0]
    lines = target.read_bytes().split(b"\n")
    assert sorted(lines) == [b""] + 50 * [b"a" * 5000] + 50 * [b"b" * 5000]


def test_line_is_on_disk_and_one_that_does_not_fit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append((tmp_path / "lines").read_bytes()))
    storage.append_line(tmp_path / "lines", b"first")
    assert synced == [b"first\n"]
    write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda handle, content: write(handle, content[:3]))
        with pytest.raises(ThetaRBMError, match=r"cannot write .*lines: No space left"):
            storage.append_line(tmp_path / "lines", b"second")
    storage.append_line(tmp_path / "lines", b"third")
    assert (tmp_path / "lines").read_bytes() == b"first\nsec\nthird\n"
    with pytest.raises(ThetaRBMError, match="cannot write"):
        storage.append_line(tmp_path, b"line")
