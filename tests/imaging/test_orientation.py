from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage
from skimage.transform import rotate

from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.orientation import (
    _ARCTANGENT,
    BINNINGS,
    BORDERS,
    OPERATORS,
    WEIGHTINGS,
    DirectionCounter,
    OrientationEstimator,
    as_histograms,
)

FLAT = 1e-12
ALL = list(itertools.product(OPERATORS, WEIGHTINGS, BINNINGS))


def naive_gradient(image, operator, scale, border="repeated"):
    mode = {"repeated": "nearest", "mirrored": "reflect"}[border]
    if operator == "gaussian":
        right, down = (
            ndimage.gaussian_filter(image, scale, order=order, mode=mode, radius=math.ceil(4 * scale))
            for order in ((0, 1), (1, 0))
        )
        return right, down
    if operator == "sobel":
        right, down = (ndimage.sobel(image, axis=axis, mode=mode) / 8 for axis in (1, 0))
        return right, down
    padded = np.pad(image, 1, mode={"repeated": "edge", "mirrored": "symmetric"}[border])
    return (padded[1:-1, 2:] - padded[1:-1, :-2]) / 2, (padded[2:, 1:-1] - padded[:-2, 1:-1]) / 2


def naive_histogram(image, estimator):
    """Vote pixel by pixel, in float64, with math.atan2."""
    S, binning = estimator.rotations, estimator.binning
    bins = S
    if binning == "smoothed":
        while bins < 36:
            bins += S
    votes = [0.0] * bins
    right, down = naive_gradient(image.astype(np.float64), estimator.operator, estimator.scale, estimator.border)
    for dx, dy in zip(right.ravel(), down.ravel(), strict=True):
        magnitude = math.hypot(dx, dy)
        if magnitude < 1e-6:
            continue
        weight = {"squared": magnitude**2, "magnitude": magnitude, "count": 1.0}[estimator.weighting]
        position = math.degrees(math.atan2(-dy, dx)) % 360 / (360 / bins)
        if binning == "hard":
            votes[math.floor(position + 0.5) % bins] += weight
        else:
            lower = math.floor(position)
            votes[lower % bins] += weight * (1 - (position - lower))
            votes[(lower + 1) % bins] += weight * (position - lower)
    if binning != "smoothed":
        return votes
    smooth = [
        sum(share * votes[(b + shift) % bins] for shift, share in zip(range(-2, 3), (1, 4, 6, 4, 1), strict=True)) / 16
        for b in range(bins)
    ]
    coarse = [0.0] * S
    for b, value in enumerate(smooth):
        nearest = math.floor(b * S / bins + 0.5) % S
        coarse[nearest] = max(coarse[nearest], value)
    return coarse


@pytest.mark.parametrize(("operator", "weighting", "binning"), ALL)
def test_histogram_equals_a_loop_over_the_pixels(operator, weighting, binning):
    images = np.random.default_rng(3).random((2, 17, 17), dtype=np.float32)
    for rotations in (1, 2, 9, 40):
        estimator = OrientationEstimator(rotations, operator, 1.5, weighting, binning)
        expected = np.array([naive_histogram(image, estimator) for image in images])
        indices, histogram = estimator.estimate(images)
        assert histogram.dtype == np.float32
        assert histogram.shape == (2, rotations)
        np.testing.assert_allclose(histogram, expected, rtol=2e-4, atol=2e-4 * expected.max())
        assert indices.dtype == np.int64
        np.testing.assert_array_equal(indices, histogram.argmax(axis=1))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("scale", [1.0, 6.0])
def test_mirrored_borders_equal_a_loop_over_the_pixels(operator, scale):
    # Wider than the image is, the Gaussian sees it mirrored more than once.
    images = np.random.default_rng(4).random((2, 11, 11), dtype=np.float32)
    mirrored, repeated = (OrientationEstimator(9, operator, scale, border=border) for border in BORDERS[::-1])
    expected = np.array([naive_histogram(image, mirrored) for image in images])
    np.testing.assert_allclose(mirrored.histogram(images), expected, rtol=2e-4, atol=2e-4 * expected.max())
    assert np.array_equal(mirrored.histogram(images), repeated.histogram(images)) == (operator != "gaussian")


@pytest.mark.parametrize("binning", BINNINGS)
def test_default_gradients_on_digits_equal_a_loop_over_the_pixels(digits, binning):
    estimator = OrientationEstimator(binning=binning)
    expected = [naive_histogram(image.reshape(28, 28), estimator) for image in digits[:10]]
    np.testing.assert_allclose(estimator.histogram(digits[:10]), expected, rtol=1e-3, atol=1e-4)


def test_default_agrees_with_itself_under_turns_by_40_degrees(digits):
    estimator = OrientationEstimator()
    upright = estimator(digits)
    for k in range(1, 9):
        turned = [rotate(image.reshape(28, 28), 40 * k, order=1, mode="constant") for image in digits[:300]]
        assert np.mean(estimator(np.stack(turned)) == (upright[:300] + k) % 9) >= 0.9


