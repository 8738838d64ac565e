import numpy as np
from skimage.transform import rotate

from thetarbm_cli.models.base import OrientedModel
from thetarbm_cli.models.controls import AlignedPixels, Pixels

Digits = tuple[np.ndarray, np.ndarray]


def test_aligned_pixels_are_the_images_turned_back_by_orientations_that_are_found_or_given(digits: Digits) -> None:
    images = digits[0][:40]
    assert np.array_equal(Pixels().fit(images).transform(images), images)
    control = AlignedPixels(rotations=72, hypotheses=0.8, orientation_smoothing=15.0).fit(images)
    candidates = control.candidate_orientations(images)
    assert candidates is not None
    rows, orientations = candidates
    assert len(rows) > len(images)
    given = control.transform(images[rows], orientations=orientations)
    for image, s, result in zip(images[rows], orientations, given, strict=True):
        expected = rotate(image.reshape(28, 28), -5.0 * s, order=1, mode="constant").reshape(-1)
        np.testing.assert_allclose(result, expected, atol=1e-5)
    first = np.concatenate([[True], np.diff(rows) > 0])
    np.testing.assert_array_equal(control.transform(images), given[first])
    copy = AlignedPixels(**control.get_params()).load_arrays(control.to_arrays())
    np.testing.assert_array_equal(copy.transform(images), given[first])


def test_controls_have_no_settings_of_learning() -> None:
    assert Pixels.default_settings() == {}
    assert set(AlignedPixels.default_settings()) == set(OrientedModel.default_settings())
