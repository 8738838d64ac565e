from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thetarbm_cli.data import npz
from thetarbm_cli.data.npz import read_untrusted
from thetarbm_cli.errors import InputError


def npy(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def write(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_reads_the_named_arrays_only(tmp_path: Path, method: int, version: tuple[int, int]) -> None:
    array = np.arange(6, dtype=">f8").reshape(2, 3, order="F")
    members = {"a.npy": npy(array, version), "b.npy": npy(np.array(3)), "evil.npy": b"never looked at"}
    path = write(tmp_path / "file.npz", members, method)
    found = read_untrusted(path, ("a",), ("b", "c"))
    assert list(found) == ["a", "b"]
    assert np.array_equal(found["a"], array)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", a=np.array([{"x": 1}], dtype=object))
    with pytest.raises(InputError, match="pickled Python objects, which are never loaded"):
        read_untrusted(tmp_path / "file.npz", ("a",), ())


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "file.npz", images=np.zeros(1))
    with pytest.raises(InputError, match="has no array 'labels': it needs images and labels"):
        read_untrusted(tmp_path / "file.npz", ("images", "labels"), ())


def test_bombs_are_refused_before_they_unpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(npz, "LARGEST_ARRAY", 100_000)
    path = write(tmp_path / "file.npz", {"a.npy": npy(np.zeros(1_000_000, np.uint8))})
    with pytest.raises(InputError, match="'a' unpacks to 1000128 bytes; at most 100000 are read"):
        read_untrusted(path, ("a",), ())


@pytest.mark.parametrize("shape", [(10**12, 8), (2**62, 2**62), (-1,), (7,)])
def test_a_header_that_claims_another_size_is_refused(tmp_path: Path, shape: tuple[int, ...]) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": shape})
    path = write(tmp_path / "file.npz", {"a.npy": header.getvalue() + b"12345678"})
    with pytest.raises(InputError, match="'a' is damaged: its header does not fit its size"):
        read_untrusted(path, ("a",), ())


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04", npy(np.zeros(3))])
def test_what_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"is not a readable \.npz file"):
        read_untrusted(tmp_path / "file.npz", ("a",), ())


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
def test_damaged_bytes_are_read_or_refused(tmp_path: Path, data: st.DataObject) -> None:
    array = np.arange(24, dtype=np.uint8).reshape(2, 12)
    content = bytearray(write(tmp_path / "whole.npz", {"a.npy": npy(array)}).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (tmp_path / "file.npz").write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    # The zip's own checksum covers the contents: what is read at all is what was written.
    with contextlib.suppress(InputError):
        assert np.array_equal(read_untrusted(tmp_path / "file.npz", ("a",), ())["a"], array)
