from __future__ import annotations

import errno
import hashlib
import http.server
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.data.archives import SMALL, table, write_folder, write_zip
from thetarbm_cli.data import official
from thetarbm_cli.data.official import (
    TEST_FILE,
    TRAIN_VALID_FILE,
    archive_checksum,
    download_archive,
    read_official,
)
from thetarbm_cli.data.prepared import Prepared
from thetarbm_cli.errors import InputError, ThetaRBMError

ROWS = sum(SMALL.values())


@pytest.fixture(scope="module")
def tables(mnist_rot: Prepared) -> tuple[bytes, bytes]:
    images, labels = mnist_rot.images[:ROWS] / 255, mnist_rot.labels[:ROWS]
    first = SMALL[0] + SMALL[1]
    return table(images[:first], labels[:first]), table(images[first:], labels[first:])


@pytest.fixture(scope="module")
def small_zip(tables: tuple[bytes, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("official") / "mnist_rotation_new.zip"
    return write_zip(path, {TRAIN_VALID_FILE: tables[0], TEST_FILE: tables[1]})


def test_zip_and_folder_give_the_same_arrays(
    small_zip: Path, tables: tuple[bytes, bytes], mnist_rot: Prepared, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []
    from_zip, transposed = read_official(small_zip, sizes=SMALL, progress=lambda *step: seen.append(step))
    from_folder, _ = read_official(write_folder(tmp_path, *tables), sizes=SMALL)
    assert not transposed
    assert seen == [(72, ROWS), (ROWS, ROWS)]
    assert list(from_zip) == ["images", "labels", "split"]
    for name, array in from_zip.items():
        assert np.array_equal(array, from_folder[name])
    assert from_zip["images"].dtype == np.float32
    np.testing.assert_allclose(from_zip["images"], mnist_rot.images[:ROWS] / 255, atol=1e-7)
    assert np.array_equal(from_zip["labels"], mnist_rot.labels[:ROWS])
    assert np.array_equal(from_zip["split"], np.repeat([0, 1, 2], [60, 12, 90]))


@pytest.mark.parametrize(
    ("transpose", "mirrored", "expected", "level", "message"),
    [
        ("auto", False, False, logging.INFO, "look the right way round"),
        ("auto", True, True, logging.INFO, "mirrored, so they are transposed"),
        ("no", True, False, logging.WARNING, "--transpose yes turns them round"),
        ("yes", False, True, logging.WARNING, "--transpose no turns them round"),
        ("no", False, False, None, ""),
        ("yes", True, True, None, ""),
    ],
)
def test_mirrored_digits_are_noticed(
    mnist_rot: Prepared,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    transpose: str,
    mirrored: bool,
    expected: bool,
    level: int | None,
    message: str,
) -> None:
    right = mnist_rot.images[:ROWS] / 255
    images = right.transpose(0, 2, 1) if mirrored else right
    labels = mnist_rot.labels[:ROWS]
    write_folder(tmp_path, table(images[:72], labels[:72]), table(images[72:], labels[72:]))
    with caplog.at_level(logging.INFO, logger="thetarbm"):
        arrays, transposed = read_official(tmp_path, transpose, sizes=SMALL)
    assert transposed is expected
    np.testing.assert_allclose(arrays["images"], right if mirrored == expected else right.transpose(0, 2, 1), atol=1e-7)
    assert [record.levelno for record in caplog.records] == ([] if level is None else [level])
    assert message in caplog.text


def test_a_file_with_other_than_the_published_rows_is_refused(small_zip: Path) -> None:
    with pytest.raises(InputError, match=r"train_valid.amat in .* ends after 72 lines, and 12000 are expected"):
        read_official(small_zip)


def test_checksum_is_of_the_zip_or_of_both_files(small_zip: Path, tables: tuple[bytes, bytes], tmp_path: Path) -> None:
    assert archive_checksum(small_zip) == hashlib.sha1(small_zip.read_bytes()).hexdigest()
    folder = write_folder(tmp_path, *tables)
    assert archive_checksum(folder) == hashlib.sha1(tables[0] + tables[1]).hexdigest()
    (folder / TEST_FILE).unlink()
    for missing in (folder, tmp_path / "nowhere.zip"):
        with pytest.raises(InputError, match="is missing: --archive takes"):
            archive_checksum(missing)


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
        thread = threading.Thread(target=running.serve_forever)
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
    seen: list[tuple[int, int]] = []
    path = download_archive(tmp_path, lambda *step: seen.append(step))
    assert path.read_bytes() == small_zip.read_bytes()
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
    assert download_archive(tmp_path) == path
    assert len(server) == 1


def test_a_download_with_another_checksum_is_refused(server: list[str], tmp_path: Path) -> None:
    with pytest.raises(ThetaRBMError, match=r"another checksum .* --archive, or use --source generated"):
        download_archive(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mnist_rotation_new.zip.lock"]


def test_what_a_killed_download_left_is_removed(
    server: list[str], small_zip: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(official, "CHECKSUM", archive_checksum(small_zip))
    (tmp_path / "tmpx8a2k_9q").write_bytes(b"half")
    download_archive(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [small_zip.name, f"{small_zip.name}.lock"]


def test_a_download_that_finds_no_room_says_so(
    server: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def no_room(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("pooch.HTTPDownloader.__call__", no_room)
    with pytest.raises(ThetaRBMError, match=r"cannot be downloaded \(No space left on device\)"):
        download_archive(tmp_path)


@pytest.mark.parametrize("end", ["/not-there.zip", ":1/"])
def test_a_failed_download_says_what_to_do(
    server: list[str], end: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    base = official.URL.rsplit("/", 1)[0] if end.startswith("/") else "http://127.0.0.1"
    monkeypatch.setattr(official, "URL", base + end)
    with pytest.raises(ThetaRBMError, match=r"cannot be downloaded .* --archive, or use --source generated") as caught:
        download_archive(tmp_path)
    assert not isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)
