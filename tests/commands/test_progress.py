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


def test_time_left_is_that_of_the_epochs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(progress, "time", clock)
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
def test_runs_are_shown_in_lines_that_fit_and_failures_above_them(tmp_path: Path, small_data: Path) -> None:
    folders = ["--results", str(tmp_path / "results"), "--data-dir", str(small_data)]
    words = ["run", "--suite", str(write_suite(tmp_path, FAILING)), "--profile", "tiny", "--keep-going"]
    seen = in_terminal(*folders, *words, columns=40)
    assert seen.code == 1
    assert max(map(cell_len, seen.lines)) <= 40
    first = next(line for line in seen.lines if line.startswith("runs "))
    assert "0/3" in first
    assert any("first seed 0" in line and "━" in line for line in seen.lines)
    assert sum(line.startswith("failed: second seed 0: ") for line in seen.lines) == 1


@on_unix
def test_something_is_shown_before_libraries_are_imported_and_all_of_it_fits(tmp_path: Path, small_data: Path) -> None:
    for words, label in (("train --model rbm --profile tiny", "rbm"), ("evaluate --all", "runs")):
        seen = in_terminal("--results", str(tmp_path), "--data-dir", str(small_data), *words.split(), columns=40)
        assert seen.code == 0
        assert seen.lines[0].split()[0] == label
        assert "━" in seen.lines[0]
        # Paths and commands are left to the terminal, which copies them in one piece.
        assert all(cell_len(line) <= 40 or line.startswith(("path ", "evaluate ")) for line in seen.lines)
        if label == "rbm":
            assert any("epoch" in line for line in seen.lines if "━" in line)
