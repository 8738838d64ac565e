"""Measuring a run: what its record lacks is measured, and written into it or, if it has numbers, kept beside it."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from thetarbm_cli.backend import select_backend
from thetarbm_cli.experiments.runs.fields import EnvironmentPart, MeasuredPart, MetricsPart, WeightsPart
from thetarbm_cli.experiments.runs.measuring import Subject, Watch, measure_error, measure_gamma, unwatched
from thetarbm_cli.experiments.runs.recorded import checked_record, data_of, fitted, weights_of
from thetarbm_cli.experiments.runs.store import Measurement, RunRecord, joined
from thetarbm_cli.experiments.runs.training import Workplace
from thetarbm_cli.outcomes import DEFAULT, ERROR, GAMMA_TEST, GAMMA_TRAIN, NOT_ALIGNED, column_name

# Δ of the γ-score in the tables.
DEFAULT_OFFSET = 20.0

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class Due:
    """The measures that a record lacks; γ as pairs of the offset and the role of the images."""

    svm: bool
    gamma: tuple[tuple[float, str], ...]
    search: bool

    def __bool__(self) -> bool:
        return self.svm or bool(self.gamma) or self.search

    def with_all_of(self, metrics: MetricsPart) -> Due:
        """These measures, and all that the metrics have."""
        pairs = [(score.offset, role) for score in metrics.scores() for role in ("train", "test") if score.of(role)]
        search = self.search or metrics.grid_search is not None
        return Due(svm=True, gamma=tuple(dict.fromkeys((*self.gamma, *pairs))), search=search)


def evaluate_run(
    place: Workplace,
    run: str,
    *,
    with_gamma: bool = True,
    offset: float = DEFAULT_OFFSET,
    more_offsets: Sequence[float] = (),
    search: bool = False,
    force: bool = False,
    watch: Watch = unwatched,
) -> tuple[RunRecord, bool]:
    """Measure a run and record it; what the record has already is kept.

    The first numbers complete the record. Later ones are kept beside it, so that a record that was measured changes
    only by `force`, which measures all that it has again.

    Parameters
    ----------
    place : Workplace
    run : str
        Full id of the run.
    with_gamma : bool
        Whether the γ-score is wanted beside the SVM's error.
    offset : float
        Δ of the γ-score's rotations. The record keeps each Δ; the tables take `DEFAULT_OFFSET`.
    more_offsets : sequence of float
        Further Δ, measured on the training images alone, for γ against Δ.
    search : bool
        Also choose C and γ of the kernel on the validation images.
    watch : callable, optional
        Opened around each step with a word on it; gives what takes its progress.

    Returns
    -------
    The record, and whether nothing had to be measured

    Raises
    ------
    InputError
        If the run failed, is of another algorithm, its weights are missing, or an offset is out of range.
    """
    record = checked_record(place, run)
    if not force and not _due(record.metrics, offset if with_gamma else None, more_offsets, search):
        return record, True
    with place.store.locked(run):
        # Another process may have measured it meanwhile.
        record = checked_record(place, run)
        had = record.metrics or MetricsPart()
        due = _due(None if force else had, offset if with_gamma else None, more_offsets, search)
        if force:
            due = due.with_all_of(had)
        if not due:
            return record, True
        weights = weights_of(place, record)
        if weights.made_here:
            logger.warning(
                "%s is measured with weights that were made here and are not the recorded ones; the numbers say so", run
            )
        model = fitted(place, record, weights)
        subject = Subject(record, model, data_of(place, record), select_backend(place.backend_name), watch)
        started = time.perf_counter()
        found = _measure(subject, due)
        for variant, others in model.evaluation_variants.items():
            other = replace(subject, model=copy.copy(model).set_params(**others))
            found[variant] = _measure(other, replace(due, search=False))
        metrics = MetricsPart.model_validate(found)
        seconds = round(time.perf_counter() - started, 3)
        if record.is_measured and not force:
            used = weights.made_here or WeightsPart(
                sha256=str(record.weights_sha256), environment=EnvironmentPart(**record.environment)
            )
            place.store.add_measures(record, Measurement(metrics=metrics, weights=used, seconds=seconds))
            return record.model_copy(update={"metrics": joined(had, metrics)}), False
        record = record.model_copy(
            update={
                "metrics": metrics,
                "timings": {**record.timings, "evaluate_seconds": seconds},
                "measured_with": weights.made_here,
            }
        )
        place.store.save(record)
        return record, False


def is_measured(
    metrics: MetricsPart | None, with_gamma: bool, more_offsets: Sequence[float] = (), offset: float = DEFAULT_OFFSET
) -> bool:
    """Whether metrics have the numbers that are asked for."""
    return not _due(metrics, offset if with_gamma else None, more_offsets, search=False)


def _due(metrics: MetricsPart | None, offset: float | None, more_offsets: Sequence[float], search: bool) -> Due:
    """What the metrics lack."""
    known = metrics or MetricsPart()
    wanted = [] if offset is None else [(offset, "train"), (offset, "test")]
    wanted += [(more, "train") for more in more_offsets if more != offset]
    return Due(
        svm=known.svm is None,
        gamma=tuple((delta, role) for delta, role in wanted if known.score(delta, role) is None),
        search=search and known.grid_search is None,
    )


def _measure(subject: Subject, due: Due) -> dict[str, Any]:
    """Measure what is due, γ first: it refuses a wrong offset at once. Only the tables' Δ keeps its values per unit."""
    metrics: dict[str, Any] = {}
    scores: dict[float, dict[str, Any]] = {}
    for offset, role in due.gamma:
        score = measure_gamma(subject, role, offset)
        if offset != DEFAULT_OFFSET:
            del score["per_unit"]
        scores.setdefault(offset, {"offset": offset})[role] = score
    if DEFAULT_OFFSET in scores:
        metrics["gamma"] = scores.pop(DEFAULT_OFFSET)
    if scores:
        metrics["gamma_offsets"] = [scores[offset] for offset in sorted(scores)]
    if due.svm or due.search:
        metrics.update(measure_error(subject, own_pair=due.svm, search=due.search))
    return metrics


def summary(record: RunRecord, cached: bool, offset: float = DEFAULT_OFFSET) -> dict[str, Any]:
    """The main numbers of a measured run, as ``evaluate --json`` gives them."""
    metrics = record.metrics
    assert metrics is not None
    tested = metrics.score(offset, "test")
    row: dict[str, Any] = {
        "run": record.run,
        "model": record.settings.model,
        "sparsity": record.parameters.get("sparsity"),
        "seed": record.seed,
        **_main_numbers(metrics, offset, DEFAULT),
        "gamma_offset": offset,
        "dead_units": tested.dead_units if tested else None,
        "cached": cached,
    }
    if metrics.unaligned is not None:
        row |= _main_numbers(metrics.unaligned, offset, NOT_ALIGNED)
    if metrics.grid_search is not None:
        row["grid_search"] = metrics.grid_search.model_dump()
    return row


def _main_numbers(measured: MeasuredPart, offset: float, variant: str) -> dict[str, float | None]:
    """The error, and γ for one Δ, under the names that JSON outputs have."""
    assert measured.svm is not None
    train, test = (measured.score(offset, role) for role in ("train", "test"))
    return {
        column_name(ERROR, variant): measured.svm.test_error_percent,
        column_name(GAMMA_TRAIN, variant): train.mean if train else None,
        column_name(GAMMA_TEST, variant): test.mean if test else None,
    }
