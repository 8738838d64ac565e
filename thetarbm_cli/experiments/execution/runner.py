"""Run a plan: what is pending goes to an executor, and every outcome is given as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from thetarbm_cli.experiments.execution import theory
from thetarbm_cli.experiments.execution.job import Job, Outcome
from thetarbm_cli.experiments.execution.local import Executor
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs.record import SuitePart
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.suite.schema import Theory
from thetarbm_cli.outputs import SuiteRun

RETRY = "--retry-failed tries it again"


@dataclass(frozen=True)
class Step:
    """One outcome, and how far the pending work is."""

    run: PlannedRun
    outcome: Outcome
    done: int
    total: int


def pending(plan: list[PlannedRun], retry_failed: bool) -> list[PlannedRun]:
    """List the runs that are to be made."""
    return [run for run in plan if run.state not in ("done", "failed") or (run.state == "failed" and retry_failed)]


def steps(
    context: RunContext,
    runs: list[PlannedRun],
    executor: Executor,
    keep_going: bool,
    suite: SuitePart | None = None,
    on_report: Callable[[PlannedRun, str, int, int], None] = lambda run, step, done, total: None,
) -> Iterator[Step]:
    """Make runs, for a suite or by hand, and yield each outcome as it is known; others are told of by `on_report`."""
    by_job = {Job.of(run, suite): run for run in runs}

    def of_run(job: Job, step: str, done: int, total: int) -> None:
        on_report(by_job[job], step, done, total)

    for number, (job, outcome) in enumerate(executor(context, list(by_job), keep_going, of_run), start=1):
        yield Step(by_job[job], outcome, number, len(runs))


def do_theory(results: Path, wanted: Theory | None, on_start: Callable[[str], None]) -> SuiteRun | None:
    """Record the numerical checks if they are due."""
    if wanted is None:
        return None
    reason = theory.why_due(results, wanted)
    if reason:
        on_start(reason)
        theory.check_theory(results, wanted)
    return theory_run("done" if reason else "cached", reason)


def theory_run(state: Literal["done", "cached", "pending"], reason: str) -> SuiteRun:
    """List the numerical checks among the runs."""
    return SuiteRun(run=theory.NAME, experiment=theory.NAME, cell=theory.NAME, seed=0, state=state, reason=reason)


def final_states(plan: list[PlannedRun], finished: dict[PlannedRun, Outcome], retry_failed: bool) -> list[SuiteRun]:
    """List every run of the plan with its state after those that are `finished`."""
    runs = []
    for run in plan:
        outcome = finished.get(run)
        state: Literal["done", "cached", "failed", "pending"]
        name = (outcome.run if outcome else None) or run.run
        if outcome is not None:
            state, reason = outcome.state, outcome.error or run.reason
        elif run.state == "done":
            state, reason = "cached", ""
        elif run.state == "failed" and not retry_failed:
            state, reason = "failed", f"{run.reason}; {RETRY}"
        else:
            state, reason = "pending", run.reason
        runs.append(
            SuiteRun(run=name, experiment=run.experiment, cell=run.cells[0], seed=run.seed, state=state, reason=reason)
        )
    return runs
