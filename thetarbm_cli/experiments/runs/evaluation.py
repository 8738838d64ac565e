"""Measure a run: what its record lacks is measured, and written into it or, if it has numbers, kept beside it."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.data.recipes import NO_LABEL
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.environment import refuse_too_large, svm_bytes
from thetarbm_cli.experiments.runs.images import RunData
from thetarbm_cli.experiments.runs.loading import fitted, load_checked, load_run_data, load_weights
from thetarbm_cli.experiments.runs.orientations import OrientationCache, perturbed_orientations
from thetarbm_cli.experiments.runs.record import (
    DEFAULT_OFFSET,
    MeasuredPart,
    Measurement,
    MetricsPart,
    MissingMeasures,
    RunRecord,
    joined,
)
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.measures.gamma import DEFAULT_CHUNK, GammaScore, gamma_score
from thetarbm_cli.measures.invariance import dosovitskiy, goodfellow, zou
from thetarbm_cli.measures.svm import RBFClassifier, evaluate_classifier, grid_search
from thetarbm_cli.models import RBM, Model
from thetarbm_cli.models.rbm import CHUNK
from thetarbm_cli.models.seeds import seed_of
from thetarbm_cli.outcomes import DEFAULT, ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, NOT_ALIGNED, column_name
from thetarbm_cli.outputs import EvaluatedRun

GRID_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
GRID_WIDTHS = (0.005, 0.01, 0.02, 0.04, 0.08)
# A plain RBM has no support set of its own, and a finer one leaves no room for Δ: both are judged under the paper's.
GAMMA_ROTATIONS = 9
# Units whose own γ a record lists; of more it has the mean alone.
MOST_UNITS_LISTED = 2000
# Test images whose features are held at a time: as many as an RBM looks at together.
IMAGES_AT_ONCE = CHUNK
# Test images for the other measures of invariance: more would cost more than the γ-score itself.
KEPT_IMAGES = 1000

# The position of a role is part of every drawn state: append, never reorder.
ROLES = ("train", "test", "valid")
# Numbers of 32 bits by which Philox's counter moves on.
PHILOX_STEP = 8

logger = logging.getLogger("thetarbm")

Progress = Callable[[int, int], None]
# Opened with a word on what is done next; gives what takes the progress (done, total).
ProgressDisplay = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def no_display(label: str) -> Iterator[Progress]:
    """Show nothing."""
    yield lambda done, total: None


def evaluate_run(
    context: RunContext,
    run: str,
    *,
    known: RunRecord | None = None,
    measures: Collection[str] = ("error", "gamma"),
    offset: float = DEFAULT_OFFSET,
    more_offsets: Sequence[float] = (),
    search: bool = False,
    force: bool = False,
    display: ProgressDisplay = no_display,
) -> tuple[RunRecord, bool]:
    """Measure a run and record it; what the record has already is kept.

    The first numbers complete the record. Later ones are kept beside it, so that a record that was measured changes
    only by `force`, which measures all that it has again.

    Parameters
    ----------
    context : RunContext
    run : str
        Full id of the run.
    known : RunRecord, optional
        Its record as `load_checked` gave it, where it was read before.
    measures : collection of str
        Words of a suite's `measures`; the SVM's error is measured in any case.
    offset : float
        Δ of the γ-score's rotations. The record keeps each Δ; the tables take `DEFAULT_OFFSET`.
    more_offsets : sequence of float
        Further Δ, measured on the training images alone, for γ against Δ.
    search : bool
        Also choose C and γ of the kernel on the validation images.
    display : callable, optional
        Opened around each step with a word on it; gives what takes its progress.

    Returns
    -------
    The record, and whether nothing had to be measured
    """
    record, nothing = known or load_checked(context, run), MetricsPart()
    if not force and not (record.metrics or nothing).missing(measures, more_offsets, offset, search):
        return record, True
    with context.store.locked(run):
        # Another process may have measured it meanwhile.
        record = load_checked(context, run)
        had = record.metrics or nothing
        missing = (nothing if force else had).missing(measures, more_offsets, offset, search)
        if force:
            missing = missing.with_all_of(had)
        if not missing:
            return record, True
        weights = load_weights(context, record)
        if weights.made_here:
            logger.warning(
                "%s is measured with weights that were made here and are not the recorded ones; the numbers say so", run
            )
        model = fitted(context, record, weights)
        data = load_run_data(context, record)
        if NO_LABEL in data.learned.labels:
            missing = _without_labels(record, missing)
        backend, cache = select_backend(context.backend_name), OrientationCache(context.data_dir)
        evaluation = Evaluation(record, model, data, backend, display, cache)
        started = time.perf_counter()
        found = evaluation.measure(missing)
        for variant, others in model.evaluation_variants.items():
            other = replace(evaluation, model=copy.copy(model).set_params(**others))
            found[variant] = other.measure(replace(missing, search=False))
        metrics = MetricsPart.model_validate(found)
        seconds = round(time.perf_counter() - started, 3)
        if record.is_measured and not force:
            used = weights.made_here or record.weights
            context.store.add_measures(record, Measurement(metrics=metrics, weights=used, seconds=seconds))
            return record.model_copy(update={"metrics": joined(had, metrics)}), False
        record = record.model_copy(
            update={
                "metrics": metrics,
                "timings": {**record.timings, "evaluate_seconds": seconds},
                "measured_with": weights.made_here,
            }
        )
        context.store.save(record)
        return record, False


def _without_labels(record: RunRecord, missing: MissingMeasures) -> MissingMeasures:
    """Leave the SVM's error out, which needs labels; refuse where nothing is left, or more that needs them is named."""
    problem = f"{record.settings.data.source} has no labels, which the SVM learns from"
    advice = "add an array labels (N,) to it, and train again"
    if missing.search or missing.more or not missing.gamma:
        raise InputError(f"{problem}: {advice}")
    logger.info("%s: γ is measured, and no error; for that, %s", problem, advice)
    return replace(missing, svm=False)


