from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import call
from thetarbm_cli.data.prepare import prepare


def sheet_of(data_dir: Path, *options: str, **variables: str) -> dict[str, Any]:
    """What a process of its own says: its BLAS pools and modules are those of the options."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    done = subprocess.run(
        [sys.executable, "-m", "thetarbm_cli", "--data-dir", str(data_dir), *options, "info", "--json"],
        env={**clean, **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert done.stderr == ""
    sheet: dict[str, Any] = json.loads(done.stdout)
    return sheet


@pytest.fixture
def own_images(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    path = tmp_path / "own.npz"
    np.savez(
        path,
        images=random.random((30, 6, 6), dtype=np.float32),
        labels=np.arange(30) % 3,
        split=np.repeat([0, 1, 2], 10),
    )
    return path


def test_json_has_every_field_and_nothing_is_written(tmp_path: Path) -> None:
    sheet = call(tmp_path / "none", tmp_path / "results", "info", "--json").json
    assert sheet["version"] == version("thetarbm")
    assert sheet["versions"] == {
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "scipy": version("scipy"),
        "scikit-learn": version("scikit-learn"),
        "cupy": sheet["versions"]["cupy"],
    }
    assert sheet["backend"] in ("numpy", "cupy")
    assert sheet["backend_reason"]
    assert sheet["threads"] == 1
    assert sheet["data_dir"] == str(tmp_path / "none")
    assert sheet["results_dir"] == str(tmp_path / "results")
    assert sheet["prepared"] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_blas_pools_have_the_threads_that_were_asked_for(tmp_path: Path, threads: int) -> None:
    pools = sheet_of(tmp_path, "--threads", str(threads))["blas"]
    assert pools
    assert {pool["user_api"] for pool in pools} == {"blas"}
    assert {pool["num_threads"] for pool in pools} == {min(threads, os.cpu_count() or 1)}


def test_prepared_data_is_listed_unless_its_description_is_damaged(tmp_path: Path, own_images: Path) -> None:
    prepared = prepare(tmp_path / "data", source=str(own_images))
    assert call(tmp_path / "data", tmp_path, "info", "--json").json["prepared"] == [
        {
            "dataset": "own",
            "source": str(own_images),
            "seed": 0,
            "sha256": prepared.sha256,
            "path": str(prepared.path),
            "splits": {"train": 10, "valid": 10, "test": 10},
        }
    ]
    assert str(own_images) in call(tmp_path / "data", tmp_path, "info").out
    prepared.path.with_suffix(".json").write_text("{")
    assert call(tmp_path / "data", tmp_path, "info", "--json").json["prepared"] == []


def test_text_names_everything(tmp_path: Path) -> None:
    lines = call(tmp_path, tmp_path, "info").out.splitlines()
    labels = {line.split()[0] for line in lines if line[0] != " "}
    assert {"thetarbm", "backend", "threads", "blas", "data", "results", "prepared"} <= labels


def test_version_of_cupy_is_read_without_importing_it(tmp_path: Path) -> None:
    folder = tmp_path / "cupy_cuda12x-13.4.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 13.4.0\n")
    (tmp_path / "cupy.py").write_text("raise ImportError('no driver')\n")
    sheet = sheet_of(tmp_path / "data", PYTHONPATH=str(tmp_path))
    assert sheet["versions"]["cupy"] == "13.4.0"
    assert sheet["backend"] == "numpy"
