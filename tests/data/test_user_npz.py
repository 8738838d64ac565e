from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.data.archives import write_zip
from thetarbm_cli.data.recipes import NO_LABEL
from thetarbm_cli.data.sources import user_npz
from thetarbm_cli.data.sources.user_npz import read_untrusted, read_user_file
from thetarbm_cli.errors import InputError

GENERATOR = np.random.default_rng(0)
BYTES = GENERATOR.integers(0, 256, (30, 6, 6), dtype=np.uint8)
LABELS = np.arange(30) % 3
SPLIT = np.repeat([0, 1, 2], [15, 3, 12])


def save(tmp_path: Path, **arrays: Any) -> Path:
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (np.asfortranarray(BYTES), BYTES),
        (BYTES.reshape(30, 36), BYTES),
        (BYTES[:, None], BYTES),
        (np.asfortranarray(BYTES[..., None]), BYTES),
        (BYTES > 100, (BYTES > 100) * np.uint8(255)),
        (np.asfortranarray((BYTES / 255).astype(">f8")), (BYTES / 255).astype(np.float32)),
    ],
)
def test_images_of_every_kind_become_plain_arrays(tmp_path: Path, images: np.ndarray, expected: np.ndarray) -> None:
    arrays = read_user_file(save(tmp_path, images=images, labels=LABELS.astype(">i2"), split=SPLIT))
    np.testing.assert_array_equal(arrays["images"], expected, strict=True)
    np.testing.assert_array_equal(arrays["labels"], LABELS, strict=True)
    np.testing.assert_array_equal(arrays["split"], SPLIT.astype(np.uint8), strict=True)
    assert arrays["images"].flags.c_contiguous


def floats(value: float) -> np.ndarray:
    images = BYTES / 255
    images[4, 2, 1] = value
    return images


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"images": np.zeros((30, 6, 7), np.uint8)}, r"the shape \(30, 6, 7\); square images"),
        ({"images": np.zeros((30, 37), np.uint8)}, r"the shape \(30, 37\); square images"),
        ({"images": np.zeros((0, 6, 6), np.uint8), "labels": np.zeros(0, int)}, "has no images"),
        ({"images": np.zeros((30, 257, 257), np.uint8)}, "of 257×257 pixels are not supported, only 4×4 to 256×256"),
        ({"images": BYTES.astype(np.int64)}, "type int64; store them as uint8, or as floats"),
        ({"images": BYTES.astype(float)}, r"from \d+ to 2\d\d, and \[0, 1\] is needed: divide by 255, or store uint8"),
        ({"images": BYTES * 4.0}, r"divide by 10\d\d$"),
        ({"images": floats(1.5)}, r"from \S+ to 1\.5, and \[0, 1\] is needed: divide by 1\.5$"),
        ({"images": floats(-0.5)}, r"image 4 has the value -0.5, which is not in \[0, 1\]$"),
        ({"images": floats(np.nan)}, r"image 4 has the value nan, which is not in \[0, 1\]$"),
        ({"labels": LABELS[:-1]}, r"labels have the shape \(29,\), and 30 images need \(30,\)"),
        ({"labels": LABELS + 0.5}, r"labels are of type float64.*number the classes from 0"),
        ({"images": np.zeros((30, 6, 6, 3), np.uint8)}, "grey"),
        ({"images": np.zeros((30, 1, 6, 7), np.uint8)}, r"the shape \(30, 6, 7\); square images"),
        ({"images": np.zeros((30, 2, 3, 6), np.uint8)}, r"the shape \(30, 2, 3, 6\); square images"),
        ({"labels": np.where(LABELS == 1, np.nan, LABELS)}, r"\d+ of 30 labels are empty; leave those images out, or"),
        ({"labels": np.array(["a", "b", " "])[LABELS]}, r"\d+ of 30 labels are empty"),
        ({"labels": LABELS - 1}, "labels go from -1 to 1; 0 to 9999 is possible"),
        ({"split": SPLIT[:-1]}, r"split is int64 of the shape \(29,\); 30 whole numbers"),
        ({"split": SPLIT - 1}, "split may hold 0 .* it holds -1"),
        ({"split": np.full(30, 2)}, "the train part is empty"),
        ({"split": np.zeros(30, int)}, "the test part is empty"),
        ({"split": np.where(LABELS == 0, 0, 2)}, "the train part has only class 0; at least two classes"),
    ],
)
def test_wrong_files_are_refused_with_a_reason(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    path = save(tmp_path, **{"images": BYTES, "labels": LABELS, "split": SPLIT, **changed})
    with pytest.raises(InputError, match=message) as caught:
        read_user_file(path)
    assert "\n" not in str(caught.value)


def test_the_split_is_independent_of_what_numpy_draws_from_the_same_seed(tmp_path: Path) -> None:
    """Images are often turned by angles of default_rng(seed): no part may have angles of its own."""
    angles = np.random.default_rng(0).uniform(0, 360, 3000)
    labels = np.arange(3000) % 10
    path = save(tmp_path, images=np.zeros((3000, 4, 4), np.uint8), labels=labels)
    split = read_user_file(path)["split"]
    assert np.array_equal(split, read_user_file(path)["split"])
    assert not np.array_equal(split, read_user_file(path, 1)["split"])
    assert np.bincount(split[labels == 4]).tolist() == [180, 30, 90]
    assert stats.kruskal(*(angles[split == part] for part in range(3))).pvalue > 0.01


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"images": BYTES % 2}, "no pixel is above 1 of 255"),
        ({"labels": np.where(SPLIT == 2, 7, LABELS)}, "class 7 is in the test part, but not in the train part"),
    ],
)
def test_odd_files_are_read_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changed: dict[str, Any], message: str
) -> None:
    with caplog.at_level(logging.WARNING, logger="thetarbm"):
        read_user_file(save(tmp_path, **{"images": BYTES, "labels": LABELS, "split": SPLIT, **changed}))
    assert message in caplog.text