@dataclass(frozen=True)
class Evaluation:
    """Measures the features of a model, as it was recorded, on the images of its run."""

    record: RunRecord
    model: Model
    data: RunData
    backend: Backend
    display: ProgressDisplay
    cache: OrientationCache

    def measure(self, missing: MissingMeasures) -> dict[str, Any]:
        """Measure what is missing, γ first, as it refuses a wrong offset; only the tables' Δ keeps values per unit."""
        metrics: dict[str, Any] = {}
        scores: dict[float, dict[str, Any]] = {}
        kept = KeptFeatures(KEPT_IMAGES) if missing.more else None
        tested = (DEFAULT_OFFSET, "test")
        for offset, role in missing.gamma:
            score = self.gamma(role, offset, kept if (offset, role) == tested else None)
            if offset != DEFAULT_OFFSET:
                del score["per_unit"]
            scores.setdefault(offset, {"offset": offset})[role] = score
        if DEFAULT_OFFSET in scores:
            metrics["gamma"] = scores.pop(DEFAULT_OFFSET)
        if scores:
            metrics["gamma_offsets"] = [scores[offset] for offset in sorted(scores)]
        if kept is not None and tested not in missing.gamma:
            self.gamma("test", DEFAULT_OFFSET, kept, kept.most)
        # Before the SVM learns: there may be none to choose on.
        valid = self.data.valid() if missing.search else None
        if missing.svm:
            pair = self.record.settings.svm.model_dump(include={"C", "gamma"})
            metrics["svm"] = {**pair, **self.error(**pair)}
        if valid is not None:
            metrics["grid_search"] = self.search(*valid)
        if kept is not None:
            metrics["more"] = {word: FURTHER_MEASURES[word](self, kept) for word in missing.more}
        return metrics

    def gamma(
        self, role: str, offset: float, keep: KeptFeatures | None = None, most: int | None = None
    ) -> dict[str, Any]:
        """γ-score of the features on the train or test images, or the first of them, as plain numbers."""
        images, _ = self.data.train() if role == "train" else self.data.test()
        images = images[: self.record.settings.data.gamma][:most]
        rotations = min(self.model.get_params().get("rotations", GAMMA_ROTATIONS), GAMMA_ROTATIONS)
        known = self.cache.of(self.model, images, chunk=DEFAULT_CHUNK, copies=rotations, offset=offset, kind="bilinear")

        def sample(features: NDArray[np.float32], first: int, copy: int) -> NDArray[np.float32]:
            features = self.sampled(features, role, first, copy)
            if keep is not None:
                keep.add(features, first, copy)
            return features

        with self.display(f"γ on the {role} images, Δ = {offset:g}°") as progress:
            score = gamma_score(
                self.model.transform,
                images,
                size=int(np.sqrt(images.shape[1])),
                rotations=rotations,
                offset=offset,
                sample=sample,
                orientations=known,
                progress=progress,
            )
        return as_plain(score)

    def error(self, C: float, gamma: float) -> dict[str, Any]:
        """Error of the RBF-SVM on the test images."""
        svm = self.svm
        images, truth = self.data.test()
        pairs = self.pairs(images, "test")
        with self.display(f"SVM, C = {C:g}, γ = {gamma:g}") as progress:
            progress(0, len(images))
            parts = ((svm.scaled(features), rows) for features, rows in pairs.parts(progress))
            return asdict(evaluate_classifier(svm.classifier(C, gamma), parts, truth))

    def search(self, images: NDArray[np.float32], labels: NDArray[np.int64]) -> dict[str, Any]:
        """Choose C and γ of the kernel on the validation images, and give the error on the test images."""
        pairs = self.pairs(images, "valid")
        with self.display("grid search on the validation images") as progress:
            chosen = grid_search(
                self.svm.features,
                self.svm.labels,
                self.svm.scaled(pairs.features()),
                labels,
                C_values=GRID_PENALTIES,
                gamma_values=GRID_WIDTHS,
                valid_rows=pairs.rows,
                backend=self.backend,
                progress=progress,
            )
        return {**asdict(chosen), "test_error_percent": self.error(chosen.C, chosen.gamma)["test_error_percent"]}

    def invariance(self, kept: KeptFeatures) -> dict[str, Any]:
        """Take the other measures of invariance on features of test images and their rotated copies."""
        originals, *copies = kept.arrays()
        truth = self.data.test()[1][: len(originals)]
        svm, settings = self.svm, self.record.settings.svm
        with self.display("invariance on the test images") as progress:
            labels = []
            for done, features in enumerate((originals, *copies)):
                progress(done, len(copies) + 1)
                labels.append(svm.classifier(settings.C, settings.gamma).predict(svm.scaled(features)))
            values = {
                "goodfellow_test": goodfellow(originals, copies),
                "zou_test": zou(originals, copies),
                "dosovitskiy_test": dosovitskiy(labels[0], labels[1:]),
                "rotated_error_percent": 100 * (1 - dosovitskiy(truth, labels[1:])),
            }
        plain = {name: _number(value) for name, value in values.items()}
        return {"values": plain, "images": len(originals), "offset": DEFAULT_OFFSET}

    @cached_property
    def svm(self) -> FeatureSVM:
        """The RBF-SVM on the features of the training images."""
        images, labels = self.data.train()
        pairs = self.pairs(images, "train")
        units = len(self.model.get_feature_names_out())
        refuse_too_large(
            svm_bytes(len(pairs.rows), units),
            f"measuring {self.record.run} with {units} features per image",
            "fewer hidden units or images need less",
        )
        scaled = self.record.settings.svm.scaled
        return FeatureSVM(pairs.features(), labels[pairs.rows], self.backend, scaled=scaled)

    def pairs(self, images: NDArray[np.float32], role: str) -> Pairs:
        """Images of the SVM with perturbed orientations where the scope says so, or with all that the model supposes.

        By default each estimate errs on its own: the SVM's training images are not wrong in the way that the RBM has
        learned.
        """
        settings, model = self.record.settings, self.model
        rows, given = np.arange(len(images)), None
        scope = settings.perturbation.scope if settings.perturbation else "rbm"
        wrong = {"rbm": (), "train": ("train",), "all": ("train", "test")}[scope]
        if role in wrong:
            estimate = "svm" if role == "train" else role
            given = perturbed_orientations(model, images, settings, self.record.seed, estimate, self.cache)
        elif (candidates := model.candidate_orientations(images)) is not None:
            rows, given = candidates
        elif isinstance(model, RBM):
            given = self.cache.found(model, images, chunk=IMAGES_AT_ONCE)
        return Pairs(self, role, images, rows, given)

    def sampled(self, features: NDArray[np.float32], role: str, first: int, copy: int = 0) -> NDArray[np.float32]:
        """Draw states from features where the settings say so; see `draw_states`."""
        if self.record.settings.features == "probabilities":
            return features
        return draw_states(features, self.record.seed, role, first, copy)


