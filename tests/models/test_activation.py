"""The functions of pre-activations against SciPy's, for numbers of any size and without a warning."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit, logsumexp, softmax

from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.models.couplings import log_sum_with_off, softplus

# Drives up to the size that 784 pixels at 1e4 σ can give, and beyond.
elements = st.floats(-(2.0**100), 2.0**100, width=32) | st.floats(-100, 100, width=32)
drives = arrays(np.float32, (3, 2, 4), elements=elements)


def with_off(x: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros_like(x[:1]), x])


@pytest.mark.parametrize(
    ("function", "expected", "in_place"),
    [
        ("sigmoid", expit, True),
        (softplus, lambda x: np.logaddexp(0, x), False),
        ("softmax", lambda x: softmax(with_off(x), axis=0)[1:], True),
        (log_sum_with_off, lambda x: logsumexp(with_off(x), axis=0), False),
    ],
)
@given(x=drives)
def test_functions_are_those_of_scipy(
    function: Callable[..., Any] | str, expected: Callable[..., np.ndarray], in_place: bool, x: np.ndarray
) -> None:
    backend = select_backend()
    values = backend.asarray(x.copy())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = getattr(backend, function)(values) if isinstance(function, str) else function(backend.xp, values)
    assert (result is values) == in_place
    assert result.dtype == np.float32
    np.testing.assert_allclose(backend.to_host(result), expected(x.astype(np.float64)), rtol=1e-4, atol=1e-6)
    if not in_place:
        assert np.array_equal(backend.to_host(values), x)


@pytest.mark.parametrize("shape", [(5, 40, 600), (200_000,), (0, 4)])
def test_sigmoid_of_more_numbers_than_a_cache_holds(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(0, 5, shape).astype(np.float32)
    np.testing.assert_allclose(Backend().sigmoid(x.copy()), expit(x.astype(np.float64)), rtol=2e-6)
