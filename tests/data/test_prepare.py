from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.archives import SMALL, small_tables, write_folder, write_own, write_zip
from thetarbm_cli import documents, storage
from thetarbm_cli.data.prepare import Prepared, prepare, recognise_archive
from thetarbm_cli.data.prepared import Splits, summarise
from thetarbm_cli.data.recipes import PARTS, Arrays, Recipe, Request
from thetarbm_cli.data.sources import mnist, official
from thetarbm_cli.data.sources.official import TEST_FILE, TRAIN_VALID_FILE, archive_checksum, read_official
from thetarbm_cli.errors import InputError
from thetarbm_cli.registry import DATASETS, DatasetEntry, load_target
from thetarbm_cli.specs import train_spec


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(tmp_path_factory.mktemp("original"), "mnist")


@pytest.fixture
def folder(original: Prepared, tmp_path: Path) -> Path:
    """A data folder with mnist in it that a test may damage."""
    shutil.copytree(original.path.parent, tmp_path / "data")
    return tmp_path / "data"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_prepared_files_are_plain_and_described(original: Prepared) -> None:
    assert (original.dataset, original.source, original.seed, original.cached) == ("mnist", "shipped", 0, False)
    assert names(original.path.parent) == ["mnist-shipped-seed0.json", "mnist-shipped-seed0.npz"]
    assert hashlib.sha256(original.path.read_bytes()).hexdigest() == original.sha256
    with np.load(original.path) as arrays:
        assert arrays["images"].shape == (22_000, 28, 28)
        assert np.array_equal(arrays["labels"], original.labels)
        assert np.array_equal(arrays["split"], original.split)
    sidecar, summary = json.loads(original.path.with_suffix(".json").read_text()), summarise(original)
    assert (sidecar["sha256"], sidecar["summary"]) == (original.sha256, summary.model_dump())
    pixels = original.images / 255
    assert summary.pixel_mean == pytest.approx(pixels.mean(), abs=1e-12)
    assert summary.pixel_std == pytest.approx(pixels.std(), abs=1e-12)
    assert summary.classes["test"]["7"] == int(((original.labels == 7) & (original.split == 2)).sum())


def test_second_call_finds_the_same_data_and_force_makes_it_again(folder: Path, original: Prepared) -> None:
    found = prepare(folder, "mnist")
    assert found.cached
    assert found.sha256 == original.sha256
    for name in ("images", "labels", "split", "angles"):
        assert np.array_equal(getattr(found, name), getattr(original, name))
    made = prepare(folder, "mnist", force=True)
    assert (made.cached, made.sha256) == (False, original.sha256)
    # Another seed has a file of its own.
    other = prepare(folder, "mnist", seed=12)
    assert other.path.name == "mnist-shipped-seed12.npz"
    assert other.sha256 != original.sha256


def replace_by_text(data: Path, sidecar: Path) -> None:
    data.write_bytes(b"not a zip")
    change_sidecar(sidecar, sha256=storage.sha256_of_file(data))


def change_sidecar(sidecar: Path, **changes: Any) -> None:
    documents.write(sidecar, {**documents.read(sidecar), **changes})


# Other damage of the same files, under every command that reads them: tests/hardening.
@pytest.mark.parametrize(
    ("damage", "level", "reason"),
    [
        (lambda data, sidecar: data.unlink(), logging.WARNING, "the data file is missing"),
        (lambda data, sidecar: os.truncate(data, 1_000_000), logging.WARNING, "its checksum is wrong"),
        (replace_by_text, logging.WARNING, "it cannot be read"),
        (lambda data, sidecar: documents.write(sidecar, {}), logging.WARNING, "has no valid 'format'"),
        # What is only outdated is no reason to warn.
        (lambda data, sidecar: change_sidecar(sidecar, format=99, sha256=None), logging.INFO, "is made again"),
        (lambda data, sidecar: change_sidecar(sidecar, recipe={"method": "older"}), logging.INFO, "is made again"),
    ],
)
def test_damaged_and_outdated_data_is_made_again(
    folder: Path,
    original: Prepared,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path, Path], object],
    level: int,
    reason: str,
) -> None:
    data = folder / "mnist-shipped-seed0.npz"
    damage(data, data.with_suffix(".json"))
    with caplog.at_level(logging.INFO, logger="thetarbm"):
        made = prepare(folder, "mnist")
    assert [record.levelno for record in caplog.records] == [level]
    assert reason in caplog.text
    assert not made.cached
    assert storage.sha256_of_file(data) == made.sha256 == original.sha256
    assert names(folder) == names(original.path.parent)
    assert prepare(folder, "mnist").cached


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dataset": "fashion"}, "unknown data set 'fashion'.*fashion-rot"),
        ({"source": "elsewhere"}, "unknown source 'elsewhere': use generated, bilinear, official, .* .npz"),
        ({"source": "elsewhere.npz"}, "no file elsewhere.npz"),
        ({"source": "."}, "folder"),
        ({"seed": -1}, "seed -1"),
        ({"archive": Path("x.zip")}, "--archive"),
        ({"source": "shipped"}, "mnist-rot has no source 'shipped': use --source generated or --source bilinear or"),
    ],
)
def test_requests_that_make_no_sense_are_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare(tmp_path, **options)
    assert names(tmp_path) == []


