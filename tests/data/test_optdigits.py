"""optdigits-rot: scikit-learn's digits, enlarged as scikit-image enlarges them, each once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from skimage.transform import resize
from sklearn.datasets import load_digits

from thetarbm_cli import load_images
from thetarbm_cli.data.prepare import prepare, prepared_checksum
from thetarbm_cli.data.sources.optdigits import load_enlarged


def test_digits_are_enlarged_as_by_scikit_image() -> None:
    images, labels = load_enlarged()
    digits = load_digits()
    np.testing.assert_array_equal(labels, digits.target)
    for image, digit in zip(images[:50], digits.images[:50], strict=True):
        expected = resize(digit / 16, (20, 20), order=1, mode="edge", anti_aliasing=False)
        assert np.abs(image[4:24, 4:24] - 255 * expected).max() <= 0.5 + 1e-6
    assert not images[:, :4].any()
    assert not images[:, :, 24:].any()


def test_every_digit_occurs_once_and_equal_seeds_give_equal_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    first, _ = (prepare(folder, "optdigits-rot") for folder in folders)
    one, other = (prepared_checksum(folder, "optdigits-rot", "generated") for folder in folders)
    assert one == other is not None
    with np.load(first.path) as arrays:
        assert sorted(arrays["source_indices"]) == list(range(1797))
        assert np.bincount(arrays["split"]).tolist() == [1000, 197, 600]
        assert arrays["angles"].min() < 10 < 350 < arrays["angles"].max()
    train = load_images("optdigits-rot", data_dir=tmp_path / "a").train
    assert train[0].shape[0] == 1000
