"""The stand-in itself: that it refuses what CuPy refuses, and counts what CuPy copies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from tests.standin import Ledger, install, ndarray
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


MIXES: dict[str, Callable[[Any, Any], Any]] = {
    "device + host": lambda cupy, device: device + HOST,
    "host + device": lambda cupy, device: HOST + device,
    "host of no axes": lambda cupy, device: device * np.array(2.0),
    "device += host": lambda cupy, device: device.__iadd__(HOST),
    "host += device": lambda cupy, device: HOST.copy().__iadd__(device),
    "comparison": lambda cupy, device: device < HOST,
    "device @ host": lambda cupy, device: device @ HOST.T,
    "host @ device": lambda cupy, device: HOST.T @ device,
    "elementwise": lambda cupy, device: cupy.maximum(device, HOST),
    "elementwise of NumPy": lambda cupy, device: np.maximum(device, HOST),
    "out": lambda cupy, device: cupy.exp(device, out=HOST.copy()),
    "matmul": lambda cupy, device: cupy.matmul(device, HOST.T),
    "dot": lambda cupy, device: cupy.dot(HOST[0], device[0]),
    "take": lambda cupy, device: cupy.take(HOST, 0, axis=0),
    "clip": lambda cupy, device: cupy.clip(HOST, 0, 1),
    "clip out": lambda cupy, device: cupy.clip(device, 0, 1, out=HOST.copy()),
    "stack": lambda cupy, device: cupy.stack([device, HOST]),
    "concatenate": lambda cupy, device: cupy.concatenate([device, HOST]),
    "einsum": lambda cupy, device: cupy.einsum("ij,ij->i", device, HOST),
    "ascontiguousarray": lambda cupy, device: cupy.ascontiguousarray(HOST),
    "zeros_like": lambda cupy, device: cupy.zeros_like(HOST),
    "gemm": lambda cupy, device: cupy.cublas.gemm("T", "N", device, HOST),
    "asarray of NumPy": lambda cupy, device: np.asarray(device),
    "concatenate of NumPy": lambda cupy, device: np.concatenate([HOST, device]),
    "assignment to host": lambda cupy, device: HOST.copy().__setitem__(0, device[0]),
    "list of scalars": lambda cupy, device: device * [1, 2, 3, 4],
}


@pytest.mark.parametrize("mix", MIXES)
def test_host_and_device_do_not_mix(cupy: Any, device: Any, copies: Ledger, mix: str) -> None:
    with pytest.raises(TypeError):
        MIXES[mix](cupy, device)
    assert copies.totals() == (0, 0)


def test_host_values_are_not_assigned_to_a_part_of_the_device(device: Any) -> None:
    with pytest.raises(ValueError, match="cannot be used for fill"):
        device[1] = HOST[1]


def test_sparse_and_dense_do_not_mix(backend: Backend, device: Any) -> None:
    operator = backend.sparse(scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32)))
    with pytest.raises(TypeError):
        operator @ HOST
    with pytest.raises(TypeError):
        np.asarray(operator)


COPIES: dict[str, tuple[Callable[[Any, Any], Any], tuple[int, int]]] = {
    "asarray of host": (lambda cupy, device: cupy.asarray(HOST), (1, 0)),
    "asarray of a list": (lambda cupy, device: cupy.asarray([1.0]), (1, 0)),
    "asarray of device": (lambda cupy, device: cupy.asarray(device), (0, 0)),
    "asnumpy": (lambda cupy, device: cupy.asnumpy(device), (0, 1)),
    "asnumpy of host": (lambda cupy, device: cupy.asnumpy(HOST), (0, 0)),
    "get": (lambda cupy, device: device.get(), (0, 1)),
    "float": (lambda cupy, device: float(device.sum()), (0, 1)),
    "int": (lambda cupy, device: int(device[0, 0]), (0, 1)),
    "if": (lambda cupy, device: bool(device[0, 0] > 1), (0, 1)),
    "item": (lambda cupy, device: device.max().item(), (0, 1)),
    "print": (lambda cupy, device: repr(device), (0, 1)),
    "in": (lambda cupy, device: 1.0 in device[0], (0, 2)),
    "index of the host": (lambda cupy, device: device[np.array([0, 2])], (1, 0)),
    "index list": (lambda cupy, device: device[:, [0, 2]], (1, 0)),
    "take by a list": (lambda cupy, device: cupy.take(device, [0, 2], axis=0), (1, 0)),
    "assignment by an index of the host": (
        lambda cupy, device: device.__setitem__([0], HOST[:1]),
        (2, 0),
    ),
    "mask": (lambda cupy, device: device[device > 3], (0, 1)),
    "scalars": (lambda cupy, device: (device * 2 + np.float32(1)) ** 2 - np.float64(3), (0, 0)),
    "slices": (lambda cupy, device: device[1:, None, ..., ::2][0], (0, 0)),
    "index of the device": (lambda cupy, device: device[cupy.arange(2)], (0, 0)),
    "rows": (lambda cupy, device: [row + 1 for row in device], (0, 0)),
    "shape": (lambda cupy, device: (len(device), device.shape, device.dtype, device.ndim), (0, 0)),
}


@pytest.mark.parametrize("case", COPIES)
def test_every_copy_is_counted(cupy: Any, device: Any, copies: Ledger, case: str) -> None:
    action, expected = COPIES[case]
    action(cupy, device)
    assert copies.totals() == expected


def test_copies_that_no_one_asked_for_are_told_apart(cupy: Any, device: Any, copies: Ledger) -> None:
    cupy.asnumpy(cupy.asarray(HOST))
    assert copies.hidden() == {}
    float(device[[0]].sum())
    assert copies.hidden() == {"index": 1, "float": 1}


def test_a_sparse_matrix_is_looked_through_once(copies: Ledger, cupy: Any, backend: Backend) -> None:
    from cupyx.scipy import sparse

    matrix = scipy.sparse.csr_matrix(np.eye(3, dtype=np.float32))
    dense = cupy.zeros((3, 2), dtype=np.float32)
    bare = sparse.csr_matrix(matrix)
    assert copies.totals() == (3, 0)
    for _ in range(2):
        bare @ dense
    assert copies.hidden() == {"canonical format": 1}
    prepared = backend.sparse(matrix)
    copies.clear()
    prepared @ dense
    assert copies.totals() == (0, 0)


def test_a_sparse_product_lies_column_by_column(backend: Backend) -> None:
    random = np.random.default_rng(0)
    matrix = (random.random((5, 4), dtype=np.float32) < 0.5).astype(np.float32)
    dense = random.random((4, 3), dtype=np.float32)
    product = backend.sparse(scipy.sparse.csr_matrix(matrix)) @ backend.asarray(dense)
    assert product.flags.f_contiguous
    np.testing.assert_allclose(backend.to_host(product), matrix @ dense, rtol=1e-6)


ARGUMENTS: dict[str, Callable[[Any, Any], Any]] = {
    "take has no mode": lambda cupy, device: cupy.take(device, 0, mode="clip"),
    "elementwise functions have no where": lambda cupy, device: cupy.exp(device, where=device > 0),
    "einsum has no out": lambda cupy, device: cupy.einsum("ij->i", device, out=device[:, 0]),
    "max has no initial": lambda cupy, device: device.max(axis=0, initial=0),
    "sum has no where": lambda cupy, device: device.sum(where=device > 0),
    "full has no like": lambda cupy, device: cupy.full((2,), 1.0, like=device),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_that_cupy_does_not_have_are_refused(cupy: Any, device: Any, case: str) -> None:
    with pytest.raises(TypeError):
        ARGUMENTS[case](cupy, device)


def test_names_that_cupy_does_not_have_are_refused(cupy: Any, device: Any) -> None:
    assert not hasattr(cupy, "nditer")
    assert not hasattr(device, "newbyteorder")


def test_uniform_numbers_without_a_size_are_one_number(cupy: Any) -> None:
    generator = cupy.random.Generator(cupy.random.Philox4x3210(1))
    out = cupy.empty((20, 20), dtype=np.float32)
    generator.random(dtype=np.float32, out=out)
    assert len(np.unique(out.get())) == 1
    generator.random(size=out.shape, dtype=np.float32, out=out)
    assert len(np.unique(out.get())) > 300
    generator.standard_normal(dtype=np.float32, out=out)
    assert len(np.unique(out.get())) > 300


@pytest.mark.parametrize("kind", ["random", "standard_normal"])
def test_random_numbers_want_a_fitting_place(cupy: Any, kind: str) -> None:
    draw = getattr(cupy.random.Generator(cupy.random.Philox4x3210(1)), kind)
    with pytest.raises(TypeError, match="wrong type"):
        draw(size=(3,), dtype=np.float32, out=cupy.empty(3))
    with pytest.raises(ValueError, match="size must match"):
        draw(size=(2,), dtype=np.float32, out=cupy.empty(3, dtype=np.float32))
    with pytest.raises(ValueError, match="contiguous"):
        draw(size=(3,), dtype=np.float32, out=cupy.empty((3, 2), dtype=np.float32)[:, 0])


def test_the_streams_of_the_backend_fill_their_place(backend: Backend) -> None:
    stream = backend.random(np.random.SeedSequence(0))
    out = backend.xp.empty((50, 40), dtype=np.float32)
    stream.uniform(out)
    assert len(np.unique(backend.to_host(out))) > 1900
    stream.normal(out)
    assert abs(float(backend.to_host(out).std()) - 1) < 0.1


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("rows", "a", "b"), [(6, 3, 4), (1, 3, 4), (6, 1, 4), (6, 3, 1), (1, 1, 1)])
@pytest.mark.parametrize("keep", [0.0, 0.9])
def test_accumulate_on_the_device_is_that_of_numpy(
    backend: Backend, rows: int, a: int, b: int, order: Any, keep: float
) -> None:
    random = np.random.default_rng(0)
    left = random.random((rows, a), dtype=np.float32)
    right = np.asarray(random.random((rows, b), dtype=np.float32), order=order)
    out = random.random((2, a, b), dtype=np.float32)
    placed = [backend.asarray(array) for array in (left, right, out)]
    backend.accumulate(placed[0], placed[1], placed[2][1], scale=0.5, keep=keep)
    expected = out.copy()
    select_backend("numpy").accumulate(left, right, expected[1], scale=0.5, keep=keep)
    np.testing.assert_allclose(backend.to_host(placed[2]), expected, rtol=1e-6)


def test_accumulate_does_not_read_what_it_does_not_keep(backend: Backend) -> None:
    ones = backend.xp.full((3, 3), 1.0, dtype=np.float32)
    out = backend.xp.empty((3, 3), dtype=np.float32)
    backend.accumulate(ones, ones, out, scale=1.0, keep=0.0)
    np.testing.assert_array_equal(backend.to_host(out), np.full((3, 3), 3.0))


def test_memory_that_was_not_written_is_not_a_number(cupy: Any, device: Any) -> None:
    assert np.isnan(cupy.empty((2, 3), dtype=np.float32).get()).all()
    assert np.isnan(cupy.empty_like(device).get()).all()


def test_parts_are_views_down_to_one_element(device: Any) -> None:
    device[1:][0, 2] = 50
    element = device[0, 0]
    element += 7
    assert isinstance(element, ndarray)
    assert element.shape == ()
    host = device.get()
    assert (host[1, 2], host[0, 0]) == (50, 7)


def test_new_arrays_lie_row_by_row(device: Any) -> None:
    assert not device.T.flags.c_contiguous
    assert (device.T + 1).flags.c_contiguous


def test_scalars_do_not_widen_float32(device: Any) -> None:
    results = (device * 2.0, 1 - device, device / 3, device**2, device.sum(), device.mean(axis=0))
    assert {result.dtype for result in results} == {np.dtype(np.float32)}
    device += 1.5
    assert device.dtype == np.float32
