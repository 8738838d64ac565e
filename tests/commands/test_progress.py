from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.cells import cell_len

from tests.commands.terminals import in_terminal
from tests.experiments.suites import FAILING, write_suite
from thetarbm_cli.commands import progress
from thetarbm_cli.models.contrastive_divergence import EpochRecord

on_unix = pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
    return clock


def test_time_left_is_that_of_the_epochs(clock: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    with progress.TrainingDisplay(False, "rbm") as display:
        clock.now += 1000
        display.preparing(1, 1)
        for epoch in (7, 8):  # a run that is resumed after epoch 6
            clock.now += 10
            display.epoch(EpochRecord(epoch, 0.5, 0.3), 12)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1:] == [
        "rbm epoch  7/12  reconstruction error 0.5000  mean activation 0.300  50 s left",
        "rbm epoch  8/12  reconstruction error 0.5000  mean activation 0.300  40 s left",
    ]


def test_the_share_of_a_run_grows_with_every_step_and_stays_below_one() -> None:
    line, shares = progress.Line("run"), []
    steps = [("starting", 0), ("preparing the data", 2), ("epoch", 4), ("γ", 3), ("SVM", 3), ("grid search", 2)]
    for step, total in steps:
        for done in range(total + 1):
            line.update(step, done, total)
            shares.append(line.share)
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert progress.TRAINED < shares[-1] < 1


@on_unix
@pytest.mark.parametrize(("columns", "name", "jobs"), [(80, "theta/sparsity=0.1 seed 0", "2"), (40, "0.1 seed 0", "1")])
def test_runs_are_shown_in_lines_that_fit(tmp_path: Path, small_data: Path, columns: int, name: str, jobs: str) -> None:
    suite = write_suite(tmp_path)
    folders = ["--results", str(tmp_path / "results"), "--data-dir", str(small_data)]
    words = ["run", "theta", "--suite", str(suite), "--profile", "tiny", "-j", jobs]
    seen = in_terminal(*folders, *words, columns=columns)
    assert seen.code == 0
    assert max(map(cell_len, seen.lines)) <= columns
    first = next(line for line in seen.lines if line.startswith("runs "))
    assert "0/2" in first
    assert first.split()[-1] == ("left" if columns == 80 else "s")
    assert any(name in line and "━" in line for line in seen.lines)
    assert seen.lines[-1].startswith("2 done, 0 cached, 0 failed")


@on_unix
def test_a_failure_is_printed_above_what_is_shown(tmp_path: Path, small_data: Path) -> None:
    suite = write_suite(tmp_path, FAILING)
    call = ["--results", str(tmp_path / "results"), "--data-dir", str(small_data), "run", "--suite", str(suite)]
    seen = in_terminal(*call, "--profile", "tiny", "--keep-going", columns=200)
    assert seen.code == 1
    assert sum(line.startswith("failed: second seed 0: ") for line in seen.lines) == 1


@on_unix
@pytest.mark.parametrize("words", ["train --model rbm --profile tiny", "run rbm --profile tiny", "evaluate nosuch"])
def test_something_is_shown_before_libraries_are_imported(words: str, tmp_path: Path, small_data: Path) -> None:
    seen = in_terminal("--results", str(tmp_path), "--data-dir", str(small_data), *words.split(), columns=40)
    assert seen.lines[0].split()[0] in ("rbm", "planning", "runs")
    assert "━" in seen.lines[0]


@on_unix
def test_training_and_measuring_fit_a_terminal(tmp_path: Path, small_data: Path) -> None:
    call = ["--results", str(tmp_path), "--data-dir", str(small_data)]
    seen = in_terminal(*call, "train", "--model", "rbm", "--profile", "tiny", columns=40)
    shown = [line for line in seen.lines if "━" in line]
    assert any("epoch" in line for line in shown)
    # Paths and commands are left to the terminal, which copies them in one piece.
    assert all(cell_len(line) <= 40 or line.startswith(("path ", "evaluate ")) for line in seen.lines)
    seen = in_terminal(*call, "evaluate", "--all", columns=40)
    assert seen.code == 0
    assert any("━" in line for line in seen.lines)
    assert max(map(cell_len, seen.lines)) <= 40
