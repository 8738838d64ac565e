"""Several processes at the same work in the same folders."""

from __future__ import annotations

import collections
import signal
from pathlib import Path

import pytest

from tests.experiments.runs import call, finish
from tests.faults.scenes import TINY, Stage
from thetarbm_cli.experiments.execution import theory
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Theory

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
    runs = RunStore(alone.folder / "results").identifiers()
    assert len(runs) == 2
    # Weights are written once, and the record three times: trained, for which cells, measured.
    written = collections.Counter(line for line in together.changes()[before:] if line.startswith("os.rename "))
    for run in runs:
        assert written[f"os.rename results/runs/{run}/weights.npz"] == 1
        assert written[f"os.rename results/runs/{run}/run.json"] == 3


def test_who_waited_for_the_checks_of_another_does_not_repeat_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = Theory(rotations=4, size=12)
    reasons = iter(["never run", ""])
    monkeypatch.setattr(theory, "why_due", lambda results, theory: next(reasons))
    monkeypatch.setattr("thetarbm_cli.measures.theory.verify", lambda *_, **__: pytest.fail("they are made twice"))
    row = theory.do_theory(tmp_path, wanted, lambda reason: None)
    assert row.state == "done"