@pytest.mark.parametrize(("operator", "weighting", "binning"), ALL)
@pytest.mark.parametrize("rotations", [4, 8, 36])
def test_a_ramp_points_to_its_bright_side_and_its_reverse_the_other_way(operator, weighting, binning, rotations):
    estimator = OrientationEstimator(rotations, operator, weighting=weighting, binning=binning)
    ramp = np.tile(np.linspace(0, 1, 20, dtype=np.float32), (20, 1))
    indices = estimator(np.stack([ramp, 1 - ramp, np.rot90(ramp), np.rot90(1 - ramp)]))
    np.testing.assert_array_equal(indices, np.array([0, 2, 1, 3]) * rotations // 4)


@given(angle=st.floats(0, 360), rotations=st.integers(1, 40))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_slanted_ramp_gets_the_nearest_orientation(angle, rotations):
    radians = math.radians(angle)
    row, column = np.mgrid[0:61, 0:61] - 30
    ramp = 0.5 + (column * math.cos(radians) - row * math.sin(radians)) / 100
    index = OrientationEstimator(rotations, "central")(ramp[None].astype(np.float32))[0]
    away = (angle - 360 * index / rotations + 180) % 360 - 180
    # The 240 border pixels of 3721 lean to an axis: they can decide where two orientations are almost as near.
    assert abs(away) <= 180 / rotations * (1 + 2 * 240 / 3481)


@given(
    images=hnp.arrays(np.float32, (3, 9, 9), elements=st.floats(0, 1, width=16)),
    operator=st.sampled_from(OPERATORS),
    weighting=st.sampled_from(["squared", "magnitude"]),
    binning=st.sampled_from(["shared", "smoothed"]),
    quarter=st.integers(1, 3),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_a_quarter_turn_moves_the_histogram_by_a_quarter(images, operator, weighting, binning, quarter):
    estimator = OrientationEstimator(12, operator, 1.0, weighting, binning)
    turned = estimator.histogram(np.rot90(images, quarter, axes=(1, 2)))
    np.testing.assert_allclose(turned, np.roll(estimator.histogram(images), 3 * quarter, axis=1), rtol=1e-3, atol=1e-5)


@given(images=hnp.arrays(np.float32, (2, 64), elements=st.floats(0, 1, width=16)), rotations=st.integers(1, 50))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_no_vote_is_lost(images, rotations):
    shared = OrientationEstimator(rotations, scale=1.0).histogram(images)
    hard = OrientationEstimator(rotations, scale=1.0, binning="hard").histogram(images)
    assert (shared >= 0).all()
    assert (hard >= 0).all()
    total = [
        sum((part**2).sum() for part in naive_gradient(image.reshape(8, 8).astype(float), "gaussian", 1.0))
        for image in images
    ]
    np.testing.assert_allclose(shared.sum(axis=1), total, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(hard.sum(axis=1), total, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("operator", "weighting", "binning"), ALL)
@pytest.mark.parametrize("brightness", [0.0, 0.3, 1.0])
def test_an_image_without_contrast_gets_index_0_and_no_warning(operator, weighting, binning, brightness):
    blank = np.full((2, 784), brightness, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        indices, histogram = OrientationEstimator(9, operator, 2.0, weighting, binning).estimate(blank)
    np.testing.assert_array_equal(indices, [0, 0])
    np.testing.assert_array_equal(histogram, np.zeros((2, 9)))


def test_an_image_is_judged_alone_whatever_is_beside_it(digits):
    estimator = OrientationEstimator()
    together = estimator.histogram(digits[:200])
    alone = np.concatenate([estimator.histogram(image[None]) for image in digits[:200]])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(estimator.histogram(digits[:200].reshape(-1, 28, 28)), together)
    assert estimator(digits[:0]).shape == (0,)


def test_images_larger_than_one_chunk_and_of_one_pixel():
    large = np.random.default_rng(0).random((2, 300, 300), dtype=np.float32)
    estimator = OrientationEstimator(4, "central", binning="hard")
    assert estimator.histogram(large).shape == (2, 4)
    np.testing.assert_array_equal(estimator(np.ones((3, 1), dtype=np.float32)), [0, 0, 0])


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"rotations": 0}, "at least 1"),
        ({"operator": "prewitt"}, "gaussian, central, sobel"),
        ({"weighting": "cubed"}, "squared, magnitude, count"),
        ({"binning": "soft"}, "shared, hard, smoothed"),
        ({"scale": 0.0}, "must be in 0.1..100.0 pixels"),
        ({"scale": math.nan}, "must be in 0.1..100.0 pixels"),
    ],
)
def test_wrong_settings_are_refused(keywords, words):
    with pytest.raises(InputError, match=words):
        OrientationEstimator(**keywords)


@pytest.mark.parametrize("shape", [(784,), (2, 783), (2, 27, 29), (2, 0), (1, 2, 14, 28)])
def test_images_that_are_not_square_are_refused(shape):
    with pytest.raises(InputError, match="square images"):
        OrientationEstimator().estimate(np.zeros(shape, dtype=np.float32))


# The fast counting against the same arithmetic written plainly: equal to the last bit.


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
    """Count one pixel after the other, in float32."""
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
def test_histograms_are_those_of_a_plain_loop_to_the_last_bit(gradients, bins, weighting, shared):
    right, down = gradients
    counted = as_histograms(DirectionCounter(3, 9, bins, weighting, shared).count(right, down))
    np.testing.assert_array_equal(counted, plain_histogram(right, down, bins, weighting, shared))


def test_a_counter_remembers_nothing_of_the_images_before():
    random = np.random.default_rng(0)
    blocks = [random.standard_normal((2, count, 49)).astype(np.float32) for count in (20, 7, 20, 1)]
    counter = DirectionCounter(20, 49, 9, "squared", shared=True)
    for block in blocks:
        alone = DirectionCounter(len(block[0]), 49, 9, "squared", shared=True).count(*block)
        np.testing.assert_array_equal(counter.count(*block), alone)
