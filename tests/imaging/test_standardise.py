from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.preprocessing import StandardScaler

from thetarbm_cli.errors import InputError
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
    for ours in (Standardiser().fit(image), Standardiser(rotations=9).fit(image, [3])):
        np.testing.assert_array_equal(ours.scale_, 1)
        np.testing.assert_array_equal(ours.transform(image, [3]), 0)


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


@given(
    images=hnp.arrays(np.float32, st.tuples(st.integers(2, 30), st.integers(1, 5)), elements=st.floats(0, 1, width=16)),
    rotations=st.integers(1, 4),
    seed=st.integers(0, 9),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_groups_get_mean_0_and_standard_deviation_1_or_0(images, rotations, seed):
    group = np.random.default_rng(seed).integers(0, rotations, len(images))
    transformed = Standardiser(rotations=rotations).fit(images, group).transform(images, group)
    assert np.isfinite(transformed).all()
    for index in np.flatnonzero(np.bincount(group) >= 2):
        mine, original = transformed[group == index], images[group == index]
        varies = original.min(axis=0) < original.max(axis=0)
        np.testing.assert_allclose(mine.mean(axis=0), 0, atol=1e-3)
        np.testing.assert_allclose(mine.std(axis=0), varies, atol=1e-3)


def test_statistics_survive_storage():
    images, group = some_images(30), np.arange(30) % 3
    fitted = Standardiser(0.01, rotations=3).fit(images, group)
    restored = Standardiser.from_arrays(fitted.mean_, fitted.scale_, floor=0.01)
    assert (restored.floor, restored.rotations) == (0.01, 3)
    np.testing.assert_array_equal(restored.transform(images, group), fitted.transform(images, group))
    plain = Standardiser().fit(images)
    assert Standardiser.from_arrays(plain.mean_, plain.scale_).rotations is None


def test_wrong_use_is_refused():
    images = some_images(4)
    for floor in (-0.1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="floor"):
            Standardiser(floor)
    with pytest.raises(InputError, match="rotations"):
        Standardiser(rotations=0)
    with pytest.raises(InputError, match="call fit first"):
        Standardiser().transform(images)
    with pytest.raises(InputError, match="at least one"):
        Standardiser().fit(images[:0])
    with pytest.raises(InputError, match="fitted on images of 7 pixels"):
        Standardiser().fit(images).transform(images[:, :6])
    with pytest.raises(InputError, match="equal"):
        Standardiser.from_arrays(images, images[:2])


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (None, "needs the orientation"),
        ([0, 1], "one integer orientation"),
        ([0.0, 1.0, 1.0, 0.0], "one integer orientation"),
        ([0, 1, 2, 3], r"outside 0\.\.2"),
        ([-1, 0, 1, 2], r"outside 0\.\.2"),
    ],
)
def test_wrong_orientations_are_refused(group, words):
    images = some_images(4)
    with pytest.raises(InputError, match=words):
        Standardiser(rotations=3).fit(images, group)
    fitted = Standardiser(rotations=3).fit(images, [0, 1, 2, 0])
    with pytest.raises(InputError, match=words):
        fitted.transform(images, group)
