"""Time jobs side by side: they alternate, so that a noisy machine disturbs all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Job = Callable[[], object]


@dataclass(frozen=True)
class Comparison:
    """Times of two jobs that took turns.

    Attributes
    ----------
    seconds, base_seconds : float
        Median time of each.
    ratio : float
        Median over the rounds of the first job's time divided by the second's in the same round.
    """

    seconds: float
    base_seconds: float
    ratio: float


def seconds_of(job: Job) -> float:
    """Time one call."""
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def compare(job: Job, base: Job, rounds: int, *, warm: bool = False) -> Comparison:
    """Time two jobs in turn, after one call of each to warm up unless they are warm already."""
    if not warm:
        job()
        base()
    pairs = [(seconds_of(job), seconds_of(base)) for _ in range(rounds)]
    return Comparison(
        statistics.median(first for first, _ in pairs),
        statistics.median(second for _, second in pairs),
        statistics.median(first / second for first, second in pairs),
    )


def shares(whole: Job, parts: Mapping[str, Job], rounds: int) -> dict[str, float]:
    """Time a job and its parts in turn, after one call of each: each part's median share of the whole, by name."""
    for job in (whole, *parts.values()):
        job()
    times = [(seconds_of(whole), {name: seconds_of(job) for name, job in parts.items()}) for _ in range(rounds)]
    return {name: statistics.median(alone[name] / total for total, alone in times) for name in parts}
