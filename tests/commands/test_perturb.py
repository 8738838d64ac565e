from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.runs import Command, files_in, finish, record_of, run_of, spawn

# Table 3 of the paper.
PUBLISHED = {
    1: (8.9, 9.1, 9.0, 9.6),
    2: (8.9, 9.4, 9.3, 11.0),
    3: (9.0, 9.9, 10.0, 13.4),
    4: (9.0, 10.9, 11.3, 16.1),
}
SMALL = ("perturb", "--profile", "tiny", "--n", "1,4", "--p", "0.1,0.4")


@pytest.fixture(scope="module")
def table(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A results folder with the small table, and its JSON; made in a process of its own, one cell after the other."""
    results = tmp_path_factory.mktemp("perturb")
    outcome = finish(spawn(small_data, results, *SMALL, "--json"))
    assert outcome.code == 0
    # Progress is for people: one line a cell, the unperturbed one included.
    assert len(outcome.err.splitlines()) == 5
    return results, outcome.json


def test_json_is_as_documented(thetarbm: Command, table: tuple[Path, dict[str, Any]]) -> None:
    results, _ = table
    outcome = thetarbm(*SMALL, "--json", results=results)
    sheet = outcome.json
    assert list(sheet) == ["scope", "unperturbed_error_percent", "cells"]
    assert sheet["scope"] == "train"
    assert [(cell["n"], cell["p"]) for cell in sheet["cells"]] == [(1, 0.1), (1, 0.4), (4, 0.1), (4, 0.4)]
    for cell in sheet["cells"]:
        assert set(cell) == {"n", "p", "test_error_percent", "run"}
        record = record_of(results, cell["run"])
        assert record["settings"]["perturbation"] == {"n": cell["n"], "p": cell["p"], "scope": "train"}
        assert record["metrics"]["svm"]["test_error_percent"] == cell["test_error_percent"]
        assert "gamma" not in record["metrics"]
    assert len({cell["run"] for cell in sheet["cells"]}) == 4
    assert outcome.err == ""


def test_unperturbed_error_is_that_of_the_plain_run(
    thetarbm: Command, table: tuple[Path, dict[str, Any]], evaluated: Path
) -> None:
    run = run_of(evaluated, "theta")
    results, sheet = table
    assert record_of(results, run)["settings"]["perturbation"] is None
    assert record_of(results, run)["metrics"]["svm"]["test_error_percent"] == sheet["unperturbed_error_percent"]
    assert thetarbm("train", "--model", "theta", "--profile", "tiny", "--json", results=results).json["cached"] is True


def test_cells_are_cached(
    thetarbm: Command, table: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    results, sheet = table

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr("thetarbm_cli.experiments.runs.training.build", refuse)
    before = files_in(results)
    assert thetarbm(*SMALL, "--json", results=results).json == sheet
    assert files_in(results) == before


def test_two_processes_give_the_same_table(
    small_data: Path, tmp_path: Path, table: tuple[Path, dict[str, Any]]
) -> None:
    results, sheet = table
    outcome = finish(
        spawn(small_data, tmp_path, "perturb", "--profile", "tiny", "--n", "4", "--p", "0.1,0.4", "-j", "2", "--json")
    )
    assert outcome.code == 0
    assert outcome.json == {**sheet, "cells": [cell for cell in sheet["cells"] if cell["n"] == 4]}
    alone, beside = (
        {name: content for name, content in files_in(folder).items() if name.endswith(".npz")}
        for folder in (results, tmp_path)
    )
    assert len(beside) == 3
    assert beside.items() <= alone.items()


def test_people_read_the_table_beside_the_paper_s(thetarbm: Command, table: tuple[Path, dict[str, Any]]) -> None:
    results, sheet = table
    lines = thetarbm(*SMALL, results=results).out.splitlines()
    unperturbed = sheet["unperturbed_error_percent"]
    cells = {(cell["n"], cell["p"]): cell["test_error_percent"] for cell in sheet["cells"]}
    assert lines[1].split() == ["p", "=", "0.1", "p", "=", "0.4"]
    for line, n in zip(lines[2:4], (1, 4), strict=True):
        shown = re.findall(r"([\d.]+)(\*?) \(([\d.]+)(\*?)\)", line)
        assert line.startswith(f"n = {n}  ")
        for (ours, star, paper, paper_star), p, column in zip(shown, (0.1, 0.4), (0, 3), strict=True):
            error = cells[n, p]
            assert ours == f"{error:.2f}"
            assert bool(star) == (error > unperturbed)
            assert float(paper) == PUBLISHED[n][column]
            assert bool(paper_star) == (PUBLISHED[n][column] > 10.31)
    assert lines[4] == f"unperturbed: {unperturbed:.2f} (10.31)"


def test_star_stands_only_above_the_unperturbed_error() -> None:
    from thetarbm_cli.commands.perturb import _starred

    assert _starred(10.32, 10.31, 2) == "10.32*"
    assert _starred(10.31, 10.31, 2) == "10.31"
    assert _starred(8.9, 10.31, 1) == "8.9"


def test_cell_that_the_paper_has_not_stands_alone(thetarbm: Command) -> None:
    lines = thetarbm("perturb", "--profile", "tiny", "--n", "5", "--p", "0.15").out.splitlines()
    assert re.fullmatch(r"n = 5  [\d.]+\*?", lines[2])


def test_scopes_are_runs_of_their_own(thetarbm: Command) -> None:
    sheets = [
        thetarbm("perturb", "--profile", "tiny", "--n", "4", "--p", "0.4", "--scope", scope, "--json").json
        for scope in ("train", "rbm", "all")
    ]
    assert [sheet["scope"] for sheet in sheets] == ["train", "rbm", "all"]
    assert len({sheet["cells"][0]["run"] for sheet in sheets}) == 3
    assert len({sheet["unperturbed_error_percent"] for sheet in sheets}) == 1


def test_settings_seed_and_sizes_are_those_of_train(thetarbm: Command, tmp_path: Path) -> None:
    sheet = thetarbm(
        *("perturb", "--profile", "tiny", "--n", "1", "--p", "0.2", "--seed", "7", "--json"),
        *("--set", "sparsity=0.1", "--set", "data.train=100"),
    ).json
    record = record_of(tmp_path / "results", sheet["cells"][0]["run"])
    assert (record["seed"], record["parameters"]["sparsity"], record["settings"]["data"]["train"]) == (7, 0.1, 100)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--p", "0"], ["--p", "0.0", "0.001…0.999"]),
        (["--p", "1"], ["--p", "1.0", "0.001…0.999"]),
        (["--p", "0.1,-0.2"], ["--p", "-0.2"]),
        (["--p", "nan"], ["--p", "nan"]),
        (["--p", "0.1;0.2"], ["--p", "0.1;0.2"]),
        (["--p", ""], ["--p"]),
        (["--n", "0"], ["--n", "0", "1…1000"]),
        (["--n", "-1"], ["--n", "-1"]),
        (["--n", "1.5"], ["--n", "1.5"]),
        (["--n", "1,,2"], ["--n", "1,,2"]),
        (["--n", "1001"], ["--n", "1001"]),
        (["--scope", "test"], ["--scope", "test"]),
        (["-j", "0"], ["0"]),
        (["--seed", "-1"], ["--seed"]),
        (["--set", "colour=red"], ["colour"]),
        (["--set", "perturbation.n=1"], ["--n", "--p", "--scope"]),
        (["--source", "nowhere.npz"], ["nowhere.npz"]),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_sentence_and_writes_nothing(
    thetarbm: Command, tmp_path: Path, options: list[str], words: list[str]
) -> None:
    thetarbm("perturb", "--profile", "tiny", *options, "--json").assert_refused(*words)
    assert not (tmp_path / "results").exists()


def test_cell_that_diverges_is_one_sentence(thetarbm: Command) -> None:
    outcome = thetarbm("perturb", "--profile", "tiny", "--n", "1", "--p", "0.1", "--set", "learning_rate=1000")
    outcome.assert_refused("diverged", code=1)


def test_the_svm_is_the_one_that_was_set(thetarbm: Command, tmp_path: Path) -> None:
    small = ("perturb", "--profile", "tiny", "--n", "1", "--p", "0.1", "--json")
    run = thetarbm(*small, "--set", "svm.C=1").json["cells"][0]["run"]
    assert record_of(tmp_path / "results", run)["metrics"]["svm"]["C"] == 1.0


def test_every_profile_is_known(thetarbm: Command, tmp_path: Path) -> None:
    sizes = ("--set", "hidden=10", "--set", "epochs=1", "--set", "data.train=100", "--set", "data.test=50")
    sheet = thetarbm("perturb", "--profile", "best", "--n", "1", "--p", "0.1", *sizes, "--json").json
    record = record_of(tmp_path / "results", sheet["cells"][0]["run"])
    assert record["settings"]["data"]["protocol"] == "final"
    thetarbm("perturb", "--profile", "huge").assert_refused("huge", "best", "quick", "tiny")


def test_records_without_weights_and_data_are_enough(
    thetarbm: Command, tmp_path: Path, table: tuple[Path, dict[str, Any]]
) -> None:
    results, sheet = tmp_path / "results", table[1]
    shutil.copytree(table[0], results, ignore=shutil.ignore_patterns("*.npz", "*.lock"))
    before = files_in(results)
    assert thetarbm(*SMALL, "--json", data_dir=tmp_path / "empty").json == sheet
    assert files_in(results) == before


def test_run_perturbation_and_perturb_are_one_road(thetarbm: Command, table: tuple[Path, dict[str, Any]]) -> None:
    results, sheet = table
    told = thetarbm("run", "perturbation", "--profile", "tiny", "--dry-run", "--json", results=results).json
    cached = {row["run"] for row in told["runs"] if row["state"] == "cached"}
    assert cached == {cell["run"] for cell in sheet["cells"]}
