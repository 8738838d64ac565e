from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import MODELS, Command, files_in, parts_of, record_of, rewrite, run_of
from tests.experiments.suites import metrics_of
from thetarbm_cli.experiments.runs import evaluation as measuring
from thetarbm_cli.experiments.runs.settings import ALGORITHM, SVMSettings
from thetarbm_cli.experiments.runs.store import RunStore

FIELDS = (
    "run",
    "model",
    "sparsity",
    "seed",
    "test_error_percent",
    "gamma_train",
    "gamma_test",
    "gamma_offset",
    "dead_units",
    "cached",
)
UNALIGNED = ("test_error_percent_unaligned", "gamma_train_unaligned", "gamma_test_unaligned")


@pytest.fixture
def results(trained: Path, tmp_path: Path) -> Path:
    """A copy of the trained runs, where the command looks for them."""
    shutil.copytree(trained, tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def theta(results: Path) -> str:
    return run_of(results, "theta")


def test_json_is_as_documented(thetarbm: Command, evaluated: Path) -> None:
    runs = [run_of(evaluated, model) for model in MODELS]
    sheet = thetarbm("evaluate", *runs, "--json", results=evaluated).json
    assert list(sheet) == ["runs"]
    assert [row["run"] for row in sheet["runs"]] == runs
    for row, model in zip(sheet["runs"], MODELS, strict=True):
        metrics = record_of(evaluated, row["run"])["metrics"]
        assert set(row) == {*FIELDS, *(UNALIGNED if model == "orbm" else ())}
        sparsity = None if "pixels" in model else 0.3  # A control learns nothing.
        assert (row["model"], row["sparsity"], row["seed"]) == (model, sparsity, 0)
        assert row["test_error_percent"] == metrics["svm"]["test_error_percent"]
        assert 0 < row["test_error_percent"] < 90
        assert row["gamma_train"] == metrics["gamma"]["train"]["mean"]
        assert row["gamma_test"] == metrics["gamma"]["test"]["mean"]
        assert row["dead_units"] == metrics["gamma"]["test"]["dead_units"]
        if model == "orbm":
            other = metrics["unaligned"]
            assert row["test_error_percent_unaligned"] == other["svm"]["test_error_percent"]
            assert row["gamma_train_unaligned"] == other["gamma"]["train"]["mean"]
            assert row["gamma_test_unaligned"] == other["gamma"]["test"]["mean"]


def test_second_time_is_cached_and_writes_nothing(thetarbm: Command, results: Path, theta: str) -> None:
    first = thetarbm("evaluate", theta, "--json").json["runs"]
    before = files_in(results)
    second = thetarbm("evaluate", theta, "--json")
    assert first[0]["cached"] is False
    assert second.json["runs"] == [{**first[0], "cached": True}]
    assert second.err == ""
    assert files_in(results) == before


def test_measured_run_needs_its_weights_and_data_no_more(thetarbm: Command, evaluated: Path, tmp_path: Path) -> None:
    shutil.copytree(evaluated, tmp_path / "results")
    run = run_of(evaluated, "theta")
    RunStore(tmp_path / "results").weights_path(run).unlink()
    assert thetarbm("evaluate", run, "--json", data_dir=tmp_path / "none").json["runs"][0]["cached"] is True


def test_runs_by_beginning_and_path(thetarbm: Command, evaluated: Path) -> None:
    run = run_of(evaluated, "tirbm")
    for name in (run[:-2], "tirbm", str(evaluated / "runs" / run)):
        assert thetarbm("evaluate", name, "--json", results=evaluated).json["runs"][0]["run"] == run


def test_all_are_all_finished_runs(thetarbm: Command, evaluated: Path) -> None:
    rows = thetarbm("evaluate", "--all", "--json", results=evaluated).json["runs"]
    assert sorted(row["model"] for row in rows) == sorted(MODELS)
    assert all(row["cached"] for row in rows)


def test_all_of_nothing_is_said(thetarbm: Command, tmp_path: Path) -> None:
    thetarbm("evaluate", "--all", "--json").assert_refused(str(tmp_path / "results"), "does not exist", "train")
    (tmp_path / "results" / "runs").mkdir(parents=True)
    thetarbm("evaluate", "--all", "--json").assert_refused(str(tmp_path / "results"), "no finished run", "train")


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


def test_all_says_which_record_is_damaged(thetarbm: Command, evaluated: Path, tmp_path: Path) -> None:
    shutil.copytree(evaluated, tmp_path / "results")
    run = run_of(tmp_path / "results", "rbm")
    RunStore(tmp_path / "results").record_path(run).write_text("{")
    outcome = thetarbm("evaluate", "--all", "--json")
    assert outcome.code == 1
    assert len(outcome.json["runs"]) == 5
    (warning,) = outcome.err.splitlines()
    assert run in warning


def test_all_passes_over_what_cannot_be_measured(thetarbm: Command, evaluated: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    shutil.copytree(evaluated, results)
    bare, old, failed = (run_of(results, model) for model in ("rbm", "orbm", "pixels"))
    rewrite(results, bare, {"metrics": None})
    RunStore(results).weights_path(bare).unlink()
    rewrite(results, old, {"algorithm": ALGORITHM + 1})
    rewrite(results, failed, {"state": "failed", "error": "diverged"})
    outcome = thetarbm("evaluate", "--all", "--json")
    assert outcome.code == 1
    assert sorted(row["model"] for row in outcome.json["runs"]) == ["aligned-pixels", "theta", "tirbm"]
    # A failed run is no finished run: it is not spoken of.
    assert [line.split()[0] for line in outcome.err.splitlines()] == ["warning:", "warning:"]
    assert bare in outcome.err
    assert old in outcome.err
    assert failed not in outcome.err


def test_people_read_a_table(thetarbm: Command, evaluated: Path) -> None:
    number = r"\d+\.\d+"
    outcome = thetarbm("evaluate", run_of(evaluated, "orbm"), results=evaluated)
    assert re.fullmatch(
        rf"orbm-\w+ \(cached\)  sparsity 0.3, seed 0\n"
        rf"  test error aligned {number} %   γ train {number}   γ test {number}\n"
        rf"  test error not aligned {number} %   γ train {number}   γ test {number}\n",
        outcome.out,
    )
    outcome = thetarbm("evaluate", run_of(evaluated, "pixels"), results=evaluated)
    assert re.search(r"^  \d+ dead units are left out of γ$", outcome.out, re.MULTILINE)


def test_grid_search_is_recorded_and_cached(
    thetarbm: Command, results: Path, theta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "GRID_PENALTIES", (1.0, 30.0))
    monkeypatch.setattr(measuring, "GRID_WIDTHS", (0.02, 0.08))
    row = thetarbm("evaluate", theta, "--grid-search", "--json").json["runs"][0]
    record = RunStore(results).load(theta)
    assert record is not None
    found = metrics_of(record)["grid_search"]
    assert row["grid_search"] == found
    assert [(point["C"], point["gamma"]) for point in found["grid"]] == [(1, 0.02), (1, 0.08), (30, 0.02), (30, 0.08)]
    assert thetarbm("evaluate", theta, "--grid-search", "--json").json["runs"][0]["cached"] is True
    shown = thetarbm("evaluate", theta).out
    assert f"grid search: C = {found['C']:g}, γ = {found['gamma']:g}, validation error" in shown


def test_grid_of_the_paper_holds_the_paper_s_pair() -> None:
    assert SVMSettings().C in measuring.GRID_PENALTIES
    assert SVMSettings().gamma in measuring.GRID_WIDTHS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["name the runs", "--all"]),
        (["--all", "theta"], ["name the runs", "--all"]),
        (["nothing"], ["no run 'nothing'"]),
        (["theta", "nothing"], ["no run 'nothing'"]),
        (["theta", "--offset", "40"], ["offset", "40.0°", "below 40°"]),
        (["theta", "--offset", "-1"], ["offset", "-1.0°", "at least 0°"]),
        (["theta", "--offset", "nan"], ["offset", "nan"]),
        (["theta", "--offset", "far"], ["--offset", "far"]),
        (["somewhere/else/theta-000000000000"], ["somewhere/else", "--results"]),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_sentence_and_writes_nothing(
    thetarbm: Command, results: Path, arguments: list[str], words: list[str]
) -> None:
    before = files_in(results)
    thetarbm("evaluate", *arguments, "--json").assert_refused(*words)
    assert files_in(results) == before


def test_ambiguous_run_names_the_runs(thetarbm: Command, results: Path, theta: str) -> None:
    shutil.copytree(results / "runs" / theta, results / "runs" / "theta-other")
    rewrite(results, "theta-other", {"run": "theta-other", "seed": 7})
    told = f"{theta} (seed=0), theta-other (seed=7): write more of the id"
    thetarbm("evaluate", "theta").assert_refused(f"'theta' may be any of {told}")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"state": "failed", "error": "training diverged in epoch 1"}, ["failed", "training diverged in epoch 1"]),
        ({"algorithm": ALGORITHM + 5}, [f"version {ALGORITHM + 5}", "train it again: thetarbm --data-dir"]),
        ({"format": 0}, ["cannot be used", "train it again"]),
    ],
    ids=["failed", "foreign algorithm", "foreign format"],
)
def test_run_that_cannot_be_measured_is_refused_before_any_other(
    thetarbm: Command, results: Path, theta: str, changes: dict[str, Any], words: list[str]
) -> None:
    rewrite(results, theta, changes)
    before = files_in(results)
    thetarbm("evaluate", "rbm", theta, "--json").assert_refused(theta, *words)
    assert files_in(results) == before


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_without_weights_the_printed_command_makes_them(
    thetarbm: Command, results: Path, theta: str, damage: str
) -> None:
    weights = RunStore(results).weights_path(theta)
    whole = weights.read_bytes()
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(whole[:1000])
    outcome = thetarbm("evaluate", theta)
    outcome.assert_refused("weights", theta, "train it again: thetarbm")
    printed = shlex.split(outcome.err.splitlines()[-1].split("train it again: ")[1])
    assert thetarbm(*printed[1:], "--json").json["run"] == theta
    assert weights.read_bytes() == whole
    assert thetarbm("evaluate", theta).code == 0


