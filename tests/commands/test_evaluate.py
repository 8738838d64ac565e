from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.runs import MODELS, Command, files_in, parts_of, record_of, rewrite, run_of
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunStore


@pytest.fixture
def results(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained runs, where the command looks for them."""
    return Path(shutil.copytree(trained, tmp_path / "results"))


@pytest.fixture
def theta(results: Path) -> str:
    return run_of(results, "theta")


def test_numbers_are_those_of_the_records(thetarbm: Command, evaluated: Path) -> None:
    rows = thetarbm("evaluate", "--all", "--json", results=evaluated).json["runs"]
    assert sorted(row["model"] for row in rows) == sorted(MODELS)
    for row in rows:
        metrics = record_of(evaluated, row["run"])["metrics"]
        sparsity = None if "pixels" in row["model"] else 0.3  # A control learns nothing.
        assert (row["sparsity"], row["seed"], row["cached"]) == (sparsity, 0, True)
        assert 0 < row["test_error_percent"] < 90
        assert row["dead_units"] == metrics["gamma"]["test"]["dead_units"]
        for ending in ("", "_unaligned") if row["model"] == "orbm" else ("",):
            of = metrics["unaligned"] if ending else metrics
            assert row[f"test_error_percent{ending}"] == of["svm"]["test_error_percent"]
            for role in ("train", "test"):
                assert row[f"gamma_{role}{ending}"] == of["gamma"][role]["mean"]


def test_all_prints_records_that_have_numbers_as_they_are(thetarbm: Command, evaluated: Path, tmp_path: Path) -> None:
    shutil.copytree(evaluated, tmp_path / "results", ignore=shutil.ignore_patterns("*.npz", "*.lock"))
    run = run_of(tmp_path / "results", "rbm")
    metrics = record_of(tmp_path / "results", run)["metrics"]
    rewrite(tmp_path / "results", run, {"metrics": {"svm": metrics["svm"]}})
    outcome = thetarbm("evaluate", "--all", "--json", data_dir=tmp_path / "empty")
    assert (outcome.code, outcome.err) == (0, "")
    (row,) = (row for row in outcome.json["runs"] if row["run"] == run)
    assert (row["test_error_percent"], row["gamma_test"]) == (metrics["svm"]["test_error_percent"], None)
    # γ is measured for who asks for it by name, which needs the weights.
    thetarbm("evaluate", run).assert_refused("weights", "train")


def test_all_passes_over_what_cannot_be_measured(thetarbm: Command, evaluated: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(evaluated, results)
    bare, old, failed, damaged = (run_of(results, model) for model in ("rbm", "orbm", "pixels", "tirbm"))
    RunStore(results).record_path(damaged).write_text("{")
    outcome = thetarbm("evaluate", "--all", "--json")
    assert (outcome.code, len(outcome.json["runs"])) == (1, 5)
    rewrite(results, bare, {"metrics": None})
    RunStore(results).weights_path(bare).unlink()
    rewrite(results, old, {"algorithm": ALGORITHM + 1})
    rewrite(results, failed, {"state": "failed", "error": "diverged"})
    outcome = thetarbm("evaluate", "--all", "--json")
    assert outcome.code == 1
    assert sorted(row["model"] for row in outcome.json["runs"]) == ["aligned-pixels", "theta"]
    # A failed run is no finished run: it is not spoken of.
    assert [line.split()[0] for line in outcome.err.splitlines()] == ["warning:"] * 3
    assert all(run in outcome.err for run in (bare, old, damaged))
    assert failed not in outcome.err


def test_people_read_a_table(thetarbm: Command, evaluated: Path) -> None:
    row = thetarbm("evaluate", "orbm", "--json", results=evaluated).json["runs"][0]
    text = thetarbm("evaluate", "orbm", results=evaluated).out
    for name, words in (("", "test error aligned"), ("_unaligned", "test error not aligned")):
        error, *gammas = (row[f"{column}{name}"] for column in ("test_error_percent", "gamma_train", "gamma_test"))
        assert f"  {words} {error:.2f} %   γ train {gammas[0]:.4f}   γ test {gammas[1]:.4f}\n" in text
    pixels = thetarbm("evaluate", run_of(evaluated, "pixels"), results=evaluated).out
    assert re.search(r"^  \d+ dead units are left out of γ$", pixels, re.MULTILINE)


def test_all_of_nothing_is_said(thetarbm: Command, tmp_path: Path) -> None:
    (tmp_path / "results" / "runs").mkdir(parents=True)
    thetarbm("evaluate", "--all", "--json").assert_refused(str(tmp_path / "results"), "no finished run", "train")


def test_runs_that_failed_and_other_data_are_refused_before_any_other_is_measured(
    thetarbm: Command, results: Path, theta: str, data_dir: Path
) -> None:
    thetarbm("evaluate", theta, data_dir=data_dir).assert_refused("checksum", theta, code=1)
    rewrite(results, theta, {"state": "failed", "error": "training diverged in epoch 1"})
    before = files_in(results)
    thetarbm("evaluate", "rbm", theta, "--json").assert_refused(theta, "failed", "training diverged in epoch 1")
    assert files_in(results) == before


def test_images_without_a_validation_part_are_measured_but_not_searched(
    thetarbm: Command, small_data: Path, tmp_path: Path
) -> None:
    images, digits = parts_of(small_data)["train"]
    own = tmp_path / "own.npz"
    np.savez(own, images=images, labels=np.where(digits == 3, 3, 4), split=np.arange(len(digits)) % 2 * 2)
    run = thetarbm("train", "--model", "rbm", "--profile", "tiny", "--source", str(own), "--json").json["run"]
    assert thetarbm("evaluate", run, "--json").json["runs"][0]["test_error_percent"] < 20
    thetarbm("evaluate", run, "--grid-search").assert_refused("no valid images")


def test_other_measures_of_invariance_are_asked_for_by_an_option(thetarbm: Command, results: Path, theta: str) -> None:
    assert thetarbm("evaluate", theta, "--json").json["runs"][0]["more"] == {}
    (row,) = thetarbm("evaluate", theta, "--invariance", "--json").json["runs"]
    assert row["cached"] is False
    assert row["more"].keys() == {"goodfellow_test", "zou_test", "dosovitskiy_test", "rotated_error_percent"}
    # Later calls print what is there, without being asked.
    assert thetarbm("evaluate", theta, "--json").json["runs"] == [{**row, "cached": True}]
    assert f"{row['more']['zou_test']:.4f}" in thetarbm("evaluate", theta).out
