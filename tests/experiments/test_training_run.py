from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import MODELS, context_of, record_of, run_of, train
from thetarbm_cli.backend import select_backend
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.runs import environment
from thetarbm_cli.experiments.runs import training as training_run
from thetarbm_cli.experiments.runs.orientations import OrientationCache, perturbed_orientations
from thetarbm_cli.experiments.runs.settings import ALGORITHM, RunSettings, resolve
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.runs.training import train_run
from thetarbm_cli.models import build
from thetarbm_cli.models.base import OrientedModel


def load_weights(results: Path, run: str) -> dict[str, np.ndarray]:
    with np.load(results / "runs" / run / "weights.npz", allow_pickle=False) as archive:
        return dict(archive)


def tiny(model: str, **parameters: Any) -> RunSettings:
    return resolve(model, profile="tiny", parameters=parameters)


@pytest.mark.parametrize("model", MODELS)
def test_record_says_all_that_the_run_depends_on(trained: Path, model: str) -> None:
    run = run_of(trained, model)
    record = record_of(trained, run)
    assert (record["format"], record["algorithm"], record["run"]) == (1, ALGORITHM, run)
    assert (record["state"], record["error"], record["metrics"]) == ("done", None, None)
    assert record["settings"] == tiny(model).model_dump(mode="json")
    assert record["settings"]["data"]["train"] == 300
    assert record["parameters"] == tiny(model).complete_parameters
    assert record["seed"] == 0
    assert set(record["seeds"]) == {"data", "initial", "order", "sampling", "perturbation", "fields", "states"}
    assert {role["dataset"] for role in record["data"].values()} == {"mnist-rot"}
    assert all(len(role["sha256"]) == 64 for role in record["data"].values())
    assert len(record["weights_sha256"]) == 64
    assert record["peak_memory_megabytes"] > 10
    assert 0 <= record["timings"]["checkpoint_seconds"] <= record["timings"]["train_seconds"]
    learns = model not in ("pixels", "aligned-pixels")
    assert [epoch["epoch"] for epoch in record["history"]] == ([1, 2, 3] if learns else [])
    for epoch in record["history"]:
        assert 0 < epoch["reconstruction_error"] < 10
        assert 0 < epoch["mean_activation"] < 1


def test_record_says_where_it_was_made(trained: Path) -> None:
    made = record_of(trained, run_of(trained, "theta"))["environment"]
    assert made["backend"] == select_backend().name
    assert (made["gpu"] is None) == (made["backend"] == "numpy")
    assert made["processor"]
    assert made["python"].startswith("3.")
    assert made["libraries"]["numpy"] == np.__version__
    assert all({"library", "version", "threads"} == set(pool) for pool in made["blas"])
    assert made["git"] is None or (len(made["git"]["revision"]) == 40 and made["git"]["dirty"] in (True, False))


def test_environment_outside_a_checkout_or_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment.thetarbm_cli, "__file__", str(tmp_path / "thetarbm_cli" / "__init__.py"))
    assert environment._revision() is None
    (tmp_path / ".git").mkdir()
    (tmp_path / "thetarbm_cli").mkdir()
    assert environment._revision() is None
    monkeypatch.setenv("PATH", "")
    assert environment._revision() is None


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_those_of_the_estimator(small_data: Path, trained: Path, model: str) -> None:
    images, _ = training_run.load_data(small_data, tiny(model).data).train()
    fitted = build(model, tiny(model).complete_parameters, seed=0, backend="auto").fit(images)
    stored = load_weights(trained, run_of(trained, model))
    expected = fitted.to_arrays()
    assert list(stored) == list(expected)
    if "pixels" not in model:
        assert {array.dtype for array in stored.values()} == {np.dtype(np.float32)}
    for name in stored:
        np.testing.assert_allclose(stored[name], expected[name], rtol=1e-4, atol=1e-6)


def diverging(small_data: Path, results: Path, settings: RunSettings) -> dict[str, Any]:
    with pytest.raises(ThetaRBMError, match="training diverged"):
        train(small_data, results, settings)
    return record_of(results, run_of(results, settings.model))


def test_divergence_is_recorded_as_failed_and_never_cached(small_data: Path, tmp_path: Path) -> None:
    settings = tiny("rbm", learning_rate=1000.0)
    record = diverging(small_data, tmp_path, settings)
    assert record["state"] == "failed"
    assert "diverged in epoch 1" in record["error"]
    assert (record["history"], record["weights_sha256"]) == ([], None)
    assert not RunStore(tmp_path).weights_path(record["run"]).exists()
    assert not RunStore(tmp_path).checkpoint_path(record["run"]).exists()
    # Not cached: it is tried, and fails, again.
    diverging(small_data, tmp_path, settings)


def test_divergence_after_good_epochs_keeps_the_last_good_one(small_data: Path, tmp_path: Path) -> None:
    settings = tiny("theta", batch_size=100, learning_rate=0.3, epochs=6)
    record = diverging(small_data, tmp_path, settings)
    good = len(record["history"])
    assert 0 < good < 6
    assert f"diverged in epoch {good + 1}" in record["error"]
    checkpoint = RunStore(tmp_path).load_checkpoint(record["run"])
    assert all(np.isfinite(array).all() for array in checkpoint.values())
    # It resumes there, fails in the same epoch, and still knows the good ones.
    assert diverging(small_data, tmp_path, settings)["history"] == record["history"]


