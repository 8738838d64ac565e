"""A course of numbers as one short line of characters."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = "▁▂▃▄▅▆▇█"
# For terminals that have no more than ASCII: from light to dark.
ASCII = ".:-=+*#@"


def sparkline(values: Sequence[float], width: int = 30, levels: str = BLOCKS) -> str:
    """One character for each value, the lowest value the first of the levels, the highest the last.

    More values than `width` are averaged in groups of neighbours; values that are all alike are the lowest level.
    """
    if len(values) > width:
        values = [statistics.fmean(values[start:end]) for start, end in _groups(len(values), width)]
    if not values:
        return ""
    low, high = min(values), max(values)
    # Halved before they are subtracted: the difference of two huge numbers would be infinite.
    spread = high / 2 - low / 2
    if spread == 0:
        return levels[0] * len(values)
    places = ((value / 2 - low / 2) / spread * len(levels) for value in values)
    return "".join(levels[min(int(place), len(levels) - 1)] for place in places)


def _groups(count: int, width: int) -> list[tuple[int, int]]:
    """Bounds of `width` groups of neighbours that differ in size by no more than one."""
    edges = [count * number // width for number in range(width + 1)]
    return list(pairwise(edges))
