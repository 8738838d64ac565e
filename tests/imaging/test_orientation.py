from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage
from skimage.transform import rotate

from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.orientation import (
    DirectionCounter,
    OrientationEstimator,
    as_histograms,
)
from thetarbm_cli.parameters import BINNINGS, OPERATORS, WEIGHTINGS


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


def votes_of(right, down, bins, weighting, hard=False):
    """Vote pixel by pixel, in float64, with math.atan2."""
    votes = [0.0] * bins
    for dx, dy in zip(right.ravel(), down.ravel(), strict=True):
        magnitude = math.hypot(dx, dy)
        if magnitude < 1e-6:
            continue
        weight = {"squared": magnitude**2, "magnitude": magnitude, "count": 1.0}[weighting]
        position = math.degrees(math.atan2(-dy, dx)) % 360 / (360 / bins)
        if hard:
            votes[math.floor(position + 0.5) % bins] += weight
        else:
            lower = math.floor(position)
            votes[lower % bins] += weight * (1 - (position - lower))
            votes[(lower + 1) % bins] += weight * (position - lower)
    return votes


def naive_histogram(image, estimator):
    S, binning = estimator.rotations, estimator.binning
    bins = S
    if binning == "smoothed":
        while bins < 36:
            bins += S
    gradient = naive_gradient(image.astype(np.float64), estimator.operator, estimator.scale, estimator.border)
    votes = votes_of(*gradient, bins, estimator.weighting, binning == "hard")
    if binning == "smoothed":
        smooth = [
            sum(share * votes[(b + shift) % bins] for shift, share in zip(range(-2, 3), (1, 4, 6, 4, 1), strict=True))
            for b in range(bins)
        ]
        votes = [0.0] * S
        for b, value in enumerate(smooth):
            nearest = math.floor(b * S / bins + 0.5) % S
            votes[nearest] = max(votes[nearest], value / 16)
    if estimator.smoothing:
        weights = [math.exp(-0.5 * (min(k, S - k) * 360 / S / estimator.smoothing) ** 2) for k in range(S)]
        votes = [sum(weights[(s - t) % S] * votes[t] for t in range(S)) / sum(weights) for s in range(S)]
    return votes


@pytest.mark.parametrize("smoothing", [0.0, 25.0])
@pytest.mark.parametrize(("operator", "weighting", "binning"), list(itertools.product(OPERATORS, WEIGHTINGS, BINNINGS)))
def test_histogram_equals_a_loop_over_the_pixels(operator, weighting, binning, smoothing):
    images = np.random.default_rng(3).random((2, 17, 17), dtype=np.float32)
    # Wider than the image is, the Gaussian sees it mirrored more than once.
    for rotations, scale, border in ((1, 1.5, "repeated"), (9, 9.0, "mirrored"), (40, 1.5, "repeated")):
        estimator = OrientationEstimator(rotations, operator, scale, weighting, binning, smoothing, border)
        expected = np.array([naive_histogram(image, estimator) for image in images])
        histogram = estimator.histogram(images)
        assert histogram.dtype == np.float32
        np.testing.assert_allclose(histogram, expected, rtol=2e-4, atol=2e-4 * expected.max())
        np.testing.assert_array_equal(estimator(images), histogram.argmax(axis=1))
        # An image without contrast has the orientation 0, and no warning.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert not estimator.histogram(np.full((2, 784), 0.3, dtype=np.float32)).any()


# Also no gradient at all, either zero, noise below the bound, exact diagonals and axes.
special = [float(np.float32(value)) for value in (0.0, -0.0, 1e-7, -1e-7, 1e-20, 0.25, -0.25)]
components = st.sampled_from(special) | st.floats(-1, 1, width=16)


@given(
    gradients=hnp.arrays(np.float32, (2, 3, 9), elements=components),
    bins=st.integers(1, 40),
    weighting=st.sampled_from(["squared", "magnitude"]),
)
def test_gradients_of_any_kind_are_counted_as_in_a_loop(gradients, bins, weighting):
    right, down = gradients
    counted = as_histograms(DirectionCounter(3, 9, bins, weighting, shared=True).count(right, down))
    expected = [votes_of(x, y, bins, weighting) for x, y in zip(*gradients.astype(np.float64), strict=True)]
    np.testing.assert_allclose(counted, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("smoothing", [0.0, 15.0])
def test_candidates_equal_a_loop_over_images_and_bins(smoothing):
    estimator = OrientationEstimator(rotations=24, smoothing=smoothing)
    images = np.random.default_rng(8).random((31, 64), dtype=np.float32)
    images[30] = 0
    dominant = estimator(images)
    expected = []
    for row, histogram in enumerate(estimator.histogram(images)):
        expected.append((row, dominant[row]))
        for s in range(24):
            is_peak = histogram[s] >= histogram[s - 1] and histogram[s] > histogram[(s + 1) % 24]
            if is_peak and histogram[s] >= np.float32(0.8) * histogram.max() and s != dominant[row]:
                expected.append((row, s))
    assert list(zip(*estimator.candidate_orientations(images, 0.8), strict=True)) == expected
    assert len(expected) > 35


def test_default_agrees_with_itself_under_turns_by_40_degrees(digits):
    estimator = OrientationEstimator()
    upright = estimator(digits)
    for k in range(1, 9):
        turned = [rotate(image.reshape(28, 28), 40 * k, order=1, mode="constant") for image in digits[:300]]
        assert np.mean(estimator(np.stack(turned)) == (upright[:300] + k) % 9) >= 0.9


@given(angle=st.floats(0, 360), rotations=st.integers(1, 40))
def test_a_slanted_ramp_gets_the_nearest_orientation(angle, rotations):
    radians = math.radians(angle)
    row, column = np.mgrid[0:61, 0:61] - 30
    ramp = 0.5 + (column * math.cos(radians) - row * math.sin(radians)) / 100
    index = OrientationEstimator(rotations, "central")(ramp[None].astype(np.float32))[0]
    away = (angle - 360 * index / rotations + 180) % 360 - 180
    # The 240 border pixels of 3721 lean to an axis: they can decide where two orientations are almost as near.
    assert abs(away) <= 180 / rotations * (1 + 2 * 240 / 3481)


def test_an_image_is_judged_alone_whatever_is_beside_it(digits):
    estimator = OrientationEstimator()
    together = estimator.histogram(digits[:200])
    alone = np.concatenate([estimator.histogram(image[None]) for image in digits[:200]])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(estimator.histogram(digits[:200].reshape(-1, 28, 28)), together)


def test_no_image_and_images_of_one_pixel_or_larger_than_one_chunk_are_taken_and_others_refused():
    estimator = OrientationEstimator(4, "central", binning="hard")
    for count, pixels in ((0, 784), (3, 1), (2, 300 * 300)):
        assert estimator.histogram(np.ones((count, pixels), dtype=np.float32)).shape == (count, 4)
    for shape in ((784,), (2, 783), (2, 27, 29), (2, 0)):
        with pytest.raises(InputError, match="square images"):
            estimator(np.zeros(shape, dtype=np.float32))
