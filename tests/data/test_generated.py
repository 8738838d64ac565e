from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy import stats
from skimage.transform import rotate

from thetarbm_cli.arrays import read_arrays
from thetarbm_cli.data.generated import generate_mnist, generate_mnist_rot, raw_numbers, uniform_degrees
from thetarbm_cli.data.mnist import load_mnist
from thetarbm_cli.data.prepared import Prepared

# The file of the default seed. It changes only if the recipe does: then older results belong to other data.
MNIST_ROT_SHA256 = "2b0e09b064084e6fe31532d802ee665c33bc01e5bfd4e61b05158561722a46ef"
# First output of PCG64 for the default seed, as NumPy 2.4 on x86-64 gives it.
RECORDED_NUMBERS = [11749869230777074271, 4976686463289251617]


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
    assert mnist_rot.angles is not None
    assert mnist_rot.angles.min() >= 0
    assert mnist_rot.angles.max() < 360
    assert stats.kstest(mnist_rot.angles, stats.uniform(0, 360).cdf).pvalue > 0.01
    groups = [mnist_rot.angles[mnist_rot.labels == digit] for digit in range(10)]
    assert stats.kruskal(*groups).pvalue > 0.01


def test_images_are_the_sources_turned_as_scikit_image_turns_them(mnist_rot: Prepared) -> None:
    arrays = read_arrays(mnist_rot.path)
    originals, _ = load_mnist()
    for row in range(0, 62_000, 310):
        source = originals[arrays["source_indices"][row]].astype(float)
        expected = rotate(source, arrays["angles"][row], order=1)
        assert np.abs(expected - arrays["images"][row]).max() <= 0.5 + 1e-6


def test_pixels_are_as_bright_as_the_paper_s(mnist_rot: Prepared) -> None:
    pixels = mnist_rot.images / 255
    assert pixels.mean() == pytest.approx(0.130, abs=0.002)
    assert pixels.std() == pytest.approx(0.30, abs=0.015)


def test_another_seed_gives_other_images_and_angles(mnist_rot: Prepared) -> None:
    seen: list[tuple[int, int]] = []
    other = generate_mnist_rot(1, lambda done, total: seen.append((done, total)))
    assert (other["angles"] != mnist_rot.angles).mean() > 0.99
    assert (other["images"] != mnist_rot.images).any(axis=(1, 2)).mean() > 0.99
    assert seen[-1] == (62_000, 62_000)


def test_mnist_is_drawn_from_the_training_images_and_tested_on_the_test_images() -> None:
    arrays = generate_mnist()
    images, labels = load_mnist()
    source = arrays["source_indices"]
    assert np.array_equal(arrays["split"], np.repeat([0, 1, 2], [10_000, 2_000, 10_000]))
    assert len(np.unique(source)) == 22_000
    assert source[:12_000].max() < 60_000
    assert np.array_equal(source[12_000:], np.arange(60_000, 70_000))
    assert np.array_equal(arrays["images"], images[source])
    assert np.array_equal(arrays["labels"], labels[source])
    assert not arrays["angles"].any()


def test_mnist_is_not_drawn_in_the_order_of_mnist_rot(mnist_rot: Prepared) -> None:
    rotated = read_arrays(mnist_rot.path)["source_indices"][:10_000]
    shared = np.isin(generate_mnist()["source_indices"][:10_000], rotated).mean()
    # Independent draws: each of 60,000 training images is among the 10,000 of 70,000 with probability 1/7.
    assert shared == pytest.approx(1 / 7, abs=0.02)
    assert not np.array_equal(generate_mnist(0)["source_indices"], generate_mnist(1)["source_indices"])
