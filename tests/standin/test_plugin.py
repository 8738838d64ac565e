"""Runs on the stand-in: what passes on it, and that nothing passes beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

TESTS = """
import numpy as np
import pytest
from thetarbm_cli.backend import select_backend

backend = select_backend()
on_device = backend.asarray(np.arange(3.0))

def test_on_the_device():
    assert backend.name == "cupy"
    assert backend.to_host(on_device.sum()) == 3

def test_beside_the_device():
    assert select_backend().name == "cupy"
    assert np.arange(3.0).sum() == 3

def test_hidden_copy():
    assert backend.to_host(on_device)[1] == 1
    assert float(on_device.sum()) == 3

def test_mixed_arrays():
    assert backend.to_host(on_device + np.ones(3))[0] == 1

@pytest.mark.no_device("for this test")
def test_without_a_device():
    raise AssertionError
"""


def test_a_run_on_the_stand_in_takes_only_tests_that_use_it_openly(tmp_path: Path) -> None:
    path = tmp_path / "test_small.py"
    path.write_text(TESTS, encoding="utf-8")
    options = ["-rA", "--tb=line", "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-p", "tests.standin.plugin", *options, str(path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    ends = dict(
        line.split(" ")[:2][::-1] for line in result.stdout.splitlines() if line.startswith(("PASSED", "FAILED"))
    )
    assert {name.partition("::")[2]: end for name, end in ends.items()} == {
        "test_on_the_device": "PASSED",
        "test_beside_the_device": "FAILED",
        "test_hidden_copy": "FAILED",
        "test_mixed_arrays": "FAILED",
    }
    for reason in ("nothing came back", "no one asked for: float", "numpy.ndarray", "1 deselected", "back: 1"):
        assert reason in result.stdout