def test_subset_is_balanced_and_keeps_everything_together(mnist_rot: Prepared) -> None:
    small = mnist_rot.subset(200, 50, 105)
    summary = summarise(small)
    assert summary.splits == Splits(train=200, valid=50, test=105)
    assert set(summary.classes["train"].values()) == {20}
    assert set(summary.classes["test"].values()) == {10, 11}
    # Every image with its own label, in the original order: angles are distinct and tell who is who.
    assert mnist_rot.angles is not None
    assert small.angles is not None
    rows = np.flatnonzero(np.isin(mnist_rot.angles, small.angles))
    for name in ("images", "labels", "split"):
        assert np.array_equal(getattr(small, name), getattr(mnist_rot, name)[rows])
    # None, or more than there are, means all.
    assert summarise(small.subset(None, 99_999, 0)).splits == Splits(train=200, valid=50, test=0)
    with pytest.raises(InputError, match="cannot take -1 images"):
        small.subset(-1)


@pytest.fixture
def archive(mnist_rot: Prepared, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A small official archive as a folder; while it is there, the official archive is small."""
    monkeypatch.setattr(official, "read_official", functools.partial(read_official, sizes=SMALL))
    ends = np.cumsum(list(SMALL.values()))[:-1]
    parts = np.split(mnist_rot.labels[: sum(SMALL.values())], ends)
    counts = {name: tuple(np.bincount(part, minlength=10)) for name, part in zip(PARTS, parts, strict=True)}
    monkeypatch.setattr(official, "CLASS_COUNTS", counts)
    return write_folder(tmp_path / "archive", *small_tables(mnist_rot.images, mnist_rot.labels))


def test_official_data_is_found_again_without_the_archive(archive: Path, tmp_path: Path, mnist_rot: Prepared) -> None:
    with pytest.raises(InputError, match=r"cannot be downloaded .* prepare-data --source official --archive FILE, or"):
        prepare(tmp_path / "data", source="official")
    members = {name: (archive / name).read_bytes() for name in (TRAIN_VALID_FILE, TEST_FILE)}
    zipped = write_zip(tmp_path / "copy.zip", members)
    made = prepare(tmp_path / "data", source="official", archive=zipped)
    assert (made.dataset, made.source, made.cached, made.angles) == ("mnist-rot", "official", False, None)
    assert made.images.dtype == np.float32
    np.testing.assert_allclose(made.images, mnist_rot.images[: len(made.images)] / 255, atol=1e-7)
    assert recognise_archive(made) == "this is the official archive"
    zipped.unlink()
    found = prepare(tmp_path / "data", source="official")
    assert found.cached
    assert found.sha256 == made.sha256
    with pytest.raises(InputError, match="is missing: --archive takes"):
        prepare(tmp_path / "data", source="official", archive=zipped)


def test_another_archive_is_made_anew_and_one_that_is_not_the_official_is_refused(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"source": "official", "archive": archive}
    made = prepare(tmp_path / "data", **options)
    assert prepare(tmp_path / "data", **options).cached
    # What an older version read without turning it round is not it.
    change_sidecar(
        made.path.with_suffix(".json"), recipe={"archive_sha1": archive_checksum(archive), "transposed": False}
    )
    assert not prepare(tmp_path / "data", **options).cached
    lines = (archive / TEST_FILE).read_bytes().splitlines(keepends=True)
    (archive / TEST_FILE).write_bytes(b"".join(reversed(lines)))
    other = prepare(tmp_path / "data", **options)
    assert not other.cached
    assert np.array_equal(other.images[72:], made.images[72:][::-1])
    (archive / TEST_FILE).write_bytes(b"".join([*lines[:-1], lines[0]]))
    with pytest.raises(InputError, match=r"archive is not the official archive: test has \d+ images of class \d, not"):
        prepare(tmp_path / "data", **options)
    # By its checksum it is, whatever its classes.
    monkeypatch.setattr(official, "CHECKSUM", archive_checksum(archive))
    assert not prepare(tmp_path / "data", **options).cached


def test_own_images_are_prepared_under_their_name_and_content(tmp_path: Path) -> None:
    mine = write_own(tmp_path / "my images.npz", 40)
    made = prepare(tmp_path / "data", source=str(mine))
    checksum = hashlib.sha256(mine.read_bytes()).hexdigest()
    assert made.path.name == f"my_images-{checksum[:12]}-seed0.npz"
    assert (made.dataset, made.source, made.size, made.cached) == ("my_images", str(mine), 8, False)
    assert prepare(tmp_path / "data", source=str(mine)).cached
    other_seed = prepare(tmp_path / "data", source=str(mine), seed=1)
    assert not np.array_equal(other_seed.split, made.split)
    write_own(mine, 40, images=made.images[::-1])
    changed = prepare(tmp_path / "data", source=str(mine))
    assert not changed.cached
    assert np.array_equal(changed.images, made.images[::-1])


def negatives(request: Request) -> Recipe:
    def build(progress: object) -> tuple[Arrays, dict[str, Any]]:
        images, labels = mnist.load_mnist()
        arrays = {"images": 255 - images[:30], "labels": labels[:30].astype("<i8")}
        return {**arrays, "split": np.arange(30, dtype=np.uint8) % 3}, {"method": "negative"}

    return Recipe({"method": "negative"}, build)


def test_a_new_data_set_is_a_recipe_and_a_line_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {"generated": f"{__name__}:negatives"}
    entry = DatasetEntry("mnist-negative", sources["generated"], "negatives", "White paper.", sources)
    monkeypatch.setitem(DATASETS.own, entry.name, entry)
    made = prepare(tmp_path, "mnist-negative")
    assert made.path.name == "mnist-negative-generated-seed0.npz"
    assert made.images.min() == 0
    assert prepare(tmp_path, "mnist-negative").cached
    assert train_spec("rbm", {"data.dataset": "mnist-negative"}).tested_on == "mnist-negative"
    for each in DATASETS:
        for source in each.sources:
            assert callable(load_target(each.sources[source])(Request(tmp_path, source)).build)
