import numpy as np
import pytest
from skimage.transform import rotate
from sklearn.decomposition import PCA

from thetarbm_cli.models.base import OrientedModel
from thetarbm_cli.models.controls import AlignedPCA, AlignedPixels, Pixels

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


@pytest.mark.parametrize("solver", ["covariance_eigh", "full"])
def test_principal_components_are_those_of_scikit_learn_on_aligned_images(digits: Digits, solver: str) -> None:
    images = digits[0][:60]
    control = AlignedPCA(components=7).fit(images)
    aligned = AlignedPixels().fit(images).transform(images).astype(np.float64)
    reference = PCA(7, svd_solver=solver).fit(aligned)
    features = control.transform(images)
    expected = reference.transform(aligned)
    # A component has no sign of its own.
    signs = np.sign((features * expected).sum(axis=0))
    np.testing.assert_allclose(features, expected * signs, atol=1e-4)
    np.testing.assert_allclose(features.var(axis=0, ddof=1), reference.explained_variance_, rtol=1e-4)
    np.testing.assert_allclose(control.components_ @ control.components_.T, np.eye(7), atol=1e-5)
    assert (np.sign(control.components_[range(7), np.abs(control.components_).argmax(axis=1)]) == 1).all()
    copy = AlignedPCA(**control.get_params()).load_arrays(control.to_arrays())
    np.testing.assert_array_equal(copy.transform(images), features)
    assert copy.get_feature_names_out().shape == (7,)


def test_there_are_no_more_components_than_pixels_and_images(digits: Digits) -> None:
    images = digits[0][:60]
    assert AlignedPCA().fit(images).transform(images[:2]).shape == (2, 60)
    small = np.random.default_rng(0).random((40, 16), dtype=np.float32)
    control = AlignedPCA().fit(small)
    aligned = AlignedPixels().fit(small).transform(small)
    # All components together are another basis of the same images.
    np.testing.assert_allclose(control.transform(small) @ control.components_ + control.mean_, aligned, atol=1e-5)


def test_components_are_of_images_aligned_by_the_orientations_that_are_given(digits: Digits) -> None:
    images, given = digits[0][:60], np.arange(60) % 9
    control = AlignedPCA(components=3).fit(images, orientations=given)
    aligned = AlignedPixels().fit(images).transform(images, orientations=given)
    np.testing.assert_allclose(control.mean_, aligned.mean(axis=0), atol=1e-5)
    features = control.transform(images, orientations=given)
    np.testing.assert_allclose(features, (aligned - aligned.mean(axis=0)) @ control.components_.T, atol=1e-4)
