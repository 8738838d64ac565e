"""Measure a training: what it lacks of what is asked for, each number kept as soon as it is there."""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend, select_backend
from thetarbm_cli.data.recipes import NO_LABEL
from thetarbm_cli.environment import describe_environment
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.kernels import PHILOX_STEP
from thetarbm_cli.measures import MEASURES
from thetarbm_cli.measures.gamma import DEFAULT_CHUNK, gamma_score
from thetarbm_cli.measures.invariance import dosovitskiy, goodfellow, zou
from thetarbm_cli.measures.svm import RBFClassifier, evaluate_classifier, grid_search, median_factor
from thetarbm_cli.models import RBM, Model
from thetarbm_cli.models.rbm import CHUNK
from thetarbm_cli.models.seeds import generator_of, seed_of
from thetarbm_cli.models.unlearned import unlearned
from thetarbm_cli.pipeline import (
    Report,
    estimated_orientations,
    find_orientations,
    fitted,
    learned_images,
    load_data,
    no_progress,
    perturbed_orientations,
)
from thetarbm_cli.registry import MODELS
from thetarbm_cli.specs import KEPT_IMAGES, SEES, SVM, MeasureSpec, Weights
from thetarbm_cli.store import WEIGHTS, Measurement, Store, Training

# The small grid of a search: around the paper's values.
GRID_PENALTIES = (3.0, 10.0, 30.0)
GRID_WIDTHS = (0.01, 0.02, 0.04)
# A plain RBM has no support set of its own, and a finer one leaves no room for Δ: both are judged under the paper's.
GAMMA_ROTATIONS = 9
# Units whose own γ a measurement lists; of more it has the mean alone.
MOST_UNITS_LISTED = 2000
# The position of a role is part of every drawn state: append, never reorder.
ROLES = ("train", "test", "valid")

logger = logging.getLogger("thetarbm")

Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]


def measure(
    store: Store,
    training: Training,
    wanted: Sequence[MeasureSpec],
    *,
    backend: str = "auto",
    force: bool = False,
    report: Report = no_progress,
) -> tuple[Training, bool]:
    """Measure what a training lacks, and give it with all its measurements and whether it lacked nothing.

    Parameters
    ----------
    wanted : the measurements that are asked for
    force : measure all of them again; the new lines come after those that are there, whose numbers stand

    Raises
    ------
    InputError
        If the weights are not there, or images have no labels and only numbers that need them are asked for.
    """
    if not force and not training.lacking(wanted):
        return training, True
    with store.locked(training.run) as held:
        # Another process may have measured it meanwhile.
        training = store.require(training.run)
        missing = list(wanted) if force else training.lacking(wanted)
        if not missing:
            return training, True

        def tell(step: str, done: int, total: int) -> None:
            held.report(step, done, total)
            report(step, done, total)

        evaluation = Evaluation(store, training, select_backend(backend), tell)
        possible = evaluation.possible(wanted)
        for spec in _in_order(missing):
            started = time.perf_counter()
            # What needs labels is undefined without them, and that is recorded as any other number.
            undefined: dict[str, Any] = {name: None for name, each in MEASURES.items() if each.asked_as == spec.measure}
            values, details = evaluation.measure(spec, missing) if spec in possible else (undefined, {})
            store.add(
                Measurement(
                    run=training.run,
                    spec=spec,
                    weights_sha256=evaluation.weights_sha256,
                    images_sha256=evaluation.prepared(spec).sha256,
                    values=values,
                    details=details,
                    seconds=round(time.perf_counter() - started, 3),
                    environment=describe_environment(evaluation.backend),
                )
            )
        return store.require(training.run), False


def _in_order(specs: Sequence[MeasureSpec]) -> list[MeasureSpec]:
    """Put γ first, as it refuses a wrong offset and keeps features for others, and each evaluation after the other."""
    order = {"gamma": 0, "error": 1, "search": 2, "invariance": 3}
    return sorted(specs, key=lambda spec: (spec.aligned is False, order[spec.measure]))


