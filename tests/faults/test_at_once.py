"""Several processes at the same work in the same folders."""

from __future__ import annotations

import collections
import signal
from pathlib import Path

import pytest

from tests.faults.scenes import TINY, Stage
from tests.runs import call, finish
from thetarbm_cli.store import Store

RUN = ("run", *TINY)


def test_three_processes_do_each_run_of_a_suite_once_though_a_fourth_was_killed_with_a_lock(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, together = (Stage.set_up(start, tmp_path / name) for name in ("alone", "together"))
    # While it writes the first run, whose lock it holds.
    killed = together.spawn(RUN, kill_at=8)
    with monkeypatch.context() as patched:
        patched.chdir(alone.folder)
        assert call(alone.folder / "data", alone.folder / "results", *RUN).code == 0
    assert finish(killed).code == -signal.SIGKILL
    (lock,) = (together.folder / "results" / "runs").glob("*/run.lock")
    # As a program would that keeps its number in the file.
    lock.write_text(f"{killed.pid}\n")
    before = len(together.changes())
    processes = [together.spawn(RUN) for _ in range(3)]
    assert [finish(process).code for process in processes] == [0] * 3
    assert together.contents() == alone.contents()
    assert together.temporary_files() == []
    runs = Store(alone.folder / "results", shipped=False).identifiers()
    assert len(runs) == 2
    # Weights and records are written once.
    written = collections.Counter(line for line in together.changes()[before:] if line.startswith("os.rename "))
    for run in runs:
        assert written[f"os.rename results/runs/{run}/weights.npz"] == 1
        assert written[f"os.rename results/runs/{run}/run.json"] == 1
