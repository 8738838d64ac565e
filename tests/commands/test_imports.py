"""Calls start without the libraries that they do not need: help, completion, and commands that only read records."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.records import save, training_for
from tests.runs import PATIENCE_SECONDS
from thetarbm_cli.suite import load_suite, shipped_path

SCRIPT = """
import sys
from thetarbm_cli.cli import main
try:
    main()
finally:
    print("imported:", *sorted(set({unwanted!r}) & set(sys.modules)), file=sys.stderr)
"""


def run_without(unwanted: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Call the command line in a process of its own, which must not import some modules."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(unwanted=unwanted.split()), *words],
        env={**clean, "PYTHONIOENCODING": "utf-8", **variables},
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.stderr.splitlines()[-1] == "imported:"
    return done


def test_help_needs_click_alone_and_completion_little_more() -> None:
    heavy = "cupy numpy scipy sklearn pandas platformdirs threadpoolctl rich"
    assert run_without(f"{heavy} pydantic yaml", "--help").returncode == 0
    completion = {"COMP_WORDS": "thetarbm run --profile q", "COMP_CWORD": "q", "_THETARBM_COMPLETE": "fish_complete"}
    about = load_suite(shipped_path(), check_settings=False).profiles["quick"].about
    assert run_without(heavy, **completion).stdout == f"plain,quick\t{about}\n"


@pytest.mark.parametrize(
    ("command", "unwanted", "code"),
    [
        ("tables", "sklearn scipy skimage pandas thetarbm_cli.models", 0),
        ("show", "sklearn scipy skimage pandas thetarbm_cli.models", 0),
        ("list", "sklearn scipy skimage pandas thetarbm_cli.models", 0),
        ("status", "sklearn scipy skimage pandas thetarbm_cli.models", 3),
    ],
)
def test_records_are_read_without_the_libraries_of_models(
    tmp_path: Path, command: str, unwanted: str, code: int
) -> None:
    cells = load_suite(shipped_path(), check_settings=False).cells()[:5]
    made = [training_for(cell, 0, test_error_percent=10.0, gamma_train=0.5, gamma_test=0.5) for cell in cells]
    save(tmp_path, *made)
    words = ["--results", str(tmp_path), command, *([made[0].run] if command == "show" else [])]
    # Nor CuPy, where it is installed: it imports SciPy.
    assert run_without(f"{unwanted} cupy", *words).returncode == code