class Killed(BaseException):
    """The end of a process, at a place of our choice."""


def kill_before(patch: pytest.MonkeyPatch, method: str, count: int = 1) -> None:
    """Let the process end when the store's method is called for the `count`-th time."""
    original: Callable[..., Any] = getattr(RunStore, method)
    calls = []

    def wrapped(self: RunStore, *arguments: Any) -> Any:
        calls.append(None)
        if len(calls) == count:
            raise Killed
        return original(self, *arguments)

    patch.setattr(RunStore, method, wrapped)


@pytest.mark.parametrize(
    ("model", "method", "count"),
    [
        ("theta", "save_checkpoint", 1),
        ("theta", "save_checkpoint", 3),
        ("rbm", "save_weights", 1),
        ("orbm", "save", 1),
        ("tirbm", "remove_checkpoint", 1),
        ("pixels", "save", 1),
    ],
)
def test_end_at_any_write_then_again_gives_the_same_bytes(
    small_data: Path,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    method: str,
    count: int,
) -> None:
    monkeypatch.setattr("thetarbm_cli.experiments.runs.checkpoints.SHARE", 1e9)  # a checkpoint after every epoch
    run = run_of(trained, model)
    with monkeypatch.context() as patch:
        kill_before(patch, method, count)
        with pytest.raises(Killed):
            train(small_data, tmp_path, model)
    leftover = tmp_path / "runs" / run / ".checkpoint.npz.xyz.part"
    leftover.write_bytes(b"half")
    train(small_data, tmp_path, model)
    store = RunStore(tmp_path)
    assert store.weights_path(run).read_bytes() == RunStore(trained).weights_path(run).read_bytes()
    assert record_of(tmp_path, run)["history"] == record_of(trained, run)["history"]
    assert not store.checkpoint_path(run).exists()
    assert leftover.exists() == (method == "remove_checkpoint")  # nothing was left to be done


def test_resumed_run_starts_where_it_was_cut_off(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "thetarbm")
    monkeypatch.setattr("thetarbm_cli.experiments.runs.checkpoints.SHARE", 1e9)
    with monkeypatch.context() as patch:
        kill_before(patch, "save_checkpoint", 3)
        with pytest.raises(Killed):
            train(small_data, tmp_path, "theta")
    shutil.copytree(tmp_path / "runs", tmp_path / "forced" / "runs")
    seen: list[int] = []
    for results in (tmp_path, tmp_path / "forced"):
        context, force = context_of(small_data, results), results != tmp_path
        train_run(context, tiny("theta"), 0, force=force, on_epoch=lambda record, _: seen.append(record.epoch))
    assert seen == [3, 1, 2, 3]
    assert "after epoch 2" in caplog.text
    assert sorted(path.name for path in next((tmp_path / "runs").iterdir()).iterdir()) == [
        "run.json",
        "run.lock",
        "weights.npz",
    ]


def test_perturbed_training_sees_perturbed_orientations(small_data: Path, trained: Path, tmp_path: Path) -> None:
    common: dict[str, Any] = {"profile": "tiny"}
    settings = resolve("theta", perturbation={"n": 4, "p": 0.4}, **common)
    record = train(small_data, tmp_path, settings)
    images, _ = training_run.load_data(small_data, settings.data).train()
    model = build("theta", settings.complete_parameters, seed=0, backend="auto")
    assert isinstance(model, OrientedModel)
    perturbed = perturbed_orientations(model, images, settings, 0, "train", OrientationCache(tmp_path))
    clean = model.orientation_estimator()(images)
    steps = np.abs((perturbed - clean + 4) % 9 - 4)
    # ε = 0 with probability .6⁴ = .13, so most orientations are off.
    assert np.mean(steps > 0) == pytest.approx(1 - 0.6**4, abs=0.06)
    expected = model.fit(images, orientations=perturbed).to_arrays()["weights"]
    np.testing.assert_allclose(load_weights(tmp_path, record.run)["weights"], expected, rtol=1e-4, atol=1e-6)
    assert record.weights_sha256 != record_of(trained, run_of(trained, "theta"))["weights_sha256"]


def test_each_role_and_seed_errs_on_its_own(small_data: Path, tmp_path: Path) -> None:
    settings = resolve("theta", profile="tiny", perturbation={"n": 4, "p": 0.4, "scope": "all"})
    images, _ = training_run.load_data(small_data, settings.data).train()
    model = build("theta", settings.complete_parameters)
    cache = OrientationCache(tmp_path)
    kinds = [(0, "train"), (0, "svm"), (0, "test"), (1, "train")]
    draws = [perturbed_orientations(model, images, settings, seed, role, cache) for seed, role in kinds]
    assert len({draw.tobytes() for draw in draws}) == 4
    one = resolve("theta", profile="tiny", perturbation={"n": 4, "p": 0.4, "draws": "one"})
    shared = perturbed_orientations(model, images, one, 0, "svm", cache)
    np.testing.assert_array_equal(shared, draws[0])
