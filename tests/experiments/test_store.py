from __future__ import annotations

import json
import logging
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.experiments.runs import record_of, rewrite, run_of
from thetarbm_cli import storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.record import MetricsPart
from thetarbm_cli.experiments.runs.store import RunStore

ARRAYS = {"weights": np.arange(6, dtype=np.float32).reshape(2, 3), "hidden_bias": np.zeros(2, dtype=np.float32)}

REQUIRED = (
    "format",
    "algorithm",
    "run",
    "state",
    "settings",
    "parameters",
    "seed",
    "seeds",
    "data",
    "environment",
    "history",
    "timings",
    "peak_memory_megabytes",
)


@pytest.fixture
def store(trained: Path, tmp_path: Path) -> RunStore:
    shutil.copytree(trained, tmp_path / "results")
    return RunStore(tmp_path / "results")


@pytest.fixture
def theta(store: RunStore) -> str:
    return run_of(store.folder.parent, "theta")


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "thetarbm")
    return caplog


def test_record_survives_saving(store: RunStore, theta: str) -> None:
    before = store.path(theta).joinpath("run.json").read_bytes()
    record = store.load(theta)
    assert record is not None
    store.save(record)
    assert store.path(theta).joinpath("run.json").read_bytes() == before


def test_values_of_many_units_take_one_line_of_the_record(store: RunStore, theta: str) -> None:
    record = store.load(theta)
    assert record is not None
    random = np.random.default_rng(0)
    units = {role: [round(float(value), 6) for value in random.random(500)] for role in ("train", "test")}
    metrics = {"gamma": {"offset": 20.0, **{role: {"per_unit": units[role]} for role in units}}}
    full = record.model_copy(update={"metrics": MetricsPart.model_validate(metrics)})
    store.save(full)
    assert store.load(theta) == full
    text = store.path(theta).joinpath("run.json").read_text()
    assert sum(line.lstrip().startswith('"per_unit": [') and line.endswith("]") for line in text.splitlines()) == 2
    smallest = json.dumps(json.loads(text), separators=(",", ":"))
    assert len(text) < 1.15 * len(smallest)
    # Read as before, written as before: files of either layout hold the same record.
    store.path(theta).joinpath("run.json").write_text(json.dumps(json.loads(text), indent=1))
    assert store.load(theta) == full


def test_missing_record_is_no_reason_for_a_warning(store: RunStore, warnings: pytest.LogCaptureFixture) -> None:
    assert store.load("theta-000000000000") is None
    assert warnings.messages == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"run"',
        b"{}",
        b'{"format": 1}',
        b"\xff\xfe\x00",
        b"\x00" * 100,
        b"[" * 100_000,
        b'{"format": 1, "run": NaN}',
    ],
    ids=lambda text: repr(text[:12]),
)
def test_damaged_record_is_a_miss_with_a_warning(
    store: RunStore, theta: str, text: bytes, warnings: pytest.LogCaptureFixture
) -> None:
    store.path(theta).joinpath("run.json").write_bytes(text)
    assert store.load(theta) is None
    assert len(warnings.messages) == 1
    assert "run.json" in warnings.messages[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 0}, "format 0, and this version reads 1"),
        ({"format": None}, "format None"),
        ({"run": "theta-000000000000"}, "belongs to run theta-000000000000"),
        ({"state": "half"}, "'done' or 'failed'"),
        ({"seed": "x"}, "integer"),
        ({"future": 1}, "not permitted"),
        ({"settings": {"model": "theta", "data": {"train": -1}}}, "greater than or equal to 1"),
    ],
)
def test_foreign_record_is_a_miss_with_the_reason(
    store: RunStore, theta: str, changes: dict[str, Any], reason: str, warnings: pytest.LogCaptureFixture
) -> None:
    rewrite(store.folder.parent, theta, changes)
    assert store.load(theta) is None
    assert reason in warnings.messages[0]


def test_record_without_a_field_that_it_needs_is_a_miss(store: RunStore, theta: str) -> None:
    whole = record_of(store.folder.parent, theta)
    for name in REQUIRED:
        content = {key: value for key, value in whole.items() if key != name}
        store.path(theta).joinpath("run.json").write_text(json.dumps(content))
        assert store.load(theta) is None, name


def test_record_without_an_optional_field_is_read(store: RunStore, theta: str) -> None:
    whole = record_of(store.folder.parent, theta)
    content = {name: whole[name] for name in REQUIRED}
    store.path(theta).joinpath("run.json").write_text(json.dumps(content))
    assert store.load(theta) is not None


def test_folder_in_the_place_of_a_record_is_a_miss(store: RunStore, theta: str) -> None:
    store.path(theta).joinpath("run.json").unlink()
    store.path(theta).joinpath("run.json").mkdir()
    assert store.load(theta) is None


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_truncation_or_changed_byte_of_a_record_raises(store: RunStore, theta: str, data: st.DataObject) -> None:
    path = store.path(theta) / "run.json"
    whole = path.read_bytes()
    try:
        damaged = bytearray(whole[: data.draw(st.integers(0, len(whole)))])
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        path.write_bytes(damaged)
        store.load(theta)
    finally:
        path.write_bytes(whole)


