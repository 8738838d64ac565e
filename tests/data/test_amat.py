from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.data.archives import write_folder, write_zip
from thetarbm_cli.data.amat import LONGEST_NUMBER, open_table, read_table
from thetarbm_cli.data.official import TEST_FILE
from thetarbm_cli.errors import InputError


def read(content: bytes, rows: int, pixels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    images, labels = np.empty((rows, pixels), np.float32), np.empty(rows, np.int64)
    read_table(io.BytesIO(content), "table.amat", images, labels)
    return images, labels


@given(
    st.lists(
        st.tuples(st.lists(st.floats(0, 1), min_size=3, max_size=3), st.integers(0, 9)),
        min_size=1,
        max_size=5,
    ),
    st.sampled_from(["{:.10e}", "{!r}", "{:.6f}"]),
    st.sampled_from(["\n", "\r\n", " \n"]),
)
def test_reads_what_was_written(rows: list[tuple[list[float], int]], number: str, end: str) -> None:
    lines = ["   ".join([*(number.format(value) for value in values), f"{label}.0"]) for values, label in rows]
    images, labels = read((end.join(lines) + end).encode(), len(rows))
    expected = [[float(number.format(value)) for value in values] for values, _ in rows]
    assert np.array_equal(images, np.array(expected, dtype=np.float32))
    assert labels.tolist() == [label for _, label in rows]


def test_last_line_needs_no_end_and_blank_lines_may_follow() -> None:
    assert read(b"0 0.5 1 7", 1)[1].tolist() == [7]
    assert read(b"0 0.5 1 7\n  \n\n", 1)[1].tolist() == [7]


def test_an_overshoot_by_rounding_is_cut() -> None:
    assert read(b"-0.0001 0.5 1.0001 7\n", 1)[0].tolist() == [[0.0, 0.5, 1.0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "table.amat ends after 0 lines, and 2 are expected"),
        (b"0 0 0 1\n", "ends after 1 lines, and 2 are expected"),
        (b"0 0 0 1\n0 0 0 1\n0 0 0 1\n", "has more than the 2 lines"),
        (b"0 0 0 1\n0 0 1\n", "line 2 has 3 columns, and 4 are expected"),
        (b"0 0 0 1\n\n0 0 0 1\n", "line 2 has 0 columns"),
        (b"0 0 0 0 1\n", "line 1 has 5 columns"),
        (b"0 0 0 1\n0 x 0 1\n", "line 2 has something that is not a number: .*x"),
        (b"0 \xff\xfe 0 1\n", "line 1 has something that is not a number"),
        (b"0 " + b"z" * 120 + b" 0 1\n", "line 1 .*not a number: .*…$"),
        (b"0 nan 0 1\n", "line 1, column 2: nan is not a pixel value"),
        (b"0 0 inf 1\n", "line 1, column 3: inf is not a pixel value"),
        (b"0 0 1e999 1\n", "line 1, column 3: inf"),
        (b"0 0 1.01 1\n", "line 1, column 3: 1.01"),
        (b"-0.01 0 0 1\n", "line 1, column 1: -0.01"),
        (b"0 128 0 1\n", "line 1, column 2: 128.0"),
        (b"0 0 0 10\n", "line 1: 10.0 is not a label in 0..9"),
        (b"0 0 0 -1\n", "line 1: -1.0 is not a label"),
        (b"0 0 0 2.5\n", "line 1: 2.5 is not a label"),
        (b"0 0 0 nan\n", "line 1: nan is not a label"),
        (b"0" * (4 * LONGEST_NUMBER + 1), "line 1 is longer than 160 characters"),
    ],
)
def test_wrong_tables_are_refused_with_the_line(content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(content, 2)
    assert "\n" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        images, labels = read(content, 1)
    except InputError:
        return
    assert np.isfinite(images).all()
    assert 0 <= labels[0] <= 9


def test_progress_ends_with_the_last_row() -> None:
    seen: list[tuple[int, int]] = []
    images, labels = np.empty((1203, 3), np.float32), np.empty(1203, np.int64)
    read_table(io.BytesIO(b"0 0 0 1\n" * 1203), "t", images, labels, lambda *step: seen.append(step))
    assert seen == [(500, 1203), (1000, 1203), (1203, 1203)]


def test_tables_are_found_in_folders_and_zips_wherever_they_lie_in_them(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "folder", b"train", b"test")
    plain = write_zip(tmp_path / "plain.zip", {TEST_FILE: b"test", "other.txt": b""})
    nested = write_zip(tmp_path / "nested.zip", {f"../../etc/{TEST_FILE}": b"test"})
    for archive in (folder, plain, nested):
        with open_table(archive, TEST_FILE, 100) as (stream, where):
            assert stream.read() == b"test"
            assert TEST_FILE in where
    assert sorted(path.name for path in tmp_path.rglob("*.amat")) == sorted(path.name for path in folder.iterdir())


def test_a_zip_without_the_table_with_two_or_with_a_bomb_is_refused(tmp_path: Path) -> None:
    missing = write_zip(tmp_path / "missing.zip", {"x" + TEST_FILE: b""})
    twice = write_zip(tmp_path / "twice.zip", {f"a/{TEST_FILE}": b"", f"b/{TEST_FILE}": b""})
    bomb = write_zip(tmp_path / "bomb.zip", {TEST_FILE: b"0" * 1_000_000})
    for archive, message in (
        (missing, "is missing"),
        (twice, "more than once"),
        (bomb, "unpacks to 1000000 bytes"),
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


MEASURE = """
import resource, sys
from pathlib import Path
from thetarbm_cli.data.official import read_official
arrays, _ = read_official(Path(sys.argv[1]), "no")
assert arrays["images"].shape == (62000, 28, 28)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_the_whole_archive_is_read_in_little_memory(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    lines = [
        b"   ".join([*(b"%.10e" % value for value in generator.random(784)), b"%d.0" % (number % 10)]) + b"\n"
        for number in range(100)
    ]
    write_folder(tmp_path, b"".join(lines) * 120, b"".join(lines) * 500)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert int(done.stdout) * 1024 < 1.5e9
