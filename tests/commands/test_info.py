from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.archives import write_own
from tests.runs import call, finish, spawn
from thetarbm_cli.backend import cores
from thetarbm_cli.data.prepare import prepare


def sheet_of(data_dir: Path, *options: str, told: str = "") -> dict[str, Any]:
    """What a process of its own says: its BLAS pools and modules are those of the options."""
    done = finish(spawn(data_dir, data_dir, *options, "info", "--json"))
    assert (done.code, done.err) == (0, told)
    return done.json


def test_json_has_every_field_and_nothing_is_written(tmp_path: Path) -> None:
    sheet = call(tmp_path / "none", tmp_path / "results", "info", "--json").json
    assert sheet["version"] == version("thetarbm")
    assert sheet["versions"]["numpy"] == version("numpy")
    assert sheet["data_dir"] == str(tmp_path / "none")
    assert sheet["results_dir"] == str(tmp_path / "results")
    assert sheet["prepared"] == []
    assert list(tmp_path.iterdir()) == []


def test_blas_pools_have_the_threads_that_were_asked_for(tmp_path: Path) -> None:
    pools = sheet_of(tmp_path, "--threads", "2")["blas"]
    assert pools
    assert {pool["user_api"] for pool in pools} == {"blas"}
    assert {pool["num_threads"] for pool in pools} == {min(2, cores())}


def test_prepared_data_is_listed_unless_its_description_is_damaged(tmp_path: Path) -> None:
    own = write_own(tmp_path / "own.npz", 30, split=np.repeat([0, 1, 2], 10))
    prepared = prepare(tmp_path / "data", source=str(own))
    (found,) = call(tmp_path / "data", tmp_path, "info", "--json").json["prepared"]
    assert (found["sha256"], found["path"]) == (prepared.sha256, str(prepared.path))
    assert found["splits"] == {"train": 10, "valid": 10, "test": 10}
    assert str(own) in call(tmp_path / "data", tmp_path, "info").out
    prepared.path.with_suffix(".json").write_text("{")
    assert call(tmp_path / "data", tmp_path, "info", "--json").json["prepared"] == []


def test_version_of_cupy_is_read_without_importing_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cupy_cuda12x-13.4.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 13.4.0\n")
    (tmp_path / "cupy.py").write_text("raise ImportError('no driver')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    sheet = sheet_of(tmp_path / "data", told="NumPy is used: CuPy cannot be imported (no driver)\n")
    assert sheet["versions"]["cupy"] == "13.4.0"
    assert sheet["backend"] == "numpy"
