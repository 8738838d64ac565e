"""What is equal across runs is made once, and a cache that is damaged or absent changes nothing but time."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import context_of, record_of
from thetarbm_cli.experiments.execution.job import longest_first, training_of
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs import orientations, training
from thetarbm_cli.experiments.runs.evaluation import evaluate_run
from thetarbm_cli.experiments.runs.orientations import OrientationCache
from thetarbm_cli.experiments.runs.record import EnvironmentPart, MetricsPart
from thetarbm_cli.experiments.runs.settings import RunSettings, resolve
from thetarbm_cli.experiments.runs.training import TrainedRun, train_run
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.models import RBM, ThetaRBM

TABLE3 = {"n": 1, "p": 0.2}


def settings_of(model: str = "theta", **more: Any) -> RunSettings:
    return resolve(model, profile="tiny", **more)


@pytest.fixture
def data(small_data: Path, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    folder = tmp_path / "data"
    shutil.copytree(small_data, folder, ignore=shutil.ignore_patterns(orientations.FOLDER))
    return folder


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are trained from here on."""
    made: list[str] = []
    fit = RBM.fit

    def counted(self: RBM, *arguments: Any, **more: Any) -> RBM:
        made.append(type(self).__name__)
        return fit(self, *arguments, **more)

    monkeypatch.setattr(RBM, "fit", counted)
    return made


