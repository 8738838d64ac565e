"""optdigits-rot: scikit-learn's digits, enlarged as scikit-image enlarges them, each once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skimage.transform import resize
from sklearn.datasets import load_digits

from thetarbm_cli.data.prepare import prepare
from thetarbm_cli.data.sources.optdigits import load_enlarged

# The file of the default seed. It changes only if the recipe does: then older results belong to other data.
SHA256 = "262e1ad4a36220b61f4045ae6b787a147bf105ff45507e36a67b527fbeadd8bb"


def test_digits_are_enlarged_as_by_scikit_image() -> None:
    images, labels = load_enlarged()
    digits = load_digits()
    np.testing.assert_array_equal(labels, digits.target)
    for image, digit in zip(images[:50], digits.images[:50], strict=True):
        expected = resize(digit / 16, (20, 20), order=1, mode="edge", anti_aliasing=False)
        assert np.abs(image - 255 * np.pad(expected, 4)).max() <= 0.5 + 1e-6


def test_the_data_is_the_recorded_one_and_every_digit_occurs_once(tmp_path: Path) -> None:
    made = prepare(tmp_path, "optdigits-rot")
    assert made.sha256 == SHA256
    with np.load(made.path) as arrays:
        assert sorted(arrays["source_indices"]) == list(range(1797))
        assert np.bincount(arrays["split"]).tolist() == [1000, 197, 600]
