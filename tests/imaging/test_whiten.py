import numpy as np
import pytest
from numpy.typing import NDArray

from thetarbm_cli.imaging.standardise import Whitener


def images_of(count: int = 60, pixels: int = 9, seed: int = 0) -> NDArray[np.float32]:
    random = np.random.default_rng(seed)
    mixed = random.random((count, 4)) @ random.random((4, pixels))
    return (mixed / mixed.max()).astype(np.float32)


def naive_contrast(image: NDArray[np.float32]) -> NDArray[np.float64]:
    grey = 255 * image.astype(np.float64)
    variance = sum((value - sum(grey) / len(grey)) ** 2 for value in grey) / len(grey)
    return np.array([(value - sum(grey) / len(grey)) / np.sqrt(variance + 10) for value in grey])


def test_whitening_is_contrast_then_the_inverse_root_of_the_covariance() -> None:
    train, others = images_of(), images_of(20, seed=1)
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


def test_the_inverse_needs_the_images_for_their_brightness_and_contrast() -> None:
    train = images_of()
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
