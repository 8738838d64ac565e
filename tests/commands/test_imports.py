"""Commands that only read records start without the libraries that models need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.runs import PATIENCE_SECONDS
from tests.experiments.suites import save
from tests.reporting.numbers import records


@pytest.mark.parametrize(
    ("command", "unwanted", "code"),
    [
        ("tables", {"sklearn", "skimage", "thetarbm_cli.models"}, 0),
        ("show", {"sklearn", "scipy", "skimage", "pandas", "thetarbm_cli.models"}, 0),
        ("list", {"sklearn", "scipy", "pandas"}, 0),
        ("status", {"sklearn", "skimage", "pandas", "thetarbm_cli.models"}, 3),
    ],
)
def test_records_are_read_without_the_libraries_of_models(
    tmp_path: Path, command: str, unwanted: set[str], code: int
) -> None:
    made = records(seeds=1)
    save(tmp_path, *made)
    words = ["--results", str(tmp_path), command, *([made[0].run] if command == "show" else [])]
    script = f"""
import sys
from thetarbm_cli.cli import main
try:
    main({words!r})
finally:
    print("imported:", *sorted({unwanted!r} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", timeout=PATIENCE_SECONDS, check=False
    )
    assert done.returncode == code
    assert done.stdout.splitlines()[-1] == "imported:"
