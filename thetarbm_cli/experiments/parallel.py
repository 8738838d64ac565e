"""Runs side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def each(function: Callable[[Job], Result], jobs: Sequence[Job], processes: int) -> Iterator[tuple[Job, Result]]:
    """Yield every job with its result as it is done; the first failure ends the iteration with its error.

    Processes are started afresh, not forked: a BLAS that has threads does not survive a fork. They take the number of
    BLAS threads from the environment.
    """
    for job, result in outcomes(function, jobs, processes):
        if isinstance(result, Exception):
            raise result
        yield job, result


def outcomes(
    function: Callable[[Job], Result],
    jobs: Sequence[Job],
    processes: int,
    goes_on: Callable[[Result | Exception], bool] = lambda result: not isinstance(result, Exception),
) -> Iterator[tuple[Job, Result | Exception]]:
    """Yield every job with its result, or the exception that it ended with, as it is done.

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
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context, initializer=_settle) as pool:
        futures = {pool.submit(function, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                if future.cancelled():
                    continue
                result = _result(future)
                if not goes_on(result):
                    for waiting in futures:
                        waiting.cancel()
                yield futures[future], result
        except (KeyboardInterrupt, GeneratorExit):
            # The jobs resume from their checkpoints: to wait for them would keep the user waiting for nothing.
            for process in set(multiprocessing.active_children()) - before:
                process.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _attempt(function: Callable[[Job], Result], job: Job) -> Result | Exception:
    try:
        return function(job)
    except Exception as error:  # noqa: BLE001  it is the caller's to judge
        return error


def _result(future: Future[Result]) -> Result | Exception:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001  it is the caller's to judge
        return error


def _settle() -> None:
    """Let the parent decide when a process ends: Ctrl-C is told by it, and who lost it leaves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:

        def leave_with_parent() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=leave_with_parent, daemon=True).start()
