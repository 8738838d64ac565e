from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from thetarbm_cli.experiments.runs.orientations import perturb

COUNT, SEEDS = 40_000, 60


def errors_of(n: int, p: float, rotations: int = 101, seed: int = 0) -> np.ndarray:
    """Signed errors, with more rotations than n reaches so that none is folded."""
    orientations = np.random.default_rng(1).integers(0, rotations, COUNT)
    perturbed = perturb(orientations, n, p, rotations, np.random.default_rng(seed))
    return (perturbed - orientations + rotations // 2) % rotations - rotations // 2


@pytest.mark.parametrize(("n", "p"), [(1, 0.1), (2, 0.4), (4, 0.1), (4, 0.4), (30, 0.5)])
def test_size_of_the_error_is_binomial(n: int, p: float) -> None:
    expected = COUNT * scipy.stats.binom.pmf(np.arange(n + 1), n, p)
    # The chi-square approximation needs some images in every bin: rare sizes are put together.
    rare = expected < 20
    wanted = np.append(expected[~rare], expected[rare].sum())
    kept = wanted > 0
    p_values = []
    for seed in range(SEEDS):
        sizes = np.abs(errors_of(n, p, seed=seed))
        assert sizes.max() <= n
        counts = np.bincount(sizes, minlength=n + 1)
        observed = np.append(counts[~rare], counts[rare].sum())
        p_values.append(scipy.stats.chisquare(observed[kept], wanted[kept]).pvalue)
    # One seed may be unlucky; over many, p-values are uniform.
    assert scipy.stats.kstest(p_values, "uniform").pvalue > 0.01


@pytest.mark.parametrize(("n", "p"), [(1, 0.4), (4, 0.4)])
def test_sign_is_fair_and_independent_of_the_size(n: int, p: float) -> None:
    errors = errors_of(n, p)
    for size in range(1, n + 1):
        plus, minus = np.count_nonzero(errors == size), np.count_nonzero(errors == -size)
        assert scipy.stats.binomtest(plus, plus + minus).pvalue > 0.01


@given(
    n=st.integers(1, 30),
    p=st.floats(0.001, 0.999),
    rotations=st.integers(1, 12),
    seed=st.integers(0, 1000),
    count=st.integers(1, 50),
)
def test_result_is_an_orientation_no_further_than_n(n: int, p: float, rotations: int, seed: int, count: int) -> None:
    orientations = np.arange(count) % rotations
    before = orientations.copy()
    perturbed = perturb(orientations, n, p, rotations, np.random.default_rng(seed))
    np.testing.assert_array_equal(orientations, before)
    assert perturbed.dtype == np.int64
    assert perturbed.min() >= 0
    assert perturbed.max() < rotations
    ways = np.array([[(s + e) % rotations for e in range(-n, n + 1)] for s in orientations])
    assert (perturbed[:, None] == ways).any(axis=1).all()


def test_index_may_be_clipped_instead() -> None:
    for start, expected in ((0, {0, 3}), (1, {0, 4}), (8, {5, 8}), (4, {1, 7})):
        perturbed = perturb(np.full(100, start), 3, 1.0, 9, np.random.default_rng(0), "clip")
        assert set(perturbed.tolist()) == expected
