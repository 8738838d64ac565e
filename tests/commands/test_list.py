"""`list`, `compare` and `pack` through the entry point."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.runs import MODELS, Command, call, run_of
from thetarbm_cli.experiments.runs import packing
from thetarbm_cli.experiments.runs.store import RunStore


@pytest.fixture(scope="module")
def several(evaluated: Path, small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All models measured, and the θ-RBM once more with another sparsity and seed, not measured."""
    results = Path(shutil.copytree(evaluated, tmp_path_factory.mktemp("several") / "results"))
    words = ("--model", "theta", "--profile", "tiny", "--sparsity", "0.1", "--seed", "3", "--set", "svm.C=5")
    assert call(small_data, results, "train", *words).code == 0
    return results


@pytest.fixture
def results(several: Path, tmp_path: Path) -> Path:
    """A copy of them, where the command looks for them."""
    return Path(shutil.copytree(several, tmp_path / "results"))


def test_list_has_every_record_with_what_sets_it_apart(thetarbm: Command, several: Path) -> None:
    listed = {run["run"]: run for run in thetarbm("list", "--json", results=several).json["runs"]}
    assert sorted(listed) == RunStore(several).identifiers()
    measured = [run for run, line in listed.items() if line["test_error_percent"] is not None]
    assert len(measured) == len(MODELS)
    for run in thetarbm("evaluate", *measured, "--json", results=several).json["runs"]:
        for name in ("model", "seed", "test_error_percent", "gamma_train", "gamma_test"):
            assert listed[run["run"]][name] == run[name]
    (other,) = (run for run in listed.values() if run["seed"] == 3)
    assert {"sparsity": 0.1, "svm.C": 5.0, "data.train": 300}.items() <= other["differs"].items()
    assert "momentum" not in other["differs"]


def test_list_chooses_and_sorts(thetarbm: Command, several: Path) -> None:
    def runs(*words: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = thetarbm("list", "--json", *words, results=several).json["runs"]
        return found

    assert len(runs("--model", "theta", "--model", "rbm")) == 3
    assert [run["seed"] for run in runs("--where", "sparsity=0.10")] == [3]
    assert len(runs("--where", "model=theta", "--where", "seed=0")) == 1
    assert not runs("--where", "seed=8")
    # What was not measured is last, either way.
    for words, name, reverse in (("error", "test_error_percent", False), ("-gamma_test", "gamma_test", True)):
        values = [run[name] for run in runs("--sort", words)]
        assert values[:-1] == sorted(values[:-1], reverse=reverse)  # type: ignore[type-var]
        assert values[-1] is None
    # As CSV with all settings and numbers.
    lines = list(csv.DictReader(io.StringIO(thetarbm("list", "--csv", results=several).out)))
    assert len(lines) == len(MODELS) + 1
    (orbm,) = (line for line in lines if line["model"] == "orbm")
    record = RunStore(several).require(orbm["run"])
    assert record.metrics is not None
    assert float(orbm["gamma_test_unaligned"]) == record.metrics.value("gamma_test", "not aligned")
    assert float(orbm["learning_rate"]) == record.parameters["learning_rate"]


def test_list_of_nothing(thetarbm: Command, tmp_path: Path) -> None:
    assert thetarbm("list", "--json").json == {"runs": []}
    nothing = thetarbm("list")
    assert (nothing.out, "results" in nothing.err) == ("", True)
    assert not (tmp_path / "results").exists()
    (tmp_path / "file").touch()
    thetarbm("list", results=tmp_path / "file").assert_refused("file")


def test_compare_shows_only_what_differs(thetarbm: Command, several: Path) -> None:
    first, second = (run["run"] for run in thetarbm("list", "--model", "theta", "--json", results=several).json["runs"])
    found = thetarbm("compare", first, second, "--json", results=several).json
    assert found["runs"] == [first, second]
    assert set(found["settings"]) == {"seed", "sparsity", "svm.C"}
    assert sorted(found["settings"]["sparsity"]) == [0.1, 0.3]
    assert None in found["measures"]["test_error_percent"], "one is not measured"
    for values in found["measures"].values():
        assert values[0] != values[1]
    assert "sparsity" in thetarbm("compare", first, second, results=several).out


def test_pack_then_every_command_reads_it(thetarbm: Command, results: Path, tmp_path: Path) -> None:
    before = thetarbm("list", "--csv").out
    slim = thetarbm("pack", "--all", "--slim", "--out", str(tmp_path / "slim.records.xz"), "--json").json
    told = thetarbm("pack", "--all", "--remove", "--json").json
    assert slim["bytes"] < told["bytes"]
    assert sorted(told["runs"]) == sorted(told["removed"])
    assert told["bytes"] == Path(told["path"]).stat().st_size
    assert not list(results.glob("runs/*/run.json"))
    assert thetarbm("list", "--csv").out == before
    assert list(results.glob("runs/*/weights.npz")), "weights stay"
    assert thetarbm("train", "--model", "theta", "--profile", "tiny", "--json").json["cached"]


def test_packing_adds_to_a_pack_and_loses_nothing(thetarbm: Command, results: Path) -> None:
    everything = RunStore(results).identifiers()
    assert thetarbm("pack", run_of(results, "rbm"), "--remove").code == 0
    assert thetarbm("pack", run_of(results, "orbm"), "--remove", "--json").json["records"] == 2
    assert RunStore(results).identifiers() == everything
    thetarbm("pack", run_of(results, "pixels"), "--slim").assert_refused("whole")
    pack = results / "packed" / "runs.records.xz"
    pack.write_bytes(pack.read_bytes()[:-9])
    thetarbm("pack", run_of(results, "pixels")).assert_refused(str(pack))


def test_a_record_that_changes_while_it_is_packed_stays(results: Path) -> None:
    store, run = RunStore(results), run_of(results, "rbm")
    record = store.require(run)
    packing.pack_records(store, store.packed / "a.records.xz", store.identifiers(), slim=False)
    store.save(record.model_copy(update={"peak_memory_megabytes": 1.0}))
    assert run not in packing.remove_packed(store, store.packed / "a.records.xz")
    assert store.record_path(run).is_file()


def test_what_was_measured_on_validation_images_is_called_so(thetarbm: Command) -> None:
    words = ("--where", "cells=choice-best", "--where", "data.protocol=choice")
    (run,) = thetarbm("list", *words, "--json", results=ROOT / "results").json["runs"]
    assert "those of the validation images" in thetarbm("list", *words, results=ROOT / "results").err
    shown = thetarbm("show", run["run"], results=ROOT / "results").out
    assert "validation error" in shown
    assert "test error" not in shown
