"""Make runs on this machine: in this process, or side by side in processes of their own."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait

from thetarbm_cli import followup
from thetarbm_cli.experiments.execution.job import (
    LostProcessError,
    Outcome,
    Report,
    RunReport,
    failed,
    longest_first,
    run_job,
    seldom,
    tell_nobody,
    training_of,
)
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs.store import RunContext


class Worker:
    """A process that makes one run after the other; a pipe of its own, that no other can block, has all it says.

    It is started afresh, not forked: a BLAS that has threads does not survive a fork. The number of those is taken from
    the environment.
    """

    def __init__(self, make: Callable[[PlannedRun, Report], Outcome]) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(make, theirs, followup.call_options()))
        self.process.start()
        theirs.close()

    def start(self, run: PlannedRun) -> bool:
        """Give it a run; whether it is alive to take it."""
        try:
            self.pipe.send(run)
        except OSError:
            return False
        return True

    def receive(self) -> tuple[str, int, int] | Outcome | None:
        """Take a report, or the outcome of its run; None if it died."""
        try:
            message: tuple[str, int, int] | Outcome = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return message

    def end(self) -> None:
        """Let the process end, which has no run or was terminated."""
        self.pipe.close()
        self.process.join()


def _work(make: Callable[[PlannedRun, Report], Outcome], pipe: Connection, options: followup.CallOptions) -> None:
    """Make runs until there are no more; the parent decides when: Ctrl-C is told by it, and who lost it leaves."""
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
            pipe.send(make(pipe.recv(), report))


@dataclass(frozen=True)
class LocalExecutor:
    """Processes on this machine; a single one is this one.

    Attributes
    ----------
    make : makes a run, in whichever process; whatever happens to it is its outcome
    """

    processes: int = 1
    make: Callable[[RunContext, PlannedRun, Report], Outcome] = run_job

    def __call__(
        self, context: RunContext, runs: Sequence[PlannedRun], keep_going: bool, on_report: RunReport = tell_nobody
    ) -> Iterator[tuple[PlannedRun, Outcome]]:
        """Yield each run with its outcome."""
        if self.processes > 1 and len(runs) > 1:
            yield from self._side_by_side(context, runs, keep_going, on_report)
            return
        for run in runs:
            outcome = self.make(context, run, partial(on_report, run))
            yield run, outcome
            if outcome.state == "failed" and not keep_going:
                return

    def _side_by_side(
        self, context: RunContext, runs: Sequence[PlannedRun], keep_going: bool, on_report: RunReport
    ) -> Iterator[tuple[PlannedRun, Outcome]]:
        """Yield runs as they are done; those that have started are finished, also after one has failed.

        A process that dies fails its own run; the others are not touched. Of runs with one training, which one of them
        does for the others, no two are made at the same time as long as there are others to make.
        """
        new_worker = partial(Worker, partial(self.make, context))
        waiting = longest_first(runs)
        idle = [new_worker() for _ in range(min(self.processes, len(runs)))]
        busy: dict[Connection, tuple[Worker, PlannedRun]] = {}
        finished: list[tuple[PlannedRun, Outcome]] = []
        try:
            while True:
                while waiting and idle:
                    being_made = {training_of(run) for _, run in busy.values()}
                    run = next((run for run in waiting if training_of(run) not in being_made), waiting[0])
                    waiting.remove(run)
                    worker = idle.pop()
                    if not worker.start(run):
                        worker.end()
                        worker = new_worker()
                        worker.start(run)
                    busy[worker.pipe] = worker, run
                    on_report(run, "starting", 0, 0)
                # Only now: whoever asks may take long until they ask again, and nobody is to be idle meanwhile.
                yield from finished
                if not busy:
                    return
                finished = []
                while not finished:
                    for pipe in wait(list(busy)):
                        worker, run = busy[pipe]  # type: ignore[index]  # what it was given
                        message = worker.receive()
                        if isinstance(message, tuple):
                            on_report(run, *message)
                            continue
                        del busy[worker.pipe]
                        if message is None:
                            worker.end()
                        idle.append(worker if message else new_worker())
                        finished.append((run, message or failed(context, run, LostProcessError())))
                if not keep_going and any(outcome.state == "failed" for _, outcome in finished):
                    waiting.clear()
        except BaseException:
            # The runs resume from their checkpoints: to wait for them would keep the user waiting for nothing.
            for worker, _ in busy.values():
                worker.process.terminate()
            raise
        finally:
            for worker in (*idle, *(worker for worker, _ in busy.values())):
                worker.end()
