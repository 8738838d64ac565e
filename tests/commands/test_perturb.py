from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.runs import Command, call, files_in, run_of
from thetarbm_cli.specs import Perturbation
from thetarbm_cli.store import Store

SUITE = """\
format: 2
title: own
experiments:
  - {name: theta, label: θ-RBM, model: theta, set: {hidden: 7}}
  - name: wrong
    like: theta
    grid: {n: [2], p: [0.3]}
    measures: [error]
    tables: ["3"]
    published: [{at: {n: 2, p: 0.3}, test_error_percent: 8.5}]
"""
SMALL = ("perturb", "--profile", "tiny", "--n", "1,4", "--p", "0.1,0.4")


@pytest.fixture(scope="module")
def table(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A results folder with the small table, and its JSON; made one cell after the other."""
    results = tmp_path_factory.mktemp("perturb")
    outcome = call(small_data, results, *SMALL, "--json")
    assert outcome.code == 0
    # Progress is for people: one line a cell, the unperturbed one included.
    assert len(outcome.err.splitlines()) == 5
    return results, outcome.json


def test_cells_are_runs_and_records_alone_give_the_table_again(
    thetarbm: Command, table: tuple[Path, dict[str, Any]], evaluated: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(table[0], results, ignore=shutil.ignore_patterns("*.npz", "*.lock"))
    before = files_in(results)
    outcome = thetarbm(*SMALL, "--json", data_dir=tmp_path / "empty")
    assert (outcome.json, outcome.err) == (table[1], "")
    assert files_in(results) == before
    cells = outcome.json["cells"]
    assert outcome.json["scope"] == "train"
    assert [(cell["n"], cell["p"]) for cell in cells] == [(1, 0.1), (1, 0.4), (4, 0.1), (4, 0.4)]
    for cell in cells:
        training = Store(results).require(cell["run"])
        assert training.spec.perturbation == Perturbation(n=cell["n"], p=cell["p"])
        (measured,) = training.measurements
        assert (measured.spec.measure, measured.spec.scope, measured.spec.draws) == ("error", "train", "two")
        assert measured.values["test_error_percent"] == cell["test_error_percent"]
    assert len({cell["run"] for cell in cells}) == 4
    # The unperturbed run is the plain one.
    unperturbed = outcome.json["unperturbed_error_percent"]
    plain = Store(results).require(run_of(evaluated, "theta"))
    assert (plain.spec.perturbation, plain.values["test_error_percent"]) == (None, unperturbed)
    # People read the table beside the paper's.
    lines = [line.split() for line in thetarbm(*SMALL).out.splitlines() if line.startswith("|")]
    for line, n, papers in zip(lines[2:4], (1, 4), (("8.9", "9.6"), ("9.0", "16.1")), strict=True):
        errors = [cell["test_error_percent"] for cell in cells if cell["n"] == n]
        shown = [f"{error:.2f}{'*' if error > unperturbed else ''}" for error in errors]
        assert [line[5], line[8]] == shown
        assert [line[6].strip("(*)"), line[9].strip("(*)")] == list(papers)
    assert lines[-1] == ["|", "unperturbed", "|", f"{unperturbed:.2f}", "(10.31)", "|"]
    planned = thetarbm("run", "perturbation", "--profile", "tiny", "--dry-run", "--json").json
    assert {row["run"] for row in planned["runs"] if row["state"] == "cached"} == {cell["run"] for cell in cells}


def test_settings_seed_sizes_and_scope_are_those_that_were_set(thetarbm: Command, tmp_path: Path) -> None:
    small = ("perturb", "--profile", "tiny", "--n", "5", "--p", "0.15")
    options = ("--seed", "7", "--set", "sparsity=0.1", "--set", "data.train=100", "--set", "svm.C=1", "--scope", "rbm")
    sheet = thetarbm(*small, *options, "--json").json
    assert sheet["scope"] == "rbm"
    training = Store(tmp_path / "results").require(sheet["cells"][0]["run"])
    assert (training.spec.seed, training.spec.parameters["sparsity"], training.spec.data.train) == (7, 0.1, 100)
    (measured,) = training.measurements
    assert measured.spec.svm is not None
    assert (measured.spec.svm.C, measured.spec.scope) == (1.0, "rbm")
    # The paper has no such cell.
    shown = thetarbm(*small, *options).out
    assert re.search(r"^\| n = 5 \| +[\d.]+\*? \|$", shown, re.MULTILINE)
    assert "seed 7" in shown
    # Which images of the SVM are perturbed is no matter of training.
    other = thetarbm(*small, *options, "--scope", "all", "--json").json
    assert other["cells"][0]["run"] == sheet["cells"][0]["run"]
    assert other["unperturbed_error_percent"] == sheet["unperturbed_error_percent"]
    assert thetarbm(*small, *options, "--json").json == sheet


def test_settings_of_the_errors_are_those_of_the_perturbed_cells_alone(thetarbm: Command, tmp_path: Path) -> None:
    small = ("perturb", "--profile", "tiny", "--n", "4", "--p", "0.4", "--set", "epochs=1")
    redrawn = ("--set", "perturbation.redrawn=epoch")
    thetarbm(*small, *redrawn).assert_refused("add perturbation.statistics=before")
    sheet = thetarbm(*small, *redrawn, "--set", "perturbation.statistics=before", "--json").json
    spec = Store(tmp_path / "results").require(sheet["cells"][0]["run"]).spec
    assert spec.perturbation == Perturbation(n=4, p=0.4, statistics="before", redrawn="epoch")
    assert sheet["unperturbed_error_percent"] == thetarbm(*small, "--json").json["unperturbed_error_percent"]


def test_another_suite_has_a_table_of_its_own(thetarbm: Command, tmp_path: Path) -> None:
    suite = tmp_path / "own.yaml"
    suite.write_text(SUITE)
    words = ("perturb", "--suite", str(suite), "--profile", "tiny", "--n", "2", "--p", "0.3")
    sheet = thetarbm(*words, "--json").json
    assert Store(tmp_path / "results").require(sheet["cells"][0]["run"]).spec.parameters["hidden"] == 7
    assert "(8.5)" in thetarbm(*words).out
    suite.write_text(SUITE.replace('tables: ["3"]', 'tables: ["1"]').partition("    published")[0])
    thetarbm(*words).assert_refused("Table 3")


def test_a_cell_that_diverges_is_one_sentence(thetarbm: Command) -> None:
    outcome = thetarbm("perturb", "--profile", "tiny", "--n", "1", "--p", "0.1", "--set", "learning_rate=1000")
    outcome.assert_refused("diverged", code=1)
