from __future__ import annotations

import functools
import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from skimage.transform import rotate

from thetarbm_cli.arrays import read_arrays
from thetarbm_cli.data import rotated_digits
from thetarbm_cli.data.prepare import Prepared
from thetarbm_cli.data.recipes import raw_numbers
from thetarbm_cli.data.rotated_digits import (
    COSINE_COEFFICIENTS,
    SINE_COEFFICIENTS,
    exact_sine_cosine,
    rotate_exactly,
    uniform_degrees,
)
from thetarbm_cli.data.sources.mnist import generate_mnist_rot, load_mnist

# The file of the default seed. It changes only if the recipe does: then older results belong to other data.
MNIST_ROT_SHA256 = "2b0e09b064084e6fe31532d802ee665c33bc01e5bfd4e61b05158561722a46ef"
# First output of PCG64 for the default seed, as NumPy 2.4 on x86-64 gives it.
RECORDED_NUMBERS = [11749869230777074271, 4976686463289251617]


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
    rotated = rotate_exactly(images, np.array(degrees))
    for image, angle, result in zip(images, degrees, rotated, strict=True):
        # By default scikit-image lifts what is darker than the image's darkest pixel, here the border.
        expected = rotate(image.astype(float), angle, order=1, clip=False)
        assert np.abs(expected - result).max() <= 0.5 + 1e-6


@pytest.mark.parametrize("side", [1, 5, 8, 28])
def test_right_angles_are_exact_and_counter_clockwise(side: int) -> None:
    images = np.random.default_rng(side).integers(0, 256, (4, side, side), dtype=np.uint8)
    rotated = rotate_exactly(images, np.array([0.0, 90.0, 180.0, 270.0]))
    for quarters in range(4):
        assert np.array_equal(rotated[quarters], np.rot90(images[quarters], quarters))


def test_chunks_and_progress_cover_everything() -> None:
    generator = np.random.default_rng(1)
    images = generator.integers(0, 256, (150, 6, 6), dtype=np.uint8)
    degrees = generator.uniform(0, 360, 150)
    seen: list[tuple[int, int]] = []
    rotated = rotate_exactly(images, degrees, lambda done, total: seen.append((done, total)))
    one_by_one = [rotate_exactly(images[i : i + 1], degrees[i : i + 1])[0] for i in range(150)]
    assert np.array_equal(rotated, one_by_one)
    assert seen[-1] == (150, 150)
    assert seen == sorted(seen)


def test_default_mnist_rot_is_the_recorded_one(mnist_rot: Prepared) -> None:
    assert mnist_rot.sha256 == MNIST_ROT_SHA256
    assert hashlib.sha256(mnist_rot.path.read_bytes()).hexdigest() == MNIST_ROT_SHA256


def test_random_numbers_are_the_stream_that_numpy_guarantees() -> None:
    expected = np.random.Generator(np.random.PCG64([7, 0])).bit_generator.random_raw(3)
    assert np.array_equal(raw_numbers(3, 7), expected)
    assert raw_numbers(2, 0).tolist() == RECORDED_NUMBERS
    assert not np.array_equal(raw_numbers(3, 7), raw_numbers(3, 7, stream=1))


def test_angles_are_the_upper_bits() -> None:
    numbers = np.array([0, 2**64 - 1, 2**63, 2**62 + 2**10], dtype=np.uint64)
    degrees = uniform_degrees(numbers)
    assert degrees.tolist()[0::2] == [0.0, 180.0]
    assert degrees[3] == 90.0
    assert 359.9999 < degrees[1] < 360.0


def test_mnist_rot_is_62000_distinct_images_in_three_parts(mnist_rot: Prepared) -> None:
    arrays = read_arrays(mnist_rot.path)
    assert list(arrays) == ["images", "labels", "split", "angles", "source_indices"]
    assert arrays["images"].shape == (62_000, 28, 28)
    assert len(np.unique(arrays["source_indices"])) == 62_000
    assert np.array_equal(arrays["split"], np.repeat([0, 1, 2], [10_000, 2_000, 50_000]))
    assert np.array_equal(arrays["labels"], load_mnist()[1][arrays["source_indices"]])


def test_angles_are_uniform_and_independent_of_the_label(mnist_rot: Prepared) -> None:
    assert mnist_rot.angles.min() >= 0
    assert mnist_rot.angles.max() < 360
    assert stats.kstest(mnist_rot.angles, stats.uniform(0, 360).cdf).pvalue > 0.01
    groups = [mnist_rot.angles[mnist_rot.labels == digit] for digit in range(10)]
    assert stats.kruskal(*groups).pvalue > 0.01


def test_images_are_the_sources_rotated_as_scikit_image_rotates_them(mnist_rot: Prepared) -> None:
    arrays = read_arrays(mnist_rot.path)
    originals, _ = load_mnist()
    for row in range(0, 62_000, 310):
        source = originals[arrays["source_indices"][row]].astype(float)
        expected = rotate(source, arrays["angles"][row], order=1)
        assert np.abs(expected - arrays["images"][row]).max() <= 0.5 + 1e-6


def test_another_seed_gives_other_images_and_angles(mnist_rot: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    few = functools.partial(rotated_digits.generate_rotated, sizes={0: 500, 1: 0, 2: 0})
    monkeypatch.setattr(rotated_digits, "generate_rotated", few)
    seen: list[tuple[int, int]] = []
    other = generate_mnist_rot(1, lambda done, total: seen.append((done, total)))
    np.testing.assert_array_equal(generate_mnist_rot()["images"], mnist_rot.images[:500])
    assert (other["angles"] != mnist_rot.angles[:500]).mean() > 0.99
    assert (other["images"] != mnist_rot.images[:500]).any(axis=(1, 2)).mean() > 0.99
    assert seen[-1] == (500, 500)
