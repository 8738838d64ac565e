"""Random numbers and what lies between two products: NumPy's lines against plain formulas, kernels against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from thetarbm_cli.backend import Backend, CupyBackend

SEED = np.random.SeedSequence(7, spawn_key=(3, 1))
ON_BOTH = pytest.mark.parametrize("where", ["host", pytest.param("device", marks=pytest.mark.cupy)])


def backend_of(where: str) -> Backend:
    return Backend() if where == "host" else CupyBackend()


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


# -- random numbers ---------------------------------------------------------------------------------------------


@ON_BOTH
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5), start=st.integers(0, 5))
def test_uniform_numbers_are_numpys_philox_however_many_are_drawn_at_a_time(
    where: str, sizes: list[int], start: int
) -> None:
    backend = backend_of(where)
    key = SEED.generate_state(2, np.uint64)
    bits = np.random.Philox(key=key).advance(start)
    # Low half first, the upper 24 bits of each half.
    words = bits.random_raw(sum(sizes) // 2 + 1).view(np.uint32)[: sum(sizes)]
    stream, drawn = backend.random(SEED, start), []
    for size in sizes:
        out = backend.xp.empty(size, dtype=np.float32)
        stream.uniform(out)
        drawn.append(backend.to_host(out).copy())
    assert np.array_equal(np.concatenate(drawn), (words >> 8).astype(np.float32) / np.float32(2**24))


@ON_BOTH
@pytest.mark.parametrize("shape", [(1,), (7, 3), (100, 784)])
def test_normal_numbers_are_box_and_mullers(where: str, shape: tuple[int, ...]) -> None:
    backend, size = backend_of(where), int(np.prod(shape))
    out = backend.xp.empty(shape, dtype=np.float32)
    stream = backend.random(SEED)
    stream.normal(out)
    pairs = (size + 1) // 2
    radii, angles = np.random.Generator(np.random.Philox(SEED)).random((2, pairs), dtype=np.float32).astype(np.float64)
    lengths = np.sqrt(-2 * np.log(1 - radii))
    expected = np.concatenate([lengths * np.cos(2 * np.pi * angles), lengths * np.sin(2 * np.pi * angles)])[:size]
    found = backend.to_host(out)
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-4, atol=2e-6)
    if size > 1000:
        assert kstest(found.ravel(), "norm").pvalue > 0.01
    # The next numbers are those after the pairs.
    after = backend.xp.empty(3, dtype=np.float32)
    stream.uniform(after)
    skipped = np.random.Generator(np.random.Philox(SEED)).random(2 * pairs + 3, dtype=np.float32)[-3:]
    assert np.array_equal(backend.to_host(after), skipped)


@pytest.mark.cupy
def test_an_odd_number_of_draws_in_between_changes_nothing() -> None:
    """Fused draws of hidden states, normal and uniform numbers in turn, on both."""
    host, device = Backend(), CupyBackend()
    found = []
    for backend in (host, device):
        stream, parts = backend.random(SEED), []
        for count, units in ((3, 5), (1, 7), (2, 9)):
            x = backend.asarray(numbers(count, units, seed=units))
            states, noise = backend.xp.empty_like(x), backend.xp.empty((count, units), dtype=np.float32)
            backend.sigmoid(x, draw=(stream, states))
            stream.normal(noise)
            parts += [backend.to_host(states).ravel().copy(), backend.to_host(noise).ravel().copy()]
        found.append(np.concatenate(parts))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4, atol=1e-6)


# -- between two products ---------------------------------------------------------------------------------------


@ON_BOTH
@pytest.mark.parametrize("rows", [1, 6, 300])
def test_sigmoid_adds_the_bias_and_draws_states(where: str, rows: int) -> None:
    backend, units = backend_of(where), 11
    x, bias = numbers(rows, units), numbers(units, seed=1)
    expected = 1 / (1 + np.exp(-(x.astype(np.float64) + bias)))
    uniforms = np.random.Generator(np.random.Philox(SEED)).random((rows, units), dtype=np.float32)
    for draws in (False, True):
        values, states = backend.asarray(x.copy()), backend.xp.full((rows, units), np.nan, dtype=np.float32)
        draw = (backend.random(SEED), states) if draws else None
        assert backend.sigmoid(values, backend.asarray(bias), draw) is values
        np.testing.assert_allclose(backend.to_host(values), expected, rtol=1e-5)
    assert np.array_equal(backend.to_host(states), uniforms < backend.to_host(values))


@ON_BOTH
def test_softmax_of_a_part_of_a_larger_array_draws_at_most_one_state(where: str) -> None:
    backend, (states, count, units) = backend_of(where), (5, 40, 7)
    x, bias = numbers(states, 2 * count, units), numbers(states, units, seed=1)
    z = np.exp(x[:, :count].astype(np.float64) + bias[:, None, :])
    expected = z / (1 + z.sum(axis=0))
    whole = backend.asarray(x.copy())
    for draws in (False, True):
        whole = backend.asarray(x.copy())
        drawn = backend.xp.empty((states, count, units), dtype=np.float32)
        backend.softmax(whole[:, :count], backend.asarray(bias), (backend.random(SEED), drawn) if draws else None)
        np.testing.assert_allclose(backend.to_host(whole)[:, :count], expected, rtol=1e-5, atol=1e-7)
    # The rest of the array is as it was.
    assert np.array_equal(backend.to_host(whole)[:, count:], x[:, count:])
    uniforms = np.random.Generator(np.random.Philox(SEED)).random((count, units), dtype=np.float32)
    ends = np.cumsum(backend.to_host(whole)[:, :count], axis=0, dtype=np.float32)
    chosen = (uniforms >= ends).sum(axis=0)
    assert np.array_equal(backend.to_host(drawn), np.arange(states)[:, None, None] == chosen)


@ON_BOTH
def test_numbers_that_are_none_stay_none(where: str) -> None:
    backend = backend_of(where)
    for function, shape in ((backend.sigmoid, (2, 3)), (backend.softmax, (4, 2, 3))):
        x = np.zeros(shape, dtype=np.float32)
        x[..., 1, 1] = np.nan
        with np.errstate(invalid="ignore"):
            found = backend.to_host(function(backend.asarray(x)))
        assert np.isnan(found[..., 1, 1]).all()
        assert np.isfinite(found[..., 0, :]).all()


@ON_BOTH
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("factor", [None, 0.5])
def test_rows_of_a_table_are_added(where: str, groups: int, factor: float | None) -> None:
    backend = backend_of(where)
    x, table, index = numbers(9, 6), numbers(groups, 6, seed=1), np.arange(9) % groups
    expected = (1 if factor is None else factor) * x + table[index]
    given = None if factor is None else backend.asarray(np.array([factor], dtype=np.float32))
    found = backend.add_rows(backend.asarray(x.copy()), backend.asarray(table), backend.asarray(index), given)
    np.testing.assert_allclose(backend.to_host(found), expected, rtol=1e-6, atol=1e-7)


@ON_BOTH
def test_difference_adds_up_its_squares(where: str) -> None:
    backend = backend_of(where)
    data, model = numbers(2, 8, 6), numbers(2, 8, 6, seed=1)
    squares, out = backend.squares(8, 6), backend.xp.empty((8, 6), dtype=np.float32)
    backend.difference(backend.asarray(data[0]), backend.asarray(model[0]), out, squares)
    # A last batch that is shorter.
    backend.difference(backend.asarray(data[1, :3]), backend.asarray(model[1, :3]), out[:3], squares)
    expected = ((data[0] - model[0]) ** 2).sum() + ((data[1, :3] - model[1, :3]) ** 2).sum()
    assert float(backend.to_host(squares).sum()) == pytest.approx(float(expected), rel=1e-5)
    np.testing.assert_array_equal(backend.to_host(out)[:3], data[1, :3] - model[1, :3])


@ON_BOTH
def test_the_pull_passes_through_the_slope(where: str) -> None:
    backend = backend_of(where)
    hidden, pull = np.abs(np.tanh(numbers(3, 4, 5))), numbers(5, seed=1)
    values = backend.asarray(hidden.copy())
    added = backend.pull(values, backend.asarray(pull))
    np.testing.assert_allclose(backend.to_host(added), pull * hidden * (1 - hidden), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(backend.to_host(values), hidden + pull * hidden * (1 - hidden), rtol=1e-5)


@ON_BOTH
@pytest.mark.parametrize("decay", [0.0, 0.01])
def test_updates(where: str, decay: float) -> None:
    backend = backend_of(where)
    start, step, slope = (numbers(4, 6, seed=seed) for seed in range(3))
    parameter, increment = backend.asarray(start.copy()), backend.asarray(step.copy())
    backend.update(parameter, increment, decay=decay)
    np.testing.assert_allclose(backend.to_host(increment), step - decay * start, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(backend.to_host(parameter), start + step - decay * start, rtol=1e-5, atol=1e-6)
    parameter, increment = backend.asarray(start.copy()), backend.asarray(step.copy())
    backend.momentum(parameter, increment, backend.asarray(slope), 0.3, 0.9)
    np.testing.assert_allclose(backend.to_host(increment), 0.9 * step + 0.3 * slope, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(backend.to_host(parameter), start + 0.9 * step + 0.3 * slope, rtol=1e-5, atol=1e-6)


# -- sparse matrices --------------------------------------------------------------------------------------------


@ON_BOTH
@pytest.mark.parametrize("count", [1, 7, 260])
def test_a_stack_of_sparse_matrices_is_that_of_dense_ones(where: str, count: int) -> None:
    backend, (stack, pixels) = backend_of(where), (4, 9)
    dense = [scipy.sparse.random(pixels, pixels, 0.3, random_state=s, dtype=np.float32).toarray() for s in range(stack)]
    dense[2] = np.eye(pixels, dtype=np.float32)
    given: list[Any] = [scipy.sparse.csr_matrix(each) for each in dense]
    images, index = numbers(count, pixels), np.random.default_rng(1).integers(0, stack, count)
    on, at = backend.asarray(images), backend.asarray(index)

    def same(found: Any, expected: Any) -> None:
        np.testing.assert_allclose(backend.to_host(found), expected, rtol=1e-5, atol=1e-5)

    rotated = np.stack([images @ each.T for each in dense])
    stacked = backend.stack(given)
    same(stacked.all(on), rotated)
    same(stacked.turned(on), rotated)
    same(stacked.one(on, 3), rotated[3])
    for copy, expected in zip(stacked.copies(on), rotated, strict=True):
        same(copy, expected)
    turned = [rotated[(k - index) % stack, np.arange(count)] for k in range(stack)]
    for found, expected in zip(stacked.relative(on, at), turned, strict=True):
        same(found, expected)
    room = stacked.room(count)
    room[...] = backend.asarray(rotated)
    same(stacked.total(room), sum(part @ each.T for part, each in zip(rotated, dense, strict=True)))
    # None is the identity.
    given[2] = None
    out = backend.xp.empty((count, pixels), dtype=np.float32)
    assert backend.stack(given).each(on, at, out) is out
    same(out, rotated[index, np.arange(count)])
