import warnings
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit, logsumexp, softmax

from thetarbm_cli.backend import select_backend
from thetarbm_cli.models.couplings import log_sum_with_off, softmax_with_off, softplus
from thetarbm_cli.models.visible import sigmoid

# Drives up to the size that 784 pixels at 1e4 σ can give, and beyond.
elements = st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-100, 100, width=32)
drives = arrays(np.float32, (3, 2, 4), elements=elements)


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def with_off(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros_like(x[:1]), x]).astype(np.float64)


@settings(derandomize=True)
@given(drives)
def test_sigmoid(x: np.ndarray) -> None:
    backend = select_backend()
    expected = expit(x.astype(np.float64))
    values = backend.asarray(x)
    result = sigmoid(backend.xp, values)
    assert result is values
    np.testing.assert_allclose(backend.to_host(result), expected, rtol=2e-5, atol=1e-30)


@pytest.mark.no_device("only the host takes its numbers in pieces")
@pytest.mark.parametrize("shape", [(700, 300), (3, 90_000), (5, 40, 600), (200_000,), (0, 4)])
def test_sigmoid_of_more_numbers_than_a_cache_holds(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(0, 5, shape).astype(np.float32)
    # One number at a time, for a few: nothing is left out between the pieces, and nothing is done twice.
    some = [sigmoid(np, np.array([value])) for value in x.ravel()[::997]]
    result = sigmoid(np, x.copy())
    np.testing.assert_array_equal(result.ravel()[::997], np.array(some, dtype=np.float32).ravel())
    np.testing.assert_allclose(result, expit(x.astype(np.float64)), rtol=2e-6)


@settings(derandomize=True)
@given(drives)
def test_softplus(x: np.ndarray) -> None:
    backend = select_backend()
    values = backend.asarray(x.copy())
    result = backend.to_host(softplus(backend.xp, values))
    np.testing.assert_allclose(result, np.logaddexp(0, x.astype(np.float64)), rtol=1e-6, atol=1e-30)
    assert np.array_equal(backend.to_host(values), x)


@settings(derandomize=True)
@given(drives)
def test_softmax_with_off(x: np.ndarray) -> None:
    backend = select_backend()
    expected = softmax(with_off(x), axis=0)[1:]
    values = backend.asarray(x)
    result = softmax_with_off(backend.xp, values)
    assert result is values
    on_host = backend.to_host(result)
    np.testing.assert_allclose(on_host, expected, rtol=1e-4, atol=1e-30)
    assert (on_host.sum(axis=0) <= 1 + 1e-6).all()


@settings(derandomize=True)
@given(drives)
def test_log_sum_with_off(x: np.ndarray) -> None:
    backend = select_backend()
    values = backend.asarray(x.copy())
    result = backend.to_host(log_sum_with_off(backend.xp, values))
    np.testing.assert_allclose(result, logsumexp(with_off(x), axis=0), rtol=1e-5, atol=1e-6)
    assert np.array_equal(backend.to_host(values), x)


def test_one_turn_and_off_is_the_sigmoid() -> None:
    backend = select_backend()
    x = np.linspace(-90, 90, 181, dtype=np.float32).reshape(1, 1, -1)
    pooled, single = (
        backend.to_host(function(backend.xp, backend.asarray(x.copy()))) for function in (softmax_with_off, sigmoid)
    )
    np.testing.assert_allclose(pooled, single, rtol=1e-5, atol=1e-30)


def test_results_keep_single_precision() -> None:
    backend = select_backend()
    x = np.zeros((2, 3, 4), dtype=np.float32)
    for function in (sigmoid, softplus, softmax_with_off, log_sum_with_off):
        assert backend.to_host(function(backend.xp, backend.asarray(x.copy()))).dtype == np.float32