class Evaluation:
    """Measures the features of a trained model; what several measurements need is computed once."""

    def __init__(self, store: Store, training: Training, backend: Backend, report: Report) -> None:
        self.store, self.training, self.backend, self.report = store, training, backend, report
        spec = training.spec
        self.model, self.weights_sha256 = fitted(store, training, backend.name)
        if self.weights_sha256 != training.weights_sha256:
            logger.warning(
                "%s is measured with weights that are not the recorded ones; the numbers say so", training.run
            )
        self.learned_set = load_data(
            store, spec.data.dataset, spec.data.source, spec.data.seed, sha256=training.images_sha256, report=report
        )
        pixels = math.prod(self.learned_set.images.shape[1:])
        if getattr(self.model, "n_features_in_", pixels) != pixels:
            path = store.path(training.run, WEIGHTS)
            raise InputError(f"{path} is of images of another size; remove it, and train again")
        self._prepared = {(spec.data.dataset, spec.data.source, spec.data.seed): self.learned_set}
        self._models: dict[str, Model] = {"learned": self.model}
        self._views: dict[Any, View] = {}

    def prepared(self, spec: MeasureSpec) -> Any:
        """Give the data set that a measurement takes its images from."""
        key = (spec.dataset, spec.source, spec.data_seed)
        if key not in self._prepared:
            self._prepared[key] = load_data(self.store, *key, report=self.report)
        return self._prepared[key]

    @cached_property
    def learned(self) -> Labelled:
        """Images and labels that the model learned from."""
        return learned_images(self.learned_set, self.training.spec.data)

    def images(self, spec: MeasureSpec) -> Labelled:
        """Images and labels that a measurement looks at."""
        if spec.part == "train":
            images, labels = self.learned
        else:
            if spec.part == "valid" and self.training.spec.data.learn_from == "train+valid":
                raise InputError("this run learned from the validation images, so nothing can be chosen on them")
            counts = {"train": 0, "valid": 0, "test": 0, spec.part: spec.count}
            images, labels = self.prepared(spec).subset(**counts).part(spec.part)
            if len(images) == 0:
                raise InputError(f"{self.prepared(spec).path} has no {spec.part} images; give it a split that has some")
        return images[: spec.first], labels[: spec.first]

    def with_weights(self, kind: Weights) -> Model:
        """Give the model, or a copy with weights that were not learned."""
        if kind not in self._models:
            self.report(f"weights that were not learned: {kind}", 0, 1)
            spec = self.training.spec
            images, _ = self.learned
            given = perturbed_orientations(self.store, self.model, images, spec.perturbation, spec.seed, "train")
            assert isinstance(self.model, RBM)
            self._models[kind] = unlearned(self.model, kind, images, given)
        return self._models[kind]

    def possible(self, specs: Sequence[MeasureSpec]) -> list[MeasureSpec]:
        """Leave out what needs labels where there are none; refuse where nothing is left."""
        if NO_LABEL not in self.learned_set.labels:
            return list(specs)
        problem = f"{self.training.spec.data.source} has no labels, which the SVM learns from"
        advice = "add an array labels (N,) to it, and train again"
        left = [spec for spec in specs if "labels" not in SEES[spec.measure]]
        if not left or any("labels" in SEES[spec.measure] and spec.measure != "error" for spec in specs):
            raise InputError(f"{problem}: {advice}")
        if len(left) < len(specs):
            logger.info("%s: γ is measured, and no error; for that, %s", problem, advice)
        return left

    def measure(self, spec: MeasureSpec, asked: Sequence[MeasureSpec]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Take one measurement: its values by name, and the details behind them."""
        key = (spec.features, spec.aligned, spec.weights)
        if key not in self._views:
            self._views[key] = View(self, spec)
        keep = any(each.measure == "invariance" and _rotated(each) == _rotated(spec) for each in asked)
        return self._views[key].measure(spec, keep=keep)


def _rotated(spec: MeasureSpec) -> tuple[Any, ...]:
    """Give what the features of rotated copies depend on, but for how many images there are."""
    images = (spec.dataset, spec.source, spec.data_seed, spec.part, spec.count)
    readings = (spec.statistics, spec.copies or "as-images", spec.order or "rotated-first", spec.weights)
    return (*images, spec.features, spec.aligned, spec.offset, *readings)


class View:
    """The features of a model in one evaluation: probabilities or states, of images aligned or not, by its weights."""

    def __init__(self, evaluation: Evaluation, spec: MeasureSpec) -> None:
        self.evaluation, self.features = evaluation, spec.features
        self.model: Model = evaluation.with_weights(spec.weights)
        if spec.aligned is False:
            self.model = copy.copy(self.model).set_params(align=False)
        self.store, self.training = evaluation.store, evaluation.training
        # Features of the first images (0) and each of their copies (1, …), by what they depend on.
        self._kept: dict[Any, dict[int, list[NDArray[np.float32]]]] = {}
        self._svms: dict[Any, FeatureSVM] = {}

    def measure(self, spec: MeasureSpec, *, keep: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Take one measurement; with `keep`, features of γ's rotated copies are kept for other measures."""
        taken: dict[str, Callable[..., tuple[dict[str, Any], dict[str, Any]]]] = {
            "gamma": self._gamma,
            "error": self._error,
            "search": self._search,
            "invariance": self._invariance,
        }
        return taken[spec.measure](spec, **({"keep": keep} if spec.measure == "gamma" else {}))

    def _gamma(self, spec: MeasureSpec, *, keep: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measure the γ-score; γ of dead units is null."""
        images, _ = self.evaluation.images(spec)
        role = "train" if spec.part == "train" else "test"
        rotations = min(self.model.get_params().get("rotations", GAMMA_ROTATIONS), GAMMA_ROTATIONS)
        offset = spec.offset or 0.0
        known = None
        if 0 <= offset < 360 / rotations:
            known = find_orientations(
                self.store, self.model, images, chunk=DEFAULT_CHUNK, copies=rotations, offset=offset
            )
        model = self._standardising(spec, role)
        kept: dict[int, list[NDArray[np.float32]]] = {}

        def sample(features: Array, first: int, number: int) -> Array:
            features = self._sampled(features, role, first, number)
            if keep and first < KEPT_IMAGES:
                kept.setdefault(number, []).append(backend.to_host(features[: KEPT_IMAGES - first]).copy())
            return features

        step = f"γ on the {role} images, Δ = {offset:g}°"
        # What a plug-in does to images is its own: its `transform` alone knows.
        own = self.training.spec.model in MODELS.own and isinstance(self.model, RBM)
        backend = self.evaluation.backend if own else Backend()
        score = gamma_score(
            _features_of(model, backend),
            images,
            size=math.isqrt(images.shape[1]),
            rotations=rotations,
            offset=offset,
            sample=sample,
            orientations=None if known is None else lambda batch, first, n: known[n, first : first + len(batch)],
            copies_of=self._copies_of(spec, model, images, known, rotations, backend),
            progress=lambda done, total: self.evaluation.report(step, done, total),
            backend=backend,
        )
        if keep:
            self._kept[_rotated(spec)] = kept
        values = {
            f"gamma_{role}": _number(score.mean),
            f"gamma_ratio_{role}": _number(score.ratio_of_sums),
            f"gamma_bounded_{role}": _number(score.bounded),
            f"dead_units_{role}": score.dead_units,
        }
        units = [_number(value) for value in score.per_unit] if len(score.per_unit) <= MOST_UNITS_LISTED else []
        return values, {"images": score.images, "per_unit": units}

    def _copies_of(
        self,
        spec: MeasureSpec,
        model: Model,
        images: NDArray[np.float32],
        known: NDArray[np.int64] | None,
        rotations: int,
        backend: Backend,
    ) -> Callable[[Array, int], Iterator[Array]] | None:
        """Say how features of γ's rotated copies are taken; None where copies are treated as images are."""
        own, standardised_first = spec.copies == "own", spec.order == "standardised-first"
        if not (own or standardised_first):
            return None
        assert isinstance(model, RBM)
        size, offset = math.isqrt(images.shape[1]), spec.offset or 0.0
        orientations = np.zeros((rotations + 1, len(images)), dtype=np.int64) if known is None else known
        support = Rotations(size, rotations, "bilinear", offset, backend)
        if standardised_first:
            return lambda batch, first: model.features_of_rotated_inputs(
                batch, support, orientations[:, first : first + len(batch)]
            )
        on_host = Rotations(size, rotations, "bilinear", offset)
        models = []
        for s in range(rotations):
            self.evaluation.report("statistics of the rotated copies", s, rotations)
            parts = ((rows, on_host.rotate_by(images[rows], s)) for rows in _chunks(len(images)))
            models.append(model.with_statistics_of((rotated, orientations[s + 1, rows]) for rows, rotated in parts))

        def copies_of(batch: Array, first: int) -> Iterator[Array]:
            for s, rotated in enumerate(support.rotate_each(batch)):
                index = orientations[s + 1, first : first + len(batch)]
                yield _features_of(models[s], backend)(rotated, orientations=index)

        return copies_of

    def _standardising(self, spec: MeasureSpec, role: str, pairs: Pairs | None = None) -> Model:
        """Give the model that standardises images by the statistics that the description names."""
        # The training's statistics are the training images' own, but for those that are not aligned.
        if spec.statistics == "train" or (role == "train" and spec.aligned is not False):
            return self.model
        assert isinstance(self.model, RBM)
        if pairs is None:
            every, _ = self.evaluation.images(spec.model_copy(update={"first": None}))
            known = find_orientations(self.store, self.model, every, chunk=DEFAULT_CHUNK)
            pairs = Pairs(self, role, every, np.arange(len(every)), None if known is None else known[0], self.model)
        images, rows, given = pairs.images, pairs.rows, pairs.orientations
        given = np.zeros(len(rows), dtype=np.int64) if given is None else given
        return self.model.with_statistics_of((images[rows[part]], given[part]) for part in _chunks(len(rows)))

    def _error(self, spec: MeasureSpec) -> tuple[dict[str, Any], dict[str, Any]]:
        """Measure the error of the RBF-SVM."""
        assert spec.svm is not None
        images, truth = self.evaluation.images(spec)
        found = self._classify(spec, spec.svm, images, truth)
        details = {name: found[name] for name in ("confusion", "classes")}
        return {"test_error_percent": found["test_error_percent"]}, {**details, **self._factor(spec)}

    def _classify(
        self, spec: MeasureSpec, settings: SVM, images: NDArray[np.float32], truth: NDArray[np.int64]
    ) -> dict[str, Any]:
        svm, pairs = self._svm(spec), self._pairs(images, spec, "test")
        classifier = svm.classifier(settings)
        step = f"SVM, C = {classifier.C:g}, γ = {classifier.gamma:g}"
        self.evaluation.report(step, 0, len(images))
        parts = ((svm.scaled(features), rows) for features, rows in pairs.parts(step))
        return asdict(evaluate_classifier(classifier, parts, truth))

    def _factor(self, spec: MeasureSpec) -> dict[str, float]:
        """Give the factor of the kernel among a measurement's details, where its description leaves that open."""
        assert spec.svm is not None
        return {} if spec.svm.gamma is not None else {"svm_gamma": self._svm(spec).classifier(spec.svm).gamma}

    def _search(self, spec: MeasureSpec) -> tuple[dict[str, Any], dict[str, Any]]:
        """Choose C and γ of the kernel on the validation images, and measure the error with them."""
        images, labels = self.evaluation.images(spec.model_copy(update={"part": "valid", "count": None}))
        svm, pairs = self._svm(spec), self._pairs(images, spec, "valid")
        step = "grid search on the validation images"
        chosen = grid_search(
            svm.features,
            svm.labels,
            svm.scaled(pairs.features()),
            labels,
            C_values=GRID_PENALTIES,
            gamma_values=GRID_WIDTHS,
            valid_rows=pairs.rows,
            backend=self.evaluation.backend,
            progress=lambda done, total: self.evaluation.report(step, done, total),
        )
        tested = self._classify(spec, SVM(C=chosen.C, gamma=chosen.gamma), *self.evaluation.images(spec))
        values = {
            "search_error_percent": tested["test_error_percent"],
            "search_C": chosen.C,
            "search_gamma": chosen.gamma,
            "search_validation_error_percent": chosen.validation_error_percent,
        }
        return values, {"grid": asdict(chosen)["grid"]}

    def _invariance(self, spec: MeasureSpec) -> tuple[dict[str, Any], dict[str, Any]]:
        """Take the other measures of invariance on features of test images and their rotated copies."""
        assert spec.svm is not None
        count = len(self.evaluation.images(spec)[0])
        key = _rotated(spec)
        if sum(map(len, self._kept.get(key, {}).get(0, []))) < count:
            self._gamma(spec.model_copy(update={"measure": "gamma"}), keep=True)
        originals, *copies = (np.concatenate(parts)[:count] for _, parts in sorted(self._kept[key].items()))
        truth, svm, labels = self.evaluation.images(spec)[1], self._svm(spec), []
        for done, features in enumerate((originals, *copies)):
            self.evaluation.report("invariance on the test images", done, len(copies) + 1)
            labels.append(svm.classifier(spec.svm).predict(svm.scaled(features)))
        values = {
            "goodfellow_test": goodfellow(originals, copies),
            "zou_test": zou(originals, copies),
            "dosovitskiy_test": dosovitskiy(labels[0], labels[1:]),
            "rotated_error_percent": 100 * (1 - dosovitskiy(truth, labels[1:])),
        }
        return {name: _number(value) for name, value in values.items()}, {"images": count, **self._factor(spec)}

    def _svm(self, spec: MeasureSpec) -> FeatureSVM:
        """Give the RBF-SVM on the features of the training images."""
        assert spec.svm is not None
        key = (spec.svm.scaled, spec.scope, spec.draws, spec.aligned is False and spec.statistics)
        if key not in self._svms:
            images, labels = self.evaluation.learned
            pairs = self._pairs(images, spec, "train")
            self._svms[key] = FeatureSVM(
                pairs.features(),
                labels[pairs.rows],
                self.evaluation.backend,
                scaled=spec.svm.scaled,
                images=pairs.rows,
                seed=self.training.spec.seed,
            )
        return self._svms[key]

    def _pairs(self, images: NDArray[np.float32], spec: MeasureSpec, role: str) -> Pairs:
        """Give the SVM's images with perturbed orientations where the scope says so, or with all that may be theirs.

        By default each estimate errs on its own: the SVM's training images are not wrong in the way that the RBM has
        learned.
        """
        train = self.training.spec
        rows, given, by = np.arange(len(images)), None, None
        wrong = {"train": ("train",), "all": ("train", "test")}.get(spec.scope or "rbm", ())
        if role in wrong:
            estimate = "svm" if role == "train" and spec.draws == "two" else role
            given = perturbed_orientations(self.store, self.model, images, train.perturbation, train.seed, estimate)
            if train.perturbation is not None and train.perturbation.statistics == "before":
                by = estimated_orientations(self.store, self.model, images)
        elif (candidates := self.model.candidate_orientations(images)) is not None:
            rows, given = candidates
        elif isinstance(self.model, RBM):
            known = find_orientations(self.store, self.model, images, chunk=CHUNK)
            given = None if known is None else known[0]
        pairs = Pairs(self, role, images, rows, given, self.model, by)
        return replace(pairs, model=self._standardising(spec, role, pairs))

    def _sampled(self, features: Array, role: str, first: int, number: int = 0) -> Array:
        """Draw states from features where the description says so; see `draw_states`."""
        if self.features == "probabilities":
            return features
        backend = Backend() if isinstance(features, np.ndarray) else self.evaluation.backend
        return draw_states(features, self.training.spec.seed, role, first, number, backend)


@dataclass(frozen=True)
class Pairs:
    """Images, each once for every orientation that it is seen in.

    Attributes
    ----------
    role : of the images: train, test or valid
    images : (n, V) array
    rows : (m,) array, ascending
        The image of each pair.
    orientations : (m,) array, or None where the model finds its own
    model : takes their features
    standardise_by : (m,) array, or None where they are standardised by the orientations that they are seen in
    """

    view: View
    role: str
    images: NDArray[np.float32]
    rows: NDArray[np.int64]
    orientations: NDArray[np.int64] | None
    model: Model
    standardise_by: NDArray[np.int64] | None = None

    def features(self, first: int = 0, last: int | None = None) -> NDArray[np.float32]:
        """Take features of some of the pairs, or of all."""
        part = slice(first, last)
        given = {"orientations": None if self.orientations is None else self.orientations[part]}
        if self.standardise_by is not None:
            given["standardise_by"] = self.standardise_by[part]
        features = self.model.transform(self.images[self.rows[part]], **given)
        sampled: NDArray[np.float32] = self.view._sampled(features, self.role, first)
        return sampled

    def parts(self, step: str) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Give features and rows of some images at a time."""
        for first in range(0, len(self.images), CHUNK):
            last = min(first + CHUNK, len(self.images))
            start, stop = np.searchsorted(self.rows, [first, last]).tolist()
            yield self.features(start, stop), self.rows[start:stop]
            self.view.evaluation.report(step, last, len(self.images))


class FeatureSVM:
    """RBF-SVMs on features, which may be scaled; each is fitted once."""

    def __init__(
        self,
        features: NDArray[np.float32],
        labels: NDArray[np.int64],
        backend: Backend,
        *,
        scaled: bool,
        images: NDArray[np.int64],
        seed: int,
    ) -> None:
        from sklearn.preprocessing import StandardScaler

        self._scaler = StandardScaler().fit(features) if scaled else None
        self.features, self.labels = self.scaled(features), labels
        self._backend, self._images, self._seed = backend, images, seed
        self._fitted: dict[tuple[float, float], RBFClassifier] = {}

    def scaled(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Bring features to the scale that the SVM learns from."""
        return features if self._scaler is None else self._scaler.transform(features)

    @cached_property
    def median_factor(self) -> float:
        """1 / the median squared distance between the training images."""
        return median_factor(self.features, self._images, generator_of(self._seed, "distances"))

    def classifier(self, settings: SVM) -> RBFClassifier:
        """Give the one with these C and γ."""
        C, gamma = settings.C, self.median_factor if settings.gamma is None else settings.gamma
        if (C, gamma) not in self._fitted:
            self._fitted[C, gamma] = RBFClassifier(C, gamma, self._backend).fit(self.features, self.labels)
        return self._fitted[C, gamma]


def _features_of(model: Model, backend: Backend) -> Callable[..., Array]:
    """Give what takes the features of images that are where a backend computes."""
    if backend.name == "numpy":
        return model.transform
    assert isinstance(model, RBM)
    return model.features


def _chunks(count: int) -> Iterator[slice]:
    return (slice(first, min(first + CHUNK, count)) for first in range(0, count, CHUNK))


def draw_states(
    probabilities: Array, seed: int, role: str, first: int = 0, number: int = 0, backend: Backend | None = None
) -> Array:
    """Draw states 0 or 1 of hidden units; those of an image are the same in whichever chunk it comes.

    Parameters
    ----------
    probabilities : (n, H) array
    seed : the training's
    role : of the images: train, test or valid
    first : number of the first image
    number : 0 for images as they are; each rotation has a draw of its own
    backend : where the probabilities are; NumPy by default
    """
    count, units = probabilities.shape
    steps = -(-units // PHILOX_STEP)
    stream = (backend or Backend()).random(seed_of(seed, "states", ROLES.index(role), number), first * steps)
    states: Array = (stream.uniforms((count, steps * PHILOX_STEP))[:, :units] < probabilities).astype(np.float32)
    return states


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
