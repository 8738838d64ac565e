from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.runs import MODELS, Command, files_in, parts_of, record_of, rewrite, run_of
from thetarbm_cli.results import load_records
from thetarbm_cli.specs import ALGORITHM
from thetarbm_cli.store import Store


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
        sparsity = None if "pixels" in row["model"] else 0.3  # A control learns nothing.
        assert (row["sparsity"], row["seed"], row["cached"]) == (sparsity, 0, True)
        assert 0 < row["test_error_percent"] < 90
        training = Store(evaluated, shipped=False).require(row["run"])
        for each in training.measurements:
            ending = "_unaligned" if each.spec.aligned is False else ""
            for name in {"test_error_percent", "gamma_train", "gamma_test"} & each.values.keys():
                assert row[f"{name}{ending}"] == each.values[name]
            if "dead_units_test" in each.values and not ending:
                assert row["dead_units"] == each.values["dead_units_test"]


def test_all_prints_what_is_recorded_without_weights_or_images(
    thetarbm: Command, evaluated: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(evaluated, results, ignore=shutil.ignore_patterns("*.npz", "*.lock"))
    outcome = thetarbm("evaluate", "--all", "--json", data_dir=tmp_path / "empty")
    assert (outcome.code, outcome.err, len(outcome.json["runs"])) == (0, "", len(MODELS))
    # What was not measured needs the weights.
    thetarbm("evaluate", run_of(results, "rbm"), "--offset", "5").assert_refused("weights", "train")


def test_all_passes_over_what_cannot_be_measured(thetarbm: Command, evaluated: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(evaluated, results)
    bare, old, diverged, damaged = (run_of(results, model) for model in ("rbm", "orbm", "pixels", "tirbm"))
    folder = results / "runs"
    (folder / damaged / "run.json").write_text("{")
    (folder / bare / "measures.jsonl").unlink()
    (folder / bare / "weights.npz").unlink()
    (folder / old / "measures.jsonl").unlink()
    rewrite(results, old, {"spec": {**record_of(results, old)["spec"], "algorithm": ALGORITHM + 1}})
    rewrite(results, diverged, {"state": "diverged", "error": "training diverged"})
    outcome = thetarbm("evaluate", "--all", "--json")
    assert outcome.code == 1
    assert sorted(row["model"] for row in outcome.json["runs"]) == ["aligned-pixels", "theta"]
    # A run that diverged is no finished run: it is not spoken of.
    assert [line.split()[0] for line in outcome.err.splitlines()] == ["warning:"] * 3
    assert all(run in outcome.err for run in (bare, old, damaged))
    assert diverged not in outcome.err


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


def test_other_data_and_runs_that_diverged_are_refused_before_any_other_is_measured(
    thetarbm: Command, results: Path, theta: str, data_dir: Path
) -> None:
    thetarbm("evaluate", theta, data_dir=data_dir).assert_refused("checksum", "mnist-rot", code=1)
    rewrite(results, theta, {"state": "diverged", "error": "training diverged in epoch 1"})
    before = files_in(results)
    thetarbm("evaluate", "rbm", theta, "--json").assert_refused(theta, "training diverged in epoch 1")
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


def test_evaluations_of_one_run_stand_beside_each_other(thetarbm: Command, results: Path, theta: str) -> None:
    """With the sizes of the profile that the run was made in, unless others are asked for."""
    weights = str(results / "runs" / theta / "weights.npz")
    (usual,) = thetarbm("evaluate", weights, "--json").json["runs"]
    calls = [("--set", "svm.C=0.01"), ("--set", "features=states"), ("--offset", "5"), ("--set", "data.test=100")]
    rows = [thetarbm("evaluate", theta, *words, "--json").json["runs"][0] for words in calls]
    assert rows[0]["test_error_percent"] != usual["test_error_percent"]
    assert rows[0]["gamma_test"] == usual["gamma_test"]
    assert rows[1]["gamma_test"] != usual["gamma_test"]
    assert (rows[2]["gamma_offset"], rows[2]["test_error_percent"]) == (5.0, usual["test_error_percent"])
    assert rows[2]["gamma_test"] != usual["gamma_test"]
    for words, row in zip(calls, rows, strict=True):
        assert thetarbm("evaluate", theta, *words, "--json").json["runs"] == [{**row, "cached": True}]
    assert thetarbm("evaluate", theta, "--json").json["runs"] == [{**usual, "cached": True}]
    (listed,) = thetarbm("list", "--model", "theta", "--json").json["runs"]
    assert listed["test_error_percent"] == usual["test_error_percent"]
    measurements = Store(results, shipped=False).require(theta).measurements
    assert {each.spec.count for each in measurements if each.spec.part == "test"} == {300, 100}
    shown = thetarbm("show", theta, "--json").json["metrics"]
    assert {"svm.C": 0.01} in [
        {name: number["settings"][name] for name in number["settings"] if name == "svm.C"} for number in shown
    ]


def test_other_measures_of_invariance_are_asked_for_by_an_option(thetarbm: Command, results: Path, theta: str) -> None:
    assert thetarbm("evaluate", theta, "--json").json["runs"][0]["more"] == {}
    (row,) = thetarbm("evaluate", theta, "--invariance", "--json").json["runs"]
    assert row["cached"] is False
    assert row["more"].keys() == {"goodfellow_test", "zou_test", "dosovitskiy_test", "rotated_error_percent"}
    assert thetarbm("evaluate", theta, "--invariance", "--json").json["runs"] == [{**row, "cached": True}]
    assert f"{row['more']['zou_test']:.4f}" in thetarbm("evaluate", theta, "--invariance").out


def test_numbers_of_weights_that_were_not_learned_are_never_the_runs_own(thetarbm: Command, theta: str) -> None:
    control = thetarbm("evaluate", theta, "--set", "weights=images", "--json").json["runs"][0]
    assert (control["weights"], control["settings"]) == ("images", {"weights": "images"})
    assert {each["weights"] for each in control["unusual"].values()} == {"images"}
    assert control["unusual"].keys() >= {"test_error_percent", "gamma_train", "gamma_test"}
    # Nothing else is measured of it yet.
    listed = next(row for row in thetarbm("list", "--json").json["runs"] if row["run"] == theta)
    assert listed["test_error_percent"] is listed["gamma_test"] is None
    shown = thetarbm("show", theta, "--json").json["metrics"]
    assert shown
    assert {each["settings"]["weights"] for each in shown} == {"images"}
    assert "weights=images" in thetarbm("show", theta).out
    own = thetarbm("evaluate", theta, "--json").json["runs"][0]
    assert own["weights"] == "learned"
    assert own["test_error_percent"] != control["test_error_percent"]
    every = thetarbm("evaluate", "--all", "--json").json["runs"]
    again = next(row for row in every if row["run"] == theta)
    assert (again["cached"], again["weights"]) == (True, "learned")
    assert [again[name] for name in ("test_error_percent", "gamma_train", "gamma_test")] == [
        own[name] for name in ("test_error_percent", "gamma_train", "gamma_test")
    ]
    listed = next(row for row in thetarbm("list", "--json").json["runs"] if row["run"] == theta)
    assert listed["test_error_percent"] == own["test_error_percent"]


def test_a_run_of_which_a_control_alone_is_measured_is_not_cut_off(thetarbm: Command, results: Path) -> None:
    for model in MODELS:
        if model != "rbm":
            shutil.rmtree(results / "runs" / run_of(results, model))
    thetarbm("evaluate", "rbm", "--set", "weights=normal", "--set", "data.test=100")
    (row,) = thetarbm("evaluate", "--all", "--json").json["runs"]
    # It is measured as any run that is not.
    assert (row["cached"], row["weights"]) == (False, "learned")
    frame = load_records(results)
    errors = frame[frame.measure == "test_error_percent"].set_index("weights").value
    assert set(errors.index) == {"learned", "normal"}
    assert errors["learned"] == row["test_error_percent"]


def test_readings_of_measuring_are_settings_of_it(thetarbm: Command, theta: str) -> None:
    words = ["--set", "statistics=set", "--set", "order=standardised-first", "--set", "svm.gamma=null"]
    row = thetarbm("evaluate", theta, *words, "--json").json["runs"][0]
    assert row["unusual"]["test_error_percent"] == {"count": 300, "svm.gamma": None, "statistics": "set"}
    assert row["unusual"]["gamma_train"] == {"order": "standardised-first"}
    thetarbm("evaluate", theta, "--set", "copies=own", "--set", "order=standardised-first").assert_refused("exclude")
    thetarbm("evaluate", "pixels", "--set", "weights=images").assert_refused("no learned weights to replace")