# What measures more than error and γ, by the word that asks for it, on features that are kept while γ is computed.
FURTHER_MEASURES: dict[str, Callable[[Evaluation, KeptFeatures], dict[str, Any]]] = {
    "invariance": Evaluation.invariance,
}


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
    """

    evaluation: Evaluation
    role: str
    images: NDArray[np.float32]
    rows: NDArray[np.int64]
    orientations: NDArray[np.int64] | None

    def features(self, first: int = 0, last: int | None = None) -> NDArray[np.float32]:
        """Features of some of the pairs, or of all."""
        part = slice(first, last)
        given = None if self.orientations is None else self.orientations[part]
        features = self.evaluation.model.transform(self.images[self.rows[part]], orientations=given)
        return self.evaluation.sampled(features, self.role, first)

    def parts(self, progress: Progress) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Features and rows of some images at a time."""
        for first in range(0, len(self.images), IMAGES_AT_ONCE):
            last = min(first + IMAGES_AT_ONCE, len(self.images))
            start, stop = np.searchsorted(self.rows, [first, last]).tolist()
            yield self.features(start, stop), self.rows[start:stop]
            progress(last, len(self.images))


class FeatureSVM:
    """RBF-SVMs on features, which may be scaled; each is fitted once."""

    def __init__(
        self, features: NDArray[np.float32], labels: NDArray[np.int64], backend: Backend, *, scaled: bool
    ) -> None:
        # Who asks what is measured needs no scikit-learn.
        from sklearn.preprocessing import StandardScaler

        self._scaler = StandardScaler().fit(features) if scaled else None
        self.features, self.labels = self.scaled(features), labels
        self._backend = backend
        self._fitted: dict[tuple[float, float], RBFClassifier] = {}

    def scaled(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Bring features to the scale that the SVM learns from."""
        return features if self._scaler is None else self._scaler.transform(features)

    def classifier(self, C: float, gamma: float) -> RBFClassifier:
        """Give the one with this C and γ."""
        if (C, gamma) not in self._fitted:
            self._fitted[C, gamma] = RBFClassifier(C, gamma, self._backend).fit(self.features, self.labels)
        return self._fitted[C, gamma]


class KeptFeatures:
    """Features of the first images and of their rotated copies, kept while the γ-score is computed."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._parts: dict[int, list[NDArray[np.float32]]] = {}

    def add(self, features: NDArray[np.float32], first: int, copy: int) -> None:
        """Take in a chunk that begins with the image `first`; `copy` is 0 for the originals."""
        if first < self.most:
            self._parts.setdefault(copy, []).append(features[: self.most - first].copy())

    def arrays(self) -> list[NDArray[np.float32]]:
        """Give the originals and each copy, (n, H) each."""
        return [np.concatenate(parts) for _, parts in sorted(self._parts.items())]


def draw_states(
    probabilities: NDArray[np.float32], seed: int, role: str, first: int = 0, copy: int = 0
) -> NDArray[np.float32]:
    """Draw states 0 or 1 of hidden units; those of an image are the same in whichever chunk it comes.

    Parameters
    ----------
    probabilities : (n, H) array
    seed : the run's
    role : of the images: train, test or valid
    first : number of the first image
    copy : 0 for images as they are; each rotation has a draw of its own
    """
    count, units = probabilities.shape
    steps = -(-units // PHILOX_STEP)
    bits = np.random.Philox(seed_of(seed, "states", ROLES.index(role), copy)).advance(first * steps)
    uniform = np.random.Generator(bits).random((count, steps * PHILOX_STEP), dtype=np.float32)
    return (uniform[:, :units] < probabilities).astype(np.float32)


def as_plain(score: GammaScore) -> dict[str, Any]:
    """A γ-score as it stands in a record; γ of a dead unit is null."""
    return {
        "mean": _number(score.mean),
        "ratio_of_sums": _number(score.ratio_of_sums),
        "bounded": _number(score.bounded),
        "dead_units": score.dead_units,
        "images": score.images,
        "per_unit": [_number(value) for value in score.per_unit] if len(score.per_unit) <= MOST_UNITS_LISTED else [],
    }


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def summary(record: RunRecord, cached: bool, offset: float = DEFAULT_OFFSET) -> EvaluatedRun:
    """Gather the main numbers of a measured run."""
    metrics = record.metrics
    assert metrics is not None
    tested = metrics.score(offset, "test")
    found = EvaluatedRun(
        run=record.run,
        model=record.settings.model,
        sparsity=record.settings.complete_parameters.get("sparsity"),
        seed=record.seed,
        **_main_numbers(metrics, offset, DEFAULT),
        **({} if metrics.unaligned is None else _main_numbers(metrics.unaligned, offset, NOT_ALIGNED)),
        gamma_offset=offset,
        dead_units=tested.dead_units if tested else None,
        cached=cached,
    )
    others = {name for name, measure in MEASURES.items() if measure.asked_as not in ("", "error", "gamma")}
    found.more = {column_name(n.measure, n.variant): n.value for n in metrics.numbers() if n.measure in others}
    if metrics.grid_search is not None:
        found.grid_search = metrics.grid_search
    return found


def _main_numbers(measured: MeasuredPart, offset: float, variant: str) -> dict[str, Any]:
    """Gather the error, and γ for one Δ, under the names that JSON outputs have."""
    train, test = (measured.score(offset, role) for role in ("train", "test"))
    return {
        column_name(ERROR, variant): measured.svm.test_error_percent if measured.svm else None,
        column_name(GAMMA_TRAIN, variant): train.mean if train else None,
        column_name(GAMMA_TEST, variant): test.mean if test else None,
    }
