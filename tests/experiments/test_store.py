from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.runs import record_of, rewrite, run_of
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.store import RunStore

REQUIRED = (
    "format", "algorithm", "run", "state", "settings", "parameters", "seed", "seeds", "data", "environment", "history",
    "timings", "peak_memory_megabytes",
)  # fmt: skip


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
    store.save(record)
    assert store.path(theta).joinpath("run.json").read_bytes() == before


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"format": 0}, "format 0, and this version reads 1"),
        ({"run": "theta-000000000000"}, "belongs to run theta-000000000000"),
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


def test_a_record_needs_its_required_fields_and_no_others(store: RunStore, theta: str) -> None:
    whole = record_of(store.folder.parent, theta)
    store.path(theta).joinpath("run.json").write_text(json.dumps({name: whole[name] for name in REQUIRED}))
    assert store.load(theta) is not None
    for name in REQUIRED:
        content = {key: value for key, value in whole.items() if key != name}
        store.path(theta).joinpath("run.json").write_text(json.dumps(content))
        assert store.load(theta) is None, name


def test_runs_are_found_by_id_beginning_or_path(store: RunStore, theta: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (theta, theta[:-3], str(store.path(theta)), f"{store.path(theta)}/"):
        assert store.find(name) == theta
    # An id wins over longer ones that begin with it.
    shutil.copytree(store.path(theta), store.path(theta + "0"))
    assert store.find(theta) == theta
    monkeypatch.chdir(store.folder.parent)
    assert RunStore(Path()).find(f"runs/{theta}") == theta


@pytest.mark.parametrize("name", ["", "*", "theta-zzz"])
def test_unknown_run_is_refused(store: RunStore, name: str) -> None:
    with pytest.raises(InputError, match="there is no run") as raised:
        store.find(name)
    assert str(store.folder) in str(raised.value)
