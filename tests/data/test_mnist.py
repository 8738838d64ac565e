from __future__ import annotations

import hashlib
import lzma
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.docs.pages import script
from thetarbm_cli.arrays import read_arrays
from thetarbm_cli.data.prepare import Prepared
from thetarbm_cli.data.sources import mnist
from thetarbm_cli.data.sources.mnist import generate_mnist, load_mnist
from thetarbm_cli.errors import InputError, ThetaRBMError

# Written out here again, so that the package is not its own witness.
PUBLISHED_MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
SHIPPED = Path(mnist.__file__).parents[1] / mnist.SHIPPED


@pytest.fixture(scope="module")
def shipped() -> dict[str, bytes]:
    """The four files, which take seconds to unpack."""
    return dict(mnist.read_shipped_files())


def test_shipped_files_are_the_published_ones(shipped: dict[str, bytes]) -> None:
    found = {name: hashlib.md5(content).hexdigest() for name, content in shipped.items()}
    assert found == PUBLISHED_MD5


def test_load_gives_train_then_test(shipped: dict[str, bytes]) -> None:
    images, labels = mnist.load_mnist()
    assert images.shape == (70_000, 28, 28)
    assert images.dtype == labels.dtype == np.uint8
    # The best known beginnings of the two halves: 5 0 4 1 9 and 7 2 1 0 4.
    assert labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert labels[60_000:60_005].tolist() == [7, 2, 1, 0, 4]
    assert images[60_000:].tobytes() == shipped["t10k-images-idx3-ubyte"][16:]
    assert images[:60_000].tobytes() == shipped["train-images-idx3-ubyte"][16:]


@pytest.mark.parametrize("content", [b"", SHIPPED.read_bytes()[:1000], b"not xz", lzma.compress(b"short", preset=0)])
def test_a_damaged_installation_is_named(content: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "shipped").mkdir()
    (tmp_path / mnist.SHIPPED).write_bytes(content)
    monkeypatch.setattr(mnist, "files", lambda package: tmp_path)
    with pytest.raises(ThetaRBMError, match="install thetarbm again"):
        mnist.read_shipped_files()


@pytest.fixture
def build_script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script(monkeypatch, "build_mnist")


def test_build_script_checks_and_joins_the_files(
    build_script: ModuleType, shipped: dict[str, bytes], tmp_path: Path
) -> None:
    for name, content in shipped.items():
        (tmp_path / name).write_bytes(content)
    assert build_script.read_checked(tmp_path) == b"".join(shipped.values())
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"other")
    with pytest.raises(InputError, match="t10k-labels-idx1-ubyte has the MD5"):
        build_script.read_checked(tmp_path)
    (tmp_path / "train-images-idx3-ubyte").unlink()
    with pytest.raises(InputError, match=r"cannot read .*train-images-idx3-ubyte"):
        build_script.read_checked(tmp_path)


@pytest.mark.slow
def test_build_script_gives_the_shipped_file(
    build_script: ModuleType, shipped: dict[str, bytes], tmp_path: Path
) -> None:
    for name, content in shipped.items():
        (tmp_path / name).write_bytes(content)
    build_script.build(tmp_path, tmp_path / "built.xz")
    assert lzma.decompress((tmp_path / "built.xz").read_bytes()) == lzma.decompress(SHIPPED.read_bytes())


def test_mnist_is_drawn_from_the_training_images_and_tested_on_the_test_images() -> None:
    arrays = generate_mnist()
    images, labels = load_mnist()
    source = arrays["source_indices"]
    assert np.array_equal(arrays["split"], np.repeat([0, 1, 2], [10_000, 2_000, 10_000]))
    assert len(np.unique(source)) == 22_000
    assert source[:12_000].max() < 60_000
    assert np.array_equal(source[12_000:], np.arange(60_000, 70_000))
    assert np.array_equal(arrays["images"], images[source])
    assert np.array_equal(arrays["labels"], labels[source])
    assert not arrays["angles"].any()


def test_mnist_is_not_drawn_in_the_order_of_mnist_rot(mnist_rot: Prepared) -> None:
    rotated = read_arrays(mnist_rot.path)["source_indices"][:10_000]
    shared = np.isin(generate_mnist()["source_indices"][:10_000], rotated).mean()
    # Independent draws: each of 60,000 training images is among the 10,000 of 70,000 with probability 1/7.
    assert shared == pytest.approx(1 / 7, abs=0.02)
    assert not np.array_equal(generate_mnist(0)["source_indices"], generate_mnist(1)["source_indices"])
