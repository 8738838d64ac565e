from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

from thetarbm_cli.imaging.standardise import Standardiser, Whitener


def some_images(count, pixels=7, seed=0):
    random = np.random.default_rng(seed)
    return (random.random((count, pixels)) * random.random(pixels) + 0.1).astype(np.float32)


def test_digits_are_standardised_as_scikit_learn_does(digits):
    ours = Standardiser().fit(digits)
    reference = StandardScaler().fit(digits.astype(np.float64))
    assert ours.mean_.shape == ours.scale_.shape == (1, 784)
    np.testing.assert_allclose(ours.mean_[0], reference.mean_, rtol=1e-6)
    np.testing.assert_allclose(ours.scale_[0], reference.scale_, rtol=1e-6)
    transformed = ours.transform(digits)
    assert transformed.dtype == np.float32
    np.testing.assert_allclose(transformed, reference.transform(digits.astype(np.float64)), rtol=1e-4, atol=1e-5)


def test_each_group_has_its_own_statistics():
    # More images in a group than are summed at once.
    images, group = some_images(5000), np.random.default_rng(1).integers(0, 3, 5000)
    images += group[:, None].astype(np.float32)
    ours = Standardiser(rotations=3).fit(images, group)
    transformed = ours.transform(images, group)
    for index in range(3):
        mine = images[group == index].astype(np.float64)
        expected = (mine - mine.mean(axis=0)) / mine.std(axis=0)
        np.testing.assert_allclose(transformed[group == index], expected, atol=1e-4)
    np.testing.assert_allclose(ours.inverse(transformed, group), images, atol=1e-5)


def test_groups_without_variance_take_the_statistics_of_all_images():
    images, group = some_images(40), np.array([0] * 20 + [2] * 19 + [3])
    ours = Standardiser(rotations=5).fit(images, group)
    everything = Standardiser().fit(images)
    for index in (1, 3, 4):  # none, one, none
        np.testing.assert_array_equal(ours.mean_[index], everything.mean_[0])
        np.testing.assert_array_equal(ours.scale_[index], everything.scale_[0])
    np.testing.assert_allclose(ours.mean_[0], images[:20].mean(axis=0), rtol=1e-5)
    # One image is only centred.
    alone = Standardiser(rotations=9).fit(images[:1], np.array([3]))
    np.testing.assert_array_equal(alone.scale_, 1)
    np.testing.assert_array_equal(alone.transform(images[:1], np.array([3])), 0)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e6])
def test_constant_pixels_keep_scale_1_and_a_difference_in_the_last_bit_is_no_variance(value):
    images = some_images(3000)
    images[:, 2] = value
    images[:, 0] = np.float32(0.3)
    images[::2, 0] = np.nextafter(np.float32(0.3), np.float32(1))
    ours = Standardiser().fit(images)
    np.testing.assert_array_equal(ours.scale_[0] == 1, [True, False, True, False, False, False, False])
    np.testing.assert_array_equal(ours.transform(images)[:, 2], 0)


def test_floor_keeps_quiet_pixels_quiet():
    images = np.zeros((10_000, 3), dtype=np.float32)
    images[0, 0] = 1 / 255  # one faint pixel in one image: standard deviation 3.9e-5
    images[::2, 1] = 0.1  # 0.05
    images[::2, 2] = 1.0  # 0.5
    faint = np.std(images[:, 0], dtype=np.float64)
    for floor, scales in ((0.0, [faint, 0.05, 0.5]), (1e-3, [1, 0.05, 0.5]), (0.1, [1, 1, 0.5]), (0.5, [1, 1, 1])):
        np.testing.assert_allclose(Standardiser(floor=floor).fit(images).scale_[0], scales, rtol=1e-5)


def mixed_images(count: int = 60, seed: int = 0) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    mixed = random.random((count, 4)) @ random.random((4, 9))
    return (mixed / mixed.max()).astype(np.float32)


def naive_contrast(image: NDArray[np.float32]) -> NDArray[np.float64]:
    grey = 255 * image.astype(np.float64)
    variance = sum((value - sum(grey) / len(grey)) ** 2 for value in grey) / len(grey)
    return np.array([(value - sum(grey) / len(grey)) / np.sqrt(variance + 10) for value in grey])


def test_whitening_is_contrast_then_the_inverse_root_of_the_covariance() -> None:
    train, others = mixed_images(), mixed_images(20, seed=1)
    normal = np.array([naive_contrast(image) for image in train])
    mean = normal.mean(axis=0)
    covariance = sum(np.outer(row - mean, row - mean) for row in normal) / len(normal) + 0.1 * np.eye(9)
    whitener = Whitener().fit(train)
    # W is symmetric, positive and its square the inverse of the covariance: there is only one such matrix.
    matrix = whitener.matrix_.astype(np.float64)
    np.testing.assert_allclose(matrix @ covariance @ matrix, np.eye(9), rtol=0, atol=1e-4)
    np.testing.assert_allclose(matrix, matrix.T, rtol=0, atol=1e-6)
    assert np.linalg.eigvalsh(matrix).min() > 0
    expected = [matrix @ (naive_contrast(image) - mean) for image in others]
    np.testing.assert_allclose(whitener.transform(others), expected, rtol=0, atol=1e-4)


def test_the_inverse_of_whitening_needs_the_images_for_their_brightness_and_contrast() -> None:
    train = mixed_images()
    whitener = Whitener().fit(train)
    whitened = whitener.transform(train)
    np.testing.assert_allclose(whitener.inverse(whitened, like=train), train, rtol=0, atol=1e-5)
    usual = whitener.inverse(whitened)
    assert usual.mean() == pytest.approx(train.mean(), abs=1e-4)
    # The same pattern in another brightness and contrast.
    for image, guess in zip(train, usual, strict=True):
        assert np.corrcoef(image, guess)[0, 1] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("images", [np.full((5, 4), 0.3), np.zeros((1, 4))], ids=["alike", "one"])
def test_images_without_contrast_become_zero(images: np.ndarray) -> None:
    whitener = Whitener().fit(images)
    np.testing.assert_allclose(whitener.transform(images), 0, atol=1e-6)
    np.testing.assert_allclose(whitener.inverse(np.zeros((1, 4))), images[:1], atol=1e-6)
