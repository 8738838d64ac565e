"""Make runs on this machine: in this process, or side by side in processes of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Protocol, TypeVar

from thetarbm_cli import followup
from thetarbm_cli.errors import ThetaRBMError, format_error
from thetarbm_cli.experiments.execution.job import (
    Outcome,
    Report,
    longest_first,
    record_failure,
    run_job,
    tell_nobody,
    training_of,
)
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs.store import RunContext

Task = TypeVar("Task")
Result = TypeVar("Result")

# Seconds between two looks at what the processes report, and between two reports of a process on the same step.
REPORT_SECONDS = 0.2

STARTING = "starting"

# Takes what the job that is being done in this process reports.
_listener: ContextVar[Report] = ContextVar("listener", default=tell_nobody)

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
    shared: Callable[[Task], object] = lambda job: object(),
    on_report: Callable[[Task, str, int, int], None] = lambda job, step, done, total: None,
) -> Iterator[tuple[Task, Result | Exception]]:
    """Yield every job with its result, or the exception that it ended with, as it is done.

    A process that dies is a `LostProcessError` of its own job; the others are not touched. Processes are started
    afresh, not forked: a BLAS that has threads does not survive a fork. They take the number of BLAS threads from the
    environment.

    Parameters
    ----------
    goes_on : callable
        Whether others are still to be started after this result. Those that have started are finished in any case.
    shared : callable
        What jobs have in common that one makes for the others: they are not done at the same time as long as there are
        others to do.
    on_report : callable
        Told what a job says of its progress by `report`.
    """
    if processes == 1 or len(jobs) == 1:
        for job in jobs:
            result = _attempt(function, job, partial(on_report, job))
            yield job, result
            if not goes_on(result):
                return
        return
    before = set(multiprocessing.active_children())
    workers = WorkerPool(min(processes, len(jobs)))
    try:
        yield from _side_by_side(workers, function, deque(jobs), goes_on, shared, on_report)
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
        self.idle = [Worker() for _ in range(processes)]
        self.busy: dict[Future[Any], Worker] = {}

    def start(self, function: Callable[[Task], Result], job: Task) -> Future[Result]:
        """Give a job to an idle process, or to a new one if it has died meanwhile."""
        worker = self.idle.pop()
        try:
            future = worker.pool.submit(function, job)
        except BrokenProcessPool:
            worker.shutdown()
            worker = Worker()
            future = worker.pool.submit(function, job)
        self.busy[future] = worker
        return future

    def result(self, future: Future[Result]) -> Result | Exception:
        """What a finished job gave; its process is idle again, or replaced if it died."""
        worker = self.busy.pop(future)
        worker.reports()
        try:
            result: Result | Exception = future.result()
        except BrokenProcessPool:
            worker.shutdown()
            worker, result = Worker(), LostProcessError()
        except Exception as error:  # noqa: BLE001  it is the caller's to judge
            result = error
        self.idle.append(worker)
        return result

    def shutdown(self) -> None:
        """End all processes."""
        for worker in [*self.idle, *self.busy.values()]:
            worker.shutdown()


class Worker:
    """A process, which starts with its first job, and what it reports: a pipe of its own, that no other can block."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.receiver, self.sender = context.Pipe(duplex=False)
        self.pool = ProcessPoolExecutor(
            1, mp_context=context, initializer=_settle, initargs=(followup.call_options(), self.sender)
        )

    def reports(self) -> list[tuple[str, int, int]]:
        """Take what has come since the last look."""
        found = []
        # A process that died in the middle of a report is told by its job.
        with contextlib.suppress(EOFError, OSError):
            while self.receiver.poll():
                found.append(self.receiver.recv())
        return found

    def shutdown(self) -> None:
        """End the process."""
        self.pool.shutdown(cancel_futures=True)
        self.receiver.close()
        self.sender.close()


