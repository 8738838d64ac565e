"""Where the jobs of a suite are done: in this process, in processes beside it, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from thetarbm_cli.errors import told
from thetarbm_cli.experiments.execution.job import Job, Outcome, do_job, note_failure
from thetarbm_cli.experiments.execution.parallel import outcomes
from thetarbm_cli.experiments.runs.training import Workplace


class Executor(Protocol):
    """Does jobs somewhere and tells each outcome as soon as it is known."""

    def __call__(self, place: Workplace, jobs: Sequence[Job], keep_going: bool) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome; without `keep_going`, start no other after one has failed."""
        ...


@dataclass(frozen=True)
class LocalExecutor:
    """Processes on this machine; a single one is this one."""

    processes: int = 1

    def __call__(self, place: Workplace, jobs: Sequence[Job], keep_going: bool) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome."""

        def goes_on(result: Outcome | Exception) -> bool:
            return keep_going or (isinstance(result, Outcome) and result.state != "failed")

        for job, result in outcomes(partial(do_job, place), jobs, self.processes, goes_on):
            yield job, result if isinstance(result, Outcome) else failed(place, job, result)


def failed(place: Workplace, job: Job, error: BaseException) -> Outcome:
    """The outcome of a job that ended with an exception instead of one; it is recorded from here."""
    message = told(error)
    run = note_failure(place, job, message, type(error))
    return Outcome("failed", run, message, 0.0)
