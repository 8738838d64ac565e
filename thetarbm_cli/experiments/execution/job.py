"""Make one planned run: train and measure it, whatever happens told as an outcome; and what all executors share."""

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
from thetarbm_cli.experiments.runs.record import MetricsPart, RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM, run_id
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.runs.training import describe_run, train_run, training_part
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, PREPARING, TRAINING

# Images of the paper's data, where the settings have all.
USUAL_TRAIN, USUAL_TEST = 10_000, 50_000
# Of the SVM's fit and predictions, per image.
SVM_COST = 15
# Seconds between two reports of a run on the same step.
REPORT_SECONDS = 0.2
LOST_PROCESS = "its process ended without a word, as when memory runs out; fewer jobs at once need less"

logger = logging.getLogger("thetarbm")

# Told how far a run is: the step, and how much of it is done of how much.
Report = Callable[[str, int, int], None]
# Told which run is how far.
RunReport = Callable[[PlannedRun, str, int, int], None]


def tell_nobody(*words: object) -> None:
    """Report nothing."""


def seldom(send: Report) -> Report:
    """Send the first report of each step, and of the others only as many as can be seen."""
    last: tuple[str, float] = ("", 0.0)

    def send_some(step: str, done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if step != last[0] or now - last[1] >= REPORT_SECONDS or done == total:
            last = (step, now)
            send(step, done, total)

    return send_some


def training_of(run: PlannedRun) -> str:
    """Name what a run learns: those of one name train once, whatever they measure."""
    data = run.settings.data
    return json.dumps(
        [training_part(run.settings), run.seed, data.train_on, data.source, data.seed], sort_keys=True, default=str
    )


def longest_first(runs: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Order runs so that processes end together: the longest first, those that share a training one after the other."""
    longest: dict[str, float] = {}
    for run in runs:
        longest[training_of(run)] = max(longest.get(training_of(run), 0.0), cost(run))
    return sorted(runs, key=lambda run: (-longest[training_of(run)], training_of(run)))


def cost(run: PlannedRun) -> float:
    """Estimate how long a run takes, in products of one image with 500 units' weights."""
    settings, parameters = run.settings, run.settings.complete_parameters
    train, test = settings.data.train or USUAL_TRAIN, settings.data.test or USUAL_TEST
    rotations = parameters.get("rotations", 1) if settings.model == "tirbm" else 1
    hidden = parameters.get("hidden", 500) / 500
    # Five products learn from an image, where the full tensor rotates it, too; one gives its features.
    learned = 5 * train * parameters.get("epochs", 0) * (5 if parameters.get("tensor") == "full" else 1)
    most = settings.data.gamma or train + test
    copies = 10 * (
        (min(train, most) + min(test, most)) * ("gamma" in run.measures) + min(train, most) * len(run.offsets)
    )
    features = hidden * parameters.get("pooling", 1) ** 2
    return float(hidden * rotations * learned + features * (rotations * copies + SVM_COST * (train + test)))


class LostProcessError(ThetaRBMError):
    """The process of a run died (it crashed, or was killed) before it gave an outcome."""

    def __init__(self) -> None:
        super().__init__(LOST_PROCESS)


@dataclass(frozen=True)
class Outcome:
    """How a run ended; the traceback is of an error that is not one of ours, for --debug."""

    state: Literal["done", "cached", "failed"]
    run: str | None
    error: str | None
    seconds: float
    test_error_percent: float | None = None
    gamma_test: float | None = None
    traceback: str | None = None


# Makes runs somewhere: context, runs, whether others are started after one has failed, and who is told how far each is.
Executor = Callable[[RunContext, Sequence[PlannedRun], bool, RunReport], Iterator[tuple[PlannedRun, Outcome]]]


def run_job(context: RunContext, planned: PlannedRun, report: Report = tell_nobody) -> Outcome:
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
            planned.settings,
            planned.seed,
            force=planned.forced,
            on_epoch=lambda record, epochs: report(TRAINING, record.epoch, epochs),
            on_data=lambda done, total: report(PREPARING, done, total),
        )
        run = trained.record.run
        # Before it is measured: with its last number a run is done, and what is not written by then never will be.
        _note(context, run, planned, None)
        record, measured = evaluate_run(
            context,
            run,
            measures=planned.measures,
            more_offsets=planned.offsets,
            force=planned.forced,
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
    name = record_failure(context, planned, message, kind)
    return Outcome("failed", name, message, time.perf_counter() - started, traceback=trace)


def failed(context: RunContext, planned: PlannedRun, error: BaseException) -> Outcome:
    """The outcome of a run that ended with an exception instead of one; it is recorded from here."""
    message = format_error(error)
    run = record_failure(context, planned, message, type(error))
    return Outcome("failed", run, message, 0.0)


def record_failure(
    context: RunContext, planned: PlannedRun, error: str, kind: type[BaseException] = Exception
) -> str | None:
    """Record that a run failed, if its data is prepared here, and give the run: without, it has no name.

    After a wrong input no record is made where there is none: there is no run that could have failed. After a full disk
    nothing is recorded at all, so that the same command goes on when there is room.
    """
    if issubclass(kind, StorageError):
        return None
    try:
        data = described_data(context.data_dir, planned.settings.data)
        if data is None:
            return None
        backend = select_backend(context.backend_name)
        run = run_id(planned.settings, data.checksums, planned.seed, backend.name)
        # Another process may have taken up what a dead one left, and will say itself how it ends.
        if not context.store.is_held(run):
            if context.store.load(run) is None:
                if issubclass(kind, InputError):
                    return run
                # It could not write its own: its process was lost, or it failed before it trained.
                record = RunRecord(
                    algorithm=ALGORITHM,
                    state="failed",
                    **describe_run(run, planned.settings, planned.seed, data),
                    environment=describe_environment(backend),
                    history=[],
                    timings={},
                    peak_memory_megabytes=0.0,
                )
                context.store.save(record)
            _note(context, run, planned, error)
    except Exception as problem:  # noqa: BLE001  that it cannot be recorded must not hide the failure itself
        logger.warning("a failed run of %s cannot be recorded: %s", planned.labels[0], format_error(problem))
        return None
    return run


def _note(context: RunContext, run: str, planned: PlannedRun, error: str | None) -> None:
    """Write into a record that is not measured yet which cells it is made for, and what went wrong."""
    with context.store.locked(run):
        record = context.store.load(run)
        if record is None or record.is_measured:
            return
        changes: dict[str, Any] = {"error": error}
        if planned.suite is not None:
            # Cells of another suite are not this one's.
            others = record.cells if record.suite == planned.suite else []
            changes |= {"cells": sorted({*others, *planned.labels}), "suite": planned.suite}
        changed = record.model_copy(update=changes)
        if changed != record:
            context.store.save(changed)
