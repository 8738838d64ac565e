from __future__ import annotations

import lzma
from pathlib import Path

import numpy as np
import pytest

from tests.data.archives import idx, small_set
from tests.docs.pages import script
from thetarbm_cli.arrays import read_arrays
from thetarbm_cli.data.prepare import Prepared
from thetarbm_cli.data.sources import mnist
from thetarbm_cli.data.sources.mnist import generate_mnist, load_mnist, read_idx, read_set
from thetarbm_cli.errors import InputError, ThetaRBMError

CUBE = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


@pytest.fixture(scope="module")
def shipped() -> dict[str, bytes]:
    """The four files, which take seconds to unpack."""
    return mnist.read_shipped_files()


def test_shipped_files_are_the_published_ones_as_the_build_script_checks_and_joins_them(
    monkeypatch: pytest.MonkeyPatch, shipped: dict[str, bytes], tmp_path: Path
) -> None:
    for name, content in shipped.items():
        (tmp_path / name).write_bytes(content)
    build_script = script(monkeypatch, "build_mnist")
    assert build_script.read_checked(tmp_path) == b"".join(shipped.values())
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"other")
    with pytest.raises(InputError, match="t10k-labels-idx1-ubyte has the MD5"):
        build_script.read_checked(tmp_path)


def test_load_gives_train_then_test(shipped: dict[str, bytes]) -> None:
    images, labels = load_mnist()
    # The best known beginnings of the two halves: 5 0 4 1 9 and 7 2 1 0 4.
    assert labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert labels[60_000:60_005].tolist() == [7, 2, 1, 0, 4]
    assert images.shape == (70_000, 28, 28)
    assert images[:60_000].tobytes() == shipped["train-images-idx3-ubyte"][16:]
    with pytest.raises(ValueError, match="read-only"):
        images[0, 0, 0] = 1


@pytest.mark.parametrize("content", [b"not xz", lzma.compress(b"short", preset=0)])
def test_a_damaged_installation_is_named(content: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shipped").mkdir()
    (tmp_path / mnist.SHIPPED).write_bytes(content)
    monkeypatch.setattr(mnist, "files", lambda package: tmp_path)
    with pytest.raises(ThetaRBMError, match="install thetarbm again"):
        mnist.read_shipped_files()


def test_mnist_is_drawn_from_the_training_images_and_tested_on_the_test_images(mnist_rot: Prepared) -> None:
    arrays = generate_mnist()
    images, labels = load_mnist()
    source = arrays["source_indices"]
    assert np.array_equal(arrays["split"], np.repeat([0, 1, 2], [10_000, 2_000, 10_000]))
    assert len(np.unique(source)) == 22_000
    assert source[:12_000].max() < 60_000
    assert np.array_equal(source[12_000:], np.arange(60_000, 70_000))
    assert np.array_equal(arrays["images"], images[source])
    assert np.array_equal(arrays["labels"], labels[source])
    assert not np.array_equal(source, generate_mnist(1)["source_indices"])
    # Not in the order of mnist-rot: each of 60,000 training images is among its 10,000 of 70,000 with probability 1/7.
    rotated = read_arrays(mnist_rot.path)["source_indices"][:10_000]
    assert np.isin(source[:10_000], rotated).mean() == pytest.approx(1 / 7, abs=0.02)


@pytest.mark.parametrize("array", [CUBE, CUBE[:, 0, 0], np.zeros((0, 3, 3), dtype=np.uint8)])
def test_an_array_comes_back_from_an_idx_file(array: np.ndarray) -> None:
    np.testing.assert_array_equal(read_idx(idx(array), "a file"), array, strict=True)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\0\0\x08", "a file is not an idx file"),
        (b"\x1f\x8b\x08\x08" + bytes(40), "not an idx file"),
        (b"\0\0\x08\x03" + bytes(11), "not an idx file"),
        (idx(CUBE)[:-1], "has 33 bytes, and 34 are expected from its header"),
        (b"\0\0\x08\x03" + b"\xff" * 12, "are expected from its header"),
    ],
)
def test_another_file_is_no_idx_file(content: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_idx(content, "a file")


@pytest.mark.parametrize(
    ("name", "array", "words"),
    [
        ("train-labels-idx1-ubyte", np.zeros(5, np.uint8), "train-labels-idx1-ubyte has 5 labels for 4 images"),
        ("t10k-images-idx3-ubyte", np.zeros((3, 8, 7), np.uint8), r"has the shape \(3, 8, 7\)"),
        ("t10k-images-idx3-ubyte", np.zeros((3, 9, 9), np.uint8), "different sizes"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(name: str, array: np.ndarray, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_set({**small_set(4, 3), name: idx(array)})
