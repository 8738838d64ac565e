"""The program that tests on a GPU (`tests/gpu.py`): what it refuses, what it finds, what it writes."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu import (
    CHECKS,
    MODELS,
    Check,
    Sizes,
    all_well,
    carry_out,
    compare_steps,
    each_of,
    outcome_lines,
    read_tests,
)
from tests.models.cases import CASES, images
from thetarbm_cli.models import RBM

ROOT = Path(__file__).parents[1]


def run(folder: Path, *arguments: str, before: str = "pass") -> subprocess.CompletedProcess[str]:
    program = f"import runpy, sys; {before}; sys.argv[0] = 'gpu'; runpy.run_module('tests.gpu', run_name='__main__')"
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_device_it_says_so_and_does_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, "tests/models", before="sys.modules['cupy'] = None")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: backend cupy was asked for, but CuPy is not installed; install the extra cuda12 or cuda13 on a machine "
        "with a GPU, or use --backend numpy\n"
    )
    assert not list(tmp_path.iterdir())


def test_steps_of_two_models_are_compared() -> None:
    settings: dict[str, Any] = {"hidden": 5, "batch_size": 25, "backend": "numpy"}
    pair = [RBM(**settings), RBM(**settings)]
    assert compare_steps(pair, images(), None) == 0
    assert 1e-4 < compare_steps([pair[0], RBM(**settings, learning_rate=0.02)], images(), None) < math.inf


def test_what_fails_is_in_the_report_beside_the_rest() -> None:
    def broken(*_: Any) -> Any:
        raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS")

    found = carry_out(broken, Sizes())
    assert (found.passed, found.summary) == (False, "RuntimeError: CUDA_ERROR_ILLEGAL_ADDRESS")
    assert "in broken" in found.numbers["traceback"]
    both = each_of({"broken": broken, "sound": lambda: {"passed": True}})
    assert [each["passed"] for each in both.values()] == [False, True]
    assert both["broken"]["error"] == found.summary


def test_the_outcome_of_tests_is_read(tmp_path: Path) -> None:
    result = tmp_path / "tests.xml"
    result.write_text(
        "<testsuites><testsuite><testcase classname='a' name='good'/>"
        "<testcase classname='a' name='bad'><failure message='m'>one\ntwo</failure></testcase>"
        "<testcase classname='a' name='left'><skipped message='no such thing'/></testcase></testsuite></testsuites>"
    )
    tests = {"exit_code": 1, **read_tests(result)}
    assert (tests["passed"], tests["failed"], tests["skipped"]) == (1, 1, 1)
    assert tests["names_of_failed"] == ["a::bad"]
    assert tests["ends_of_failed"] == {"a::bad": "one\ntwo"}
    assert tests["reasons_of_skipped"] == {"no such thing": 1}
    assert outcome_lines(tests) == "1 tests passed, 1 failed, 1 skipped\n  failed: a::bad"


def test_all_is_well_only_if_everything_is() -> None:
    def report(*, check: bool = True, line: Any = None, code: int | None = 0) -> dict[str, Any]:
        tests = None if code is None else {"exit_code": code}
        return {"checks": {"steps": vars(Check(check, "", {}))}, "times": [line or {}], "tests": tests}

    assert all_well(report())
    assert all_well(report(code=None))
    assert not all_well(report(check=False))
    assert not all_well(report(line={"error": "MemoryError"}))
    assert not all_well(report(code=1))


@pytest.mark.cupy
def test_on_a_device_it_writes_what_it_found(tmp_path: Path) -> None:
    done = run(tmp_path, "tests/models", "--quick", "--without-tests", "--out", "report.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) < 80
    assert done.stdout.endswith("Everything is in report.json: please open an issue with this file.\n")
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert (report["complete"], report["passed"], report["tests"]) == (True, True, None)
    machine = report["machine"]
    assert machine["gpu"]
    assert {"cupy", "runtime", "driver", "capability", "tf32"} <= machine["cuda"].keys()
    assert {"version", "git", "processor", "libraries", "nvidia_driver", "accelerators", "variables"} <= machine.keys()
    assert list(report["checks"]) == list(CHECKS)
    for name in ("equal_fits", "steps"):
        numbers = report["checks"][name]["numbers"]
        assert list(numbers) == [*CASES, *(f"{model}, {Sizes.quick().hidden} hidden" for model in MODELS)]
        assert all(each["passed"] for each in numbers.values())
    svm = report["checks"]["svm"]["numbers"]
    assert svm["other_predictions"] == 0
    assert 0 < svm["support_vectors"] == svm["support_vectors_of_scikit_learn"] < Sizes.quick().learned
    assert [(line["model"], line["batch"]) for line in report["times"]] == [
        (model, batch) for model in MODELS for batch in Sizes.quick().batches
    ]
    assert all(line["seconds"] > 0 and line["numpy_seconds"] > 0 for line in report["times"])
