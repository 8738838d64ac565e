from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from tests.data.archives import small_set, write_set
from thetarbm_cli.data import rotated_digits
from thetarbm_cli.data.prepare import prepare, prepared_checksum
from thetarbm_cli.data.rotated_digits import generate_rotated
from thetarbm_cli.data.sources import fashion
from thetarbm_cli.data.sources.mnist import FILES, read_set
from thetarbm_cli.errors import InputError

PARTS = small_set()
MD5 = {name: hashlib.md5(content).hexdigest() for name, content in PARTS.items()}
SMALL_SPLIT = {0: 20, 1: 5, 2: 30}
# The files of the default seed. They change only if the recipe does: then older results belong to other data.
FASHION_ROT_SHA256 = "fdfb42fb353eef2f73ebd01d194ae65153f352143692ba2c627b18b3068a694a"
BILINEAR_SHA256 = "d5ad8f40204a1c1dc57ea0e22b2589e904389e1b0c7fb03e91c6b73abe1d573c"

installed = pytest.mark.skipif(
    not (fashion.DEBIAN / "train-images-idx3-ubyte.gz").is_file(),
    reason="Fashion-MNIST is not installed (Debian's package dataset-fashion-mnist)",
)


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A data folder on a machine without Fashion-MNIST."""
    monkeypatch.setattr(fashion, "DEBIAN", tmp_path / "debian")
    monkeypatch.delenv(fashion.VARIABLE, raising=False)
    return tmp_path / "data"


def test_folders_are_searched_in_order(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "debian", PARTS, packed=True)
    assert fashion.find_fashion(nowhere) == tmp_path / "debian"
    write_set(nowhere / "fashion-mnist", PARTS)
    assert fashion.find_fashion(nowhere) == nowhere / "fashion-mnist"
    monkeypatch.setenv(fashion.VARIABLE, str(write_set(tmp_path / "variable", PARTS)))
    assert fashion.find_fashion(nowhere) == tmp_path / "variable"
    named = write_set(tmp_path / "named", PARTS)
    assert fashion.find_fashion(nowhere, named) == named
    # One that is named and lacks a file is not replaced by another.
    (named / FILES[3]).unlink()
    with pytest.raises(InputError, match=f"not in {named}: .*dataset-fashion-mnist.*{fashion.VARIABLE}.*--archive"):
        fashion.find_fashion(nowhere, named)


@pytest.mark.parametrize("packed", [True, False])
def test_files_are_read_packed_or_not_and_no_others(tmp_path: Path, packed: bool) -> None:
    folder = write_set(tmp_path, PARTS, packed=packed)
    for found, expected in zip(fashion.read_fashion(folder, MD5), read_set(PARTS), strict=True):
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(InputError, match=r"train-images-idx3-ubyte\S* is not Fashion-MNIST's: "):
        fashion.read_fashion(folder)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(PARTS[FILES[0]])[:-20], "cannot be read"),
        (gzip.compress(b"\0" * (fashion.LARGEST + 1), compresslevel=1), "more than 47040016 bytes"),
    ],
)
def test_damaged_and_too_large_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    folder = write_set(tmp_path, PARTS, packed=True)
    (folder / f"{FILES[0]}.gz").write_bytes(content)
    with pytest.raises(InputError, match=words):
        fashion.read_fashion(folder, MD5)


def test_prepared_data_does_without_the_files(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = fashion.read_fashion
    monkeypatch.setattr(fashion, "read_fashion", lambda folder: read(folder, MD5))
    monkeypatch.setattr(
        rotated_digits,
        "generate_rotated",
        lambda *given, **options: generate_rotated(*given, **{**options, "sizes": SMALL_SPLIT}),
    )
    with pytest.raises(InputError, match="dataset-fashion-mnist"):
        prepare(nowhere, "fashion-rot")
    made = prepare(nowhere, "fashion-rot", archive=write_set(tmp_path / "named", PARTS))
    assert (made.dataset, made.source, made.cached, made.size) == ("fashion-rot", "generated", False, 8)
    found = prepare(nowhere, "fashion-rot")
    assert (found.cached, found.sha256) == (True, made.sha256)
    assert prepared_checksum(nowhere, "fashion-rot", "generated") == made.sha256
    assert prepared_checksum(nowhere, "mnist-rot", "generated") is None


@installed
def test_the_installed_files_give_the_recorded_data(tmp_path: Path) -> None:
    images, labels = fashion.read_fashion(fashion.DEBIAN)
    assert images.shape == (70_000, 28, 28)
    assert np.bincount(labels).tolist() == [7_000] * 10
    made = prepare(tmp_path, "fashion-rot", archive=fashion.DEBIAN)
    assert made.sha256 == FASHION_ROT_SHA256
    assert prepare(tmp_path, "fashion-rot", "bilinear", archive=fashion.DEBIAN).sha256 == BILINEAR_SHA256
