from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from skimage.transform import rotate

from thetarbm_cli.data.turning import COSINE_COEFFICIENTS, SINE_COEFFICIENTS, exact_sine_cosine, turn_exactly


def test_coefficients_are_those_of_taylor() -> None:
    assert list(SINE_COEFFICIENTS) == [(-1) ** k / math.factorial(2 * k + 1) for k in range(8, -1, -1)]
    assert list(COSINE_COEFFICIENTS) == [(-1) ** k / math.factorial(2 * k) for k in range(8, -1, -1)]


@given(st.floats(-1000, 1000))
def test_sine_and_cosine_agree_with_the_library(degrees: float) -> None:
    sine, cosine = exact_sine_cosine(np.array([degrees]))
    # The reference reduces the angle in degrees, as a double of radians cannot hold a large angle closely.
    reduced = math.radians(math.remainder(degrees, 360.0))
    assert sine[0] == pytest.approx(math.sin(reduced), abs=1e-15)
    assert cosine[0] == pytest.approx(math.cos(reduced), abs=1e-15)


def test_multiples_of_a_right_angle_are_exact() -> None:
    sine, cosine = exact_sine_cosine(np.arange(-4, 9) * 90.0)
    assert np.array_equal(sine, [0, 1, 0, -1, 0, 1, 0, -1, 0, 1, 0, -1, 0])
    assert np.array_equal(cosine, [1, 0, -1, 0, 1, 0, -1, 0, 1, 0, -1, 0, 1])


@given(
    hnp.arrays(np.uint8, st.integers(1, 12).map(lambda side: (2, side, side))),
    st.lists(st.floats(-720, 720), min_size=2, max_size=2),
)
def test_agrees_with_scikit_image_to_the_rounding(images: np.ndarray, degrees: list[float]) -> None:
    turned = turn_exactly(images, np.array(degrees))
    for image, angle, result in zip(images, degrees, turned, strict=True):
        # By default scikit-image lifts what is darker than the image's darkest pixel, here the border.
        expected = rotate(image.astype(float), angle, order=1, clip=False)
        assert np.abs(expected - result).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("side", [1, 5, 8, 28])
def test_right_angles_are_exact_and_counter_clockwise(side: int) -> None:
    images = np.random.default_rng(side).integers(0, 256, (4, side, side), dtype=np.uint8)
    turned = turn_exactly(images, np.array([0.0, 90.0, 180.0, 270.0]))
    for quarters in range(4):
        assert np.array_equal(turned[quarters], np.rot90(images[quarters], quarters))


def test_chunks_and_progress_cover_everything() -> None:
    generator = np.random.default_rng(1)
    images = generator.integers(0, 256, (150, 6, 6), dtype=np.uint8)
    degrees = generator.uniform(0, 360, 150)
    seen: list[tuple[int, int]] = []
    turned = turn_exactly(images, degrees, lambda done, total: seen.append((done, total)))
    one_by_one = [turn_exactly(images[i : i + 1], degrees[i : i + 1])[0] for i in range(150)]
    assert np.array_equal(turned, one_by_one)
    assert seen[-1] == (150, 150)
    assert seen == sorted(seen)


def test_no_images_give_no_images() -> None:
    assert turn_exactly(np.zeros((0, 28, 28), np.uint8), np.zeros(0)).shape == (0, 28, 28)
