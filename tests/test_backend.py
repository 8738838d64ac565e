from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from threadpoolctl import threadpool_info, threadpool_limits

from thetarbm_cli import backend as backend_module
from thetarbm_cli.backend import BACKENDS, Backend, CupyBackend, few_threads, select_backend
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.models import AlignedPixels, LocalThetaRBM, Model, ThetaRBM


@pytest.fixture
def asked_again() -> Iterator[None]:
    """For a test in which other devices answer than before it and after it, whatever is remembered of them."""

    def forget() -> None:
        for function in vars(backend_module).values():
            getattr(function, "cache_clear", lambda: None)()

    forget()
    yield
    forget()


def pretend(monkeypatch: pytest.MonkeyPatch, count: Callable[[], int]) -> Any:
    """Let ``import cupy`` find devices that compute as NumPy does the little by which they are tried."""
    runtime = SimpleNamespace(getDeviceCount=count, getDevice=lambda: 0)
    cuda = SimpleNamespace(runtime=runtime)
    cupy = SimpleNamespace(cuda=cuda, empty=np.empty, empty_like=np.empty_like, asnumpy=np.asarray)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for name in ("random", "stack", "sigmoid", "softmax", "multiply"):
        monkeypatch.setattr(CupyBackend, name, getattr(Backend, name))
    return cupy


@pytest.mark.usefixtures("asked_again")
@pytest.mark.parametrize(
    ("name", "devices", "taken", "reason"),
    [
        ("auto", 0, "numpy", "CuPy finds no CUDA device"),
        ("auto", RuntimeError("no driver"), "numpy", "no CUDA device answers CuPy (RuntimeError: no driver)"),
        ("auto", 2, "cupy", "CuPy finds 2 CUDA devices"),
        ("cupy", 1, "cupy", "asked for"),
        ("numpy", 1, "numpy", "asked for"),
    ],
)
def test_cupy_is_taken_if_a_device_answers_and_numpy_otherwise(
    monkeypatch: pytest.MonkeyPatch, name: str, devices: int | Exception, taken: str, reason: str
) -> None:
    def device_count() -> int:
        if isinstance(devices, Exception):
            raise devices
        return devices

    cupy = pretend(monkeypatch, device_count)
    backend = select_backend(name)
    assert (backend.name, backend.reason) == (taken, reason)
    assert backend.xp is (cupy if taken == "cupy" else np)


@pytest.mark.usefixtures("asked_again")
def test_device_without_the_libraries_that_compute_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_cublas(*operands: object) -> None:
        raise ImportError("libcublas.so.12 is not found")

    pretend(monkeypatch, lambda: 1)
    monkeypatch.setattr(CupyBackend, "multiply", no_cublas)
    backend = select_backend("auto")
    assert backend.name == "numpy"
    assert "libcublas.so.12 is not found" in backend.reason


@pytest.mark.usefixtures("asked_again")
def test_cupy_without_it_and_unknown_backends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert select_backend("auto").reason == "CuPy is not installed"
    with pytest.raises(InputError, match=r"CuPy is not installed; install the extra .* or use --backend numpy"):
        select_backend("cupy")
    with pytest.raises(InputError, match=f"unknown backend 'torch'.*{', '.join(BACKENDS)}"):
        select_backend("torch")


