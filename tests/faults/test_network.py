"""Nothing is ever asked of a network; the tests of kills hold it for the other commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.faults.scenes import SUITE, Stage
from tests.runs import finish, run_of

# All in one process, since most of the time goes into starting it.
SCRIPT = """
import sys
from thetarbm_cli.cli import main
for words in sys.argv[1:]:
    try:
        main(["--data-dir", "data", "--results", "results", *words.split()])
    except SystemExit as left:
        assert left.code == 0, (words, left.code)
"""


@pytest.fixture
def stage(small_data: Path, evaluated: Path, tmp_path: Path) -> Stage:
    start = tmp_path / "start"
    shutil.copytree(small_data, start / "data")
    shutil.copytree(evaluated, start / "results")
    (start / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return Stage.set_up(start, tmp_path / "stage")


def test_no_command_calls_a_network(stage: Stage, evaluated: Path) -> None:
    run = run_of(evaluated, "theta")
    commands = (
        "info",
        "prepare-data",
        f"features {run} --out features.npz",
        f"show {run}",
        "tables --profile tiny",
        "figures --profile tiny making filters-theta",
        # Of a suite without runs: it has no figures but those above.
        "report --profile tiny --suite suite.yaml",
        "verify --rotations 4 --size 12",
        "clean --yes",
    )
    outcome = finish(stage.python(["-c", SCRIPT, *commands]))
    assert (outcome.code, outcome.err.count("Traceback")) == (0, 0)
    assert stage.changes()
    assert stage.network_calls() == []


def test_the_official_archive_is_not_downloaded_but_asked_for(stage: Stage) -> None:
    outcome = finish(stage.spawn(("prepare-data", "--source", "official")))
    outcome.assert_refused("cannot be downloaded", "--archive")
    assert stage.network_calls() == []
