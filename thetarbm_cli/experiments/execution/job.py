"""One job of the suite: a run trained and measured, whatever happens told as an outcome."""

from __future__ import annotations

import json
import logging
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from thetarbm_cli.backend import select_backend
from thetarbm_cli.errors import InputError, StorageError, ThetaRBMError, format_error
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs.environment import describe_environment
from thetarbm_cli.experiments.runs.evaluation import evaluate_run
from thetarbm_cli.experiments.runs.images import described_data
from thetarbm_cli.experiments.runs.record import MetricsPart, RunRecord, SuitePart
from thetarbm_cli.experiments.runs.settings import ALGORITHM, RunSettings, run_id
from thetarbm_cli.experiments.runs.sharing import training_part
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.runs.training import seeds_by_axis, train_run
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, PREPARING, TRAINING

# Images of the paper's data, where the settings have all.
USUAL_TRAIN, USUAL_TEST = 10_000, 50_000
# Of the SVM's fit and predictions, per image.
SVM_COST = 15

logger = logging.getLogger("thetarbm")

# Told how far a job is: the step, and how much of it is done of how much.
Report = Callable[[str, int, int], None]


def tell_nobody(step: str, done: int, total: int) -> None:
    """Report nothing."""


@dataclass(frozen=True, eq=False)
class Job:
    """A run to be made, as it travels to a process or a machine."""

    settings: RunSettings
    seed: int
    labels: tuple[str, ...]
    measures: tuple[str, ...]
    offsets: tuple[float, ...]
    force: bool
    suite: SuitePart | None = None

    @classmethod
    def of(cls, planned: PlannedRun, suite: SuitePart | None = None) -> Job:
        """The job of a planned run; one for no suite is noted in the record as one made by hand."""
        return cls(
            planned.settings,
            planned.seed,
            planned.labels,
            planned.measures,
            planned.offsets,
            planned.forced,
            suite,
        )


def training_of(job: Job) -> str:
    """Name what a job learns: jobs of one name train once, whatever they measure."""
    data = job.settings.data
    return json.dumps(
        [training_part(job.settings), job.seed, data.train_on, data.source, data.seed], sort_keys=True, default=str
    )


def longest_first(jobs: Sequence[Job]) -> list[Job]:
    """Order jobs so that processes end together: the longest first, those that share a training one after the other."""
    longest: dict[str, float] = {}
    for job in jobs:
        longest[training_of(job)] = max(longest.get(training_of(job), 0.0), cost(job))
    return sorted(jobs, key=lambda job: (-longest[training_of(job)], training_of(job)))


def cost(job: Job) -> float:
    """Estimate how long a job takes, in products of one image with 500 units' weights."""
    settings, parameters = job.settings, job.settings.complete_parameters
    train, test = settings.data.train or USUAL_TRAIN, settings.data.test or USUAL_TEST
    rotations = parameters.get("rotations", 1) if settings.model == "tirbm" else 1
    hidden = parameters.get("hidden", 500) / 500
    # Five products learn from an image, where the full tensor rotates it, too; one gives its features.
    learned = 5 * train * parameters.get("epochs", 0) * (5 if parameters.get("tensor") == "full" else 1)
    most = settings.data.gamma or train + test
    copies = 10 * (
        (min(train, most) + min(test, most)) * ("gamma" in job.measures) + min(train, most) * len(job.offsets)
    )
    features = hidden * parameters.get("pooling", 1) ** 2
    return float(hidden * rotations * learned + features * (rotations * copies + SVM_COST * (train + test)))


@dataclass(frozen=True)
class Outcome:
    """How a job ended; the traceback is of an error that is not one of ours, for --debug."""

    state: Literal["done", "cached", "failed"]
    run: str | None
    error: str | None
    seconds: float
    test_error_percent: float | None = None
    gamma_test: float | None = None
    traceback: str | None = None


