from __future__ import annotations

import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetarbm_cli.reporting.show import ASCII, BLOCKS, sparkline

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def test_levels_follow_the_values() -> None:
    assert sparkline(range(8)) == BLOCKS
    assert sparkline([3, 1, 2], levels=ASCII) == "@.+"
    assert sparkline([-1.0, 0.0, 1.0], levels="abc") == "abc"
    assert sparkline([]) == ""


@pytest.mark.parametrize("value", [0.0, -2.5, 1e308])
def test_values_that_are_alike_are_the_lowest_level(value: float) -> None:
    assert sparkline([value] * 3) == BLOCKS[0] * 3


@given(st.lists(NUMBERS, min_size=1, max_size=40))
def test_order_is_kept_and_the_ends_are_reached(values: list[float]) -> None:
    line = sparkline(values, width=40)
    levels = [BLOCKS.index(character) for character in line]
    assert len(levels) == len(values)
    for value, level in zip(values, levels, strict=True):
        for other, other_level in zip(values, levels, strict=True):
            assert value >= other or level <= other_level
    if len(set(line)) > 1:
        assert (min(levels), max(levels)) == (0, 7)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=200), st.integers(1, 30))
def test_many_values_are_averaged_in_groups(values: list[float], width: int) -> None:
    line = sparkline(values, width)
    assert len(line) == min(len(values), width)
    if len(values) > width:
        edges = [len(values) * number // width for number in range(width + 1)]
        means = [statistics.fmean(values[edges[n] : edges[n + 1]]) for n in range(width)]
        assert line == sparkline(means, width)
