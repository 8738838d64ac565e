"""The fast counting of votes against the same arithmetic written plainly: equal to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from thetarbm_cli.imaging.gradient import GradientFilter, gradient_matrices
from thetarbm_cli.imaging.votes import _ARCTANGENT, VoteCounter, shares

WEIGHTINGS = ("squared", "magnitude", "count")
FLAT = 1e-12


def plain_direction(right, down, squared):
    """The share of the circle, with masks and a new array for every step."""
    across, up = np.abs(right), np.abs(down)
    steep = squared > FLAT
    ratio = np.zeros_like(across)
    ratio[steep] = np.minimum(across, up)[steep] / np.maximum(across, up)[steep]
    turn = np.full_like(ratio, _ARCTANGENT[0])
    for coefficient in _ARCTANGENT[1:]:
        turn = turn * (ratio * ratio) + coefficient
    turn = turn * ratio * np.float32(0.5 / math.pi)
    turn = np.where(up > across, np.float32(0.25) - turn, turn)
    turn = np.where(right < 0, np.float32(0.5) - turn, turn)
    return np.where(down > 0, np.float32(1) - turn, turn)


def plain_histogram(right, down, bins, weighting, shared):
    """Votes one pixel after the other, in float32."""
    squared = right * right + down * down
    weight = {"squared": squared, "magnitude": np.sqrt(squared), "count": np.ones_like(squared)}[weighting]
    weight = np.where(squared <= FLAT, np.float32(0), weight)
    position = plain_direction(right, down, squared) * np.float32(bins)
    histogram = np.zeros((len(right), bins), dtype=np.float32)
    for image in range(len(right)):
        whole, upper = np.zeros(bins + 2, dtype=np.float32), np.zeros(bins + 2, dtype=np.float32)
        for place, vote in zip(position[image], weight[image], strict=True):
            lower = int(place + np.float32(0 if shared else 0.5))
            whole[lower] += vote
            if shared:
                upper[lower] += (place - np.float32(lower)) * vote
        whole = np.maximum(whole - upper, 0)
        whole[1:] += upper[:-1]
        for beyond in (bins, bins + 1):
            whole[beyond % bins] += whole[beyond]
        histogram[image] = whole[:bins]
    return histogram


# Also no gradient at all, either zero, noise below the bound, exact diagonals and axes.
special = [float(np.float32(value)) for value in (0.0, -0.0, 1e-7, -1e-7, 1e-20, 0.25, -0.25)]
components = st.sampled_from(special) | st.floats(-1, 1, width=32)
gradients = hnp.arrays(np.float32, (2, 3, 9), elements=components)


@given(
    gradients=gradients,
    bins=st.integers(1, 40),
    weighting=st.sampled_from(WEIGHTINGS),
    shared=st.booleans(),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_votes_are_those_of_a_plain_loop_to_the_last_bit(gradients, bins, weighting, shared):
    right, down = gradients
    counted = shares(VoteCounter(3, 9, bins, weighting, shared).count(right, down))
    np.testing.assert_array_equal(counted, plain_histogram(right, down, bins, weighting, shared))


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_votes_of_digits_are_those_of_a_plain_loop_to_the_last_bit(digits, weighting, shared):
    right, down = GradientFilter(12, 28, "gaussian", 2.0)(digits[:12])
    counted = shares(VoteCounter(12, 784, 9, weighting, shared).count(right, down))
    np.testing.assert_array_equal(counted, plain_histogram(right, down, 9, weighting, shared))


def test_a_counter_remembers_nothing_of_the_images_before():
    random = np.random.default_rng(0)
    blocks = [random.standard_normal((2, count, 49)).astype(np.float32) for count in (20, 7, 20, 1)]
    counter = VoteCounter(20, 49, 9, "squared", shared=True)
    for block in blocks:
        alone = VoteCounter(len(block[0]), 49, 9, "squared", shared=True).count(*block)
        np.testing.assert_array_equal(counter.count(*block), alone)


@pytest.mark.parametrize("operator", ["gaussian", "central", "sobel"])
def test_gradients_in_kept_arrays_are_the_products(operator):
    random = np.random.default_rng(1)
    smooth, derive = gradient_matrices(11, operator, 1.5)
    filtered = GradientFilter(30, 11, operator, 1.5)
    for count in (30, 8, 30, 1):
        images = random.random((count, 121), dtype=np.float32)
        right, down = filtered(images)
        stack = images.reshape(count, 11, 11).astype(np.float64)
        np.testing.assert_allclose(right.reshape(stack.shape), smooth @ stack @ derive.T, atol=1e-6)
        np.testing.assert_allclose(down.reshape(stack.shape), derive @ stack @ smooth.T, atol=1e-6)
