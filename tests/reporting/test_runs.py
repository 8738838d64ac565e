from __future__ import annotations

import statistics

from hypothesis import given
from hypothesis import strategies as st

from thetarbm_cli.reporting.runs import BLOCKS, sparkline


def test_levels_follow_the_values() -> None:
    assert sparkline(range(8)) == BLOCKS
    for value in (0.0, -2.5, 1e308):
        assert sparkline([value] * 3) == BLOCKS[0] * 3


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(1, 30))
def test_order_is_kept_and_many_values_are_averaged_in_groups(values: list[float], width: int) -> None:
    if len(values) > width:
        edges = [len(values) * number // width for number in range(width + 1)]
        means = [statistics.fmean(values[edges[n] : edges[n + 1]]) for n in range(width)]
        assert sparkline(values, width) == sparkline(means, width)
        values = means
    levels = [BLOCKS.index(character) for character in sparkline(values, width)]
    assert [level for _, level in sorted(zip(values, levels, strict=True))] == sorted(levels)
    assert len(set(levels)) == 1 or (min(levels), max(levels)) == (0, 7)
