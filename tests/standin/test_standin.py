"""The stand-in must not silently accept what CuPy refuses, nor hide what CuPy copies or does otherwise than NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tests.standin import Ledger, install
from thetarbm_cli.backend import Backend, select_backend

HOST = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    return install(monkeypatch)


@pytest.fixture
def cupy(copies: Ledger) -> Any:
    return sys.modules["cupy"]


@pytest.fixture
def device(cupy: Any, copies: Ledger) -> Any:
    array = cupy.asarray(HOST)
    copies.clear()
    return array


@pytest.fixture
def backend(copies: Ledger) -> Backend:
    chosen = select_backend("cupy")
    copies.clear()
    return chosen


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "device + host": lambda cupy, device: device + HOST,
    "host + device": lambda cupy, device: HOST + device,
    "host of no axes": lambda cupy, device: device * np.array(2.0),
    "device += host": lambda cupy, device: device.__iadd__(HOST),
    "device @ host": lambda cupy, device: device @ HOST.T,
    "list of scalars": lambda cupy, device: device * [1, 2, 3, 4],
    "function of CuPy": lambda cupy, device: cupy.maximum(device, HOST),
    "function of NumPy": lambda cupy, device: np.maximum(device, HOST),
    "out": lambda cupy, device: cupy.exp(device, out=HOST.copy()),
    "take": lambda cupy, device: cupy.take(HOST, 0, axis=0),
    "concatenate": lambda cupy, device: cupy.concatenate([device, HOST]),
    "gemm": lambda cupy, device: cupy.cublas.gemm("T", "N", device, HOST),
    "asarray of NumPy": lambda cupy, device: np.asarray(device),
    "assignment to host": lambda cupy, device: HOST.copy().__setitem__(0, device[0]),
    "take has no mode": lambda cupy, device: cupy.take(device, 0, mode="clip"),
    "functions have no where": lambda cupy, device: cupy.exp(device, where=device > 0),
    "einsum has no out": lambda cupy, device: cupy.einsum("ij->i", device, out=device[:, 0]),
    "max has no initial": lambda cupy, device: device.max(axis=0, initial=0),
}


@pytest.mark.parametrize("case", REFUSED)
def test_arrays_and_arguments_that_cupy_refuses(cupy: Any, device: Any, copies: Ledger, case: str) -> None:
    with pytest.raises(TypeError):
        REFUSED[case](cupy, device)
    assert copies.totals() == (0, 0)


def test_host_values_sparse_operands_and_unknown_names_are_refused(cupy: Any, device: Any, backend: Backend) -> None:
    with pytest.raises(ValueError, match="fill"):
        device[1] = HOST[1]
    operator = backend.sparse(scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32)))
    with pytest.raises(TypeError):
        operator @ HOST
    with pytest.raises(TypeError):
        np.asarray(operator)
    assert not hasattr(cupy, "nditer")
    assert not hasattr(device, "newbyteorder")


COPIES: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, int]]] = {
    "asarray of host": (lambda cupy, device: cupy.asarray(HOST), (1, 0)),
    "get": (lambda cupy, device: device.get(), (0, 1)),
    "float": (lambda cupy, device: float(device.sum()), (0, 1)),
    "if": (lambda cupy, device: bool(device[0, 0] > 1), (0, 1)),
    "print": (lambda cupy, device: repr(device), (0, 1)),
    "index list": (lambda cupy, device: device[:, [0, 2]], (1, 0)),
    "take by a list": (lambda cupy, device: cupy.take(device, [0, 2], axis=0), (1, 0)),
    "mask": (lambda cupy, device: device[device > 3], (0, 1)),
    "scalars": (lambda cupy, device: (device * 2 + np.float32(1)) ** 2 - np.float64(3), (0, 0)),
    "slices": (lambda cupy, device: device[1:, None, ..., ::2][0], (0, 0)),
    "index of the device": (lambda cupy, device: device[cupy.arange(2)], (0, 0)),
}


@pytest.mark.parametrize("case", COPIES)
def test_every_copy_is_counted(cupy: Any, device: Any, copies: Ledger, case: str) -> None:
    action, expected = COPIES[case]
    action(cupy, device)
    assert copies.totals() == expected


def test_copies_that_no_one_asked_for_are_told_apart(cupy: Any, device: Any, copies: Ledger, backend: Backend) -> None:
    cupy.asnumpy(cupy.asarray(HOST))
    assert copies.hidden() == {}
    float(device[[0]].sum())
    assert copies.hidden() == {"index": 1, "float": 1}
    # CuPy looks through a sparse matrix before its first product, unless the backend has had it done.
    matrix = scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32))
    bare, prepared = sys.modules["cupyx.scipy.sparse"].csr_matrix(matrix), backend.sparse(matrix)
    dense = cupy.zeros((3, 2), dtype=np.float32)
    copies.clear()
    prepared @ dense
    assert copies.totals() == (0, 0)
    for _ in range(2):
        bare @ dense
    assert copies.hidden() == {"canonical format": 1}


def test_random_numbers_have_cupy_s_pitfalls(cupy: Any) -> None:
    generator = cupy.random.Generator(cupy.random.Philox4x3210(1))
    out = cupy.empty((20, 20), dtype=np.float32)
    # Without a size, one number is spread over all of `out`.
    generator.random(dtype=np.float32, out=out)
    assert len(np.unique(out.get())) == 1
    for draw in (generator.random, generator.standard_normal):
        draw(size=out.shape, dtype=np.float32, out=out)
        assert len(np.unique(out.get())) > 300
        with pytest.raises(TypeError):
            draw(size=(3,), dtype=np.float32, out=cupy.empty(3))
        with pytest.raises(ValueError, match="size"):
            draw(size=(2,), dtype=np.float32, out=cupy.empty(3, dtype=np.float32))
        with pytest.raises(ValueError, match="contiguous"):
            draw(size=(3,), dtype=np.float32, out=cupy.empty((3, 2), dtype=np.float32)[:, 0])


def test_arrays_differ_from_numpy_s_where_cupy_s_do(cupy: Any, device: Any, backend: Backend) -> None:
    assert np.isnan(cupy.empty((2, 3), dtype=np.float32).get()).all()
    assert np.isnan(cupy.empty_like(device).get()).all()
    element = device[0, 0]
    element += 7
    assert device.get()[0, 0] == 7
    assert not device.T.flags.c_contiguous
    assert (device.T + 1).flags.c_contiguous
    results = (device * 2.0, 1 - device, device / 3, device**2, device.sum(), device.mean(axis=0))
    assert {result.dtype for result in results} == {np.dtype(np.float32)}
    product = backend.sparse(scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32))) @ device
    assert product.flags.f_contiguous


@pytest.mark.parametrize(("rows", "a", "b"), [(6, 3, 4), (1, 3, 4), (6, 1, 4), (6, 3, 1), (1, 1, 1)])
def test_accumulate_on_the_device_is_that_of_numpy(backend: Backend, rows: int, a: int, b: int) -> None:
    random = np.random.default_rng(0)
    left, right = random.random((rows, a), dtype=np.float32), random.random((rows, b), dtype=np.float32)
    kept, unwritten = random.random((2, a, b), dtype=np.float32), np.full((2, a, b), np.nan, dtype=np.float32)
    # What is not kept is not read.
    for keep, before in ((0.9, kept), (0.0, unwritten)):
        for ordered in (right, np.asfortranarray(right)):
            expected, placed = before.copy(), backend.asarray(before)
            select_backend("numpy").accumulate(left, ordered, expected[1], scale=0.5, keep=keep)
            backend.accumulate(backend.asarray(left), backend.asarray(ordered), placed[1], scale=0.5, keep=keep)
            np.testing.assert_allclose(backend.to_host(placed), expected, rtol=1e-6)
            assert np.isfinite(expected[1]).all()
