from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.runs import Command, call, files_in, record_of, run_of

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
    """A results folder with the small table, and its JSON; made one cell after the other."""
    results = tmp_path_factory.mktemp("perturb")
    outcome = call(small_data, results, *SMALL, "--json")
    assert outcome.code == 0
    # Progress is for people: one line a cell, the unperturbed one included.
    assert len(outcome.err.splitlines()) == 5
    return results, outcome.json


def test_cells_are_runs_and_records_alone_give_the_table_again(
    thetarbm: Command, table: tuple[Path, dict[str, Any]], tmp_path: Path
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
        record = record_of(results, cell["run"])
        usual = {"scope": "train", "draws": "two", "overflow": "modulo"}
        assert record["settings"]["perturbation"] == {"n": cell["n"], "p": cell["p"], **usual}
        assert record["metrics"]["svm"]["test_error_percent"] == cell["test_error_percent"]
        assert "gamma" not in record["metrics"]
    assert len({cell["run"] for cell in cells}) == 4
    planned = thetarbm("run", "perturbation", "--profile", "tiny", "--dry-run", "--json").json
    assert {row["run"] for row in planned["runs"] if row["state"] == "cached"} == {cell["run"] for cell in cells}


def test_unperturbed_error_is_that_of_the_plain_run(
    thetarbm: Command, table: tuple[Path, dict[str, Any]], evaluated: Path
) -> None:
    run = run_of(evaluated, "theta")
    results, sheet = table
    assert record_of(results, run)["settings"]["perturbation"] is None
    assert record_of(results, run)["metrics"]["svm"]["test_error_percent"] == sheet["unperturbed_error_percent"]
    assert thetarbm("train", "--model", "theta", "--profile", "tiny", "--json", results=results).json["cached"] is True


def test_people_read_the_table_beside_the_paper_s(thetarbm: Command, table: tuple[Path, dict[str, Any]]) -> None:
    results, sheet = table
    lines = [line for line in thetarbm(*SMALL, results=results).out.splitlines() if line.startswith("|")]
    unperturbed = sheet["unperturbed_error_percent"]
    cells = {(cell["n"], cell["p"]): cell["test_error_percent"] for cell in sheet["cells"]}
    assert re.findall("p = [0-9.]+", lines[0]) == ["p = 0.1", "p = 0.4"]
    for line, n in zip(lines[2:4], (1, 4), strict=True):
        shown = re.findall(r"([\d.]+)(\*?) \(([\d.]+)(\*?)\)", line)
        assert line.startswith(f"| n = {n} ")
        for (ours, star, paper, paper_star), p, column in zip(shown, (0.1, 0.4), (0, 3), strict=True):
            error = cells[n, p]
            assert ours == f"{error:.2f}"
            assert bool(star) == (error > unperturbed)
            assert float(paper) == PUBLISHED[n][column]
            assert bool(paper_star) == (PUBLISHED[n][column] > 10.31)
    assert lines[-1].split() == ["|", "unperturbed", "|", f"{unperturbed:.2f}", "(10.31)", "|"]


def test_settings_seed_sizes_and_scope_are_those_that_were_set(thetarbm: Command, tmp_path: Path) -> None:
    small = ("perturb", "--profile", "tiny", "--n", "5", "--p", "0.15")
    options = ("--seed", "7", "--set", "sparsity=0.1", "--set", "data.train=100", "--set", "svm.C=1", "--scope", "rbm")
    sheet = thetarbm(*small, *options, "--json").json
    assert sheet["scope"] == "rbm"
    record = record_of(tmp_path / "results", sheet["cells"][0]["run"])
    assert (record["seed"], record["parameters"]["sparsity"], record["settings"]["data"]["train"]) == (7, 0.1, 100)
    assert (record["metrics"]["svm"]["C"], record["settings"]["perturbation"]["scope"]) == (1.0, "rbm")
    # The paper has no such cell.
    shown = thetarbm(*small, *options).out
    assert re.search(r"^\| n = 5 \| +[\d.]+\*? \|$", shown, re.MULTILINE)
    assert "seed 7" in shown
    other = thetarbm(*small, *options, "--scope", "all", "--json").json
    assert other["cells"][0]["run"] != sheet["cells"][0]["run"]
    assert other["unperturbed_error_percent"] == sheet["unperturbed_error_percent"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--p 0.1,-0.2", ["--p", "-0.2", "0.001…0.999"]),
        ("--p 0.1;0.2", ["--p", "0.1;0.2"]),
        ("--n 1001", ["--n", "1001", "1…1000"]),
        ("--set perturbation.n=1", ["--n", "--p", "--scope"]),
        ("--profile huge", ["huge", "best", "quick", "tiny"]),
    ],
)
def test_wrong_usage_is_one_sentence_and_writes_nothing(
    thetarbm: Command, tmp_path: Path, options: str, words: list[str]
) -> None:
    thetarbm("perturb", *options.split(), "--json").assert_refused(*words)
    assert not (tmp_path / "results").exists()


def test_cell_that_diverges_is_one_sentence(thetarbm: Command) -> None:
    outcome = thetarbm("perturb", "--profile", "tiny", "--n", "1", "--p", "0.1", "--set", "learning_rate=1000")
    outcome.assert_refused("diverged", code=1)
