from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.runs import Command
from tests.experiments.suites import SMALL, record_for, save, write_suite
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite


@pytest.fixture
def suite(tmp_path: Path) -> str:
    """The small suite over results with a run of it, one of its older form, one by hand and one of an old algorithm."""
    older = load_suite(write_suite(tmp_path, SMALL.replace("epochs: 3", "epochs: 4"))).cells("tiny")
    path = write_suite(tmp_path)
    cells = load_suite(path).cells("tiny")
    by_hand = record_for(older[1], 5, test_error_percent=1.0).model_copy(update={"cells": [], "run": "rbm-by-hand"})
    ancient = record_for(cells[2], test_error_percent=1.0).model_copy(update={"algorithm": 0, "run": "theta-ancient"})
    stale = record_for(older[0], test_error_percent=1.0).model_copy(update={"run": "rbm-stale"})
    good = record_for(cells[0], test_error_percent=1.0).model_copy(update={"run": "rbm-good"})
    save(tmp_path / "results", good, stale, by_hand, ancient)
    for run in ("rbm-good", "rbm-stale"):
        RunStore(tmp_path / "results").weights_path(run).write_bytes(b"weights")
    return str(path)


def runs_in(tmp_path: Path) -> list[str]:
    return RunStore(tmp_path / "results").identifiers()


def test_stale_runs_go_and_others_stay(thetarbm: Command, tmp_path: Path, suite: str) -> None:
    done = thetarbm("clean", "--suite", suite, "--yes")
    assert done.code == 0
    assert "rbm-stale: made for rbm/sparsity=0.3@tiny with settings that the suite no longer has" in done.out
    assert "theta-ancient: made by version 0 of the algorithm" in done.out
    assert runs_in(tmp_path) == ["rbm-by-hand", "rbm-good"]
    assert RunStore(tmp_path / "results").weights_path("rbm-good").exists()
    assert thetarbm("clean", "--suite", suite).out == "nothing to remove\n"


def test_nothing_goes_without_a_yes(thetarbm: Command, tmp_path: Path, suite: str) -> None:
    before = runs_in(tmp_path)
    done = thetarbm("clean", "--suite", suite)
    assert done.code != 0
    assert "remove 2 of these" in done.err
    assert runs_in(tmp_path) == before


def test_weights_go_when_asked_for_and_records_stay(thetarbm: Command, tmp_path: Path, suite: str) -> None:
    done = thetarbm("clean", "--suite", suite, "--weights", "--yes", "--json")
    assert {row["run"] for row in done.json["removed"]} == {"rbm-stale", "theta-ancient", "rbm-good"}
    assert runs_in(tmp_path) == ["rbm-by-hand", "rbm-good"]
    assert not RunStore(tmp_path / "results").weights_path("rbm-good").exists()


def test_a_run_that_is_worked_on_stays(thetarbm: Command, tmp_path: Path, suite: str) -> None:
    with RunStore(tmp_path / "results").locked("rbm-stale"):
        assert thetarbm("clean", "--suite", suite, "--yes").code == 0
    assert "rbm-stale" in runs_in(tmp_path)