@pytest.fixture
def estimated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each estimate from here on is of."""
    counts: list[int] = []
    histogram = OrientationEstimator.histogram

    def counted(self: OrientationEstimator, images: np.ndarray) -> np.ndarray:
        counts.append(len(images))
        return histogram(self, images)

    monkeypatch.setattr(OrientationEstimator, "histogram", counted)
    return counts


def measured(data: Path, results: Path, settings: RunSettings) -> MetricsPart | None:
    context = context_of(data, results)
    trained = train_run(context, settings, 0)
    return evaluate_run(context, trained.record.run)[0].metrics


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"svm": {"C": 3, "scaled": True}, "features": "states", "data": {"gamma": 50, "test": 200}}),
        ({}, {"data": {"protocol": "choice"}}),
        ({"perturbation": {**TABLE3, "scope": "rbm"}}, {"perturbation": {**TABLE3, "scope": "all", "draws": "one"}}),
    ],
)
def test_runs_that_differ_only_in_what_is_measured_train_once(
    data: Path, tmp_path: Path, fits: list[str], first: dict[str, Any], second: dict[str, Any]
) -> None:
    context = context_of(data, tmp_path / "shared")
    original = train_run(context, settings_of(**first), 0).record
    other = train_run(context, settings_of(**second), 0)
    assert fits == ["ThetaRBM"]
    assert not other.cached
    alone = train_run(context_of(data, tmp_path / "alone"), settings_of(**second), 0).record
    assert len(fits) == 2
    # The record is the one that a training of its own makes, but for what it says of where and how long that was.
    shared, own = record_of(tmp_path / "shared", other.record.run), record_of(tmp_path / "alone", alone.run)
    assert shared.pop("trained_as") == original.run
    assert shared["timings"] == original.timings
    for times in (shared, own):
        del times["timings"], times["peak_memory_megabytes"]
    assert shared == own
    paths = [each.store.weights_path(alone.run) for each in (context, context_of(data, tmp_path / "alone"))]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert evaluate_run(context, alone.run)[0].metrics == measured(data, tmp_path / "alone", settings_of(**second))
    # The third one names who was trained.
    third = train_run(context, settings_of(**{**second, "svm": {"C": 4}}), 0).record
    assert (third.trained_as, len(fits)) == (original.run, 2)


@pytest.mark.parametrize(
    "other",
    [
        {"parameters": {"sparsity": 0.7}},
        {"data": {"train": 200}},
        {"data": {"protocol": "final"}},
        {"perturbation": TABLE3},
        {"perturbation": {**TABLE3, "overflow": "clip"}},
        {"model": "orbm"},
    ],
)
def test_other_trainings_are_others(data: Path, tmp_path: Path, fits: list[str], other: dict[str, Any]) -> None:
    context = context_of(data, tmp_path)
    train_run(context, settings_of(), 0)
    made = train_run(context, settings_of(**other), 0).record
    train_run(context, settings_of(), 1)
    assert (len(fits), made.trained_as) == (3, None)


def _damage_weights(found: TrainedRun, context: Any) -> None:
    path = context.store.weights_path(found.record.run)
    path.write_bytes(path.read_bytes()[:-1] + b"x")


def _damage_index(found: TrainedRun, context: Any) -> None:
    for path in (context.store.folder.parent / training.SHARED).glob("*.json"):
        path.write_text('{"run": "../../etc"}')


def _another_machine(found: TrainedRun, context: Any) -> None:
    environment = EnvironmentPart(**{**found.record.environment.model_dump(), "processor": "another"})
    context.store.save(found.record.model_copy(update={"environment": environment}))


def _other_settings(found: TrainedRun, context: Any) -> None:
    settings = found.record.settings.model_copy(update={"parameters": {"sparsity": 0.4}})
    context.store.save(found.record.model_copy(update={"settings": settings}))


@pytest.mark.parametrize("spoil", [_damage_weights, _damage_index, _another_machine, _other_settings])
def test_a_training_that_cannot_be_shared_is_done_again(
    data: Path, tmp_path: Path, fits: list[str], spoil: Callable[[TrainedRun, Any], None]
) -> None:
    context = context_of(data, tmp_path)
    spoil(train_run(context, settings_of(), 0), context)
    made = train_run(context, settings_of(svm={"C": 3}), 0).record
    assert (len(fits), made.trained_as) == (2, None)
    assert train_run(context, settings_of(svm={"C": 4}), 0).record.trained_as == made.run


def test_force_trains_in_any_case(data: Path, tmp_path: Path, fits: list[str]) -> None:
    context = context_of(data, tmp_path)
    train_run(context, settings_of(), 0)
    assert train_run(context, settings_of(svm={"C": 3}), 0, force=True).record.trained_as is None
    assert len(fits) == 2


@pytest.mark.parametrize("model", ["theta", "orbm", "theta-local", "aligned-pixels"])
def test_kept_orientations_change_no_number(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimated: list[int], model: str
) -> None:
    parameters = {"fields": 500, "hidden": 10} if model == "theta-local" else {}
    settings = settings_of(model, parameters=parameters)
    first = measured(data, tmp_path / "first", settings)
    estimated.clear()
    second = measured(data, tmp_path / "second", settings)
    # What is left is the training's own; the controls also look for themselves when the SVM is measured.
    assert sum(estimated) <= 310 + (600 if model == "aligned-pixels" else 0)
    monkeypatch.setattr(OrientationCache, "of", lambda *arguments, **more: None)
    assert first == second == measured(data, tmp_path / "none", settings)


def test_a_damaged_set_is_not_used(data: Path, tmp_path: Path, estimated: list[int]) -> None:
    settings = settings_of()
    first = measured(data, tmp_path / "first", settings)
    files = sorted((data / orientations.FOLDER).iterdir())
    assert len(files) == 4
    files[0].write_bytes(files[0].read_bytes()[:-1] + b"\7")
    files[1].write_bytes(b"")
    estimated.clear()
    assert measured(data, tmp_path / "second", settings) == first
    assert sum(estimated) > 310
    estimated.clear()
    assert measured(data, tmp_path / "third", settings) == first
    assert sum(estimated) <= 310


def test_sets_depend_on_images_estimator_and_turning(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = OrientationCache(data)
    images = np.random.default_rng(0).random((30, 64), dtype=np.float32)
    kinds = [
        (ThetaRBM(), images, {}),
        (ThetaRBM(orientation_scale=1.0), images, {}),
        (ThetaRBM(rotations=12), images, {}),
        (ThetaRBM(), images[:20], {}),
        (ThetaRBM(), images[::-1], {}),
        (ThetaRBM(), images, {"copies": 9, "offset": 20.0}),
        (ThetaRBM(), images, {"copies": 9, "offset": 10.0}),
    ]
    sets = [cache.of(model, given, **turned) for model, given, turned in kinds]
    assert len({each._key for each in sets if each}) == len(kinds)
    assert cache.of(RBM(), images) is None
    # A set under another's name is none.
    cache.save("one", np.ones((1, 10), dtype=np.uint8))
    (cache.folder / "one").rename(cache.folder / "two")
    assert cache.load("two", np.ones((1, 10), dtype=np.uint8)) is None
    found = cache.found(ThetaRBM(), images, chunk=7)
    np.testing.assert_array_equal(found, OrientationEstimator()(images))
    again = cache.found(ThetaRBM(), images, chunk=7)
    np.testing.assert_array_equal(again, found)
    assert again.dtype == found.dtype


def test_the_sets_that_were_not_used_for_longest_go(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = OrientationCache(data)
    monkeypatch.setattr(orientations, "MOST_BYTES", 3 * (32 + 10))
    for number in range(5):
        cache.save(str(number), np.full((1, 10), number, dtype=np.uint8))
        # A file's time has steps, and all this may happen within one.
        os.utime(cache.folder / str(number), (number, number))
        if number > 0:
            assert cache.load("0", np.zeros((1, 10), dtype=np.uint8)) is not None
    kept = {path.name for path in (data / orientations.FOLDER).iterdir()}
    assert kept == {"0", "3", "4"}


def test_the_longest_runs_come_first_and_those_of_one_training_together() -> None:
    def planned(settings: RunSettings, seed: int, *measures: str) -> PlannedRun:
        return PlannedRun(settings, seed, ("cell",), (), measures, (), None, "missing", "")

    cells = load_suite(None).cells("paper")
    runs = [planned(cell.settings(), seed, "error", "gamma") for cell in cells for seed in (0, 1)]
    runs += [
        planned(resolve("theta", svm={"C": 3}), 1, "error"),
        planned(resolve("tirbm"), 0, "error", "gamma"),
    ]
    ordered = longest_first(runs)
    assert sorted(map(id, ordered)) == sorted(map(id, runs))
    names = [training_of(job) for job in ordered]
    # Each name stands in one piece.
    assert len(list(itertools.groupby(names))) == len(set(names)) < len(runs)
    models = [job.settings.model for job in ordered]
    assert models[0] == "tirbm"
    assert models[-1] in ("pixels", "aligned-pixels")
