from __future__ import annotations

import numpy as np
import pytest

from tests.data.idxfiles import idx, small_set
from thetarbm_cli.data.sources.mnist import read_idx, read_set
from thetarbm_cli.errors import InputError

CUBE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


@pytest.mark.parametrize("array", [CUBE, CUBE[:, 0, 0], np.zeros((0, 3, 3), dtype=np.uint8)])
def test_an_array_comes_back(array: np.ndarray) -> None:
    found = read_idx(idx(array), "a file")
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "a file is not an idx file"),
        (b"\0\0\x08", "not an idx file"),
        (b"\0\0\x08\0", "not an idx file"),
        (b"\x1f\x8b\x08\x08" + bytes(40), "not an idx file"),
        (b"\0\0\x0d\x01" + bytes(8), "not an idx file"),
        (b"\0\0\x08\x03" + bytes(11), "not an idx file"),
        (idx(CUBE)[:-1], "has 33 bytes, and 34 are expected from its header"),
        (idx(CUBE) + b"\0", "has 35 bytes, and 34 are expected from its header"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "are expected from its header"),
    ],
)
def test_another_file_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_idx(content, "a file")


def test_a_set_is_its_training_half_and_then_its_test_half() -> None:
    parts = small_set(4, 3)
    images, labels = read_set(parts)
    assert images.shape == (7, 8, 8)
    assert images[4:].tobytes() == parts["t10k-images-idx3-ubyte"][16:]
    assert labels.tolist() == [0, 1, 2, 3, 0, 1, 2]
    with pytest.raises(ValueError, match="read-only"):
        images[0, 0, 0] = 1


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("train-labels-idx1-ubyte", np.zeros(5, np.uint8), "train-labels-idx1-ubyte has 5 labels for 4 images"),
        ("t10k-images-idx3-ubyte", np.zeros((3, 8, 7), np.uint8), r"has the shape \(3, 8, 7\)"),
        ("t10k-images-idx3-ubyte", np.zeros(3, np.uint8), r"has the shape \(3,\)"),
        ("t10k-images-idx3-ubyte", np.zeros((3, 9, 9), np.uint8), "different sizes"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(name: str, array: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_set({**small_set(4, 3), name: idx(array)})