@given(
    rows=st.integers(1, 6),
    a=st.integers(1, 5),
    b=st.integers(1, 5),
    order=st.sampled_from(["C", "F"]),
    dtype=st.sampled_from([np.float32, np.float64]),
    scale=st.sampled_from([1.0, -0.5, 0.01]),
    keep=st.sampled_from([0.0, 0.9, 1.0]),
    seed=st.integers(0, 1000),
)
def test_accumulate_is_the_plain_formula(
    rows: int, a: int, b: int, order: Any, dtype: Any, scale: float, keep: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    left = random.standard_normal((rows, a)).astype(dtype)
    right = np.asarray(random.standard_normal((rows, b)).astype(dtype), order=order)
    out = random.standard_normal((a, b)).astype(dtype)
    # Entry by entry, in double precision.
    products = left.astype(np.float64)[:, :, None] * right.astype(np.float64)[:, None, :]
    expected = keep * out.astype(np.float64) + scale * products.sum(axis=0)
    inputs = left.copy(), right.copy()
    # Into a slice of a tensor, and nowhere else.
    tensor = np.ones((3, a, b), dtype=dtype)
    tensor[1] = out
    Backend().accumulate(left, right, tensor[1], scale=scale, keep=keep)
    np.testing.assert_allclose(tensor[1], expected, rtol=0, atol=1e-5 if dtype == np.float32 else 1e-13)
    assert (tensor[[0, 2]] == 1).all()
    np.testing.assert_array_equal(left, inputs[0])
    np.testing.assert_array_equal(right, inputs[1])


@pytest.mark.parametrize("out", [np.ones((3, 5), order="F"), np.ones((3, 10))[:, ::2], np.ones((3, 5), np.float16)])
def test_accumulate_refuses_what_it_cannot_write_into(out: NDArray[Any]) -> None:
    with pytest.raises(ValueError, match="needs C-contiguous arrays of one dtype"):
        Backend().accumulate(np.ones((4, 3)), np.ones((4, 5)), out, scale=1.0, keep=1.0)
    assert (out == 1).all()


@pytest.mark.cupy
@pytest.mark.parametrize(("rows", "a", "b"), [(6, 3, 4), (6, 1, 4), (1, 1, 1)])
def test_accumulate_on_the_device_is_that_of_numpy(device: Backend, rows: int, a: int, b: int) -> None:
    random = np.random.default_rng(0)
    left, right = random.random((rows, a), dtype=np.float32), random.random((rows, b), dtype=np.float32)
    kept, unwritten = random.random((2, a, b), dtype=np.float32), np.full((2, a, b), np.nan, dtype=np.float32)
    # What is not kept is not read.
    for keep, before in ((0.9, kept), (0.0, unwritten)):
        for ordered in (right, np.asfortranarray(right)):
            expected, placed = before.copy(), device.asarray(before)
            Backend().accumulate(left, ordered, expected[1], scale=0.5, keep=keep)
            device.accumulate(device.asarray(left), device.asarray(ordered), placed[1], scale=0.5, keep=keep)
            np.testing.assert_allclose(device.to_host(placed), expected, rtol=1e-6)
            assert np.isfinite(expected[1]).all()


# -- multiply, map -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 11, 200])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_multiply_is_the_plain_product(rows: int, dtype: Any) -> None:
    random = np.random.default_rng(rows)
    left, weights = random.random((rows, 30)).astype(dtype), random.random((3, 20, 30)).astype(dtype)
    expected = (left.astype(np.float64)[:, None, :] * weights[1].astype(np.float64)).sum(axis=2)
    out = np.full((3, rows, 20), np.nan, dtype=dtype)
    assert Backend().multiply(left, weights[1], out[1]).base is out
    for result in (out[1], Backend().multiply(left, weights[1])):
        np.testing.assert_allclose(result, expected, rtol=1e-5 if dtype == np.float32 else 1e-13)
    assert np.isnan(out[[0, 2]]).all()


def test_map_keeps_the_order_and_uses_as_many_threads_as_blas_may() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def square(number: int) -> int:
        if number < 2:
            meeting.wait()  # both are at work at the same time
        assert all(pool["num_threads"] == 1 for pool in threadpool_info() if pool["user_api"] == "blas")
        return number**2

    with threadpool_limits(2, user_api="blas"):
        assert list(Backend().map(square, range(9))) == [n**2 for n in range(9)]
        blas = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        assert {pool["num_threads"] for pool in blas} == {2}
    with threadpool_limits(1, user_api="blas"):
        threads = set(Backend().map(lambda _: threading.get_ident(), range(3)))
    assert threads == {threading.get_ident()}


def test_map_hands_on_a_failure_and_gives_the_threads_back() -> None:
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(ZeroDivisionError):
            list(Backend().map(lambda number: 1 // number, [1, 0, 1]))
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {2}


# -- random streams ------------------------------------------------------------------------------------------


@pytest.mark.cupy
def test_streams_of_the_device_follow_their_seeds(device: Backend) -> None:
    drawn = []
    for seed in (7, 7, 8):
        stream, out = device.random(np.random.SeedSequence(seed)), device.xp.empty((2, 3, 4), np.float32)
        stream.uniform(out[0])
        stream.normal(out[1])
        drawn.append(device.to_host(out))
    assert len(np.unique(drawn[0])) == 24
    assert (drawn[0][0] >= 0).all()
    assert (drawn[0][1] < 0).any()
    assert np.array_equal(drawn[0], drawn[1])
    assert not np.isin(drawn[0], drawn[2]).any()


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process of two cores in which nobody has chosen a number of threads."""
    for name in backend_module.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(backend_module, "cores", lambda: 2)
    with threadpool_limits(2, "blas"):
        if blas_threads() != {2}:
            pytest.skip("the BLAS of this machine has one thread")
        yield


@pytest.mark.usefixtures("two_threads")
def test_small_products_have_one_thread_and_large_ones_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with few_threads(100, 500):
        assert blas_threads() == {1}
    assert blas_threads() == {2}
    with few_threads(2000, 2000):
        assert blas_threads() == {2}
    # A number that was chosen stays.
    monkeypatch.setattr(backend_module, "cores", lambda: 4)
    with few_threads():
        assert blas_threads() == {2}
    monkeypatch.setattr(backend_module, "cores", lambda: 2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    with few_threads():
        assert blas_threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_one_thread_stays_until_the_last_thread_that_needs_it_is_done() -> None:
    entered, first_is_out = threading.Event(), threading.Event()
    seen: list[set[int]] = []

    def second() -> None:
        with few_threads():
            entered.set()
            assert first_is_out.wait(30)
            seen.append(blas_threads())

    with ThreadPoolExecutor(1) as pool:
        with few_threads():
            running = pool.submit(second)
            assert entered.wait(30)
        first_is_out.set()
        running.result(30)
    assert seen == [{1}]
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_threads")
def test_many_threads_in_and_out_leave_the_limits_as_they_were() -> None:
    def work(number: int) -> set[int]:
        if number % 4 == 0:
            list(Backend().map(lambda _: None, range(3)))
        with few_threads():
            time.sleep(0.001 * (number % 3))
            return blas_threads()

    with ThreadPoolExecutor(6) as pool:
        assert set().union(*pool.map(work, range(60))) == {1}
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("model", [ThetaRBM, LocalThetaRBM, AlignedPixels])
def test_models_learn_and_transform_on_one_thread(model: type[Model], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[int]] = []
    histogram = OrientationEstimator.histogram

    def noting(self: OrientationEstimator, images: np.ndarray) -> np.ndarray:
        seen.append(blas_threads())
        return histogram(self, images)

    monkeypatch.setattr(OrientationEstimator, "histogram", noting)
    images = np.random.default_rng(0).random((20, 256), dtype=np.float32)
    learns = model is not AlignedPixels
    fitted = model(**({"epochs": 1, "hidden": 4} if learns else {}))
    fitted.fit(images, monitor=(lambda state: seen.append(blas_threads())) if learns else None).transform(images)
    assert len(seen) == (3 if learns else 1)
    assert set().union(*seen) == {1}
    assert blas_threads() == {2}


@pytest.mark.cupy
def test_too_little_memory_on_a_device_is_a_sentence_that_names_the_batch() -> None:
    import cupy

    images = np.random.default_rng(0).random((300, 256), dtype=np.float32)
    fitted = ThetaRBM(hidden=4, epochs=1, backend="cupy").fit(images)
    small = cupy.cuda.MemoryPool()
    small.set_limit(size=500_000)
    model = ThetaRBM(hidden=40, batch_size=300, epochs=1, backend="cupy")
    with cupy.cuda.using_allocator(small.malloc):
        with pytest.raises(ThetaRBMError, match=r"^the GPU has too little memory for .*batches of 300.*batch_size"):
            model.fit(images)
        with pytest.raises(ThetaRBMError, match="too little memory for chunks of images"):
            fitted.transform(np.tile(images, (5, 1)))
    assert len(fitted.transform(images)) == 300


@pytest.mark.cupy
def test_arrays_that_are_mirrored_on_a_device_are_replaced_not_changed() -> None:
    images = np.random.default_rng(0).random((20, 64), dtype=np.float32)
    model = ThetaRBM(hidden=4, epochs=1, backend="cupy").fit(images)
    before = model.transform(images)
    with pytest.raises(ValueError, match="read-only"):
        model.weights_ *= 0
    model.weights_ = np.zeros_like(model.weights_)
    assert not np.array_equal(model.transform(images), before)
    expected = ThetaRBM(backend="numpy").set_params(hidden=4).load_arrays(model.to_arrays())
    np.testing.assert_allclose(model.transform(images), expected.transform(images), atol=1e-5)
