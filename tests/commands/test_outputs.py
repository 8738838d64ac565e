from __future__ import annotations

import importlib
import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.data.archives import write_own
from tests.docs.pages import ROOT, script
from tests.runs import MODELS, Command, run_of
from tests.suites import FAILING, save, write_suite
from tests.reporting.numbers import records
from tests.reporting.pages import few_figures
from thetarbm_cli import outputs
from thetarbm_cli.cli import COMMANDS
from thetarbm_cli.experiments.runs import evaluation as measuring
from thetarbm_cli.measures import theory
from thetarbm_cli.outputs import OUTPUTS

# What the outside builds on, whatever else is added: these names are there, always.
PROMISED: dict[type[outputs.Output], str] = {
    outputs.Info: "version backend backend_reason blas threads data_dir results_dir prepared",
    outputs.PreparedData: "dataset source path sha256 splits pixel_mean pixel_std orientations preview cached",
    outputs.Splits: "train valid test",
    outputs.Train: "run model settings seed cached path weights epochs seconds reconstruction_error mean_activation",
    outputs.EvaluatedRun: "run model sparsity seed test_error_percent gamma_train gamma_test dead_units cached",
    outputs.Perturb: "scope unperturbed_error_percent cells",
    outputs.PerturbedCell: "n p test_error_percent run",
    outputs.Verify: "passed checks",
    outputs.Check: "name rotation value tolerance exact passed",
    outputs.Run: "done cached failed seconds runs",
    outputs.SuiteRun: "run experiment state reason",
    outputs.Status: "due cells",
    outputs.SuiteCell: "experiment cell seeds state reason",
    outputs.ListedRun: "run model seed state differs test_error_percent gamma_test cells",
    outputs.Compare: "runs settings measures",
    outputs.TableValue: "model sparsity column mean std seeds published",
}
UNALIGNED = ("test_error_percent_unaligned", "gamma_train_unaligned", "gamma_test_unaligned")


def check(command: str, *printed: dict[str, Any]) -> None:
    schema = json.loads((ROOT / "docs" / "schema" / f"{command}.schema.json").read_text(encoding="utf-8"))
    for output in printed:
        jsonschema.validate(output, schema, jsonschema.Draft202012Validator)


def test_files_are_what_make_schema_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    made = script(monkeypatch, "build_schema").schemas()
    assert {path.name for path in (ROOT / "docs" / "schema").iterdir()} == {path.name for path in made}
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is not current: make schema writes it"
        jsonschema.Draft202012Validator.check_schema(json.loads(text))


def test_every_command_that_has_json_has_a_schema() -> None:
    with_json = set()
    for name in COMMANDS:
        command = importlib.import_module(f"thetarbm_cli.commands.{name.replace('-', '_')}").command
        if any(parameter.name == "as_json" for parameter in command.params):
            with_json.add(name)
    assert set(OUTPUTS) == with_json


def test_what_is_promised_is_always_there() -> None:
    for model, names in PROMISED.items():
        required = {name for name, field in model.model_fields.items() if field.is_required()}
        assert set(names.split()) <= required, model


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
    monkeypatch.setattr(measuring, "GRID_PENALTIES", (10.0,))
    monkeypatch.setattr(measuring, "GRID_WIDTHS", (0.02, 0.04))
    runs = [run_of(results, model) for model in MODELS]
    measured, searched = (
        thetarbm("evaluate", *what, "--json").json for what in (["--all"], [runs[0], "--grid-search"])
    )
    check("evaluate", measured, searched)
    # What was not measured is left out, not null.
    for row in measured["runs"]:
        assert row.keys() & {*UNALIGNED, "grid_search"} == (set(UNALIGNED) if row["model"] == "orbm" else set())
    assert len(searched["runs"][0]["grid_search"]["grid"]) == 2
    assert f"C = 10, γ = {searched['runs'][0]['grid_search']['gamma']:g}" in thetarbm("evaluate", runs[0]).out
    check("perturb", thetarbm("perturb", "--profile", "tiny", "--n", "1", "--p", "0.1", "--json").json)
    check("show", *(thetarbm("show", run, "--json").json for run in runs))
    check("list", thetarbm("list", "--json").json, thetarbm("list", "--where", "seed=9", "--json").json)
    check("compare", thetarbm("compare", *runs, "--json").json, thetarbm("compare", *runs[:2], "--json").json)
    check("pack", thetarbm("pack", "--all", "--remove", "--json").json)
    check("clean", thetarbm("clean", "--weights", "--yes", "--json").json, thetarbm("clean", "--json").json)


def test_the_suite(thetarbm: Command, tmp_path: Path) -> None:
    arguments = ["--suite", str(write_suite(tmp_path, FAILING)), "--profile", "tiny", "--json"]
    pending = thetarbm("run", *arguments, "-n", data_dir=tmp_path / "empty").json
    assert pending["runs"][0]["run"] is None
    made = thetarbm("run", *arguments, "--keep-going").json
    assert {row["state"] for row in made["runs"]} == {"done", "failed"}
    check("run", pending, made, thetarbm("run", *arguments, "--retry-failed").json)
    check("status", thetarbm("status", *arguments).json, thetarbm("status", "theory", "--json").json)
    (failed,) = (row["run"] for row in made["runs"] if row["state"] == "failed")
    check("show", thetarbm("show", failed, "--json").json)


def test_tables_and_checks(thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theory, "UPDATES", 5)
    monkeypatch.setattr(theory, "HIDDEN", 10)
    empty = thetarbm("tables", "--json").json
    save(tmp_path / "results", *records(seeds=1))
    full = thetarbm("tables", "--json").json
    check("tables", empty, full, thetarbm("tables", "--table", "3", "--json").json)
    assert {"1", "2", "3", "mnist"} <= full["tables"].keys()
    check("figures", thetarbm("figures", "table-1", "--json").json)
    with few_figures():
        check("report", thetarbm("report", "--json").json)
    check("verify", thetarbm("verify", "--size", "8", "--rotations", "4", "--json").json)
