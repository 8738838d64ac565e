"""Measure a run: what its record lacks is measured, and written into it or, if it has numbers, kept beside it."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.experiments.runs.environment import refuse_too_large, svm_bytes
from thetarbm_cli.experiments.runs.images import RunData
from thetarbm_cli.experiments.runs.loading import fitted, load_checked, load_run_data, load_weights
from thetarbm_cli.experiments.runs.record import (
    EnvironmentPart,
    MeasuredPart,
    Measurement,
    MetricsPart,
    RunRecord,
    WeightsPart,
    joined,
)
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.runs.training import perturbed_orientations
from thetarbm_cli.measures.gamma import GammaScore, gamma_score
from thetarbm_cli.measures.svm import RBFClassifier, evaluate_classifier, grid_search
from thetarbm_cli.models import Model
from thetarbm_cli.outcomes import DEFAULT, ERROR, GAMMA_TEST, GAMMA_TRAIN, NOT_ALIGNED, column_name
from thetarbm_cli.outputs import EvaluatedRun

GRID_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
GRID_WIDTHS = (0.005, 0.01, 0.02, 0.04, 0.08)
# A plain RBM has no support set of its own, and a finer one leaves no room for Δ: both are judged under the paper's.
GAMMA_ROTATIONS = 9
# Units whose own γ a record lists; of more it has the mean alone.
MOST_UNITS_LISTED = 2000
# Test images whose features are held at a time.
IMAGES_AT_ONCE = 2000

Progress = Callable[[int, int], None]
# Opened with a word on what is done next; gives what takes the progress (done, total).
ProgressDisplay = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def no_display(label: str) -> Iterator[Progress]:
    """Show nothing."""
    yield lambda done, total: None


@dataclass(frozen=True)
class EvaluationTarget:
    """What is measured: a model as it was recorded, and its images."""

    record: RunRecord
    model: Model
    data: RunData
    backend: Backend
    display: ProgressDisplay


def measure_gamma(target: EvaluationTarget, role: str, offset: float) -> dict[str, Any]:
    """γ-score of the model's features on its train or test images, as plain numbers."""
    images, _ = target.data.train() if role == "train" else target.data.test()
    with target.display(f"γ on the {role} images, Δ = {offset:g}°") as progress:
        score = gamma_score(
            target.model.transform,
            images,
            size=int(np.sqrt(images.shape[1])),
            rotations=min(target.model.get_params().get("rotations", GAMMA_ROTATIONS), GAMMA_ROTATIONS),
            offset=offset,
            progress=progress,
        )
    return as_plain(score)


def measure_error(target: EvaluationTarget, *, own_pair: bool, search: bool) -> dict[str, Any]:
    """Error of the RBF-SVM on the test images, with the run's C and γ, with the chosen ones, or with both."""
    train, test = target.data.train(), target.data.test()
    valid = target.data.valid() if search else None
    pairs = _pairs(target, train[0], "svm")
    units = len(target.model.get_feature_names_out())
    refuse_too_large(
        svm_bytes(len(pairs.rows), units),
        f"measuring {target.record.run} with {units} features per image",
        "fewer hidden units or images need less",
    )
    train_features, train_labels = pairs.features(target.model, slice(None)), train[1][pairs.rows]
    test_pairs = _pairs(target, test[0], "test")
    metrics: dict[str, Any] = {}

    def error_with(C: float, gamma: float) -> dict[str, Any]:
        with target.display(f"SVM, C = {C:g}, γ = {gamma:g}") as progress:
            progress(0, len(test[0]))
            classifier = RBFClassifier(C, gamma, target.backend).fit(train_features, train_labels)
            result = evaluate_classifier(classifier, test_pairs.parts(target.model, progress), test[1])
        return asdict(result)

    if own_pair:
        svm = target.record.settings.svm
        metrics["svm"] = {"C": svm.C, "gamma": svm.gamma, **error_with(svm.C, svm.gamma)}
    if valid is not None:
        images, labels = valid
        valid_pairs = _pairs(target, images, "valid")
        with target.display("grid search on the validation images") as progress:
            chosen = grid_search(
                train_features,
                train_labels,
                valid_pairs.features(target.model, slice(None)),
                labels,
                C_values=GRID_PENALTIES,
                gamma_values=GRID_WIDTHS,
                valid_rows=valid_pairs.rows,
                backend=target.backend,
                progress=progress,
            )
        error = error_with(chosen.C, chosen.gamma)["test_error_percent"]
        metrics["grid_search"] = {**asdict(chosen), "test_error_percent": error}
    return metrics


