"""One job of the suite: a run trained and measured, whatever happens told as an outcome."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.evaluation import evaluate_run
from thetarbm_cli.experiments.plan import PlannedRun
from thetarbm_cli.experiments.settings import RunSettings
from thetarbm_cli.experiments.training_run import Workplace, train_run


@dataclass(frozen=True, eq=False)
class Job:
    """A run to be made, as it travels to a process or a machine."""

    settings: RunSettings
    seed: int
    labels: tuple[str, ...]
    with_gamma: bool
    force: bool

    @classmethod
    def of(cls, planned: PlannedRun) -> Job:
        """The job of a planned run."""
        return cls(planned.settings, planned.seed, planned.labels, planned.with_gamma, planned.forced)


@dataclass(frozen=True)
class Outcome:
    """How a job ended."""

    state: Literal["done", "cached", "failed"]
    run: str | None
    error: str | None
    seconds: float
    test_error_percent: float | None = None
    gamma_test: float | None = None


def do_job(place: Workplace, job: Job) -> Outcome:
    """Train and measure; an error is recorded where there is a record, and told."""
    started = time.perf_counter()
    run = None
    try:
        trained = train_run(place, job.settings, job.seed, force=job.force)
        run = trained.record.run
        record, measured = evaluate_run(place, run, with_gamma=job.with_gamma, force=job.force)
    except Exception as error:  # noqa: BLE001  whatever happens to one run must not end the others
        message = str(error) if isinstance(error, ThetaRBMError) else f"{type(error).__name__}: {error}"
        _note(place, run, job.labels, message)
        return Outcome("failed", run, message, time.perf_counter() - started)
    _note(place, run, job.labels, None)
    metrics = record.metrics or {}
    return Outcome(
        "cached" if trained.cached and measured else "done",
        run,
        None,
        time.perf_counter() - started,
        metrics["svm"]["test_error_percent"],
        metrics.get("gamma", {}).get("test", {}).get("mean"),
    )


def _note(place: Workplace, run: str | None, labels: Sequence[str], error: str | None) -> None:
    """Write into the record which cells it was made for, and what went wrong when it was measured."""
    if run is None:
        return
    with place.store.locked(run):
        record = place.store.load(run)
        if record is None:
            return
        cells = sorted({*record.cells, *labels})
        if (record.cells, record.error) != (cells, error):
            place.store.save(record.model_copy(update={"cells": cells, "error": error}))