def test_other_data_is_refused(thetarbm: Command, results: Path, theta: str, data_dir: Path) -> None:
    before = files_in(results)
    thetarbm("evaluate", theta, data_dir=data_dir).assert_refused("checksum", theta, code=1)
    assert files_in(results) == before


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda labels: np.where(labels == 3, 3, 4), None),
        (lambda labels: np.where(np.arange(len(labels)) == 0, 1, 0), ["class 1", "at least 2 images"]),
    ],
    ids=["two classes", "one image of a class"],
)
def test_classes_that_cannot_be_learned_are_one_sentence(
    thetarbm: Command, small_data: Path, tmp_path: Path, labels: Any, words: list[str] | None
) -> None:
    images, digits = parts_of(small_data)["train"]
    own = tmp_path / "own.npz"
    np.savez(own, images=images, labels=labels(digits), split=np.arange(len(digits)) % 2 * 2)
    run = thetarbm("train", "--model", "rbm", "--profile", "tiny", "--source", str(own), "--json").json["run"]
    before = files_in(tmp_path / "results")
    outcome = thetarbm("evaluate", run, "--json")
    if words is None:
        assert outcome.json["runs"][0]["test_error_percent"] < 20
    else:
        outcome.assert_refused(*words)
        assert files_in(tmp_path / "results") == before


def test_grid_search_without_validation_images_is_refused(thetarbm: Command, small_data: Path, tmp_path: Path) -> None:
    images, labels = parts_of(small_data)["train"]
    own = tmp_path / "own.npz"
    np.savez(own, images=images, labels=labels, split=np.arange(len(labels)) % 2 * 2)
    run = thetarbm("train", "--model", "rbm", "--profile", "tiny", "--source", str(own), "--json").json["run"]
    thetarbm("evaluate", run, "--grid-search").assert_refused("no valid images")
