"""One kill of each command; ``make test-kills`` has fifty.

Training alone is killed in ``tests/test_pipeline.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.kills import Whole, kill_and_call_again
from tests.faults.scenes import RUN, SCENES, Scene, Stage
from tests.runs import call

# As the fifty, but for the data, which takes longer to make than all else.
OWN = Scene("prepare-data", ("prepare-data", "--source", "own.npz"))
# At which change of a file: before data, a record and a table get their names, and anywhere in a suite.
MOMENTS = {"prepare-data": 4, "evaluate": 5, "run -j 2": 23, "tables": 9}


def alone(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """The same without processes of its own: one makes what two do."""
    return arguments[:-2] if arguments == RUN else arguments


def call_in(folder: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.chdir(folder)
        assert call(folder / "data", folder / "results", *arguments).code == 0


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "scene",
    # Several processes are killed fifty times by make test-kills, and once here where there is time.
    [
        pytest.param(scene, id=scene.name, marks=pytest.mark.slow if scene.command == RUN else ())
        for scene in (OWN, *SCENES[2:])
    ],
)
def test_killed_and_called_again_it_leaves_what_it_would_have_left(
    scene: Scene, start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments in scene.before:
        call_in(start, alone(arguments), monkeypatch)
    stage = Stage.set_up(start, tmp_path / "whole")
    call_in(stage.folder, alone(scene.command), monkeypatch)
    whole = Whole(scene, start, stage.contents(), changes=[])
    ending = kill_and_call_again(whole, tmp_path / "stage", MOMENTS[scene.name])
    assert (ending.error, ending.moment != "not at all") == ("", True)
