"""Mean and variance of a stream of rows, column by column, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from thetarbm_cli.backend import Array
from thetarbm_cli.measures import checks


class Moments:
    """Count, mean and sum of squared deviations of each column, merged chunk by chunk (Chan et al. 1979).

    Each chunk is centred at its own mean before squaring, and chunks are merged by the distance of their
    means: no large numbers are subtracted, whatever the offset of a column, and the order and size of the
    chunks matter to rounding only. Arrays stay where they are, on the host or on a device.
    """

    def __init__(self) -> None:
        self.count = 0
        # Numbers until the first chunk makes them (H,) arrays of its device.
        self.mean: Any = 0.0
        self._squares: Any = 0.0

    def add(self, rows: Array) -> None:
        """Take in float64 rows (n, H), n ≥ 1, which are overwritten: a copy would cost as much as the sums.

        Raises
        ------
        InputError
            If a value is NaN or infinite.
        """
        count = len(rows)
        with np.errstate(invalid="ignore"):  # ∞ − ∞ is refused in the next line
            mean = rows.mean(axis=0)
        checks.finite(mean, "given")
        rows -= mean
        rows *= rows
        squares = rows.sum(axis=0)
        total = self.count + count
        distance = mean - self.mean
        self.mean = self.mean + distance * (count / total)
        self._squares = self._squares + squares + distance * distance * (self.count * (count / total))
        self.count = total

    @property
    def variance(self) -> Array:
        """Population variance of each column, (H,), as ``numpy.var`` gives it."""
        return self._squares / self.count
