from __future__ import annotations

import sys
import time
import zipfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from thetarbm_cli.arrays import UnreadableArrayError, read_arrays, write_arrays

DTYPES = ["?", "u1", "<i8", ">i4", "<f4", "<f8", "<c8", "<U3", "S2"]


@given(
    array=arrays_of.arrays(
        dtype=st.sampled_from(DTYPES).map(np.dtype),
        shape=arrays_of.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_arrays_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, array: NDArray[np.generic]) -> None:
    path = tmp_path_factory.mktemp("arrays") / "file.npz"
    write_arrays(path, {"first": array, "turned": array.T})
    ours = read_arrays(path)
    with np.load(path, allow_pickle=False) as archive:
        numpys = {name: archive[name] for name in archive.files}
    for found in (ours, numpys):
        assert list(found) == ["first", "turned"]
        for name, expected in (("first", array), ("turned", array.T)):
            assert found[name].dtype == expected.dtype
            np.testing.assert_array_equal(found[name], expected)


def test_equal_arrays_give_equal_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.random.default_rng(0).random((50, 7), dtype=np.float32)
    write_arrays(tmp_path / "now.npz", {"a": array, "b": np.arange(3)})
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(sys, "platform", "win32")
    # The same values behind another memory layout, and under another file name.
    write_arrays(tmp_path / "later.npz", {"a": np.asfortranarray(array), "b": np.arange(3)})
    assert (tmp_path / "now.npz").read_bytes() == (tmp_path / "later.npz").read_bytes()


def test_bytes_of_the_file_are_fixed(tmp_path: Path) -> None:
    write_arrays(tmp_path / "file.npz", {"a": np.arange(6, dtype="<i8").reshape(2, 3)})
    with zipfile.ZipFile(tmp_path / "file.npz") as archive:
        (member,) = archive.infolist()
        content = archive.read(member)
    assert (member.filename, member.compress_type) == ("a.npy", zipfile.ZIP_STORED)
    assert (member.date_time, member.create_system) == ((1980, 1, 1, 0, 0, 0), 3)
    header = b"\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (2, 3), }"
    assert content == header.ljust(127) + b"\n" + b"".join(number.to_bytes(8, "little") for number in range(6))


def test_no_flipped_bit_of_a_header_changes_what_is_read(tmp_path: Path) -> None:
    # Larger than what zipfile reads ahead: a header that claims less than there is would hide the zip's checksum.
    path, array = tmp_path / "file.npz", np.arange(3000, dtype=np.float32).reshape(50, 60)
    # More than one: what is changed in the list of arrays must not hide those that come after it.
    arrays = {"weights": array, "increments": array + 1, "bias": array[0]}
    write_arrays(path, arrays)
    whole = path.read_bytes()
    start, listed = whole.index(b"\x93NUMPY"), whole.index(b"PK\x01\x02")
    places = [*range(start), *range(start + 10, start + 70), *range(listed, len(whole))]
    for place, bit in product(places, range(8)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            found = read_arrays(path)
        except (OSError, ValueError):
            continue
        assert found.keys() == arrays.keys()
        for name, read in found.items():
            assert read.dtype == array.dtype
            np.testing.assert_array_equal(read, arrays[name])


@pytest.mark.parametrize("claimed", [b"(50, 20)", b"(90, 60)"])
def test_header_that_claims_another_size_is_refused(tmp_path: Path, claimed: bytes) -> None:
    path = tmp_path / "file.npz"
    write_arrays(path, {"weights": np.zeros((50, 60), dtype=np.float32)})
    path.write_bytes(path.read_bytes().replace(b"(50, 60)", claimed, 1))
    with pytest.raises(UnreadableArrayError, match="'weights' is damaged: its header does not fit its size"):
        read_arrays(path)


class Trap:
    """Leaves a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_nothing_in_a_pickled_array_is_executed(tmp_path: Path) -> None:
    trap, path = tmp_path / "executed", tmp_path / "file.npz"
    np.savez(path, weights=np.array([Trap(trap)], dtype=object))
    with np.load(path, allow_pickle=True) as archive:
        archive["weights"]
    assert trap.exists()
    trap.unlink()
    with pytest.raises(UnreadableArrayError, match="pickled"):
        read_arrays(path)
    assert not trap.exists()