def test_weights_survive_saving(store: RunStore, theta: str) -> None:
    checksum = store.save_weights(theta, ARRAYS)
    record = store.load(theta)
    assert record is not None
    loaded = store.load_weights(record.model_copy(update={"weights_sha256": checksum}))
    assert loaded is not None
    assert list(loaded.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert loaded.arrays[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded.arrays[name], array)


def test_missing_weights_are_a_silent_miss(store: RunStore, theta: str, warnings: pytest.LogCaptureFixture) -> None:
    record = store.load(theta)
    assert record is not None
    store.weights_path(theta).unlink()
    assert store.load_weights(record) is None
    assert warnings.messages == []


@pytest.mark.parametrize("content", [b"", b"PK", b"no zip at all", "truncated", "changed", "other"])
def test_damaged_weights_are_a_miss_with_a_warning(
    store: RunStore, theta: str, content: bytes | str, warnings: pytest.LogCaptureFixture
) -> None:
    record, path = store.load(theta), store.weights_path(theta)
    assert record is not None
    whole = path.read_bytes()
    if content == "truncated":
        content = whole[:-100]
    elif content == "changed":
        content = whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:]
    elif content == "other":
        write_arrays(path, ARRAYS)
        content = path.read_bytes()
    assert isinstance(content, bytes)
    path.write_bytes(content)
    assert store.load_weights(record) is None
    assert len(warnings.messages) == 1
    assert "weights.npz" in warnings.messages[0]


def test_pickled_weights_are_never_loaded(store: RunStore, theta: str) -> None:
    path = store.weights_path(theta)
    np.savez(path, weights=np.array([print], dtype=object))
    record = store.load(theta)
    assert record is not None
    forged = record.model_copy(update={"weights_sha256": storage.sha256_of_file(path)})
    assert store.load_weights(forged) is None


def test_checkpoint_comes_and_goes(store: RunStore, theta: str) -> None:
    assert store.load_checkpoint(theta) is None
    store.save_checkpoint(theta, ARRAYS)
    loaded = store.load_checkpoint(theta)
    assert loaded is not None
    np.testing.assert_array_equal(loaded["weights"], ARRAYS["weights"])
    store.remove_checkpoint(theta)
    store.remove_checkpoint(theta)
    assert store.load_checkpoint(theta) is None


def test_npy_or_a_foreign_zip_is_no_checkpoint(store: RunStore, theta: str, warnings: pytest.LogCaptureFixture) -> None:
    path = store.checkpoint_path(theta)
    with path.open("wb") as stream:
        np.save(stream, ARRAYS["weights"])
    assert store.load_checkpoint(theta) is None
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("weights.npy", b"\x93NUMPY\x01\x00\x02\x00{}")
    assert store.load_checkpoint(theta) is None
    assert len(warnings.messages) == 2


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_checkpoint_is_a_miss_or_whole(store: RunStore, theta: str, data: st.DataObject) -> None:
    path = store.checkpoint_path(theta)
    write_arrays(path, ARRAYS)
    damaged = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(damaged)
    loaded = store.load_checkpoint(theta)
    for name, array in (loaded or {}).items():
        # The zip's checksums cover the content: what is read is what was written.
        np.testing.assert_array_equal(array, ARRAYS[name])


def test_leftovers_of_killed_processes_are_removed_and_nothing_else(store: RunStore, theta: str) -> None:
    before = sorted(path.name for path in store.path(theta).iterdir())
    store.path(theta).joinpath(".weights.npz.abc.part").write_bytes(b"half")
    store.remove_leftovers(theta)
    assert sorted(path.name for path in store.path(theta).iterdir()) == before
    store.remove_leftovers("theta-000000000000")


def test_runs_are_found_by_id_beginning_or_path(store: RunStore, theta: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (theta, theta[:-3], str(store.path(theta)), f"{store.path(theta)}/"):
        assert store.find(name) == theta
    monkeypatch.chdir(store.folder.parent)
    assert RunStore(Path()).find(f"runs/{theta}") == theta


def test_an_id_wins_over_longer_ones_that_begin_with_it(store: RunStore, theta: str) -> None:
    shutil.copytree(store.path(theta), store.path(theta + "0"))
    assert store.find(theta) == theta


@pytest.mark.parametrize("name", ["nothing", "", "*", "theta-zzz", ".."])
def test_unknown_run_is_refused(store: RunStore, name: str) -> None:
    with pytest.raises(InputError, match="there is no run") as raised:
        store.find(name)
    assert str(store.folder) in str(raised.value)


def test_ambiguous_beginning_names_the_runs(store: RunStore) -> None:
    pixels, aligned = (run_of(store.folder.parent, model) for model in ("pixels", "aligned-pixels"))
    shutil.copytree(store.path(pixels), store.path("pixels-zz"))
    with pytest.raises(InputError, match="write more of the id") as raised:
        store.find("pixels")
    assert pixels in str(raised.value)
    assert "pixels-zz" in str(raised.value)
    assert aligned not in str(raised.value)


def test_path_in_another_results_folder_is_refused(store: RunStore, theta: str, tmp_path: Path) -> None:
    shutil.copytree(store.folder, tmp_path / "other" / "runs")
    with pytest.raises(InputError, match="--results"):
        store.find(str(tmp_path / "other" / "runs" / theta))


def test_store_without_a_folder_is_empty(tmp_path: Path) -> None:
    assert RunStore(tmp_path / "nowhere").identifiers() == []
    assert not (tmp_path / "nowhere").exists()
