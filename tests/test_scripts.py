"""The make targets and their scripts about dependencies."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import script

KNOWN: dict[str, Any] = {"name": "numpy", "version": "2.0", "vulns": []}
UNKNOWN: dict[str, Any] = {"name": "scipy", "skip_reason": "not found"}
WEAK: dict[str, Any] = {"name": "jinja2", "version": "3.1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.3"]}]}


def test_every_requirement_has_a_lowest_version(monkeypatch: pytest.MonkeyPatch) -> None:
    constraints = set(script(monkeypatch, "lowest_versions").lowest(["test", "cluster"]))
    assert {"numpy==1.26", "dask==2024.5"} <= constraints
    assert len(constraints) == len({constraint.split("==")[0] for constraint in constraints})


def test_what_was_not_audited_is_never_taken_for_fine(monkeypatch: pytest.MonkeyPatch) -> None:
    judge = script(monkeypatch, "audit").judge
    for told, code, words in (
        ([KNOWN], 0, "0 known vulnerabilities; 1 of 1 packages were audited"),
        ([KNOWN, WEAK], 1, "jinja2 3.1.0: PYSEC-1, mended in 3.1.3"),
        ([KNOWN, UNKNOWN], 2, "the others are not audited"),
        ([], 2, "not audited"),
    ):
        found, sentences = judge(told)
        assert (found, words in sentences) == (code, True)


@pytest.mark.parametrize(
    ("target", "driver", "refused", "installed", "words"),
    [
        ("demo", "| NVIDIA-SMI 550.1  Driver Version: 550.1  CUDA Version: 12.4 |", "", [".[cuda12]"], "CUDA 12: CuPy"),
        ("demo", "CUDA Version: 20.1", "", [".[cuda13]"], "CUDA 20: CuPy"),
        ("demo", "CUDA Version: 11.8", "", ["."], "CUDA 11, for which there is no CuPy here: NumPy"),
        ("demo", None, "", ["."], "no NVIDIA GPU answers: NumPy"),
        ("demo", "CUDA Version: 12.4", ".[cuda12]", [".[cuda12]", "."], "without CuPy, then: NumPy"),
        ("gpu", "CUDA Version: 12.4", "", [".[dev,cuda12]"], "CUDA 12: CuPy"),
        ("gpu", None, "", [".[dev]"], "no NVIDIA GPU answers: NumPy"),
        ("gpu", "CUDA Version: 13.0", ".[dev,cuda13]", [".[dev,cuda13]", ".[dev]"], "without CuPy, then: NumPy"),
    ],
)
def test_make_installs_cupy_where_a_driver_answers(
    tmp_path: Path, target: str, driver: str | None, refused: str, installed: list[str], words: str
) -> None:
    """With a stub in place of pip, which notes what it is to install, and a driver that says what it is given."""
    python, tools = tmp_path / ".venv" / "bin" / "python", tmp_path / "tools"
    stubs = {python: f'for last; do :; done; echo "$last" >> asked; [ "$last" != "{refused}" ]'}
    if driver is not None:
        stubs[tools / "nvidia-smi"] = f"echo '{driver}'"
    for path, body in stubs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(Path(__file__).parents[1] / name, tmp_path)
    done = subprocess.run(
        ["make", f".venv/{target}.stamp"],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert words in done.stdout
    assert (tmp_path / "asked").read_text().split() == installed
