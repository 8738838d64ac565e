"""The TI-RBM with its authors' settings learns as its authors' program does, at its full size."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.models.small import AUTHORS_SETTINGS
from thetarbm_cli.data.sources.mnist import load_mnist
from thetarbm_cli.models import TransformInvariantRBM

pytestmark = pytest.mark.slow

# Of the authors' program in its first six epochs on another draw of such images.
ACTIVATION = (0.877, 0.794, 0.718, 0.659, 0.564, 0.473)
ERROR = (0.736, 0.600, 0.540, 0.486, 0.401, 0.311)


def rotated_digits(count: int) -> NDArray[np.float32]:
    """Digits drawn and rotated as those of mnist-rot, by a Gaussian of 0.3 pixels, and not rounded.

    Rounding makes some fifty pixels constant which, standardised, are noise that nothing can reconstruct.
    """
    digits, _ = load_mnist()
    random = np.random.default_rng(0)
    row, column = np.divmod(np.arange(784), 28) - np.float64(13.5)
    result = np.empty((count, 784), dtype=np.float32)
    for image, source, angle in zip(
        result, random.integers(len(digits), size=count), random.random(count) * 2 * np.pi, strict=True
    ):
        down = np.cos(angle) * row + np.sin(angle) * column + 13.5
        right = np.cos(angle) * column - np.sin(angle) * row + 13.5
        padded = np.pad(digits[source].reshape(28, 28).astype(np.float64), 30)
        weighted, weights = np.zeros(784), np.zeros(784)
        for i in range(-1, 3):
            for j in range(-1, 3):
                y, x = np.floor(down).astype(int) + i, np.floor(right).astype(int) + j
                weight = np.exp(-((down - y) ** 2 + (right - x) ** 2) / (2 * 0.3**2))
                weighted += weight * padded[y + 30, x + 30]
                weights += weight
        image[:] = weighted / weights / 256
    return result


def test_the_trajectory_is_that_of_the_authors_program() -> None:
    images = rotated_digits(10_000)
    model = TransformInvariantRBM(**{**AUTHORS_SETTINGS, "epochs": 6})
    sigmas = [float(model.trainer(images).model.parameters["sigma"][0])]
    model.fit(images, monitor=lambda state: sigmas.append(float(state.parameters["sigma"][0])))
    activation = [record.mean_activation for record in model.history_]
    np.testing.assert_allclose(activation, ACTIVATION, rtol=0, atol=0.015)
    # Of the hidden probabilities: what σ follows.
    errors = [((after - 0.99 * before) / 0.01) ** 2 for before, after in pairwise(sigmas)]
    np.testing.assert_allclose(errors, ERROR, rtol=0, atol=0.04)
