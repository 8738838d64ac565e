"""`list` and `pack` through the entry point."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.runs import MODELS, Command, call, run_of
from thetarbm_cli.store import Store


@pytest.fixture(scope="module")
def several(evaluated: Path, small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All models measured, and the θ-RBM once more with another sparsity and seed, not measured."""
    results = Path(shutil.copytree(evaluated, tmp_path_factory.mktemp("several") / "results"))
    words = ("--model", "theta", "--profile", "tiny", "--sparsity", "0.1", "--seed", "3", "--set", "momentum=0.5")
    assert call(small_data, results, "train", *words).code == 0
    return results


@pytest.fixture
def results(several: Path, tmp_path: Path) -> Path:
    """A copy of them, where the command looks for them."""
    return Path(shutil.copytree(several, tmp_path / "results"))


def test_list_has_every_record_with_what_sets_it_apart(thetarbm: Command, several: Path) -> None:
    listed = {run["run"]: run for run in thetarbm("list", "--json", results=several).json["runs"]}
    assert sorted(listed) == Store(several, shipped=False).identifiers()
    measured = [run for run, line in listed.items() if line["test_error_percent"] is not None]
    assert len(measured) == len(MODELS)
    for run in thetarbm("evaluate", *measured, "--json", results=several).json["runs"]:
        for name in ("model", "seed", "test_error_percent", "gamma_train", "gamma_test"):
            assert listed[run["run"]][name] == run[name]
    (other,) = (run for run in listed.values() if run["seed"] == 3)
    assert {"sparsity": 0.1, "momentum": 0.5, "data.train": 300}.items() <= other["differs"].items()
    assert "learning_rate" not in other["differs"]


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


def test_list_of_nothing(thetarbm: Command, tmp_path: Path) -> None:
    assert thetarbm("list", "--json").json == {"runs": []}
    nothing = thetarbm("list")
    assert (nothing.out, "results" in nothing.err) == ("", True)
    assert not (tmp_path / "results").exists()
    (tmp_path / "file").touch()
    thetarbm("list", results=tmp_path / "file").assert_refused("file")


def test_pack_then_every_command_reads_it(thetarbm: Command, results: Path, tmp_path: Path) -> None:
    before = thetarbm("list", "--json").json
    slim = thetarbm("pack", "--all", "--slim", "--out", str(tmp_path / "slim.jsonl.xz"), "--json").json
    told = thetarbm("pack", "--all", "--remove", "--json").json
    assert slim["bytes"] < told["bytes"]
    assert sorted(told["runs"]) == sorted(told["removed"])
    assert told["bytes"] == Path(told["path"]).stat().st_size
    assert not list(results.glob("runs/*/run.json"))
    assert thetarbm("list", "--json").json == before
    assert list(results.glob("runs/*/weights.npz")), "weights stay"
    assert thetarbm("train", "--model", "theta", "--profile", "tiny", "--json").json["cached"]


def test_packing_adds_to_a_pack_and_loses_nothing(thetarbm: Command, results: Path) -> None:
    everything = Store(results, shipped=False).identifiers()
    assert thetarbm("pack", run_of(results, "rbm"), "--remove").code == 0
    assert thetarbm("pack", run_of(results, "orbm"), "--remove", "--json").json["records"] == 2
    assert Store(results, shipped=False).identifiers() == everything
    pack = results / "packed" / "runs.jsonl.xz"
    damaged = pack.read_bytes()[:-9]
    pack.write_bytes(damaged)
    thetarbm("pack", run_of(results, "pixels")).assert_refused(str(pack))
    assert pack.read_bytes() == damaged


def test_what_is_measured_after_packing_stays(thetarbm: Command, results: Path) -> None:
    run = run_of(results, "rbm")
    assert thetarbm("pack", run).code == 0
    assert thetarbm("evaluate", run, "--offset", "5").code == 0
    store = Store(results, shipped=False)
    assert store.remove_packed(results / "packed" / "runs.jsonl.xz") == []
    assert thetarbm("pack", run, "--remove", "--json").json["removed"] == [run]
    offsets = {each.spec.offset for each in store.require(run).measurements if each.spec.measure == "gamma"}
    assert offsets == {5.0, 20.0}