def run_job(context: RunContext, job: Job, report: Report = tell_nobody) -> Outcome:
    """Train and measure; an error, whatever it is, is recorded and told."""
    started = time.perf_counter()

    @contextmanager
    def measuring(step: str) -> Iterator[Callable[[int, int], None]]:
        report(step, 0, 0)
        yield lambda done, total: report(step, done, total)

    try:
        report(PREPARING, 0, 0)
        trained = train_run(
            context,
            job.settings,
            job.seed,
            force=job.force,
            on_epoch=lambda record, epochs: report(TRAINING, record.epoch, epochs),
            on_data=lambda done, total: report(PREPARING, done, total),
        )
        run = trained.record.run
        # Before it is measured: with its last number a run is done, and what is not written by then never will be.
        _note(context, run, job, None)
        record, measured = evaluate_run(
            context,
            run,
            measures=job.measures,
            more_offsets=job.offsets,
            force=job.force,
            display=measuring,
        )
    except Exception as error:  # noqa: BLE001  whatever happens to one run must not end the others
        message, kind = format_error(error), type(error)
        trace = None if isinstance(error, ThetaRBMError) else traceback.format_exc()
    else:
        metrics = record.metrics or MetricsPart()
        return Outcome(
            "cached" if trained.cached and measured else "done",
            run,
            None,
            time.perf_counter() - started,
            metrics.value(ERROR),
            metrics.value(GAMMA_TEST),
        )
    # Out here the error is gone, and with it the arrays that it held: if memory ran out, there is some again.
    failed = record_failure(context, job, message, kind)
    return Outcome("failed", failed, message, time.perf_counter() - started, traceback=trace)


def record_failure(context: RunContext, job: Job, error: str, kind: type[BaseException] = Exception) -> str | None:
    """Record that a job failed, if its data is prepared here, and give the run: without, it has no name.

    After a wrong input no record is made where there is none: there is no run that could have failed. After a full disk
    nothing is recorded at all, so that the same command goes on when there is room.
    """
    if issubclass(kind, StorageError):
        return None
    try:
        data = described_data(context.data_dir, job.settings.data)
        if data is None:
            return None
        checksums = {role: each["sha256"] for role, each in data.items()}
        run = run_id(job.settings, checksums, job.seed, select_backend(context.backend_name).name)
        # Another process may have taken up what a dead one left, and will say itself how it ends.
        if not context.store.is_held(run):
            if context.store.load(run) is None:
                if issubclass(kind, InputError):
                    return run
                context.store.save(_record_of_failure(context, job, run, data))
            _note(context, run, job, error)
    except Exception as problem:  # noqa: BLE001  that it cannot be recorded must not hide the failure itself
        logger.warning("a failed run of %s cannot be recorded: %s", job.labels[0], format_error(problem))
        return None
    return run


def _record_of_failure(context: RunContext, job: Job, run: str, data: dict[str, dict[str, Any]]) -> RunRecord:
    """The record of a run that could not write its own: its process was lost, or it failed before it trained."""
    return RunRecord(
        algorithm=ALGORITHM,
        run=run,
        state="failed",
        settings=job.settings,
        parameters=job.settings.complete_parameters,
        seed=job.seed,
        seeds=seeds_by_axis(job.settings, job.seed),
        data=data,
        environment=describe_environment(select_backend(context.backend_name)),
        history=[],
        timings={},
        peak_memory_megabytes=0.0,
    )


def _note(context: RunContext, run: str, job: Job, error: str | None) -> None:
    """Write into a record that is not measured yet which cells it is made for, and what went wrong."""
    with context.store.locked(run):
        record = context.store.load(run)
        if record is None or record.is_measured:
            return
        changes: dict[str, Any] = {"error": error}
        if job.suite is not None:
            # Cells of another suite are not this one's.
            others = record.cells if record.suite == job.suite else []
            changes |= {"cells": sorted({*others, *job.labels}), "suite": job.suite}
        changed = record.model_copy(update=changes)
        if changed != record:
            context.store.save(changed)
