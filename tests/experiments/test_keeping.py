"""Nothing measured is lost: what may and what may not change a record that has numbers."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import Command, context_of, files_in, record_of, rewrite, run_of, train
from tests.experiments.suites import write_suite
from thetarbm_cli.backend import select_backend
from thetarbm_cli.data.sources.user_npz import read_untrusted
from thetarbm_cli.experiments.execution.dask import _store
from thetarbm_cli.experiments.runs.evaluation import evaluate_run
from thetarbm_cli.experiments.runs.loading import load_model, retrain_command
from thetarbm_cli.experiments.runs.settings import resolve, run_id
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.runs.training import train_run

TINY = ("--profile", "tiny")


@pytest.fixture
def clone(evaluated: Path, tmp_path: Path) -> Path:
    """The records of measured runs, without what git ignores."""
    results = tmp_path / "results"
    shutil.copytree(evaluated, results, ignore=shutil.ignore_patterns("*.npz", "*.lock"))
    return results


def records(results: Path) -> dict[str, bytes]:
    return {name: content for name, content in files_in(results).items() if name.endswith("run.json")}


def make_weights_differ(results: Path, run: str) -> None:
    """Let a record have been made on another processor: its weights are not those that training gives here."""
    rewrite(results, run, {"weights_sha256": "0" * 64})


@pytest.mark.parametrize("model", ["theta", "orbm", "pixels"])
def test_training_again_leaves_the_record_byte_for_byte(thetarbm: Command, clone: Path, model: str) -> None:
    before = records(clone)
    outcome = thetarbm("train", "--model", model, *TINY, "--json")
    assert (outcome.code, outcome.json["cached"]) == (0, False)
    assert "its record stays as it is" in outcome.err
    assert thetarbm("train", "--model", model, *TINY, "--json").json["cached"] is True
    assert records(clone) == before
    assert not RunStore(clone).weights_note_path(outcome.json["run"]).exists()


def test_other_weights_are_accepted_with_a_note_of_where_they_were_made(
    thetarbm: Command, small_data: Path, clone: Path
) -> None:
    run, store = run_of(clone, "theta"), RunStore(clone)
    make_weights_differ(clone, run)
    before = records(clone)
    outcome = thetarbm("train", "--model", "theta", *TINY)
    assert "differ from the recorded ones" in outcome.err
    assert thetarbm("train", "--model", "theta", *TINY, "--json").json["cached"] is True
    assert records(clone) == before
    record = store.load(run)
    weights = store.load_weights(record)
    assert weights.made_here.environment.model_dump()["backend"] == select_backend().name
    assert thetarbm("show", run, "--json").json["weights"] == "there"
    load_model(context_of(small_data, clone), record)
    # Weights that are neither the recorded ones nor those of the note are not used.
    store.weights_path(run).write_bytes(b"others")
    assert store.load_weights(record) is None


def test_whoever_measures_with_other_weights_is_told_and_the_numbers_say_so(thetarbm: Command, clone: Path) -> None:
    run, store = run_of(clone, "theta"), RunStore(clone)
    make_weights_differ(clone, run)
    thetarbm("train", "--model", "theta", *TINY)
    before = records(clone)
    assert thetarbm("evaluate", run).err == ""
    assert "made here" in thetarbm("evaluate", run, "--offset", "5").err
    assert records(clone) == before
    (later,) = store._later(store.load(run)).measurements
    assert later.weights.sha256 != "0" * 64
    assert list(later.metrics.model_dump()) == ["gamma_offsets"]
    # Measured again by force, the record itself says that its numbers come from other weights.
    assert "made here" in thetarbm("evaluate", run, "--force").err
    record = record_of(clone, run)
    assert record["measured_with"]["sha256"] == later.weights.sha256
    assert record["weights_sha256"] == "0" * 64


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_force_keeps_the_old_record_and_is_no_record_itself(
    thetarbm: Command, evaluated: Path, tmp_path: Path, command: str
) -> None:
    results = tmp_path / "results"
    shutil.copytree(evaluated, results)
    run, store = run_of(results, "theta"), RunStore(results)
    old = store.record_path(run).read_bytes()
    thetarbm("evaluate", run, "--offset", "5")
    later = store.measures_path(run).read_bytes()
    words = ["--model", "theta", *TINY] if command == "train" else [run]
    for number in (1, 2):
        assert thetarbm(command, *words, "--force").code == 0
        if command == "train":
            assert thetarbm("evaluate", run).code == 0
        assert (store.path(run) / "previous" / f"run-{number}.json").is_file()
        # Of two equal records none is replaced, and two measurements may take equally long.
        rewrite(results, run, {"timings": {**record_of(results, run)["timings"], "evaluate_seconds": 1000.0 + number}})
    assert (store.path(run) / "previous" / "run-1.json").read_bytes() == old
    assert (store.path(run) / "previous" / "measures-1.json").read_bytes() == later
    assert store.identifiers() == RunStore(evaluated).identifiers()
    # All that the record had is measured again, the further offset included.
    if command == "evaluate":
        assert [each["offset"] for each in record_of(results, run)["metrics"]["gamma_offsets"]] == [5.0]


def test_a_run_that_fails_when_weights_are_made_again_keeps_its_record(
    small_data: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = records(clone)

    def lost(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("thetarbm_cli.models.rbm.RBM.fit", lost)
    with pytest.raises(MemoryError):
        train(small_data, clone, "rbm")
    assert records(clone) == before


def test_a_damaged_record_is_kept_when_it_is_made_again(small_data: Path, clone: Path) -> None:
    run, store = run_of(clone, "rbm"), RunStore(clone)
    damaged = store.record_path(run).read_bytes()[:-20]
    store.record_path(run).write_bytes(damaged)
    train(small_data, clone, "rbm")
    assert (store.path(run) / "previous" / "run-1.json").read_bytes() == damaged


def test_damaged_later_measures_are_kept_when_there_are_others(
    thetarbm: Command, evaluated: Path, tmp_path: Path
) -> None:
    shutil.copytree(evaluated, tmp_path / "results")
    run, store = run_of(evaluated, "rbm"), RunStore(tmp_path / "results")
    assert thetarbm("evaluate", run, "--offset", "5").code == 0
    damaged = store.measures_path(run).read_bytes()[:-20]
    store.measures_path(run).write_bytes(damaged)
    assert thetarbm("evaluate", run, "--offset", "10").code == 0
    assert (store.path(run) / "previous" / "measures-1.json").read_bytes() == damaged
    assert [each.offset for each in store.load(run).metrics.gamma_offsets] == [10.0]
    assert thetarbm("evaluate", run, "--offset", "5").code == 0
    assert [path.name for path in (store.path(run) / "previous").iterdir()] == ["measures-1.json"]


def test_a_worker_without_the_folder_adds_to_a_record_and_never_replaces_it(
    small_data: Path, evaluated: Path, clone: Path, tmp_path: Path
) -> None:
    run, away = run_of(clone, "rbm"), tmp_path / "away"
    train(small_data, away, "rbm")
    evaluate_run(context_of(small_data, away), run, more_offsets=(5.0,))
    made, before = RunStore(away), records(clone)
    text, weights = made.record_path(run).read_text(), made.weights_path(run).read_bytes()
    _store(context_of(small_data, clone), text, weights, force=False)
    assert records(clone) == before
    record = RunStore(clone).load(run)
    assert record.metrics.score(5.0, "train") is not None
    assert RunStore(clone).load_weights(record) is not None
    _store(context_of(small_data, clone), text, weights, force=True)
    assert record_of(clone, run) == record_of(away, run)


def test_labels_are_not_written_into_a_record_that_has_numbers(thetarbm: Command, tmp_path: Path) -> None:
    results, suite = tmp_path / "results", str(write_suite(tmp_path))
    assert thetarbm("run", "rbm/sparsity=0.3", "--suite", suite, *TINY, "--seeds", "1").code == 0
    before = records(results)
    for path in results.glob("runs/*/*.npz"):
        path.unlink()
    # Another cell of the same settings.
    assert thetarbm("run", "again", "--suite", suite, *TINY, "--seeds", "1").code == 0
    assert records(results) == before


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's file of upright and lying bars."""
    rng = np.random.default_rng(0)
    images = rng.random((120, 8, 8)).astype(np.float32) * 0.2
    labels = np.arange(120) % 2
    images[labels == 0, :, 3:5] += 0.7
    images[labels == 1, 3:5, :] += 0.7
    folder = tmp_path / "mine"
    folder.mkdir()
    np.savez(folder / "bars.npz", images=images, labels=labels)
    return folder / "bars.npz"


