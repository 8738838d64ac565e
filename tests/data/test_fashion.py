from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tests.data.idxfiles import md5_of, small_set, write_set
from thetarbm_cli.data import rotated_digits
from thetarbm_cli.data.prepare import prepare, prepared_checksum
from thetarbm_cli.data.rotated_digits import GAUSSIAN, generate_bilinear, generate_rotated, rotate_exactly
from thetarbm_cli.data.sources import fashion
from thetarbm_cli.data.sources.mnist import FILES, read_set
from thetarbm_cli.errors import InputError

PARTS = small_set()
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
    assert fashion.find_fashion(nowhere, write_set(tmp_path / "named", PARTS)) == tmp_path / "named"


def test_without_files_one_sentence_says_what_to_do(nowhere: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        fashion.find_fashion(nowhere)
    for word in (*FILES, str(nowhere / "fashion-mnist"), "dataset-fashion-mnist", fashion.VARIABLE, "--archive"):
        assert word in str(told.value)
    assert "\n" not in str(told.value)


def test_a_named_folder_that_lacks_a_file_is_not_replaced_by_another(nowhere: Path, tmp_path: Path) -> None:
    write_set(nowhere / "fashion-mnist", PARTS)
    write_set(tmp_path / "named", {name: PARTS[name] for name in FILES[:3]})
    with pytest.raises(InputError, match=f"not in {tmp_path / 'named'}:"):
        fashion.find_fashion(nowhere, tmp_path / "named")


@pytest.mark.parametrize("packed", [True, False])
def test_files_are_read_packed_or_not(tmp_path: Path, packed: bool) -> None:
    folder = write_set(tmp_path, PARTS, packed=packed)
    images, labels = fashion.read_fashion(folder, md5_of(PARTS))
    expected, classes = read_set(PARTS)
    np.testing.assert_array_equal(images, expected)
    np.testing.assert_array_equal(labels, classes)


def test_another_set_under_the_same_names_is_refused(tmp_path: Path) -> None:
    checksum = md5_of(PARTS)["train-images-idx3-ubyte"]
    with pytest.raises(InputError, match=rf"train-images-idx3-ubyte is not Fashion-MNIST's: .* {checksum}"):
        fashion.read_fashion(write_set(tmp_path, PARTS))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"no gzip", "cannot be read"),
        (gzip.compress(PARTS[FILES[0]])[:-20], "cannot be read"),
        (gzip.compress(b"\0" * (fashion.LARGEST + 1), compresslevel=1), "more than 47040016 bytes"),
    ],
)
def test_damaged_and_too_large_files_are_named(tmp_path: Path, content: bytes, words: str) -> None:
    folder = write_set(tmp_path, PARTS, packed=True)
    (folder / f"{FILES[0]}.gz").write_bytes(content)
    with pytest.raises(InputError, match=words):
        fashion.read_fashion(folder, md5_of(PARTS))


def test_a_set_of_any_size_is_turned_as_mnist_rot_is() -> None:
    images, labels = read_set(PARTS)
    made = generate_rotated(images, labels, 3, stream=2, sizes=SMALL_SPLIT)
    source = made["source_indices"]
    assert len(source) == 55
    np.testing.assert_array_equal(made["split"], np.repeat([0, 1, 2], [20, 5, 30]))
    np.testing.assert_array_equal(made["labels"], labels[source])
    np.testing.assert_array_equal(made["images"], rotate_exactly(images[source], made["angles"], GAUSSIAN))
    again = generate_rotated(images, labels, 3, stream=2, sizes=SMALL_SPLIT)
    assert all(np.array_equal(made[name], again[name]) for name in made)
    other = generate_rotated(images, labels, 3, stream=0, sizes=SMALL_SPLIT)
    assert not np.array_equal(made["angles"], other["angles"])
    distinct = generate_bilinear(images, labels, 3, stream=2, sizes=SMALL_SPLIT)["source_indices"]
    assert len(np.unique(distinct)) == len(distinct) == 55


def test_prepared_data_does_without_the_files(nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = fashion.read_fashion
    monkeypatch.setattr(fashion, "read_fashion", lambda folder: read(folder, md5_of(PARTS)))
    generate = generate_rotated
    monkeypatch.setattr(
        rotated_digits, "generate_rotated", lambda *given, **options: generate(*given, **options, sizes=SMALL_SPLIT)
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
    # The best known beginnings of the two halves: an ankle boot twice.
    assert (labels[0], labels[60_000]) == (9, 9)
    made = prepare(tmp_path, "fashion-rot", archive=fashion.DEBIAN)
    assert made.sha256 == FASHION_ROT_SHA256
    assert prepare(tmp_path, "fashion-rot", "bilinear", archive=fashion.DEBIAN).sha256 == BILINEAR_SHA256
    np.testing.assert_array_equal(made.split, np.repeat([0, 1, 2], [10_000, 2_000, 50_000]))
