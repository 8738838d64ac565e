"""Differences judged against the noise of the seeds: Welch's t-test and standard errors."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

# A difference counts if it would be seen by chance in fewer than one of twenty such comparisons.
LEVEL = 0.05


def standard_error(values: Sequence[float]) -> float:
    """Standard error of the mean of at least two values."""
    return statistics.stdev(values) / math.sqrt(len(values))


def chance_of_lower(lower: Sequence[float], higher: Sequence[float]) -> float:
    """One-sided p-value of Welch's t-test that the mean of `lower` is below that of `higher`.

    Without any spread in both, the means themselves decide.
    """
    from scipy.special import stdtr

    difference = statistics.fmean(lower) - statistics.fmean(higher)
    parts = [statistics.variance(values) / len(values) for values in (lower, higher)]
    spread = sum(parts)
    if spread == 0:
        return 0.0 if difference < 0 else 1.0
    degrees = spread**2 / sum(part**2 / (len(values) - 1) for part, values in zip(parts, (lower, higher), strict=True))
    return float(stdtr(degrees, difference / math.sqrt(spread)))


def is_lower(lower: Sequence[float], higher: Sequence[float]) -> bool:
    """Whether the mean of `lower` is below that of `higher` beyond the noise of the seeds."""
    return chance_of_lower(lower, higher) < LEVEL
