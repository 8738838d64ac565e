from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thetarbm_cli.imaging.permutation import cyclic_permutation
from thetarbm_cli.imaging.rotation import rotation_operators


def power(step, exponent):
    result = np.arange(step.size)
    for _ in range(exponent):
        result = step[result]
    return result


def in_disc(size):
    row, column = np.divmod(np.arange(size * size), size)
    return np.hypot(row - (size - 1) / 2, column - (size - 1) / 2) <= size / 2


@pytest.mark.parametrize(("size", "rotations"), [(5, 8), (28, 9), (29, 8)])
def test_the_operators_are_a_cyclic_group(size, rotations):
    operators = rotation_operators(size, rotations, "permutation")
    identity = operators[0]
    np.testing.assert_array_equal(identity.toarray(), np.eye(size * size))
    for a in range(rotations):
        assert abs(operators[a] @ operators[a].T - identity).nnz == 0
        # T_1 generates the group.
        assert abs(operators[a] @ operators[1] - operators[(a + 1) % rotations]).nnz == 0


@given(size=st.integers(1, 24), rotations=st.integers(1, 50))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_orbits_have_length_s_and_fill_the_disc(size, rotations):
    step = cyclic_permutation(size, rotations)
    everything = np.arange(size * size)
    np.testing.assert_array_equal(np.sort(step), everything)
    np.testing.assert_array_equal(power(step, rotations), everything)
    moved = step != everything
    for exponent in range(1, rotations):
        np.testing.assert_array_equal(power(step, exponent) != everything, moved)
    disc = in_disc(size)
    assert not moved[~disc].any()
    if rotations == 1:
        assert not moved.any()
    else:
        turnable = disc.sum() - size % 2
        assert moved.sum() == turnable // rotations * rotations


@pytest.mark.parametrize("size", [1, 2, 3, 6, 13, 28, 29, 64])
@pytest.mark.parametrize(("rotations", "exponent", "quarters"), [(4, 1, 1), (8, 2, 1), (36, 9, 1), (6, 3, 2)])
def test_turns_that_map_the_grid_onto_itself_are_exact(size, rotations, exponent, quarters):
    step = cyclic_permutation(size, rotations)
    pixels = np.arange(size * size)
    turned = np.empty_like(pixels)
    turned[power(step, exponent)] = pixels
    moved = step != pixels
    expected = np.rot90(pixels.reshape(size, size), quarters).ravel()
    np.testing.assert_array_equal(turned[moved], expected[moved])


def displacements(size, rotations):
    """Distances between P^j p and p rotated by j·360°/S, for the pixels p that P moves and all powers j."""
    step, centre = cyclic_permutation(size, rotations), (size - 1) / 2
    distances = []
    for pixel in np.flatnonzero(step != np.arange(size * size)):
        row, column = divmod(int(pixel), size)
        radius, angle = math.hypot(centre - row, column - centre), math.atan2(centre - row, column - centre)
        landed = pixel
        for j in range(1, rotations):
            landed = step[landed]
            true_angle = angle + j * 2 * math.pi / rotations
            true_row = centre - radius * math.sin(true_angle)
            true_column = centre + radius * math.cos(true_angle)
            distances.append(math.dist(divmod(int(landed), size), (true_row, true_column)))
    return distances


@pytest.mark.parametrize("size", [14, 28, 29, 50])
@pytest.mark.parametrize(("rotations", "bound"), [(8, 0.35), (9, 0.56), (36, 0.62)])
def test_pixels_land_near_their_true_place(size, rotations, bound):
    distances = displacements(size, rotations)
    assert 0 < np.mean(distances) <= bound
    assert max(distances) < 3


def test_what_is_left_over_lies_on_the_rim():
    step = cyclic_permutation(28, 9)
    fixed = np.flatnonzero((step == np.arange(784)) & in_disc(28))
    assert fixed.size == 616 % 9
    row, column = np.divmod(fixed, 28)
    assert np.hypot(row - 13.5, column - 13.5).min() > 13
