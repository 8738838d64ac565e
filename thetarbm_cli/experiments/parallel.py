"""Runs side by side in processes of their own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


def each(
    function: Callable[[Job], Result], jobs: Sequence[Job], processes: int
) -> Iterator[tuple[Job, Result]]:
    """Yield every job with its result as it is done; the first failure ends the iteration with its error.

    Processes are started afresh, not forked: a BLAS that has threads does not survive a fork. They take the number of
    BLAS threads from the environment.
    """
    if processes == 1 or len(jobs) == 1:
        for job in jobs:
            yield job, function(job)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=context) as pool:
        futures = {pool.submit(function, job): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
