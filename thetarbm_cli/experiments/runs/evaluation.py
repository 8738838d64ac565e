"""Measuring a run: what its record lacks is measured, and written into it or, if it has numbers, kept beside it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from thetarbm_cli.backend import select_backend
from thetarbm_cli.experiments.runs.fields import EnvironmentPart, WeightsPart
from thetarbm_cli.experiments.runs.measuring import Subject, Watch, measure_error, measure_gamma, unwatched
from thetarbm_cli.experiments.runs.recorded import checked_record, data_of, fitted, weights_of
from thetarbm_cli.experiments.runs.store import Measurement, RunRecord, joined
from thetarbm_cli.experiments.runs.training import Workplace
from thetarbm_cli.models.oriented import OrientedRBM

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

    def with_all_of(self, metrics: dict[str, Any]) -> Due:
        """These measures, and all that the metrics have."""
        scores = [metrics.get("gamma", {}), *metrics.get("gamma_offsets", [])]
        pairs = [(score["offset"], role) for score in scores for role in ("train", "test") if role in score]
        search = self.search or "grid_search" in metrics
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
    if not force and not _due(record.metrics or {}, offset if with_gamma else None, more_offsets, search):
        return record, True
    with place.store.locked(run):
        # Another process may have measured it meanwhile.
        record = checked_record(place, run)
        had = record.metrics or {}
        due = _due({} if force else had, offset if with_gamma else None, more_offsets, search)
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
        metrics: dict[str, Any] = {}
        _measure(subject, due, metrics)
        if isinstance(model, OrientedRBM):
            model.set_params(align=False)
            metrics["unaligned"] = {}
            _measure(subject, replace(due, search=False), metrics["unaligned"])
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


def gamma_at(metrics: dict[str, Any], offset: float = DEFAULT_OFFSET) -> dict[str, Any]:
    """The γ-scores of a record's metrics for one Δ, by the role of the images; empty if there is none."""
    known = [metrics.get("gamma", {}), *metrics.get("gamma_offsets", [])]
    return next((each for each in known if each.get("offset") == offset), {})


def is_measured(
    metrics: dict[str, Any] | None, with_gamma: bool, more_offsets: Sequence[float] = (), offset: float = DEFAULT_OFFSET
) -> bool:
    """Whether metrics have the numbers that are asked for."""
    return not _due(metrics or {}, offset if with_gamma else None, more_offsets, search=False)


def _due(metrics: dict[str, Any], offset: float | None, more_offsets: Sequence[float], search: bool) -> Due:
    """What the metrics lack."""
    wanted = [] if offset is None else [(offset, "train"), (offset, "test")]
    wanted += [(more, "train") for more in more_offsets if more != offset]
    return Due(
        svm="svm" not in metrics,
        gamma=tuple((delta, role) for delta, role in wanted if role not in gamma_at(metrics, delta)),
        search=search and "grid_search" not in metrics,
    )


def _measure(subject: Subject, due: Due, metrics: dict[str, Any]) -> None:
    """Measure what is due into the metrics, γ first: it refuses a wrong offset at once."""
    for offset, role in due.gamma:
        _keep_gamma(metrics, offset, role, measure_gamma(subject, role, offset))
    if due.svm or due.search:
        metrics.update(measure_error(subject, own_pair=due.svm, search=due.search))


def _keep_gamma(metrics: dict[str, Any], offset: float, role: str, score: dict[str, Any]) -> None:
    """Lay a γ-score into the metrics; only the tables' Δ keeps its values per unit."""
    if offset == DEFAULT_OFFSET:
        metrics["gamma"] = {**metrics.get("gamma", {}), "offset": offset, role: score}
        return
    short = {name: value for name, value in score.items() if name != "per_unit"}
    entry = {"offset": offset, **gamma_at(metrics, offset), role: short}
    others = [each for each in metrics.get("gamma_offsets", []) if each["offset"] != offset]
    metrics["gamma_offsets"] = sorted([*others, entry], key=lambda each: float(each["offset"]))


def summary(record: RunRecord, cached: bool, offset: float = DEFAULT_OFFSET) -> dict[str, Any]:
    """The main numbers of a measured run, as ``evaluate --json`` gives them."""
    metrics = record.metrics or {}
    gamma = gamma_at(metrics, offset)
    row: dict[str, Any] = {
        "run": record.run,
        "model": record.settings.model,
        "sparsity": record.parameters.get("sparsity"),
        "seed": record.seed,
        "test_error_percent": metrics["svm"]["test_error_percent"],
        "gamma_train": gamma.get("train", {}).get("mean"),
        "gamma_test": gamma.get("test", {}).get("mean"),
        "gamma_offset": offset,
        "dead_units": gamma.get("test", {}).get("dead_units"),
        "cached": cached,
    }
    if "unaligned" in metrics:
        other = metrics["unaligned"]
        row["test_error_percent_unaligned"] = other["svm"]["test_error_percent"]
        row["gamma_train_unaligned"] = gamma_at(other, offset).get("train", {}).get("mean")
        row["gamma_test_unaligned"] = gamma_at(other, offset).get("test", {}).get("mean")
    if "grid_search" in metrics:
        row["grid_search"] = metrics["grid_search"]
    return row
