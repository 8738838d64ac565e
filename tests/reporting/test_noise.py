from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from thetarbm_cli.reporting.noise import chance_of_lower, is_lower, standard_error

numbers = st.lists(st.integers(-1000, 1000).map(lambda number: number / 8), min_size=2, max_size=6)


@given(numbers, numbers)
def test_welch_is_scipys(lower: list[float], higher: list[float]) -> None:
    if len(set(lower)) == 1 and len(set(higher)) == 1:
        assert chance_of_lower(lower, higher) == float(lower[0] >= higher[0])
        return
    expected = stats.ttest_ind(lower, higher, equal_var=False, alternative="less").pvalue
    assert chance_of_lower(lower, higher) == pytest.approx(expected, abs=1e-9)


@given(numbers)
def test_standard_error_is_scipys(values: list[float]) -> None:
    assert standard_error(values) == pytest.approx(stats.sem(values))


def test_a_difference_within_the_noise_does_not_count() -> None:
    assert is_lower([9.9, 10.0, 10.1], [11.9, 12.0, 12.1])
    assert not is_lower([11.9, 12.0, 12.1], [9.9, 10.0, 10.1])
    assert not is_lower([9.0, 10.0, 11.0], [9.2, 10.2, 11.2])
