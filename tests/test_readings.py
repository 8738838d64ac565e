"""Readings of measuring against the same written out in NumPy, from the weights alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.runs import measured, parts_of, run_of, store_of, tiny, wanted
from tests.test_evaluation import error_of, of_kind, svc_error
from thetarbm_cli import evaluation
from thetarbm_cli.evaluation import measure
from thetarbm_cli.imaging.rotation import rotation_matrix
from thetarbm_cli.models import build
from thetarbm_cli.models.seeds import generator_of
from thetarbm_cli.models.unlearned import unlearned
from thetarbm_cli.store import Store

Doubles = NDArray[np.float64]
Index = NDArray[np.int64]
# Model, and whether images are aligned (of the O-RBM).
VIEWS = [("rbm", None), ("orbm", True), ("orbm", False), ("tirbm", None), ("theta", None)]
COPIES = [40.0 * n + 20 for n in range(9)]


@pytest.fixture
def store(trained: Path, small_data: Path, tmp_path: Path) -> Store:
    """Trained runs, to be measured."""
    shutil.copytree(trained, tmp_path / "results")
    return store_of(small_data, tmp_path / "results")


def turned(images: Any, angle: float) -> Doubles:
    return np.asarray((rotation_matrix(28, angle) @ np.asarray(images).T).T, dtype=np.float64)


def turned_each(images: Any, angles: Doubles) -> Doubles:
    result = np.empty((len(images), 784))
    for angle in np.unique(angles):
        rows = angles == angle
        result[rows] = turned(np.asarray(images)[rows], float(angle))
    return result


def sigmoid(x: Doubles) -> Doubles:
    return 1 / (1 + np.exp(-x))


class Written:
    """A fitted network in NumPy: what is standardised of images, by whose statistics, and what comes of it."""

    def __init__(self, store: Store, model: str, *, aligned: bool | None) -> None:
        self.training = store.require(run_of(store.results, model))
        arrays, _ = store.load_weights(self.training.run) or pytest.fail("no weights")
        spec = self.training.spec
        estimator: Any = build(spec.model, spec.parameters)
        self.name, self.aligns = model, aligned is True
        self.weights, self.bias = (arrays[name].astype(np.float64) for name in ("weights", "hidden_bias"))
        self.trained = arrays["standard_mean"].astype(np.float64), arrays["standard_scale"].astype(np.float64)
        self.find: Callable[[Any], Index] = lambda images: np.zeros(len(images), dtype=np.int64)
        if model in ("orbm", "theta"):
            estimate = estimator.orientation_estimator()
            self.find = lambda images: estimate(np.asarray(images, dtype=np.float32))

    def framed(self, images: Any, s: Index) -> Doubles:
        """Images as they are standardised."""
        return turned_each(images, -40.0 * s) if self.aligns else np.asarray(images, dtype=np.float64)

    def groups(self, s: Index) -> Index:
        return s if self.name == "theta" else 0 * s

    def statistics(self, images: Any, s: Index) -> tuple[Doubles, Doubles]:
        """Mean and deviation of each pixel in each group."""
        framed, group = self.framed(images, s), self.groups(s)
        means, scales = [], []
        for g in range(len(self.trained[0])):
            rows = framed[group == g] if np.count_nonzero(group == g) > 1 else framed
            deviation = rows.std(axis=0)
            means.append(rows.mean(axis=0))
            scales.append(np.where(deviation < 1e-7, 1, deviation))
        return np.array(means), np.array(scales)

    def standardised(self, images: Any, s: Index, statistics: tuple[Doubles, Doubles]) -> Doubles:
        mean, scale = (each[self.groups(s)] for each in statistics)
        return (self.framed(images, s) - mean) / scale

    def network(self, inputs: Doubles, s: Index) -> Doubles:
        if self.name == "tirbm":
            sums = np.stack([turned(inputs, 40.0 * k) @ self.weights.T + self.bias[k] for k in range(9)])
            return np.asarray(1 - 1 / (1 + np.exp(sums).sum(axis=0)))
        if self.name == "theta":
            inputs = np.stack([rotation_matrix(28, 40.0 * k).T @ x for x, k in zip(inputs, s, strict=True)])
        return sigmoid(inputs @ self.weights.T + self.bias)

    def features(self, images: Any, statistics: tuple[Doubles, Doubles], s: Index | None = None) -> Doubles:
        s = self.find(images) if s is None else s
        return self.network(self.standardised(images, s, statistics), s)

    def set_statistics(self, images: Any) -> tuple[Doubles, Doubles]:
        return self.statistics(images, self.find(images))


def gamma_of(original: Doubles, copies: list[Doubles]) -> float:
    average = np.mean(copies, axis=0)
    live = original.std(axis=0) > 1e-6
    return float((average.var(axis=0)[live] / original.var(axis=0)[live]).mean())


def gamma_measured(store: Store, written: Written, aligned: bool | None, role: str, **settings: Any) -> float:
    if aligned is not None:
        settings["aligned"] = aligned
    specs = wanted(written.training.spec, ["gamma"], **settings)
    training, _ = measure(store, written.training, specs)
    (spec,) = (each for each in specs if (each.part == "train") == (role == "train"))
    value = training.by_key[spec.key].values[f"gamma_{role}"]
    assert value is not None
    return value


@pytest.mark.parametrize(("model", "aligned"), VIEWS)
def test_each_set_is_standardised_by_its_own_statistics(store: Store, model: str, aligned: bool | None) -> None:
    written, parts = Written(store, model, aligned=aligned), parts_of(store.data_dir)
    own = {name: written.set_statistics(images) for name, (images, _) in parts.items()}
    # The training's are those of its images; of the O-RBM, of aligned ones.
    if aligned is not False:
        for ours, theirs in zip(own["train"], written.trained, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    features = {name: written.features(images, own[name]) for name, (images, _) in parts.items()}
    settings: dict[str, Any] = {"statistics": "set"} | ({} if aligned is None else {"aligned": aligned})
    training = measured(store.data_dir, store.results, written.training.spec, ["error"], **settings)
    expected = svc_error(features["train"], parts["train"][1], features["test"], parts["test"][1])
    assert error_of(training, aligned=aligned) == pytest.approx(expected, abs=0.34)
    # Of γ the first 60 alone are measured, and all are the set.
    images = parts["test"][0][:60]
    copies = [written.features(turned(images, angle), own["test"]) for angle in COPIES]
    found = gamma_measured(store, written, aligned, "test", statistics="set", data__gamma=60)
    assert found == pytest.approx(gamma_of(features["test"][:60], copies), rel=2e-3)
    # It is another number.
    before = gamma_measured(store, written, aligned, "test", data__gamma=60)
    assert found != pytest.approx(before, rel=1e-4)


def test_gamma_on_training_images_has_their_statistics_in_any_case(store: Store) -> None:
    for model, aligned in VIEWS:
        named = {} if aligned is None else {"aligned": aligned}
        written = Written(store, model, aligned=aligned)
        one, other = (
            next(each for each in wanted(written.training.spec, ["gamma"], statistics=kind, **named))
            for kind in ("train", "set")
        )
        assert one.part == other.part == "train"
        assert (one == other) is (aligned is not False)
    # Images that are not aligned are no images that it learned from.
    written, images = Written(store, "orbm", aligned=False), parts_of(store.data_dir)["train"][0]
    statistics = written.set_statistics(images)
    copies = [written.features(turned(images, angle), statistics) for angle in COPIES]
    found = gamma_measured(store, written, False, "train", statistics="set")
    assert found == pytest.approx(gamma_of(written.features(images, statistics), copies), rel=2e-3)


@pytest.mark.parametrize("statistics", ["train", "set"])
@pytest.mark.parametrize(("model", "aligned"), VIEWS)
def test_each_set_of_copies_is_standardised_by_its_own_statistics(
    store: Store, model: str, aligned: bool | None, statistics: str
) -> None:
    written, images = Written(store, model, aligned=aligned), parts_of(store.data_dir)["test"][0]
    of_images = written.set_statistics(images) if statistics == "set" else written.trained
    original, copies = written.features(images, of_images), []
    for angle in COPIES:
        copy = turned(images, angle)
        s = written.find(copy)
        copies.append(written.features(copy, written.statistics(copy, s), s))
    found = gamma_measured(store, written, aligned, "test", copies="own", statistics=statistics)
    assert found == pytest.approx(gamma_of(original, copies), rel=2e-3)
    assert found != pytest.approx(gamma_measured(store, written, aligned, "test", statistics=statistics), rel=4e-3)


@pytest.mark.parametrize("statistics", ["train", "set"])
@pytest.mark.parametrize(("model", "aligned"), VIEWS)
def test_images_may_be_standardised_before_they_are_rotated(
    store: Store, model: str, aligned: bool | None, statistics: str
) -> None:
    written, images = Written(store, model, aligned=aligned), parts_of(store.data_dir)["test"][0]
    of_images = written.set_statistics(images) if statistics == "set" else written.trained
    s, original, copies = written.find(images), written.features(images, of_images), []
    standardised = written.standardised(images, s, of_images)
    for angle in COPIES:
        # Orientations are those of the rotated image itself.
        of_copy = written.find(turned(images, angle))
        between = angle + 40.0 * (s - of_copy) if written.aligns else np.full(len(images), angle)
        copies.append(written.network(turned_each(standardised, between), of_copy))
    found = gamma_measured(store, written, aligned, "test", order="standardised-first", statistics=statistics)
    assert found == pytest.approx(gamma_of(original, copies), rel=2e-3)
    assert found != pytest.approx(gamma_measured(store, written, aligned, "test", statistics=statistics), rel=4e-3)


def test_the_validation_images_of_a_search_have_their_own_statistics(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "GRID_WIDTHS", (0.02,))
    written, parts = Written(store, "theta", aligned=None), parts_of(store.data_dir)
    (spec,) = wanted(written.training.spec, ["search"], statistics="set")
    training, _ = measure(store, written.training, [spec])
    features = {name: written.features(images, written.set_statistics(images)) for name, (images, _) in parts.items()}
    found, learned = training.by_key[spec.key], (features["train"], parts["train"][1])
    assert [point["C"] for point in found.details["grid"]] == [3.0, 10.0, 30.0]
    for point in found.details["grid"]:
        expected = svc_error(*learned, features["valid"], parts["valid"][1], C=point["C"])
        assert point["validation_error_percent"] == pytest.approx(expected, abs=1.01)
    chosen = found.values["search_C"]
    assert chosen is not None
    expected = svc_error(*learned, features["test"], parts["test"][1], C=chosen)
    assert found.values["search_error_percent"] == pytest.approx(expected, abs=0.34)


@pytest.mark.parametrize("at_once", [True, False])
def test_other_measures_of_invariance_see_the_same_statistics(
    store: Store, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    """Rotated first, whatever γ is measured with."""
    for module in ("evaluation", "specs"):
        monkeypatch.setattr(f"thetarbm_cli.{module}.KEPT_IMAGES", 60)
    written, images = Written(store, "theta", aligned=None), parts_of(store.data_dir)["test"][0]
    gamma = wanted(written.training.spec, ["gamma"], statistics="set", order="standardised-first")
    invariance = wanted(written.training.spec, ["invariance"], statistics="set")
    training = written.training
    for asked in ([*gamma, *invariance],) if at_once else (gamma, invariance):
        training, _ = measure(store, training, asked)
    own = written.set_statistics(images)
    original, *copies = (
        features / np.linalg.norm(features, axis=1, keepdims=True)
        for features in (
            written.features(each, own) for each in [images[:60], *(turned(images[:60], a) for a in COPIES)]
        )
    )
    zou = np.mean([np.square(original - copy).sum(axis=1).mean() for copy in copies])
    assert of_kind(training, "invariance").values["zou_test"] == pytest.approx(zou, rel=1e-3)


@pytest.mark.parametrize("settings", [{"whiten": True}, {"visible": "bernoulli"}, {"tensor": "full"}], ids=str)
@pytest.mark.parametrize(
    "reading", [{"statistics": "set"}, {"copies": "own"}, {"order": "standardised-first"}], ids=str
)
def test_what_is_not_standardised_has_no_readings_of_it(
    small_data: Path, tmp_path: Path, settings: dict[str, Any], reading: dict[str, str]
) -> None:
    spec = tiny("theta", epochs=1, **settings)
    training = measured(small_data, tmp_path, spec, ["gamma"], data__gamma=100)
    usual = of_kind(training, "gamma").values["gamma_test"]
    training = measured(small_data, tmp_path, spec, ["gamma"], data__gamma=100, **reading)
    same = "visible" in settings
    assert len(training.by_key) == (2 if same else 3 if "statistics" in reading else 4)
    others = {each.values["gamma_test"] for each in training.by_key.values() if each.spec.part == "test"}
    assert (others == {usual}) is same


def test_pixels_and_local_fields(small_data: Path, tmp_path: Path) -> None:
    for model in ("pixels", "aligned-pixels", "aligned-pca"):
        specs = [wanted(tiny(model), **{name: value}) for name, value in [("statistics", "set"), ("copies", "own")]]
        assert specs == [wanted(tiny(model))] * 2
    local = tiny("theta-local", 1, fields=500)
    for settings in ({"statistics": "set"}, {"copies": "own"}):
        measured(small_data, tmp_path, local, ["gamma"], data__gamma=40, **settings)


# Weights that were not learned


@pytest.mark.parametrize("kind", ["normal", "kmeans", "images"])
@pytest.mark.parametrize("model", ["rbm", "orbm", "tirbm", "theta"])
def test_controls_are_measured_as_the_run_is(store: Store, model: str, kind: str) -> None:
    training, parts = store.require(run_of(store.results, model)), parts_of(store.data_dir)
    arrays, _ = store.load_weights(training.run) or pytest.fail("no weights")
    estimator: Any = build(training.spec.model, training.spec.parameters, backend="numpy").load_arrays(arrays)
    control = unlearned(estimator, kind, parts["train"][0])
    features = {name: control.transform(images) for name, (images, _) in parts.items()}
    training = measured(store.data_dir, store.results, training.spec, ["error", "gamma"], weights=kind)
    aligned = True if model == "orbm" else None
    expected = svc_error(features["train"], parts["train"][1], features["test"], parts["test"][1])
    assert error_of(training, weights=kind, aligned=aligned) == pytest.approx(expected, abs=0.68)
    copies = [control.transform(turned(parts["test"][0], angle).astype(np.float32)) for angle in COPIES]
    gamma = of_kind(training, "gamma", weights=kind, aligned=aligned).values["gamma_test"]
    assert gamma == pytest.approx(gamma_of(features["test"].astype(np.float64), copies), rel=5e-3)


def test_a_control_of_perturbed_orientations_sees_those_of_the_training(small_data: Path, tmp_path: Path) -> None:
    spec = tiny("theta", 1, epochs=1, perturbation__n=4, perturbation__p=0.4)
    asked: list[Any] = []

    def seen(model: Any, kind: str, images: Any, orientations: Any) -> Any:
        asked.append(orientations)
        return unlearned(model, kind, images, orientations)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "unlearned", seen)
        measured(small_data, tmp_path, spec, ["error"], weights="normal")
    store = store_of(small_data, tmp_path)
    images = parts_of(small_data)["train"][0]
    model = build(spec.model, spec.parameters)
    expected = evaluation.perturbed_orientations(store, model, images, spec.perturbation, 1, "train")
    np.testing.assert_array_equal(asked, [expected])


# The kernel's factor


def test_the_kernel_may_take_its_factor_from_the_features(store: Store) -> None:
    training = measured(store.data_dir, store.results, "rbm", ["error", "invariance"], svm__gamma=None)
    written, parts = Written(store, "rbm", aligned=None), parts_of(store.data_dir)
    features = {name: written.features(images, written.trained) for name, (images, _) in parts.items()}
    # 300 images are all in the sample of 1,000.
    x = features["train"]
    distances = [float(np.square(x[i] - x[j]).sum()) for i in range(300) for j in range(i)]
    factor = 1 / float(np.median(distances))
    for kind in ("error", "invariance"):
        assert of_kind(training, kind).details["svm_gamma"] == pytest.approx(factor, rel=1e-4)
    expected = svc_error(x, parts["train"][1], features["test"], parts["test"][1], gamma=factor)
    assert error_of(training) == pytest.approx(expected, abs=0.34)
    usual = measured(store.data_dir, store.results, "rbm", ["error"])
    assert "svm_gamma" not in next(e for e in usual.measurements if e.spec.unusual == {"count": 300}).details


def test_a_sample_of_distances_is_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    from thetarbm_cli.measures import svm

    monkeypatch.setattr(svm, "SAMPLED_DISTANCES", 50)
    random = np.random.default_rng(0)
    x, images = random.random((400, 3), dtype=np.float32), np.arange(400) // 2
    found = [svm.median_factor(x, images, generator_of(seed, "distances")) for seed in (0, 0, 1)]
    assert found[0] == found[1] != found[2]
    chosen = generator_of(0, "distances").permutation(400)[:50]
    pairs = [(i, j) for i in chosen for j in chosen if i < j and images[i] != images[j]]
    distances = [np.square(x[i].astype(float) - x[j]).sum() for i, j in pairs]
    assert found[0] == pytest.approx(1 / np.median(distances), rel=1e-6)
    # Where nothing differs, any factor does.
    assert svm.median_factor(np.ones((5, 3), np.float32), np.arange(5), generator_of(0, "distances")) == 1
