from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix
from sklearn.svm import SVC

from tests.experiments.runs import MODELS, context_of, files_in, parts_of, record_of, run_of, train
from tests.experiments.suites import metrics_of
from thetarbm_cli.experiments.runs import evaluation as measuring
from thetarbm_cli.experiments.runs.evaluation import Progress, draw_states, evaluate_run, summary
from thetarbm_cli.experiments.runs.loading import load_checked, load_model
from thetarbm_cli.experiments.runs.orientations import OrientationCache, perturbed_orientations
from thetarbm_cli.experiments.runs.settings import resolve
from thetarbm_cli.experiments.runs.training import train_run
from thetarbm_cli.imaging.rotation import rotation_matrix
from thetarbm_cli.measures.invariance import goodfellow, zou
from thetarbm_cli.models.rbm import RBM


def fitted(small_data: Path, results: Path, model: str) -> RBM:
    context = context_of(small_data, results)
    return load_model(context, load_checked(context, run_of(results, model)))


def svc_error(train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray, **kernel: float) -> float:
    machine = SVC(**{"C": 10, "gamma": 0.02, **kernel}).fit(train, labels)
    return float(100 * np.mean(machine.predict(test) != truth))


class Watcher:
    """Keeps the steps and the progress of each."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.progress: list[tuple[int, int]] = []

    @contextmanager
    def __call__(self, label: str) -> Iterator[Progress]:
        self.steps.append(label)
        yield lambda done, total: self.progress.append((done, total))


def naive_gamma(model: RBM, images: np.ndarray, offset: float = 20.0) -> tuple[float, float]:
    """Mean of γ_j and ratio of summed variances, one rotation after the other."""
    original = model.transform(images).astype(np.float64)
    average = np.zeros_like(original)
    for s in range(9):
        turned = (rotation_matrix(28, 40.0 * s + offset) @ images.T).T.astype(np.float32)
        average += model.transform(np.ascontiguousarray(turned)).astype(np.float64) / 9
    live = original.std(axis=0) > 1e-6
    ratios = average.var(axis=0)[live] / original.var(axis=0)[live]
    return float(ratios.mean()), float(average.var(axis=0)[live].sum() / original.var(axis=0)[live].sum())


def test_gamma_may_be_measured_on_the_first_images_alone(small_data: Path, tmp_path: Path) -> None:
    context = context_of(small_data, tmp_path)
    settings = resolve("rbm", profile="tiny", data={"gamma": 50})
    run = train_run(context, settings, 0).record.run
    score = evaluate_run(context, run)[0].metrics.score(20.0, "test")
    images = parts_of(small_data)["test"][0][:50]
    assert score.images == 50
    assert score.mean == pytest.approx(
        naive_gamma(load_model(context, load_checked(context, run)), images)[0], rel=1e-3
    )


@pytest.mark.parametrize("model", MODELS)
def test_error_is_that_of_scikit_learn(small_data: Path, evaluated: Path, model: str) -> None:
    machine, parts = fitted(small_data, evaluated, model), parts_of(small_data)
    measured = record_of(evaluated, run_of(evaluated, model))["metrics"]["svm"]
    features = {name: machine.transform(images) for name, (images, _) in parts.items()}
    truth = parts["test"][1]
    expected = svc_error(features["train"], parts["train"][1], features["test"], truth)
    assert measured["test_error_percent"] == pytest.approx(expected, abs=0.34)  # at most one image of 300
    assert (measured["C"], measured["gamma"]) == (10, 0.02)
    confusion = np.array(measured["confusion"])
    np.testing.assert_array_equal(confusion.sum(axis=1), np.bincount(truth))
    wrong = confusion.sum() - np.trace(confusion)
    assert measured["test_error_percent"] == pytest.approx(100 * wrong / 300)
    given = SVC(C=10, gamma=0.02).fit(features["train"], parts["train"][1]).predict(features["test"])
    assert np.abs(confusion - confusion_matrix(truth, given)).sum() <= 2
    per_class = 100 * (1 - confusion.diagonal() / confusion.sum(axis=1))
    np.testing.assert_allclose(measured["error_per_class"], per_class)


@pytest.mark.parametrize("model", ["rbm", "orbm", "tirbm", "theta"])
def test_gamma_is_that_of_a_naive_loop(small_data: Path, evaluated: Path, model: str) -> None:
    machine, parts = fitted(small_data, evaluated, model), parts_of(small_data)
    gamma = record_of(evaluated, run_of(evaluated, model))["metrics"]["gamma"]
    assert gamma["offset"] == 20
    for role in ("train", "test"):
        mean, ratio = naive_gamma(machine, parts[role][0])
        assert gamma[role]["mean"] == pytest.approx(mean, rel=1e-3)
        assert gamma[role]["ratio_of_sums"] == pytest.approx(ratio, rel=1e-3)
        assert 0 <= gamma[role]["bounded"] <= 1
        assert gamma[role]["images"] == 300
        units = [value for value in gamma[role]["per_unit"] if value is not None]
        assert len(gamma[role]["per_unit"]) == 40
        assert len(units) + gamma[role]["dead_units"] == 40
        assert gamma[role]["mean"] == pytest.approx(np.mean(units), abs=1e-5)


def test_oriented_rbm_is_measured_both_ways(small_data: Path, evaluated: Path) -> None:
    metrics = record_of(evaluated, run_of(evaluated, "orbm"))["metrics"]
    machine, parts = fitted(small_data, evaluated, "orbm"), parts_of(small_data)
    machine.set_params(align=False)
    features = {name: machine.transform(images) for name, (images, _) in parts.items()}
    expected = svc_error(features["train"], parts["train"][1], features["test"], parts["test"][1])
    assert metrics["unaligned"]["svm"]["test_error_percent"] == pytest.approx(expected, abs=0.34)
    assert metrics["unaligned"]["gamma"]["test"]["mean"] == pytest.approx(
        naive_gamma(machine, parts["test"][0])[0], rel=1e-3
    )
    assert metrics["unaligned"]["svm"] != metrics["svm"]
    for model in ("rbm", "tirbm", "theta", "pixels", "aligned-pixels"):
        assert "unaligned" not in record_of(evaluated, run_of(evaluated, model))["metrics"]


def test_scope_of_a_perturbation_says_whose_orientations_are_wrong(small_data: Path, tmp_path: Path) -> None:
    context, parts, cache = context_of(small_data, tmp_path), parts_of(small_data), OrientationCache(tmp_path)
    checksums, errors = set(), set()
    kinds = [({"scope": "rbm"}, ()), ({}, ("svm",)), ({"draws": "one"}, ("svm",)), ({"scope": "all"}, ("svm", "test"))]
    for kind, wrong in kinds:
        settings = resolve("theta", profile="tiny", perturbation={"n": 4, "p": 0.4, **kind})
        record, _ = evaluate_run(context, train(small_data, tmp_path, settings).run, measures=["error"])
        machine, features = load_model(context, record), {}
        for part, role in (("train", "svm"), ("test", "test")):
            images = parts[part][0]
            given = perturbed_orientations(machine, images, settings, 0, role, cache) if role in wrong else None
            features[part] = machine.transform(images, orientations=given)
        expected = svc_error(features["train"], parts["train"][1], features["test"], parts["test"][1])
        assert metrics_of(record)["svm"]["test_error_percent"] == pytest.approx(expected, abs=0.34)
        checksums.add(record.weights_sha256)
        errors.add(metrics_of(record)["svm"]["test_error_percent"])
    # The machine is the same in all, the error is not.
    assert (len(checksums), len(errors)) == (1, 4)


def test_scaled_features_have_unit_variance_on_the_training_images(small_data: Path, tmp_path: Path) -> None:
    settings = resolve("rbm", profile="tiny", svm={"scaled": True, "gamma": 0.005})
    record, _ = evaluate_run(
        context_of(small_data, tmp_path), train(small_data, tmp_path, settings).run, measures=["error"]
    )
    machine, parts = load_model(context_of(small_data, tmp_path), record), parts_of(small_data)
    features = {role: machine.transform(parts[role][0]).astype(np.float64) for role in ("train", "test")}
    mean, spread = features["train"].mean(axis=0), features["train"].std(axis=0)
    scaled = {role: (values - mean) / spread for role, values in features.items()}
    expected = svc_error(scaled["train"], parts["train"][1], scaled["test"], parts["test"][1], gamma=0.005)
    assert metrics_of(record)["svm"]["test_error_percent"] == pytest.approx(expected, abs=0.34)


def test_states_are_drawn_for_svm_and_gamma_alike(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = resolve("theta", profile="tiny", features="states")
    # In chunks of another size than the images have: a state does not depend on it.
    monkeypatch.setattr(measuring, "IMAGES_AT_ONCE", 70)
    record, _ = evaluate_run(context_of(small_data, tmp_path), train(small_data, tmp_path, settings).run)
    machine, parts = load_model(context_of(small_data, tmp_path), record), parts_of(small_data)
    metrics = metrics_of(record)
    states = {role: draw_states(machine.transform(parts[role][0]), 0, role) for role in ("train", "test")}
    expected = svc_error(states["train"], parts["train"][1], states["test"], parts["test"][1])
    assert metrics["svm"]["test_error_percent"] == pytest.approx(expected, abs=0.34)
    for role in ("train", "test"):
        copies = []
        for s in range(9):
            turned = (rotation_matrix(28, 40.0 * s + 20) @ parts[role][0].T).T.astype(np.float32)
            copies.append(draw_states(machine.transform(np.ascontiguousarray(turned)), 0, role, copy=s + 1))
        average = np.mean(copies, axis=0, dtype=np.float64)
        gamma = np.mean(average.var(axis=0) / states[role].var(axis=0, dtype=np.float64))
        assert metrics["gamma"][role]["mean"] == pytest.approx(gamma, rel=2e-3)


def test_states_follow_their_probabilities_in_whichever_chunk() -> None:
    probabilities = np.random.default_rng(0).random((5000, 13), dtype=np.float32)
    states = draw_states(probabilities, 3, "test")
    assert set(np.unique(states)) == {0.0, 1.0}
    parts = [draw_states(probabilities[a:b], 3, "test", first=a) for a, b in ((0, 1), (1, 777), (777, 5000))]
    np.testing.assert_array_equal(np.concatenate(parts), states)
    # Within five standard deviations, overall and for rare and frequent units alike.
    deviation = (states - probabilities).sum() / np.sqrt((probabilities * (1 - probabilities)).sum())
    assert abs(deviation) < 5
    certain = np.tile(np.float32([0, 1]), (1000, 1))
    np.testing.assert_array_equal(draw_states(certain, 3, "test"), certain)
    half = np.full((1000, 8), 0.5, dtype=np.float32)
    draws = [draw_states(half, *key) for key in ((3, "test"), (4, "test"), (3, "train"), (3, "test", 0, 1))]
    correlations = np.corrcoef([draw.ravel() for draw in draws])
    assert np.abs(correlations - np.eye(4)).max() < 0.06


def test_grid_search_chooses_on_the_validation_images_alone(
    small_data: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "GRID_PENALTIES", (1.0, 30.0))
    monkeypatch.setattr(measuring, "GRID_WIDTHS", (0.02, 0.08))
    shutil.copytree(trained, tmp_path / "results")
    run = run_of(trained, "theta")
    watcher = Watcher()
    context = context_of(small_data, tmp_path / "results")
    record, _ = evaluate_run(context, run, measures=["error"], search=True, display=watcher)
    assert "grid search on the validation images" in watcher.steps
    # One step for each C and γ.
    assert (4, 4) in watcher.progress
    found = metrics_of(record)["grid_search"]
    machine, parts = fitted(small_data, trained, "theta"), parts_of(small_data)
    features = {name: machine.transform(images) for name, (images, _) in parts.items()}
    learned = features["train"], parts["train"][1]
    expected = {
        (C, gamma): svc_error(*learned, features["valid"], parts["valid"][1], C=C, gamma=gamma)
        for C in (1.0, 30.0)
        for gamma in (0.02, 0.08)
    }
    grid = {(point["C"], point["gamma"]): point["validation_error_percent"] for point in found["grid"]}
    assert grid == pytest.approx(expected, abs=1.01)  # at most one image of 100
    assert found["validation_error_percent"] == min(grid.values()) == grid[found["C"], found["gamma"]]
    test_error = svc_error(*learned, features["test"], parts["test"][1], C=found["C"], gamma=found["gamma"])
    assert found["test_error_percent"] == pytest.approx(test_error, abs=0.34)
    # The paper's own pair is measured all the same.
    assert metrics_of(record)["svm"]["C"] == 10


def test_what_is_measured_is_not_measured_again(
    small_data: Path, evaluated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("measured again")

    monkeypatch.setattr(measuring, "RBFClassifier", refuse)
    monkeypatch.setattr(measuring, "gamma_score", refuse)
    before = files_in(evaluated)
    for model in MODELS:
        record, cached = evaluate_run(context_of(small_data, evaluated), run_of(evaluated, model))
        assert cached
        assert record.metrics is not None
    assert files_in(evaluated) == before


def test_only_what_is_missing_is_measured(
    small_data: Path, evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(evaluated, tmp_path / "results")
    context, run = context_of(small_data, tmp_path / "results"), run_of(evaluated, "orbm")
    before = record_of(tmp_path / "results", run)["metrics"]
    written = context.store.record_path(run).read_bytes()
    watcher = Watcher()
    record, cached = evaluate_run(context, run, offset=5.0, display=watcher)
    assert not cached
    assert watcher.steps == ["γ on the train images, Δ = 5°", "γ on the test images, Δ = 5°"] * 2
    assert (300, 300) in watcher.progress
    # What was there is there still, and is what the tables take.
    assert {name: metrics_of(record)[name] for name in ("svm", "gamma")} == {
        name: before[name] for name in ("svm", "gamma")
    }
    for metrics in (metrics_of(record), metrics_of(record)["unaligned"]):
        (entry,) = metrics["gamma_offsets"]
        assert entry["offset"] == 5
        assert entry["test"]["mean"] != metrics["gamma"]["test"]["mean"]
        assert "per_unit" not in entry["test"]
    assert evaluate_run(context, run, offset=5.0)[1]
    assert context.store.record_path(run).read_bytes() == written
    assert summary(record, cached=True).gamma_test == before["gamma"]["test"]["mean"]
    assert summary(record, cached=True, offset=5.0).gamma_test == metrics_of(record)["gamma_offsets"][0]["test"]["mean"]


def test_further_offsets_are_measured_on_the_training_images(small_data: Path, evaluated: Path, tmp_path: Path) -> None:
    shutil.copytree(evaluated, tmp_path / "results")
    context, run = context_of(small_data, tmp_path / "results"), run_of(evaluated, "theta")
    evaluate_run(context, run, more_offsets=(30.0, 0.0, 20.0))
    record, cached = evaluate_run(context, run, more_offsets=(10.0, 0.0))
    assert not cached
    found = {each["offset"]: each for each in metrics_of(record)["gamma_offsets"]}
    assert list(found) == [0, 10, 30]
    machine, images = fitted(small_data, evaluated, "theta"), parts_of(small_data)["train"][0]
    for offset, each in found.items():
        assert set(each) == {"offset", "train"}
        assert each["train"]["mean"] == pytest.approx(naive_gamma(machine, images, offset)[0], rel=1e-3)
    assert record.has(["error", "gamma"], (0.0, 30.0))
    assert not record.has(["error", "gamma"], (0.0, 35.0))
    # On the test images nothing but the tables' Δ was measured.
    assert record.metrics.missing(["error", "gamma"], offset=10.0)


def test_untrained_run_whose_units_are_all_dead_is_measured(small_data: Path, tmp_path: Path) -> None:
    # Weights of zero: every feature is 1/2, γ is undefined, the SVM is at chance.
    settings = resolve("rbm", profile="tiny", parameters={"epochs": 0, "initial_scale": 0.0})
    run = train(small_data, tmp_path, settings).run
    record, _ = evaluate_run(context_of(small_data, tmp_path), run)
    row = summary(record, cached=False)
    assert (row.gamma_train, row.gamma_test, row.dead_units) == (None, None, 40)
    assert row.test_error_percent == pytest.approx(90, abs=2)
    assert record_of(tmp_path, run)["metrics"]["gamma"]["test"]["per_unit"] == [None] * 40


def test_other_measures_of_invariance_are_taken_on_the_same_rotations(
    small_data: Path, evaluated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "KEPT_IMAGES", 120)
    shutil.copytree(evaluated, tmp_path / "later")
    asked = ("error", "gamma", "invariance")
    run = run_of(evaluated, "orbm")
    later, cached = evaluate_run(context_of(small_data, tmp_path / "later"), run, measures=asked)
    assert not cached
    assert evaluate_run(context_of(small_data, tmp_path / "later"), run, measures=asked)[1]
    # At once with γ, or later: the same numbers.
    at_once, _ = evaluate_run(context_of(small_data, tmp_path / "later"), run, measures=asked, force=True)
    assert metrics_of(at_once) == metrics_of(later)
    machine, parts = fitted(small_data, evaluated, "orbm"), parts_of(small_data)
    for metrics, aligned in ((metrics_of(later), True), (metrics_of(later)["unaligned"], False)):
        machine.set_params(align=aligned)
        found = metrics["more"]["invariance"]
        assert (found["images"], found["offset"]) == (120, 20)
        images, truth = (array[:120] for array in parts["test"])
        original, *copies = (
            machine.transform(np.ascontiguousarray((matrix @ images.T).T.astype(np.float32)))
            for matrix in (np.eye(784), *(rotation_matrix(28, 40.0 * s + 20) for s in range(9)))
        )
        svc = SVC(C=10, gamma=0.02).fit(machine.transform(parts["train"][0]), parts["train"][1])
        labels = [svc.predict(features) for features in (original, *copies)]
        values = found["values"]
        assert values["goodfellow_test"] == pytest.approx(goodfellow(original, copies), rel=2e-3)
        assert values["zou_test"] == pytest.approx(zou(original, copies), rel=1e-3)
        assert values["dosovitskiy_test"] == pytest.approx(
            np.mean([labels[0] == each for each in labels[1:]]), abs=0.01
        )
        wrong = np.mean([truth != each for each in labels[1:]])
        assert values["rotated_error_percent"] == pytest.approx(100 * wrong, abs=1)
    shown = summary(later, cached=True).more
    assert shown["zou_test_unaligned"] == metrics_of(later)["unaligned"]["more"]["invariance"]["values"]["zou_test"]
    assert len(shown) == 8
