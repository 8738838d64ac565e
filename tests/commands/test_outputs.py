"""Every ``--json`` is of its schema, and has what the outside builds on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from tests.data.archives import write_own
from tests.docs.pages import ROOT, script
from tests.records import save
from tests.reporting.numbers import trainings
from tests.runs import MODELS, Command, run_of
from tests.suites import FAILING, write_suite
from thetarbm_cli import evaluation
from thetarbm_cli.cli import COMMANDS, root
from thetarbm_cli.measures import theory
from thetarbm_cli.reporting.figures import FIGURES

# What the outside builds on, whatever else is added: these names are always there. By command and type.
PROMISED = {
    "info": {"": "version backend backend_reason blas threads data_dir results_dir prepared"},
    "prepare-data": {
        "PreparedData": "dataset source path sha256 splits pixel_mean pixel_std orientations preview cached",
        "Splits": "train valid test",
    },
    "train": {"": "run model settings seed cached path weights epochs seconds reconstruction_error mean_activation"},
    "evaluate": {
        "": "runs",
        "Evaluated": "run model sparsity seed test_error_percent gamma_train gamma_test dead_units cached",
    },
    "perturb": {"": "scope unperturbed_error_percent cells", "PerturbedCell": "n p test_error_percent run"},
    "verify": {"": "passed checks", "Check": "name rotation value tolerance exact passed"},
    "run": {"": "done cached failed seconds runs", "SuiteRun": "run experiment state reason"},
    "status": {"": "due cells", "SuiteCell": "experiment cell seeds state reason"},
    "tables": {
        "": "tables",
        "TableValue": "cell model sparsity column mean std seeds values published",
    },
    "list": {"": "runs", "ListedRun": "run model seed state differs test_error_percent gamma_test cells"},
    "show": {"ComparedRuns": "runs settings measures"},
    "multiverse": {
        "": "universes sampled diverged broken association axes claims influence nearest default",
        "ClaimShare": (
            "claim text letter selected holds of share low high broken share_with_broken flipped_by decided_by"
        ),
        "ChoiceInfluence": "measure axis share",
        "NearestUniverse": "options distance cells",
        "NearestCell": "cell column value published",
    },
    "bench": {"": "machine ratios scaling", "Ratio": "name value goal met"},
}
UNALIGNED = ("test_error_percent_unaligned", "gamma_train_unaligned", "gamma_test_unaligned")


def schema_of(command: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((ROOT / "docs" / "schema" / f"{command}.schema.json").read_text("utf-8"))
    return content


def check(command: str, *printed: dict[str, Any]) -> None:
    for output in printed:
        jsonschema.validate(output, schema_of(command), jsonschema.Draft202012Validator)


def test_files_are_what_make_schema_writes_for_every_command_that_has_json(monkeypatch: pytest.MonkeyPatch) -> None:
    build_schema = script(monkeypatch, "build_schema")
    made = build_schema.schemas()
    assert {path.name for path in (ROOT / "docs" / "schema").iterdir()} == {path.name for path in made}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not current: make schema writes it"
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    commands = {name: root.get_command(click.Context(root), name) for name in COMMANDS}
    with_json = {name for name, each in commands.items() if each and any(p.name == "as_json" for p in each.params)}
    assert set(build_schema.TYPES) == {*with_json, "experiments", "bench", "bench-launches"}


@pytest.mark.parametrize("command", PROMISED)
def test_what_is_promised_is_always_there(command: str) -> None:
    schema = schema_of(command)
    for place, names in PROMISED[command].items():
        described = schema["$defs"][place] if place else schema
        assert set(names.split()) <= set(described["required"]), place


def test_data_and_models(thetarbm: Command, trained: Path, small_data: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(small_data, data)
    own = str(write_own(tmp_path / "own.npz"))
    for words in ((), ("--dataset", "all"), ("--source", own)):
        check("prepare-data", thetarbm("prepare-data", "--json", *words, data_dir=data).json)
    check("info", thetarbm("info", "--json", data_dir=data).json)
    for name in MODELS:
        check("train", thetarbm("train", "--model", name, "--profile", "tiny", "--json", results=trained).json)


def test_measures(thetarbm: Command, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "GRID_PENALTIES", (10.0,))
    monkeypatch.setattr(evaluation, "GRID_WIDTHS", (0.02, 0.04))
    runs = [run_of(results, model) for model in MODELS]
    measured, searched, other = (
        thetarbm("evaluate", *what, "--json").json
        for what in (["--all"], [runs[0], "--grid-search"], [runs[1], "--set", "aligned=true"])
    )
    check("evaluate", measured, searched, other)
    # What was not measured is left out, not null.
    for row in measured["runs"]:
        assert row.keys() & {*UNALIGNED, "grid_search"} == (set(UNALIGNED) if row["model"] == "orbm" else set())
    found = searched["runs"][0]["grid_search"]
    assert len(found["grid"]) == 2
    assert f"C = 10, γ = {found['gamma']:g}" in thetarbm("evaluate", runs[0], "--grid-search").out
    check("perturb", thetarbm("perturb", "--profile", "tiny", "--n", "1", "--p", "0.1", "--json").json)
    check("show", *(thetarbm("show", *some, "--json").json for some in ([runs[0]], [runs[1]], runs, runs[:2])))
    check("list", thetarbm("list", "--json").json, thetarbm("list", "--where", "seed=9", "--json").json)
    check("pack", thetarbm("pack", "--all", "--remove", "--json").json)
    check("clean", thetarbm("clean", "--weights", "--yes", "--json").json, thetarbm("clean", "--json").json)


def test_the_suite(thetarbm: Command, tmp_path: Path) -> None:
    arguments = ["--suite", str(write_suite(tmp_path, FAILING)), "--profile", "tiny", "--json"]
    pending = thetarbm("run", *arguments, "-n", data_dir=tmp_path / "empty").json
    assert pending["runs"][0]["run"] is None
    made = thetarbm("run", *arguments, "--keep-going").json
    assert {row["state"] for row in made["runs"]} == {"done", "failed"}
    check("run", pending, made, thetarbm("run", *arguments).json)
    check("status", thetarbm("status", *arguments).json, thetarbm("status", "theory", "--json").json)
    (failed,) = (row["run"] for row in made["runs"] if row["state"] == "failed")
    check("show", thetarbm("show", failed, "--json").json)


def test_tables_and_checks(thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "UPDATES", 5)
    monkeypatch.setattr(theory, "HIDDEN", 10)
    empty = thetarbm("tables", "--json").json
    save(tmp_path / "results", *trainings(seeds=1))
    full = thetarbm("tables", "--json").json
    check("tables", empty, full, thetarbm("tables", "--table", "3", "--json").json)
    assert {"1", "2", "3", "mnist"} <= full["tables"].keys()
    check("multiverse", thetarbm("multiverse", "--json").json)
    check("figures", thetarbm("figures", "table-1", "--json").json)
    # The other figures take seconds.
    monkeypatch.setattr(FIGURES, "own", {"table-1": FIGURES.own["table-1"]})
    check("report", thetarbm("report", "--json").json)
    check("verify", thetarbm("verify", "--size", "8", "--rotations", "4", "--json").json)