def test_images_that_have_moved_are_found_by_their_checksum(thetarbm: Command, own: Path, tmp_path: Path) -> None:
    data_dir, out = tmp_path / "data", tmp_path / "features.npz"
    small = ("train", "--model", "theta", "--hidden", "10", "--epochs", "1", "--source", str(own), "--json")
    run = thetarbm(*small, data_dir=data_dir).json["run"]
    own.rename(tmp_path / "elsewhere.npz")
    evaluated = thetarbm("evaluate", run, "--json", data_dir=data_dir)
    assert evaluated.code == 0
    assert f"there is no file {own}: its prepared copy" in evaluated.err
    assert thetarbm("features", run, "--out", str(out), data_dir=data_dir).code == 0
    assert len(read_untrusted(out, ("features",), ())["features"]) == 120
    RunStore(tmp_path / "results").weights_path(run).unlink()
    assert thetarbm(*small, data_dir=data_dir).json["run"] == run
    # A later file of the same name is another: the run keeps to its own images, and a bare name is no longer enough.
    np.savez(own, images=np.random.default_rng(1).random((60, 8, 8)).astype(np.float32), labels=np.arange(60) % 2)
    thetarbm("prepare-data", "--source", str(own), data_dir=data_dir)
    assert thetarbm("evaluate", run, "--force", data_dir=data_dir).code == 0
    own.unlink()
    thetarbm(*small, data_dir=data_dir).assert_refused("bars.npz", "several")