@dataclass(frozen=True)
class Pairs:
    """Images, each once for every orientation that it is seen in.

    Attributes
    ----------
    images : (n, V) array
    rows : (m,) array, ascending
        The image of each pair.
    orientations : (m,) array, or None where the model finds its own
    """

    images: NDArray[np.float32]
    rows: NDArray[np.int64]
    orientations: NDArray[np.int64] | None

    def features(self, model: Model, part: slice) -> NDArray[np.float32]:
        """Features of some of the pairs."""
        given = None if self.orientations is None else self.orientations[part]
        return model.transform(self.images[self.rows[part]], orientations=given)

    def parts(self, model: Model, progress: Progress) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Features and rows of some images at a time."""
        for first in range(0, len(self.images), IMAGES_AT_ONCE):
            last = min(first + IMAGES_AT_ONCE, len(self.images))
            start, stop = np.searchsorted(self.rows, [first, last])
            part = slice(int(start), int(stop))
            yield self.features(model, part), self.rows[part]
            progress(last, len(self.images))


def _pairs(target: EvaluationTarget, images: NDArray[np.float32], role: str) -> Pairs:
    """Images of the SVM with perturbed orientations where the scope says so, or with all that the model supposes.

    Each estimate errs on its own: the SVM's training images are not wrong in the way that the RBM has learned.
    """
    record, model = target.record, target.model
    perturbation = record.settings.perturbation
    scope = perturbation.scope if perturbation else "rbm"
    wrong = {"rbm": (), "train": ("svm",), "all": ("svm", "test")}[scope]
    if role in wrong:
        given = perturbed_orientations(model, images, record.settings, record.seed, role)
        return Pairs(images, np.arange(len(images)), given)
    rows, orientations = model.candidate_orientations(images) or (np.arange(len(images)), None)
    return Pairs(images, rows, orientations)


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


# Δ of the γ-score in the tables.
DEFAULT_OFFSET = 20.0

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class MissingMeasures:
    """The measures that a record lacks; γ as pairs of the offset and the role of the images."""

    svm: bool
    gamma: tuple[tuple[float, str], ...]
    search: bool

    def __bool__(self) -> bool:
        return self.svm or bool(self.gamma) or self.search

    def with_all_of(self, metrics: MetricsPart) -> MissingMeasures:
        """These measures, and all that the metrics have."""
        pairs = [(score.offset, role) for score in metrics.scores() for role in ("train", "test") if score.of(role)]
        search = self.search or metrics.grid_search is not None
        return MissingMeasures(svm=True, gamma=tuple(dict.fromkeys((*self.gamma, *pairs))), search=search)


def evaluate_run(
    context: RunContext,
    run: str,
    *,
    known: RunRecord | None = None,
    with_gamma: bool = True,
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
    with_gamma : bool
        Whether the γ-score is wanted as well as the SVM's error.
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

    Raises
    ------
    InputError
        If the run failed, is of another algorithm, its weights are missing, or an offset is out of range.
    """
    record = known or load_checked(context, run)
    if not force and not _find_missing(record.metrics, offset if with_gamma else None, more_offsets, search):
        return record, True
    with context.store.locked(run):
        # Another process may have measured it meanwhile.
        record = load_checked(context, run)
        had = record.metrics or MetricsPart()
        missing = _find_missing(None if force else had, offset if with_gamma else None, more_offsets, search)
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
        target = EvaluationTarget(
            record, model, load_run_data(context, record), select_backend(context.backend_name), display
        )
        started = time.perf_counter()
        found = _measure(target, missing)
        for variant, others in model.evaluation_variants.items():
            other = replace(target, model=copy.copy(model).set_params(**others))
            found[variant] = _measure(other, replace(missing, search=False))
        metrics = MetricsPart.model_validate(found)
        seconds = round(time.perf_counter() - started, 3)
        if record.is_measured and not force:
            used = weights.made_here or WeightsPart(
                sha256=str(record.weights_sha256), environment=EnvironmentPart(**record.environment)
            )
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


def is_measured(
    metrics: MetricsPart | None, with_gamma: bool, more_offsets: Sequence[float] = (), offset: float = DEFAULT_OFFSET
) -> bool:
    """Whether metrics have the numbers that are asked for."""
    return not _find_missing(metrics, offset if with_gamma else None, more_offsets, search=False)


def _find_missing(
    metrics: MetricsPart | None, offset: float | None, more_offsets: Sequence[float], search: bool
) -> MissingMeasures:
    """What the metrics lack."""
    known = metrics or MetricsPart()
    wanted = [] if offset is None else [(offset, "train"), (offset, "test")]
    wanted += [(more, "train") for more in more_offsets if more != offset]
    return MissingMeasures(
        svm=known.svm is None,
        gamma=tuple((delta, role) for delta, role in wanted if known.score(delta, role) is None),
        search=search and known.grid_search is None,
    )


def _measure(target: EvaluationTarget, missing: MissingMeasures) -> dict[str, Any]:
    """Measure what is missing, γ first, as it refuses a wrong offset; only the tables' Δ keeps values per unit."""
    metrics: dict[str, Any] = {}
    scores: dict[float, dict[str, Any]] = {}
    for offset, role in missing.gamma:
        score = measure_gamma(target, role, offset)
        if offset != DEFAULT_OFFSET:
            del score["per_unit"]
        scores.setdefault(offset, {"offset": offset})[role] = score
    if DEFAULT_OFFSET in scores:
        metrics["gamma"] = scores.pop(DEFAULT_OFFSET)
    if scores:
        metrics["gamma_offsets"] = [scores[offset] for offset in sorted(scores)]
    if missing.svm or missing.search:
        metrics.update(measure_error(target, own_pair=missing.svm, search=missing.search))
    return metrics


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
    if metrics.grid_search is not None:
        found.grid_search = metrics.grid_search
    return found


def _main_numbers(measured: MeasuredPart, offset: float, variant: str) -> dict[str, Any]:
    """Gather the error, and γ for one Δ, under the names that JSON outputs have."""
    assert measured.svm is not None
    train, test = (measured.score(offset, role) for role in ("train", "test"))
    return {
        column_name(ERROR, variant): measured.svm.test_error_percent,
        column_name(GAMMA_TRAIN, variant): train.mean if train else None,
        column_name(GAMMA_TEST, variant): test.mean if test else None,
    }
