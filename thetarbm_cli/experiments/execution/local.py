"""Make runs on this machine: in this process, or side by side in processes of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol, TypeVar

from thetarbm_cli import followup
from thetarbm_cli.errors import ThetaRBMError, format_error
from thetarbm_cli.experiments.execution.job import (
    Outcome,
    Report,
    longest_first,
    record_failure,
    run_job,
    training_of,
)
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs.store import RunContext

Task = TypeVar("Task")
Result = TypeVar("Result")

# Seconds between two reports of a process on the same step.
REPORT_SECONDS = 0.2

LOST_PROCESS = "its process ended without a word, as when memory runs out; fewer jobs at once need less"


class LostProcessError(ThetaRBMError):
    """The process of a job died (it crashed, or was killed) before it gave a result."""

    def __init__(self) -> None:
        super().__init__(LOST_PROCESS)


def outcomes(
    function: Callable[[Task, Report], Result],
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
    function : callable
        Does a job; it is also given what takes its progress: the step, and how much of it is done of how much.
    goes_on : callable
        Whether others are still to be started after this result. Those that have started are finished in any case.
    shared : callable
        What jobs have in common that one makes for the others: they are not done at the same time as long as there are
        others to do.
    on_report : callable
        Told what a job says of its progress.
    """
    if processes == 1 or len(jobs) == 1:
        for job in jobs:
            result = _attempt(function, job, partial(on_report, job))
            yield job, result
            if not goes_on(result):
                return
        return
    waiting = list(jobs)
    idle = [Worker(function) for _ in range(min(processes, len(jobs)))]
    busy: dict[Connection, tuple[Worker, Task]] = {}
    finished: list[tuple[Task, Result | Exception]] = []
    try:
        while True:
            while waiting and idle:
                being_made = {shared(job) for _, job in busy.values()}
                job = next((job for job in waiting if shared(job) not in being_made), waiting[0])
                waiting.remove(job)
                worker = idle.pop()
                if not worker.start(job):
                    worker.end()
                    worker = Worker(function)
                    worker.start(job)
                busy[worker.pipe] = worker, job
                on_report(job, "starting", 0, 0)
            # Only now: whoever asks may take long until they ask again, and nobody is to be idle meanwhile.
            yield from finished
            if not busy:
                return
            finished = []
            while not finished:
                for pipe in wait(list(busy)):
                    worker, job = busy[pipe]  # type: ignore[index]  # what it was given
                    message = worker.receive()
                    if isinstance(message, tuple):
                        on_report(job, *message)
                        continue
                    del busy[worker.pipe]
                    if message is None:
                        worker.end()
                    idle.append(worker if message else Worker(function))
                    finished.append((job, message.result if message else LostProcessError()))
            if not all(goes_on(result) for _, result in finished):
                waiting.clear()
    except BaseException:
        # The jobs resume from their checkpoints: to wait for them would keep the user waiting for nothing.
        for worker, _ in busy.values():
            worker.process.terminate()
        raise
    finally:
        for worker in (*idle, *(worker for worker, _ in busy.values())):
            worker.end()


@dataclass(frozen=True)
class Finished:
    """The result of a job, or the exception that it ended with."""

    result: Any


class Worker:
    """A process that does one job after the other; a pipe of its own, that no other can block, has all it says."""

    def __init__(self, function: Callable[[Any, Report], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(function, theirs, followup.call_options()))
        self.process.start()
        theirs.close()

    def start(self, job: object) -> bool:
        """Give it a job; whether it is alive to take it."""
        try:
            self.pipe.send(job)
        except OSError:
            return False
        return True

    def receive(self) -> tuple[str, int, int] | Finished | None:
        """Take a report, or the end of its job; None if it died."""
        try:
            message: tuple[str, int, int] | Finished = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return message

    def end(self) -> None:
        """Let the process end, which has no job or was terminated."""
        self.pipe.close()
        self.process.join()


def _work(function: Callable[[Any, Report], Any], pipe: Connection, options: followup.CallOptions) -> None:
    """Do jobs until there are no more; the parent decides when: Ctrl-C is told by it, and who lost it leaves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    followup.repeat(options)
    parent = multiprocessing.parent_process()

    def leave_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    def send(*words: str | int) -> None:
        # Who has nobody to report to is about to leave, and must not fail before.
        with contextlib.suppress(OSError):
            pipe.send(words)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    report = seldom(send)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(Finished(_attempt(function, pipe.recv(), report)))


def _attempt(function: Callable[[Task, Report], Result], job: Task, report: Report) -> Result | Exception:
    try:
        return function(job, report)
    except Exception as error:  # noqa: BLE001  it is the caller's to judge
        return error


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
            partial(run_job, context), ordered, self.processes, goes_on, training_of, on_report
        ):
            yield run, result if isinstance(result, Outcome) else failed(context, run, result)


def failed(context: RunContext, planned: PlannedRun, error: BaseException) -> Outcome:
    """The outcome of a run that ended with an exception instead of one; it is recorded from here."""
    message = format_error(error)
    run = record_failure(context, planned, message, type(error))
    return Outcome("failed", run, message, 0.0)