def test_a_run_on_cupy_has_an_id_of_its_own(
    thetarbm: Command, small_data: Path, evaluated: Path, tmp_path: Path, device: Any
) -> None:
    results = tmp_path / "results"
    shutil.copytree(evaluated, results)
    settings = resolve("rbm", profile="tiny")
    before = records(results)
    context = dataclasses.replace(context_of(small_data, results), backend_name="numpy")
    made = train_run(dataclasses.replace(context, backend_name="cupy"), settings, 0).record
    checksums = made.checksums
    assert made.run == run_id(settings, checksums, 0, "cupy") != run_id(settings, checksums, 0, "numpy")
    assert made.backend == "cupy"
    assert run_id(settings, checksums, 0) == train_run(context, settings, 0).record.run
    assert {name: content for name, content in records(results).items() if made.run not in name} == before
    evaluate_run(context, made.run)
    # Where a device answers, it is what a call takes by itself: the run on NumPy has to be named.
    assert retrain_command(made).startswith("thetarbm train --model rbm")
    on_numpy = train_run(context, settings, 0).record
    assert retrain_command(on_numpy).startswith("thetarbm --backend numpy train --model rbm")


def test_who_has_no_device_is_told_the_backend_of_a_run_on_cupy(evaluated: Path) -> None:
    record = RunStore(evaluated).load(run_of(evaluated, "rbm"))
    elsewhere = record.model_copy(update={"environment": record.environment.model_copy(update={"backend": "cupy"})})
    other = {"numpy": elsewhere, "cupy": record}[select_backend().name]
    assert retrain_command(other).startswith(f"thetarbm --backend {other.backend} train --model rbm")
