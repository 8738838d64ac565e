from __future__ import annotations

import errno
import hashlib
import http.server
import io
import logging
import os
import threading
from collections.abc import Iterator
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
    download_archive,
    looks_transposed,
    open_table,
    read_official,
    read_table,
    recognise,
)
from thetarbm_cli.errors import InputError, ThetaRBMError

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
    from_zip, transposed = read_official(small_zip, sizes=SMALL, progress=lambda *step: seen.append(step))
    from_folder, _ = read_official(write_folder(tmp_path, *tables), sizes=SMALL)
    assert not transposed
    assert seen == [(round(1000 * 72 / ROWS), 1000), (1000, 1000)]
    assert list(from_zip) == ["images", "labels", "split"]
    for name, array in from_zip.items():
        assert np.array_equal(array, from_folder[name])
    assert from_zip["images"].dtype == np.float32
    np.testing.assert_allclose(from_zip["images"], mnist_rot.images[:ROWS] / 255, atol=1e-7)
    assert np.array_equal(from_zip["labels"], mnist_rot.labels[:ROWS])
    assert np.array_equal(from_zip["split"], np.repeat([0, 1, 2], [60, 12, 90]))
    with pytest.raises(InputError, match=r"train_valid.amat in .* ends after 72 lines, and 12000 are expected"):
        read_official(small_zip)


def test_mirrored_digits_are_noticed(mnist_rot: Prepared, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="thetarbm")
    mirrored = mnist_rot.images.transpose(0, 2, 1)
    write_folder(tmp_path, *small_tables(mirrored, mnist_rot.labels))
    for transpose, expected, level, message in (
        ("auto", True, "INFO", "mirrored, so they are transposed"),
        ("no", False, "WARNING", "--transpose yes turns them round"),
    ):
        caplog.clear()
        arrays, transposed = read_official(tmp_path, transpose, sizes=SMALL)
        assert transposed is expected
        shown = (mnist_rot.images if expected else mirrored)[:ROWS]
        np.testing.assert_allclose(arrays["images"], shown / 255, atol=1e-7)
        assert [record.levelname for record in caplog.records] == [level]
        assert message in caplog.text
    caplog.clear()
    assert read_official(tmp_path, "yes", sizes=SMALL)[1]
    assert not caplog.records


def test_the_true_archive_is_recognised_by_its_labels(mnist_rot: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    labels, split = mnist_rot.labels, mnist_rot.split
    for part in ("train", "valid", "test"):
        assert f"{part} has " in recognise(labels, split)
    # As if these were the labels of the archive.
    counts = {name: tuple(np.bincount(labels[split == part])) for part, name in enumerate(official.CLASS_COUNTS)}
    monkeypatch.setattr(official, "CLASS_COUNTS", counts)
    monkeypatch.setattr(official, "TEST_LABELS", [labels[12_000 + row] for row in official.TEST_ROWS])
    assert recognise(labels, split) == "this is the official archive"
    first, other = 12_000, 12_000 + int(np.flatnonzero(labels[12_100:] != labels[12_000])[0]) + 100
    swapped = labels.copy()
    swapped[[first, other]] = labels[[other, first]]
    assert recognise(swapped, split).endswith("official ones: 1 of 20 known test rows have another label")


def test_checksum_is_of_the_zip_or_of_both_files(small_zip: Path, tables: tuple[bytes, bytes], tmp_path: Path) -> None:
    assert archive_checksum(small_zip) == hashlib.sha1(small_zip.read_bytes()).hexdigest()
    folder = write_folder(tmp_path, *tables)
    assert archive_checksum(folder) == hashlib.sha1(tables[0] + tables[1]).hexdigest()
    (folder / TEST_FILE).unlink()
    with pytest.raises(InputError, match=rf"{TEST_FILE} is missing: --archive takes"):
        archive_checksum(folder)


@pytest.fixture
def server(small_zip: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A server that has the small archive, to download from; the list is of requests."""
    requests: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=small_zip.parent)  # type: ignore[arg-type]

        def log_message(self, *arguments: object) -> None:
            requests.append(self.path)

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        # It looks every so often whether it is to end.
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        monkeypatch.setattr(official, "URL", f"http://127.0.0.1:{running.server_port}/{small_zip.name}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        yield requests
        running.shutdown()
        thread.join()


def test_download_is_checked_and_kept(
    server: list[str], small_zip: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(official, "CHECKSUM", archive_checksum(small_zip))
    (tmp_path / "tmpx8a2k_9q").write_bytes(b"left by a download that was killed")
    seen: list[tuple[int, int]] = []
    path = download_archive(tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == small_zip.read_bytes()
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert download_archive(tmp_path) == path
    assert len(server) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [small_zip.name, f"{small_zip.name}.lock"]


def test_a_download_that_is_another_file_or_finds_no_room_says_so(
    server: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(ThetaRBMError, match=r"another checksum .* prepare-data --source official --archive FILE, or"):
        download_archive(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mnist_rotation_new.zip.lock"]

    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", no_room)
    with pytest.raises(ThetaRBMError, match=r"cannot be downloaded \(No space left on device\)"):
        download_archive(tmp_path)


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


def test_blank_images_and_symmetric_digits_are_left_as_they_are() -> None:
    assert looks_transposed(np.zeros((20, 28, 28), np.uint8), np.arange(20) % 10) == (False, 0.0, 0.0)
    assert looks_transposed(np.ones((5, 28, 28), np.float32), np.zeros(5, int)) == (False, 0.0, 0.0)
