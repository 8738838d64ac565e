"""Do the jobs of a suite on this machine: in this process, or side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from thetarbm_cli import followup
from thetarbm_cli.errors import ThetaRBMError, format_error
from thetarbm_cli.experiments.execution.job import Job, Outcome, record_failure, run_job
from thetarbm_cli.experiments.runs.store import RunContext

Task = TypeVar("Task")
Result = TypeVar("Result")

LOST_PROCESS = "its process ended without a word, as when memory runs out; fewer jobs at once need less"


class LostProcessError(ThetaRBMError):
    """The process of a job died (it crashed, or was killed) before it gave a result."""

    def __init__(self) -> None:
        super().__init__(LOST_PROCESS)


def outcomes(
    function: Callable[[Task], Result],
    jobs: Sequence[Task],
    processes: int,
    goes_on: Callable[[Result | Exception], bool] = lambda result: not isinstance(result, Exception),
) -> Iterator[tuple[Task, Result | Exception]]:
    """Yield every job with its result, or the exception that it ended with, as it is done.

    A process that dies is a `LostProcessError` of its own job; the others are not touched. Processes are started
    afresh, not forked: a BLAS that has threads does not survive a fork. They take the number of BLAS threads from the
    environment.

    Parameters
    ----------
    goes_on : callable
        Whether others are still to be started after this result. Those that have started are finished in any case.
    """
    if processes == 1 or len(jobs) == 1:
        for job in jobs:
            result = _attempt(function, job)
            yield job, result
            if not goes_on(result):
                return
        return
    before = set(multiprocessing.active_children())
    workers = WorkerPool(min(processes, len(jobs)))
    try:
        yield from _side_by_side(workers, function, deque(jobs), goes_on)
    except BaseException:
        # The jobs resume from their checkpoints: to wait for them would keep the user waiting for nothing.
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        workers.shutdown()


class WorkerPool:
    """Processes, each in a pool of its own: one that dies breaks its pool, and with it no other's job."""

    def __init__(self, processes: int) -> None:
        self.idle = [_pool() for _ in range(processes)]
        self.busy: dict[Future[Any], ProcessPoolExecutor] = {}

    def start(self, function: Callable[[Task], Result], job: Task) -> Future[Result]:
        """Give a job to an idle process, or to a new one if it has died meanwhile."""
        pool = self.idle.pop()
        try:
            future = pool.submit(function, job)
        except BrokenProcessPool:
            pool.shutdown()
            pool = _pool()
            future = pool.submit(function, job)
        self.busy[future] = pool
        return future

    def result(self, future: Future[Result]) -> Result | Exception:
        """What a finished job gave; its process is idle again, or replaced if it died."""
        pool = self.busy.pop(future)
        try:
            result: Result | Exception = future.result()
        except BrokenProcessPool:
            pool.shutdown()
            pool, result = _pool(), LostProcessError()
        except Exception as error:  # noqa: BLE001  it is the caller's to judge
            result = error
        self.idle.append(pool)
        return result

    def shutdown(self) -> None:
        """End all processes."""
        for pool in [*self.idle, *self.busy.values()]:
            pool.shutdown(cancel_futures=True)


def _side_by_side(
    workers: WorkerPool,
    function: Callable[[Task], Result],
    waiting: deque[Task],
    goes_on: Callable[[Result | Exception], bool],
) -> Iterator[tuple[Task, Result | Exception]]:
    running: dict[Future[Result], Task] = {}
    finished: list[tuple[Task, Result | Exception]] = []
    while True:
        while waiting and workers.idle:
            job = waiting.popleft()
            running[workers.start(function, job)] = job
        # Only now: whoever asks may take long until they ask again, and nobody is to be idle meanwhile.
        yield from finished
        if not running:
            return
        done, _ = wait(running, return_when=FIRST_COMPLETED)
        finished = []
        for future in done:
            result = workers.result(future)
            finished.append((running.pop(future), result))
        if not all(goes_on(result) for _, result in finished):
            waiting.clear()


def _pool() -> ProcessPoolExecutor:
    """A pool of one process, which starts with its first job."""
    options = followup.call_options()
    return ProcessPoolExecutor(
        1, mp_context=multiprocessing.get_context("spawn"), initializer=_settle, initargs=(options,)
    )


def _attempt(function: Callable[[Task], Result], job: Task) -> Result | Exception:
    try:
        return function(job)
    except Exception as error:  # noqa: BLE001  it is the caller's to judge
        return error


def _settle(options: followup.CallOptions) -> None:
    """Let the parent decide when a process ends: Ctrl-C is told by it, and who lost it leaves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    followup.repeat(options)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def leave_with_parent() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=leave_with_parent, daemon=True).start()


class Executor(Protocol):
    """Does jobs somewhere and tells each outcome as soon as it is known."""

    def __call__(self, context: RunContext, jobs: Sequence[Job], keep_going: bool) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome; without `keep_going`, start no other after one has failed."""
        ...


@dataclass(frozen=True)
class LocalExecutor:
    """Processes on this machine; a single one is this one."""

    processes: int = 1

    def __call__(self, context: RunContext, jobs: Sequence[Job], keep_going: bool) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome."""

        def goes_on(result: Outcome | Exception) -> bool:
            return keep_going or (isinstance(result, Outcome) and result.state != "failed")

        for job, result in outcomes(partial(run_job, context), jobs, self.processes, goes_on):
            yield job, result if isinstance(result, Outcome) else failed(context, job, result)


def failed(context: RunContext, job: Job, error: BaseException) -> Outcome:
    """The outcome of a job that ended with an exception instead of one; it is recorded from here."""
    message = format_error(error)
    run = record_failure(context, job, message, type(error))
    return Outcome("failed", run, message, 0.0)
