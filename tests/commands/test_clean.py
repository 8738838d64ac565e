from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

from tests.records import save, training_for
from tests.runs import Command, rewrite
from tests.suites import SMALL, write_suite
from thetarbm_cli.store import MadeFor, Store
from thetarbm_cli.suite import load_suite, shipped_path


@pytest.fixture
def suite(tmp_path: Path) -> str:
    """The small suite over results with a run of it on other images, one of its older form, by hand and too old."""
    older = load_suite(write_suite(tmp_path, SMALL.replace("epochs: 3", "epochs: 4"))).cells("tiny", "bilinear")
    path = write_suite(tmp_path)
    cells = load_suite(path).cells("tiny", "bilinear")
    for cell, changes in (
        (cells[0], {"run": "rbm-good"}),
        (older[0], {"run": "rbm-stale"}),
        (older[1], {"run": "rbm-by-hand", "made_for": MadeFor(profile="tiny")}),
        (cells[2], {"run": "theta-ancient", "spec": cells[2].train_spec().model_copy(update={"algorithm": 0})}),
    ):
        training = training_for(cell, test_error_percent=1.0).model_copy(update=changes)
        for each in training.measurements:
            each.run = training.run
        save(tmp_path / "results", training)
    for run in ("rbm-good", "rbm-stale"):
        Store(tmp_path / "results").path(run, "weights.npz").write_bytes(b"weights")
    return str(path)


def runs_in(tmp_path: Path) -> list[str]:
    return Store(tmp_path / "results", shipped=False).identifiers()


def test_stale_runs_go_and_others_stay(thetarbm: Command, tmp_path: Path, suite: str) -> None:
    before = runs_in(tmp_path)
    dry = thetarbm("clean", "--suite", suite, "--dry-run", "--json").json
    assert (dry["removed"], dry["bytes"]) == ([], 0)
    assert [row["run"] for row in dry["would_remove"]] == ["rbm-stale", "theta-ancient"]
    assert dry["would_free_bytes"] > 0
    assert re.search(r"^2 would be removed, \d+\.\d MB$", thetarbm("clean", "--suite", suite, "-n").out, re.MULTILINE)
    store = Store(tmp_path / "results")
    with store.locked("rbm-stale"), store.locked("theta-ancient"):
        # Runs that are worked on stay.
        assert thetarbm("clean", "--suite", suite, "--yes").code == 0
    assert runs_in(tmp_path) == before
    done = thetarbm("clean", "--suite", suite, "--yes")
    assert done.code == 0
    assert "rbm-stale: made for rbm/sparsity=0.3 with settings that the suite no longer has" in done.out
    assert "theta-ancient: made by version 0 of the algorithm" in done.out
    assert runs_in(tmp_path) == ["rbm-by-hand", "rbm-good"]
    assert store.path("rbm-good", "weights.npz").exists()
    assert thetarbm("clean", "--suite", suite).out == "nothing to remove\n"


def test_runs_of_other_suites_stay_and_those_that_name_none(thetarbm: Command, tmp_path: Path, suite: str) -> None:
    for named in ("mine.yaml", ""):
        for run in ("rbm-stale", "theta-ancient"):
            rewrite(tmp_path / "results", run, {"made_for": {"profile": "tiny", "suite": named, "cells": ["rbm"]}})
        assert thetarbm("clean", "--suite", suite, "--yes").out == "nothing to remove\n"


def test_runs_say_for_which_suite_they_were_made(thetarbm: Command, tmp_path: Path) -> None:
    path = str(write_suite(tmp_path))
    assert thetarbm("run", "theta/sparsity=0.3", "--suite", path, "--profile", "tiny", "--seeds", "1").code == 0
    other = tmp_path / "other.yaml"
    other.write_text(SMALL.replace("epochs: 3", "epochs: 4"))
    assert thetarbm("clean", "--suite", str(other), "--yes").out == "nothing to remove\n"
    write_suite(tmp_path, SMALL.replace("epochs: 3", "epochs: 4"))
    assert thetarbm("clean", "--suite", path, "--yes").out.endswith(" MB\n")
    assert runs_in(tmp_path) == []


def test_no_means_no(thetarbm: Command, tmp_path: Path, suite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = runs_in(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = thetarbm("clean", "--suite", suite)
    assert (done.code, done.out.splitlines()[-1].strip()) == (0, "nothing removed")
    assert "remove 2 of these" in done.err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert thetarbm("clean", "--suite", suite).code == 2
    assert runs_in(tmp_path) == before


def test_weights_go_when_asked_for_and_records_stay(thetarbm: Command, tmp_path: Path, suite: str) -> None:
    done = thetarbm("clean", "--suite", suite, "--weights", "--yes", "--json")
    assert sorted(row["run"] for row in done.json["removed"]) == ["rbm-good", "rbm-stale", "theta-ancient"]
    assert runs_in(tmp_path) == ["rbm-by-hand", "rbm-good"]
    assert not Store(tmp_path / "results").path("rbm-good", "weights.npz").exists()


def test_a_run_on_mnist_whose_images_have_another_source_is_asked_for(thetarbm: Command, tmp_path: Path) -> None:
    cell = next(cell for cell in load_suite(shipped_path()).cells("tiny") if cell.name == "mnist-theta")
    training = training_for(cell, gamma_train=0.5, gamma_test=0.5)
    made_for = MadeFor(profile="tiny", suite=shipped_path().name, cells=(cell.name,))
    save(tmp_path / "results", training.model_copy(update={"made_for": made_for}))
    assert thetarbm("clean", "--suite", str(shipped_path()), "--dry-run", "--json").json["would_remove"] == []