def test_classes_with_one_image_to_learn_from_or_none_are_accepted(tmp_path: Path) -> None:
    labels = np.where(SPLIT == 2, 7, LABELS)
    labels[0] = 9
    arrays = read_user_file(save(tmp_path, images=BYTES, labels=labels, split=SPLIT))
    np.testing.assert_array_equal(arrays["labels"], labels)


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def test_reads_the_named_arrays_only(tmp_path: Path) -> None:
    array = np.arange(6, dtype=">f8").reshape(2, 3, order="F")
    members = {"a.npy": npy(array, (2, 0)), "b.npy": npy(np.array(3)), "evil.npy": b"never looked at"}
    path = write_zip(tmp_path / "file.npz", members)
    found = read_untrusted(path, ("a",), ("b", "c"))
    assert list(found) == ["a", "b"]
    assert np.array_equal(found["a"], array)


def test_bombs_are_refused_before_they_unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_npz, "LARGEST_ARRAY", 100_000)
    path = write_zip(tmp_path / "file.npz", {"a.npy": npy(np.zeros(1_000_000, np.uint8))})
    with pytest.raises(InputError, match="'a' unpacks to 1000128 bytes; at most 100000 are read"):
        read_untrusted(path, ("a",), ())


def test_what_is_no_npz_or_lacks_an_array_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.npz").write_bytes(npy(np.zeros(3)))
    with pytest.raises(InputError, match=r"is not a readable \.npz file"):
        read_untrusted(tmp_path / "file.npz", ("a",), ())
    with pytest.raises(InputError, match=r"has no array 'images': it needs images, and has 'labels'"):
        read_user_file(save(tmp_path, labels=LABELS))


def test_words_are_labels_in_their_order_and_labels_may_be_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "thetarbm")
    for kind in (str, np.bytes_):
        caplog.clear()
        words = np.array(["rose", "daisy", "tulip"])[LABELS].astype(kind)
        arrays = read_user_file(save(tmp_path, images=BYTES, labels=words))
        np.testing.assert_array_equal(arrays["labels"], np.array([1, 0, 2])[LABELS])
        assert "0 daisy, 1 rose, 2 tulip" in caplog.text
    arrays = read_user_file(save(tmp_path, images=BYTES))
    assert set(arrays["labels"]) == {NO_LABEL}
    assert np.bincount(arrays["split"]).tolist() == [18, 3, 9]
