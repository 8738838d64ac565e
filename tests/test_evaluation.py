"""Numbers against independent computations, and what is measured when."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix
from sklearn.svm import SVC

from tests.runs import MODELS, files_in, measured, parts_of, run_of, store_of, tiny, train, wanted
from thetarbm_cli import evaluation, pipeline
from thetarbm_cli.errors import InputError
from thetarbm_cli.evaluation import draw_states, measure
from thetarbm_cli.imaging.rotation import rotation_matrix
from thetarbm_cli.measures.invariance import goodfellow, zou
from thetarbm_cli.measures.svm import class_pairs
from thetarbm_cli.models import build
from thetarbm_cli.specs import MeasureSpec
from thetarbm_cli.store import Measurement, Store, Training

Features = dict[str, np.ndarray]


@pytest.fixture
def store(trained: Path, small_data: Path, tmp_path: Path) -> Store:
    """Trained runs, to be measured."""
    shutil.copytree(trained, tmp_path / "results")
    return store_of(small_data, tmp_path / "results")


def fitted(store: Store, training: Training, *, align: bool = True) -> Any:
    arrays, _ = store.load_weights(training.run) or pytest.fail("no weights")
    spec = training.spec
    model = build(spec.model, spec.parameters, seed=spec.seed).load_arrays(arrays)
    return model if align else model.set_params(align=False)


def of_kind(training: Training, kind: str, part: str = "test", **fields: Any) -> Measurement:
    """The one measurement with these fields."""
    fields |= {"measure": kind, "part": part}
    found = [each for each in training.by_key.values() if fields.items() <= dict(each.spec).items()]
    assert len(found) == 1
    return found[0]


def error_of(training: Training, **fields: Any) -> float:
    value = of_kind(training, "error", **fields).values["test_error_percent"]
    assert value is not None
    return value


def svc_error(train: np.ndarray, labels: np.ndarray, test: np.ndarray, truth: np.ndarray, **kernel: float) -> float:
    svc = SVC(**{"C": 10, "gamma": 0.02, **kernel}).fit(train, labels)
    return float(100 * np.mean(svc.predict(test) != truth))


def rotated(images: np.ndarray, angle: float) -> np.ndarray:
    return np.ascontiguousarray((rotation_matrix(28, angle) @ images.T).T.astype(np.float32))


def naive_gamma(model: Any, images: np.ndarray, offset: float = 20.0) -> tuple[float, float]:
    """Mean of γ_j and ratio of summed variances, one rotation after the other."""
    original = model.transform(images).astype(np.float64)
    average = np.zeros_like(original)
    for s in range(9):
        average += model.transform(rotated(images, 40.0 * s + offset)).astype(np.float64) / 9
    live = original.std(axis=0) > 1e-6
    ratios = average.var(axis=0)[live] / original.var(axis=0)[live]
    return float(ratios.mean()), float(average.var(axis=0)[live].sum() / original.var(axis=0)[live].sum())


@pytest.mark.parametrize("aligned", [None, False])
@pytest.mark.parametrize("model", MODELS)
def test_error_is_that_of_scikit_learn(small_data: Path, evaluated: Path, model: str, aligned: bool | None) -> None:
    if model != "orbm" and aligned is False:
        return
    store, parts = store_of(small_data, evaluated), parts_of(small_data)
    training = store.require(run_of(evaluated, model))
    estimator = fitted(store, training, align=aligned is not False)
    found = of_kind(training, "error", aligned=True if model == "orbm" and aligned is None else aligned)
    features = {name: estimator.transform(images) for name, (images, _) in parts.items()}
    truth = parts["test"][1]
    error = found.values["test_error_percent"]
    expected = svc_error(features["train"], parts["train"][1], features["test"], truth)
    assert error == pytest.approx(expected, abs=0.34)  # at most one image of 300
    assert found.spec.svm is not None
    assert (found.spec.svm.C, found.spec.svm.gamma) == (10, 0.02)
    assert (found.weights_sha256, found.images_sha256) == (training.weights_sha256, training.images_sha256)
    confusion = np.array(found.details["confusion"])
    np.testing.assert_array_equal(confusion.sum(axis=1), np.bincount(truth))
    assert error == pytest.approx(100 * (confusion.sum() - np.trace(confusion)) / 300)
    predicted = SVC(C=10, gamma=0.02).fit(features["train"], parts["train"][1]).predict(features["test"])
    assert np.abs(confusion - confusion_matrix(truth, predicted)).sum() <= 2


@pytest.mark.parametrize(
    ("model", "aligned"), [("rbm", None), ("orbm", True), ("orbm", False), ("tirbm", None), ("theta", None)]
)
def test_gamma_is_that_of_a_naive_loop(small_data: Path, evaluated: Path, model: str, aligned: bool | None) -> None:
    store, parts = store_of(small_data, evaluated), parts_of(small_data)
    training = store.require(run_of(evaluated, model))
    estimator = fitted(store, training, align=aligned is not False)
    for part in ("train", "test"):
        found = of_kind(training, "gamma", part, aligned=aligned, offset=20.0)
        mean, ratio = naive_gamma(estimator, parts[part][0])
        assert found.values[f"gamma_{part}"] == pytest.approx(mean, rel=1e-3)
        assert found.values[f"gamma_ratio_{part}"] == pytest.approx(ratio, rel=1e-3)
        assert 0 <= found.values[f"gamma_bounded_{part}"] <= 1  # type: ignore[operator]
        assert found.details["images"] == 300
        units = [value for value in found.details["per_unit"] if value is not None]
        assert len(found.details["per_unit"]) == len(units) + found.values[f"dead_units_{part}"] == 40  # type: ignore[operator]
        assert found.values[f"gamma_{part}"] == pytest.approx(np.mean(units), abs=1e-5)


@pytest.mark.parametrize(
    ("settings", "part", "count"),
    [({"data__gamma": 50}, "test", 50), ({"offset": 5.0}, "train", 300), ({"data__part": "valid"}, "valid", 100)],
    ids=str,
)
def test_gamma_of_other_images_and_rotations(store: Store, settings: dict[str, Any], part: str, count: int) -> None:
    training = store.require(run_of(store.results, "theta"))
    specs = wanted(training.spec, ["gamma"], **settings)
    training, _ = measure(store, training, specs)
    (spec,) = (each for each in specs if each.part == part)
    images = parts_of(store.data_dir)[part][0][:count]
    mean, _ = naive_gamma(fitted(store, training), images, spec.offset or 0.0)
    role = "train" if part == "train" else "test"
    found = training.by_key[spec.key]
    assert found.values[f"gamma_{role}"] == pytest.approx(mean, rel=1e-3)
    assert found.details["images"] == count


def test_scope_of_a_perturbation_says_whose_orientations_are_wrong(small_data: Path, tmp_path: Path) -> None:
    store, parts = store_of(small_data, tmp_path), parts_of(small_data)
    spec = tiny("theta", perturbation__n=4, perturbation__p=0.4)
    training = train(small_data, tmp_path, spec)
    model, errors = fitted(store, training), set()
    kinds: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"perturbation__scope": "rbm"}, {}),
        ({}, {"train": "svm"}),
        ({"perturbation__draws": "one"}, {"train": "train"}),
        ({"perturbation__scope": "all"}, {"train": "svm", "test": "test"}),
    ]
    for settings, roles in kinds:
        (asked,) = wanted(spec, ["error"], **settings)
        training, _ = measure(store, training, [asked])
        features: Features = {}
        for part in ("train", "test"):
            images, given = parts[part][0], None
            if part in roles:
                given = pipeline.perturbed_orientations(store, model, images, spec.perturbation, 0, roles[part])
            features[part] = model.transform(images, orientations=given)
        expected = svc_error(features["train"], parts["train"][1], features["test"], parts["test"][1])
        error = training.by_key[asked.key].values["test_error_percent"]
        assert error == pytest.approx(expected, abs=0.34)
        errors.add(error)
    # One training, four errors.
    assert (len(store.identifiers()), len(errors), len(training.by_key)) == (1, 4, 4)


def test_perturbed_images_of_the_svm_may_be_standardised_by_what_was_estimated(
    small_data: Path, tmp_path: Path
) -> None:
    store, parts = store_of(small_data, tmp_path), parts_of(small_data)
    spec = tiny("theta", perturbation__n=4, perturbation__p=0.4, perturbation__statistics="before")
    training = train(small_data, tmp_path, spec)
    model = fitted(store, training)
    (asked,) = wanted(spec, ["error"], perturbation__scope="all")
    training, _ = measure(store, training, [asked])
    features: Features = {}
    for part, role in (("train", "svm"), ("test", "test")):
        images = parts[part][0]
        given = pipeline.perturbed_orientations(store, model, images, spec.perturbation, 0, role)
        estimated = model.orientation_estimator()(images)  # type: ignore[attr-defined]
        features[part] = model.transform(images, orientations=given, standardise_by=estimated)
        assert not np.allclose(features[part], model.transform(images, orientations=given))
    expected = svc_error(features["train"], parts["train"][1], features["test"], parts["test"][1])
    assert training.by_key[asked.key].values["test_error_percent"] == pytest.approx(expected, abs=0.34)


def test_scaled_features_have_unit_variance_on_the_training_images(store: Store) -> None:
    training = measured(store.data_dir, store.results, "rbm", ["error"], svm__scaled=True, svm__gamma=0.005)
    model, parts = fitted(store, training), parts_of(store.data_dir)
    features = {role: model.transform(parts[role][0]).astype(np.float64) for role in ("train", "test")}
    mean, spread = features["train"].mean(axis=0), features["train"].std(axis=0)
    scaled = {role: (values - mean) / spread for role, values in features.items()}
    expected = svc_error(scaled["train"], parts["train"][1], scaled["test"], parts["test"][1], gamma=0.005)
    assert error_of(training) == pytest.approx(expected, abs=0.34)


def test_states_are_drawn_for_svm_and_gamma_alike(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    # In chunks of another size than the images have: a state does not depend on it.
    monkeypatch.setattr(evaluation, "CHUNK", 70)
    training = measured(store.data_dir, store.results, "theta", features="states")
    model, parts = fitted(store, training), parts_of(store.data_dir)
    states = {role: draw_states(model.transform(parts[role][0]), 0, role) for role in ("train", "test")}
    expected = svc_error(states["train"], parts["train"][1], states["test"], parts["test"][1])
    assert error_of(training) == pytest.approx(expected, abs=0.34)
    for role in ("train", "test"):
        copies = [
            draw_states(model.transform(rotated(parts[role][0], 40.0 * s + 20)), 0, role, number=s + 1)
            for s in range(9)
        ]
        average = np.mean(copies, axis=0, dtype=np.float64)
        gamma = np.mean(average.var(axis=0) / states[role].var(axis=0, dtype=np.float64))
        assert of_kind(training, "gamma", role).values[f"gamma_{role}"] == pytest.approx(gamma, rel=2e-3)


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


def test_grid_search_chooses_on_the_validation_images_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "GRID_PENALTIES", (1.0, 30.0))
    monkeypatch.setattr(evaluation, "GRID_WIDTHS", (0.02, 0.08))
    training, told = store.require(run_of(store.results, "theta")), []
    (spec,) = wanted(training.spec, ["search"])
    training, _ = measure(store, training, [spec], report=lambda *words: told.append(words))
    # One step for each C and γ.
    assert ("grid search on the validation images", 4, 4) in told
    found = training.by_key[spec.key]
    model, parts = fitted(store, training), parts_of(store.data_dir)
    features = {name: model.transform(images) for name, (images, _) in parts.items()}
    learned = features["train"], parts["train"][1]
    expected = {
        (C, gamma): svc_error(*learned, features["valid"], parts["valid"][1], C=C, gamma=gamma)
        for C in (1.0, 30.0)
        for gamma in (0.02, 0.08)
    }
    grid = {(point["C"], point["gamma"]): point["validation_error_percent"] for point in found.details["grid"]}
    assert grid == pytest.approx(expected, abs=1.01)  # at most one image of 100
    values = found.values
    chosen = {"C": values["search_C"], "gamma": values["search_gamma"]}
    assert values["search_validation_error_percent"] == min(grid.values()) == grid[chosen["C"], chosen["gamma"]]
    test_error = svc_error(*learned, features["test"], parts["test"][1], **chosen)
    assert values["search_error_percent"] == pytest.approx(test_error, abs=0.34)


def test_error_of_several_orientations_is_that_of_svc_on_summed_decisions(small_data: Path, tmp_path: Path) -> None:
    spec = tiny(
        "theta-local", 1, hypotheses=0.8, rotations=24, orientation_smoothing=15.0, fields=500,
        data__learn_from="train+valid",
    )  # fmt: skip
    training = measured(small_data, tmp_path, spec, svm__C=3, svm__gamma=0.05)
    store, parts = store_of(small_data, tmp_path), parts_of(small_data)
    model: Any = fitted(store, training)
    images, labels = (np.concatenate([parts["train"][k], parts["valid"][k]]) for k in (0, 1))
    rows, index = model.candidate_orientations(images)
    svc = SVC(C=3.0, gamma=0.05, decision_function_shape="ovo")
    svc.fit(model.transform(images[rows], orientations=index).astype(np.float64), labels[rows])
    images, truth = parts["test"]
    rows, index = model.candidate_orientations(images)
    assert len(rows) > len(images)
    values = svc.decision_function(model.transform(images[rows], orientations=index).astype(np.float64))
    wrong = 0
    for image, label in enumerate(truth):
        votes = np.zeros(10, dtype=int)
        for value, (first, second) in zip(values[rows == image].sum(axis=0), class_pairs(10), strict=True):
            votes[first if value > 0 else second] += 1
        wrong += int(votes.argmax()) != label
    assert error_of(training) == pytest.approx(100 * wrong / len(truth), abs=0.5)
    # Nothing is chosen on images that were learned from.
    with pytest.raises(InputError, match="learned from the validation images"):
        measure(store, training, wanted(spec, ["search"]))
    with pytest.raises(InputError, match="learned from"):
        wanted(spec, ["error"], data__part="valid")


def test_a_search_judges_several_orientations_as_the_error_does(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "GRID_PENALTIES", (10.0, 30.0))
    monkeypatch.setattr(evaluation, "GRID_WIDTHS", (0.02,))
    spec = tiny("theta-local", 1, hypotheses=0.8, fields=500)
    training = measured(small_data, tmp_path, spec, ["error", "search"], data__part="valid", data__test=None)
    search = of_kind(training, "search", "valid")
    at_default = [point["validation_error_percent"] for point in search.details["grid"] if point["C"] == 10.0]
    assert at_default == [error_of(training, part="valid")]
    assert search.values["search_validation_error_percent"] == search.values["search_error_percent"]


@pytest.mark.parametrize("offset", [20.0, 5.0])
@pytest.mark.parametrize("at_once", [True, False])
def test_other_measures_of_invariance_are_taken_at_their_own_rotations(
    store: Store, monkeypatch: pytest.MonkeyPatch, at_once: bool, offset: float
) -> None:
    """At once with γ, of whatever Δ, or later."""
    for module in ("evaluation", "specs"):
        monkeypatch.setattr(f"thetarbm_cli.{module}.KEPT_IMAGES", 120)
    training = store.require(run_of(store.results, "orbm"))
    gamma, invariance = wanted(training.spec, ["gamma"], offset=offset), wanted(training.spec, ["invariance"])
    for asked in ([*gamma, *invariance],) if at_once else (gamma, invariance):
        training, _ = measure(store, training, asked)
    parts = parts_of(store.data_dir)
    for aligned in (True, False):
        found = of_kind(training, "invariance", aligned=aligned)
        assert (found.details["images"], found.spec.offset) == (120, 20)
        model = fitted(store, training, align=aligned)
        images, truth = (array[:120] for array in parts["test"])
        original = model.transform(images)
        copies = [model.transform(rotated(images, 40.0 * s + 20)) for s in range(9)]
        svc = SVC(C=10, gamma=0.02).fit(model.transform(parts["train"][0]), parts["train"][1])
        labels = [svc.predict(features) for features in (original, *copies)]
        values = found.values
        assert values["goodfellow_test"] == pytest.approx(goodfellow(original, copies), rel=2e-3)
        assert values["zou_test"] == pytest.approx(zou(original, copies), rel=1e-3)
        same = np.mean([labels[0] == each for each in labels[1:]])
        assert values["dosovitskiy_test"] == pytest.approx(same, abs=0.01)
        wrong = np.mean([truth != each for each in labels[1:]])
        assert values["rotated_error_percent"] == pytest.approx(100 * wrong, abs=1)


def test_a_model_that_learned_upright_digits_is_tested_on_rotated_ones(small_data: Path, tmp_path: Path) -> None:
    training = measured(small_data, tmp_path, tiny("rbm", data__dataset="mnist"))
    upright, turned = parts_of(small_data, "mnist"), parts_of(small_data)
    model = fitted(store_of(small_data, tmp_path), training)
    features = [model.transform(parts[part][0]) for parts, part in ((upright, "train"), (turned, "test"))]
    expected = svc_error(features[0], upright["train"][1], features[1], turned["test"][1])
    assert error_of(training, dataset="mnist-rot") == pytest.approx(expected, abs=0.34)
    learned = of_kind(training, "gamma", "train", dataset="mnist")
    assert learned.values["gamma_train"] == pytest.approx(naive_gamma(model, upright["train"][0])[0], rel=1e-3)
    assert learned.images_sha256 == training.images_sha256 != of_kind(training, "error").images_sha256


def test_units_that_are_all_dead_have_no_gamma(small_data: Path, tmp_path: Path) -> None:
    # Weights of zero: every feature is 1/2, γ is undefined, the SVM is at chance.
    training = measured(small_data, tmp_path, tiny("rbm", epochs=0, initial_scale=0.0))
    for part in ("train", "test"):
        found = of_kind(training, "gamma", part)
        assert (found.values[f"gamma_{part}"], found.values[f"dead_units_{part}"]) == (None, 40)
        assert found.details["per_unit"] == [None] * 40
    assert error_of(training) == pytest.approx(90, abs=2)


# What is measured when


def test_what_is_measured_is_not_measured_again(
    small_data: Path, evaluated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "Evaluation", lambda *_: pytest.fail("measured again"))
    before, store = files_in(evaluated), store_of(small_data, evaluated)
    for model in MODELS:
        training = store.require(run_of(evaluated, model))
        assert measure(store, training, wanted(training.spec)) == (training, True)
    assert files_in(evaluated) == before


def test_only_what_is_missing_is_measured_and_all_again_by_force(
    small_data: Path, evaluated: Path, tmp_path: Path
) -> None:
    shutil.copytree(evaluated, tmp_path / "results")
    store, told = store_of(small_data, tmp_path / "results"), []
    training = store.require(run_of(evaluated, "orbm"))
    specs = [*wanted(training.spec), *wanted(training.spec, ["gamma"], offset=5.0)]
    written = store.path(training.run, "measures.jsonl").read_bytes()
    again, found = measure(store, training, specs, report=lambda *words: told.append(words))
    assert not found
    assert list(dict.fromkeys(step for step, *_ in told)) == [
        "γ on the train images, Δ = 5°", "γ on the test images, Δ = 5°",
    ]  # fmt: skip
    assert ("γ on the test images, Δ = 5°", 300, 300) in told
    assert store.path(training.run, "measures.jsonl").read_bytes().startswith(written)
    forced, found = measure(store, training, specs, force=True)
    assert (found, len(forced.measurements)) == (False, 2 * len(again.measurements))
    # The first numbers stand, and the others are the same.
    assert forced.by_key == again.by_key
    for each in forced.measurements:
        assert each.values == again.by_key[each.spec.key].values


def test_a_measurement_that_is_cut_off_loses_only_itself(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    training = store.require(run_of(store.results, "theta"))
    specs = wanted(training.spec)
    with monkeypatch.context() as patch:
        patch.setattr(evaluation.View, "_error", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            measure(store, training, specs)
    left = store.require(training.run)
    assert [spec.measure for spec in left.lacking(specs)] == ["error"]
    again, _ = measure(store, left, specs)
    assert again.measurements[:2] == left.measurements
    assert again.lacking(specs) == []


@pytest.fixture
def own(tmp_path: Path) -> Path:
    return tmp_path / "own.npz"


def own_training(store: Store, own: Path, labels: np.ndarray | None) -> Training:
    images = np.random.default_rng(0).random((102, 5, 5), np.float32)
    split = np.repeat([0, 1, 2], [60, 10, 32])
    np.savez(own, images=images, split=split, **({} if labels is None else {"labels": labels}))
    spec = tiny("rbm", hidden=6, epochs=1, data__train=None, data__source=str(own))
    return pipeline.train(store, spec, source=str(own))[0]


def asked_of(training: Training, *measures: str) -> list[MeasureSpec]:
    return wanted(training.spec, measures or ("error", "gamma"), data__test=None)


def test_images_without_labels_have_gamma_and_no_error(
    own: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "thetarbm")
    store = store_of(tmp_path / "data", tmp_path / "results")
    training = own_training(store, own, None)
    for measures in (("error",), ("gamma", "search"), ("gamma", "invariance")):
        with pytest.raises(InputError, match="labels"):
            measure(store, training, asked_of(training, *measures))
    for found in (False, True):
        training, cached = measure(store, training, asked_of(training))
        assert (len(training.measurements), cached) == (3, found)
    assert "labels" in caplog.text
    # An undefined error is recorded as such, and not asked for again.
    assert of_kind(training, "error").values == {"test_error_percent": None}
    assert {"gamma_train", "gamma_test"} <= training.values.keys()
    assert "test_error_percent" not in training.values


def test_a_class_that_is_only_tested_counts_as_errors(own: Path, tmp_path: Path) -> None:
    store = store_of(tmp_path / "data", tmp_path / "results")
    labels = np.arange(102) % 3
    labels[70:] = np.arange(32) % 4
    training = own_training(store, own, labels)
    training, _ = measure(store, training, asked_of(training))
    found = of_kind(training, "error")
    confusion = np.array(found.details["confusion"])
    unknown = found.details["classes"].index(3)
    assert confusion[unknown].sum() == 8
    assert confusion[:, unknown].sum() == 0
    assert found.values["test_error_percent"] == pytest.approx(100 * (1 - np.trace(confusion) / 32))
    assert found.values["test_error_percent"] >= 25
    assert "gamma_test" in training.values


def test_foreign_weights_of_a_whole_file_are_refused(store: Store) -> None:
    training = store.require(run_of(store.results, "rbm"))
    for arrays in ({"weights": np.zeros((3, 2), np.float32)}, {"others": np.zeros(3)}, {"weights": np.zeros(())}):
        store.save_weights(training.run, arrays)
        with pytest.raises(InputError, match=training.run):
            measure(store, training, wanted(training.spec))
    store.path(training.run, "weights.npz").unlink()
    with pytest.raises(InputError, match="train it again"):
        measure(store, training, wanted(training.spec))
