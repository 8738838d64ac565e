from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from skimage.transform import rotate

from thetarbm_cli.arrays import read_arrays
from thetarbm_cli.data.prepare import Prepared, prepare
from thetarbm_cli.data.rotated_digits import (
    BILINEAR,
    GAUSSIAN,
    exact_sine_cosine,
    generate_rotated,
    rotate_exactly,
)
from thetarbm_cli.data.sources.mnist import load_mnist

# The files of the default seed. They change only if the recipe does: then older results belong to other data.
MNIST_ROT_SHA256 = "8cdca652ae46fae9c5c283cb58500532f50a07b7cbee93f687a3f376b8592fab"
BILINEAR_SHA256 = "2b0e09b064084e6fe31532d802ee665c33bc01e5bfd4e61b05158561722a46ef"
# Figures of 20 images of the official test file: source and angle, sums over the pixels of 255, means of 7×7 blocks.
OFFICIAL = list(csv.DictReader((Path(__file__).parent / "official-figures.csv").open()))


@given(st.floats(-1000, 1000))
def test_sine_and_cosine_agree_with_the_library(degrees: float) -> None:
    sine, cosine = exact_sine_cosine(np.array([degrees]))
    # The reference reduces the angle in degrees, as a double of radians cannot hold a large angle closely.
    reduced = math.radians(math.remainder(degrees, 360.0))
    assert sine[0] == pytest.approx(math.sin(reduced), abs=1e-15)
    assert cosine[0] == pytest.approx(math.cos(reduced), abs=1e-15)


@given(
    hnp.arrays(np.uint8, st.integers(1, 12).map(lambda side: (2, side, side))),
    st.lists(st.floats(-720, 720), min_size=2, max_size=2),
)
def test_bilinear_agrees_with_scikit_image_to_the_rounding(images: np.ndarray, degrees: list[float]) -> None:
    rotated = rotate_exactly(images, np.array(degrees), BILINEAR)
    for image, angle, result in zip(images, degrees, rotated, strict=True):
        # By default scikit-image lifts what is darker than the image's darkest pixel, here the border.
        expected = rotate(image.astype(float), angle, order=1, clip=False)
        assert np.abs(expected - result).max() <= 0.5 + 1e-6


@given(
    hnp.arrays(np.uint8, st.integers(1, 12).map(lambda side: (1, side, side))),
    st.floats(-720, 720),
)
def test_gaussian_agrees_with_the_sum_over_all_pixels(images: np.ndarray, degrees: float) -> None:
    side = images.shape[1]
    angle = math.radians(math.remainder(degrees, 360.0))
    down, right = np.mgrid[:side, :side] - (side - 1) / 2
    # The picture with black pixels all round, more than the kernel reaches.
    places = np.arange(-20, side + 20) - (side - 1) / 2
    across = np.exp(-(((math.cos(angle) * right - math.sin(angle) * down)[..., None] - places) ** 2) / 0.18)
    along = np.exp(-(((math.sin(angle) * right + math.cos(angle) * down)[..., None] - places) ** 2) / 0.18)
    sums = np.einsum("ijr,ijc,rc->ij", along, across, np.pad(images[0].astype(float), 20))
    expected = sums / (across.sum(axis=-1) * along.sum(axis=-1)) * 255 / 256
    found = rotate_exactly(images, np.array([degrees]), GAUSSIAN)[0]
    assert np.abs(expected - found).max() <= 0.5 + 1e-6


def test_chunks_and_progress_cover_everything() -> None:
    generator = np.random.default_rng(1)
    images = generator.integers(0, 256, (150, 6, 6), dtype=np.uint8)
    degrees = generator.uniform(0, 360, 150)
    seen: list[tuple[int, int]] = []
    rotated = rotate_exactly(images, degrees, GAUSSIAN, lambda *step: seen.append(step))
    one_by_one = [rotate_exactly(images[i : i + 1], degrees[i : i + 1], GAUSSIAN)[0] for i in range(150)]
    assert np.array_equal(rotated, one_by_one)
    assert seen == [(64, 150), (128, 150), (150, 150)]


@pytest.mark.parametrize("known", OFFICIAL, ids=lambda known: f"row {known['row']}")
def test_official_images_are_made_again(known: dict[str, str]) -> None:
    images, labels = load_mnist()
    source = int(known["mnist_index"])
    made = rotate_exactly(images[source : source + 1], np.array([float(known["degrees"])]), GAUSSIAN)[0].astype(float)
    assert labels[source] == int(known["label"])
    blocks = made.reshape(4, 7, 4, 7).mean(axis=(1, 3))
    official = [[float(known[f"block_{row}{column}"]) for column in range(4)] for row in range(4)]
    assert np.abs(blocks - official).max() <= 0.5
    assert made.sum() == pytest.approx(float(known["sum"]), abs=0.5 * made.size)
    # Squares tell kernels apart that the sums do not: the bilinear one loses a tenth of them.
    assert np.square(made).sum() == pytest.approx(float(known["sum_of_squares"]), rel=0.005)


def test_both_sources_of_mnist_rot_are_the_recorded_ones(mnist_rot: Prepared, data_dir: Path) -> None:
    assert mnist_rot.sha256 == MNIST_ROT_SHA256
    made = prepare(data_dir, source="bilinear")
    assert made.sha256 == BILINEAR_SHA256
    assert len(np.unique(read_arrays(made.path)["source_indices"])) == 62_000


def test_mnist_rot_is_62000_images_drawn_with_replacement(mnist_rot: Prepared) -> None:
    arrays = read_arrays(mnist_rot.path)
    source = arrays["source_indices"]
    assert list(arrays) == ["images", "labels", "split", "angles", "source_indices"]
    assert arrays["images"].shape == (62_000, 28, 28)
    assert np.array_equal(arrays["split"], np.repeat([0, 1, 2], [10_000, 2_000, 50_000]))
    assert np.array_equal(arrays["labels"], load_mnist()[1][source])
    # The share of 70,000 that 62,000 draws leave out is near exp(-62/70).
    drawn = np.bincount(source, minlength=70_000)
    assert (drawn == 0).mean() == pytest.approx(math.exp(-62 / 70), abs=0.005)
    assert stats.kstest(source, stats.randint(0, 70_000).cdf).pvalue > 0.01
    assert np.isin(source[12_000:], source[:12_000]).mean() == pytest.approx(0.16, abs=0.01)


def test_pixels_and_angles_are_as_published_for_the_archive(mnist_rot: Prepared) -> None:
    values = mnist_rot.images.astype(np.float32) / 255
    assert values.mean(dtype=np.float64) == pytest.approx(0.1305, abs=0.0005)
    assert values.std(dtype=np.float64) == pytest.approx(0.2975, abs=0.0008)
    assert mnist_rot.images.max() == 254
    # Uniform, and independent of the label.
    assert stats.kstest(mnist_rot.angles, stats.uniform(0, 360).cdf).pvalue > 0.01
    groups = [mnist_rot.angles[mnist_rot.labels == digit] for digit in range(10)]
    assert stats.kruskal(*groups).pvalue > 0.01


def test_a_smaller_set_is_its_beginning_and_another_seed_gives_other_images_and_angles(mnist_rot: Prepared) -> None:
    same, other = (generate_rotated(*load_mnist(), seed, stream=4, sizes={0: 500}) for seed in (0, 1))
    np.testing.assert_array_equal(same["images"], mnist_rot.images[:500])
    assert (other["angles"] != same["angles"]).mean() > 0.99
    assert (other["images"] != same["images"]).any(axis=(1, 2)).mean() > 0.99