def _side_by_side(
    workers: WorkerPool,
    function: Callable[[Task], Result],
    waiting: deque[Task],
    goes_on: Callable[[Result | Exception], bool],
    shared: Callable[[Task], object],
    on_report: Callable[[Task, str, int, int], None],
) -> Iterator[tuple[Task, Result | Exception]]:
    running: dict[Future[Result], Task] = {}
    finished: list[tuple[Task, Result | Exception]] = []
    while True:
        while waiting and workers.idle:
            being_made = {shared(job) for job in running.values()}
            job = next((job for job in waiting if shared(job) not in being_made), waiting[0])
            waiting.remove(job)
            running[workers.start(function, job)] = job
            on_report(job, STARTING, 0, 0)
        # Only now: whoever asks may take long until they ask again, and nobody is to be idle meanwhile.
        yield from finished
        if not running:
            return
        done: set[Future[Result]] = set()
        while not done:
            done, _ = wait(running, timeout=REPORT_SECONDS, return_when=FIRST_COMPLETED)
            for future, worker in workers.busy.items():
                for report in worker.reports():
                    on_report(running[future], *report)
        finished = []
        for future in done:
            result = workers.result(future)
            finished.append((running.pop(future), result))
        if not all(goes_on(result) for _, result in finished):
            waiting.clear()


def _attempt(function: Callable[[Task], Result], job: Task, listener: Report) -> Result | Exception:
    token = _listener.set(listener)
    try:
        return function(job)
    except Exception as error:  # noqa: BLE001  it is the caller's to judge
        return error
    finally:
        _listener.reset(token)


def report(step: str, done: int, total: int) -> None:
    """Tell whoever gave out the job that is done in this process how far it is."""
    _listener.get()(step, done, total)


def _settle(options: followup.CallOptions, sender: Connection) -> None:
    """Let the parent decide when a process ends: Ctrl-C is told by it, and who lost it leaves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    followup.repeat(options)

    def send(*words: str | int) -> None:
        # Who has nobody to report to is about to leave, and must not fail before.
        with contextlib.suppress(OSError):
            sender.send(words)

    _listener.set(seldom(send))
    parent = multiprocessing.parent_process()
    if parent is not None:

        def leave_with_parent() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=leave_with_parent, daemon=True).start()


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


# Told which run is how far.
RunReport = Callable[[PlannedRun, str, int, int], None]


def nobody_asks(run: PlannedRun, step: str, done: int, total: int) -> None:
    """Show nothing of a run."""


class Executor(Protocol):
    """Makes runs somewhere and tells each outcome as soon as it is known."""

    def __call__(
        self, context: RunContext, runs: Sequence[PlannedRun], keep_going: bool, on_report: RunReport = nobody_asks
    ) -> Iterator[tuple[PlannedRun, Outcome]]:
        """Yield each run with its outcome; without `keep_going`, start no other after one has failed."""
        ...


@dataclass(frozen=True)
class LocalExecutor:
    """Processes on this machine; a single one is this one."""

    processes: int = 1

    def __call__(
        self, context: RunContext, runs: Sequence[PlannedRun], keep_going: bool, on_report: RunReport = nobody_asks
    ) -> Iterator[tuple[PlannedRun, Outcome]]:
        """Yield each run with its outcome."""

        def goes_on(result: Outcome | Exception) -> bool:
            return keep_going or (isinstance(result, Outcome) and result.state != "failed")

        ordered = longest_first(runs) if self.processes > 1 else runs
        for run, result in outcomes(
            partial(run_job, context, report=report), ordered, self.processes, goes_on, training_of, on_report
        ):
            yield run, result if isinstance(result, Outcome) else failed(context, run, result)


def failed(context: RunContext, planned: PlannedRun, error: BaseException) -> Outcome:
    """The outcome of a run that ended with an exception instead of one; it is recorded from here."""
    message = format_error(error)
    run = record_failure(context, planned, message, type(error))
    return Outcome("failed", run, message, 0.0)
