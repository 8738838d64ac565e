from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.archives import SMALL, small_tables, write_folder, write_zip
from thetarbm_cli.data.prepare import Prepared
from thetarbm_cli.data.sources import official
from thetarbm_cli.data.sources.official import (
    LONGEST_NUMBER,
    TEST_FILE,
    TRAIN_VALID_FILE,
    archive_checksum,
    differences,
    open_table,
    read_official,
    read_table,
)
from thetarbm_cli.errors import InputError

ROWS = sum(SMALL.values())


@pytest.fixture(scope="module")
def tables(mnist_rot: Prepared) -> tuple[bytes, bytes]:
    return small_tables(mnist_rot.images, mnist_rot.labels)


@pytest.fixture(scope="module")
def small_zip(tables: tuple[bytes, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("official") / "mnist_rotation_new.zip"
    # Wherever the tables lie in it: no path inside of a zip is followed.
    return write_zip(path, {f"data/{TRAIN_VALID_FILE}": tables[0], f"../../{TEST_FILE}": tables[1], "other": b""})


def test_zip_and_folder_give_the_same_arrays(
    small_zip: Path, tables: tuple[bytes, bytes], mnist_rot: Prepared, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    from_zip = read_official(small_zip, sizes=SMALL, progress=lambda *step: seen.append(step))
    from_folder = read_official(write_folder(tmp_path, *tables), sizes=SMALL)
    assert seen == [(72, ROWS), (ROWS, ROWS)]
    assert list(from_zip) == ["images", "labels", "split"]
    for name, array in from_zip.items():
        assert np.array_equal(array, from_folder[name])
    assert from_zip["images"].dtype == np.float32
    np.testing.assert_allclose(from_zip["images"], mnist_rot.images[:ROWS] / 255, atol=1e-7)
    assert np.array_equal(from_zip["labels"], mnist_rot.labels[:ROWS])
    assert np.array_equal(from_zip["split"], np.repeat([0, 1, 2], [60, 12, 90]))
    with pytest.raises(InputError, match=r"train_valid.amat in .* ends after 72 lines, and 12000 are expected"):
        read_official(small_zip)


def test_the_true_archive_is_told_by_its_classes(mnist_rot: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, split = mnist_rot.labels, mnist_rot.split
    for part in ("train", "valid", "test"):
        assert f"{part} has " in differences(labels, split)
    # As if these were the labels of the archive.
    counts = {name: tuple(np.bincount(labels[split == part])) for part, name in enumerate(official.CLASS_COUNTS)}
    monkeypatch.setattr(official, "CLASS_COUNTS", counts)
    assert differences(labels, split) == ""
    changed = labels.copy()
    changed[12_000] = (labels[12_000] + 1) % 10
    assert re.fullmatch(r"test has \d+ images of class \d, not \d+", differences(changed, split))


def test_checksum_is_of_the_zip_or_of_both_files(small_zip: Path, tables: tuple[bytes, bytes], tmp_path: Path) -> None:
    assert archive_checksum(small_zip) == hashlib.sha1(small_zip.read_bytes()).hexdigest()
    folder = write_folder(tmp_path, *tables)
    assert archive_checksum(folder) == hashlib.sha1(tables[0] + tables[1]).hexdigest()
    (folder / TEST_FILE).unlink()
    with pytest.raises(InputError, match=rf"{TEST_FILE} is missing: --archive takes"):
        archive_checksum(folder)


def read_text(content: bytes, rows: int, pixels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    images, labels = np.empty((rows, pixels), np.float32), np.empty(rows, np.int64)
    read_table(io.BytesIO(content), "table.amat", images, labels)
    return images, labels


@given(
    st.lists(st.tuples(st.tuples(*3 * [st.floats(0, 1)]), st.integers(0, 9)), min_size=1, max_size=5),
    st.sampled_from(["{:.10e}", "{!r}", "{:.6f}"]),
    st.sampled_from(["\n", "\r\n", " \n"]),
)
def test_reads_what_was_written(rows: list[tuple[tuple[float, ...], int]], number: str, end: str) -> None:
    lines = ["   ".join([*(number.format(value) for value in values), f"{label}.0"]) for values, label in rows]
    images, labels = read_text((end.join(lines) + end).encode(), len(rows))
    expected = [[float(number.format(value)) for value in values] for values, _ in rows]
    assert np.array_equal(images, np.array(expected, dtype=np.float32))
    assert labels.tolist() == [label for _, label in rows]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "table.amat ends after 0 lines, and 2 are expected"),
        (b"0 0 0 1\n0 0 0 1\n0 0 0 1\n", "has more than the 2 lines"),
        (b"0 0 0 1\n0 0 1\n", "line 2 has 3 columns, and 4 are expected"),
        (b"0 0 0 1\n0 x 0 1\n", "line 2 has something that is not a number: .*x"),
        (b"0 " + b"z" * 120 + b" 0 1\n", "line 1 .*not a number: .*…$"),
        (b"0 nan 0 1\n", "line 1, column 2: nan is not a pixel value"),
        (b"0 0 1.01 1\n", "line 1, column 3: 1.01"),
        (b"0 0 0 2.5\n", "line 1: 2.5 is not a label"),
        (b"0" * (4 * LONGEST_NUMBER + 1), "line 1 is longer than 160 characters"),
    ],
)
def test_wrong_tables_are_refused_with_the_line(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_text(content, 2)
    assert "\n" not in str(caught.value)


def test_ends_of_lines_and_rounding_are_forgiven() -> None:
    assert read_text(b"0 0.5 1 7", 1)[1].tolist() == [7]
    assert read_text(b"0 0.5 1 7\n  \n\n", 1)[1].tolist() == [7]
    assert read_text(b"-0.0001 0.5 1.0001 7\n", 1)[0].tolist() == [[0.0, 0.5, 1.0]]


def test_a_zip_without_the_table_with_two_with_a_bomb_or_cut_off_is_refused(tmp_path: Path) -> None:
    missing = write_zip(tmp_path / "missing.zip", {"x" + TEST_FILE: b""})
    twice = write_zip(tmp_path / "twice.zip", {f"a/{TEST_FILE}": b"", f"b/{TEST_FILE}": b""})
    bomb = write_zip(tmp_path / "bomb.zip", {TEST_FILE: b"0" * 1_000_000})
    cut = tmp_path / "cut.zip"
    cut.write_bytes(bomb.read_bytes()[:-100])
    for archive, message in (
        (missing, "is missing"),
        (twice, "more than once"),
        (bomb, "unpacks to 1000000 bytes"),
        (cut, r"cut\.zip"),
    ):
        with pytest.raises(InputError, match=message), open_table(archive, TEST_FILE, 1000):
            pass


def test_damage_inside_a_zip_is_named_with_the_line(tmp_path: Path) -> None:
    lines = b"".join(b"0 0.%d 0 1\n" % number for number in range(10_000))
    content = bytearray(write_zip(tmp_path / "whole.zip", {TEST_FILE: lines}).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (tmp_path / "damaged.zip").write_bytes(content)
    images, labels = np.empty((10_000, 3), np.float32), np.empty(10_000, np.int64)
    with (
        pytest.raises(InputError, match=rf"{TEST_FILE} in .*damaged.zip, line \d+"),
        open_table(tmp_path / "damaged.zip", TEST_FILE, 1_000_000) as (stream, where),
    ):
        read_table(stream, where, images, labels)
