from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from thetarbm_cli.imaging.standardise import Standardiser


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
        np.testing.assert_allclose(ours.mean_[index], mine.mean(axis=0), rtol=1e-6)
        np.testing.assert_allclose(ours.scale_[index], mine.std(axis=0), rtol=1e-5)
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
    np.testing.assert_array_equal(ours.transform(images, np.full(40, 4)), everything.transform(images))


def test_one_image_is_only_centred():
    image = some_images(1)
    for rotations, group in ((1, None), (9, np.array([3]))):
        ours = Standardiser(rotations=rotations).fit(image, group)
        np.testing.assert_array_equal(ours.scale_, 1)
        np.testing.assert_array_equal(ours.transform(image, group), 0)


@pytest.mark.parametrize("value", [0.0, 0.1, 1.0, 1e6])
def test_constant_pixels_keep_scale_1(value):
    images = some_images(3000)
    images[:, 2] = value
    ours = Standardiser().fit(images)
    assert ours.scale_[0, 2] == 1
    np.testing.assert_array_equal(ours.transform(images)[:, 2], 0)
    assert (np.delete(ours.scale_[0], 2) < 1).all()


def test_a_difference_in_the_last_bit_is_no_variance():
    images = some_images(100)
    images[:, 0] = np.float32(0.3)
    images[::2, 0] = np.nextafter(np.float32(0.3), np.float32(1))
    assert Standardiser().fit(images).scale_[0, 0] == 1


def test_floor_keeps_quiet_pixels_quiet():
    images = np.zeros((10_000, 3), dtype=np.float32)
    images[0, 0] = 1 / 255  # one faint pixel in one image: standard deviation 3.9e-5
    images[::2, 1] = 0.1  # 0.05
    images[::2, 2] = 1.0  # 0.5
    faint = np.std(images[:, 0], dtype=np.float64)
    np.testing.assert_allclose(Standardiser().fit(images).scale_[0], [faint, 0.05, 0.5], rtol=1e-5)
    np.testing.assert_allclose(Standardiser(floor=1e-3).fit(images).scale_[0], [1, 0.05, 0.5], rtol=1e-5)
    np.testing.assert_allclose(Standardiser(floor=0.1).fit(images).scale_[0], [1, 1, 0.5], rtol=1e-5)
    np.testing.assert_array_equal(Standardiser(floor=0.5).fit(images).scale_[0], [1, 1, 1])
