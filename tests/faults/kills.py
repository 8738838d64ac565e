"""Commands that are killed at random moments, and then called again: ``make test-kills`` does it fifty times.

A moment is one of its changes of files: creating a temporary file, renaming it, removing a checkpoint. What a kill
leaves depends on those alone.
"""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.faults.scenes import SCENES, SUITE, Scene, Stage
from tests.runs import make_small_data
from thetarbm_cli.data.prepare import prepare

PATIENCE_SECONDS = 900


@dataclass(frozen=True)
class Whole:
    """A scene that nobody disturbed: where it began, what it left and what it did to files."""

    scene: Scene
    start: Path
    contents: dict[str, Any]
    changes: list[str]


@dataclass(frozen=True)
class Ending:
    """What came of one kill.

    Attributes
    ----------
    moment : in words
    left : temporary files that the killed processes left
    orphan_seconds : how long the last of its processes lived on
    error : what is wrong; empty if the same command then completed with equal files, and nothing else is there
    """

    scene: str
    moment: str
    left: list[str]
    orphan_seconds: float
    error: str


def rehearse(scene: Scene, data: Path, folder: Path) -> Whole:
    """Play a scene undisturbed."""
    start = folder / f"{scene.name} start"
    if scene.name == "prepare-data":
        start.mkdir(parents=True)
    else:
        shutil.copytree(data, start / "data")
    (start / "suite.yaml").write_text(SUITE, encoding="utf-8")
    for number, arguments in enumerate(scene.before):
        stage = Stage.set_up(start, folder / f"{scene.name} before {number}")
        _complete(stage, arguments)
        start = stage.folder
    stage = Stage.set_up(start, folder / f"{scene.name} whole")
    _complete(stage, scene.command)
    return Whole(scene, start, stage.contents(), stage.changes())


def kill_and_call_again(whole: Whole, folder: Path, moment: int) -> Ending:
    """Kill the command of a scene at a change of a file, by its number; call it again and compare what it leaves."""
    stage = Stage.set_up(whole.start, folder)
    process = stage.spawn(whole.scene.command, kill_at=moment)
    process.wait(timeout=PATIENCE_SECONDS)
    killed = time.perf_counter()
    # Workers that live on keep the ends of its pipes.
    process.communicate(timeout=60)
    psutil.wait_procs(stage.processes(), timeout=60)
    orphan_seconds = time.perf_counter() - killed
    killed_at = f"change of a file {moment}: {stage.changes()[-1]}"
    # Two processes may do with fewer changes than the last time.
    words = killed_at if process.returncode == -signal.SIGKILL else "not at all"
    return Ending(whole.scene.name, words, stage.temporary_files(), orphan_seconds, _what_is_wrong(whole, stage))


def _what_is_wrong(whole: Whole, stage: Stage) -> str:
    alive = stage.processes()
    if alive:
        return f"processes live on: {[process.pid for process in alive]}"
    second = stage.spawn(whole.scene.command)
    _, told = second.communicate(timeout=PATIENCE_SECONDS)
    if second.returncode != 0 or "Traceback" in told:
        return f"the second call ended with {second.returncode}: {told}"
    if stage.temporary_files():
        return f"left behind: {stage.temporary_files()}"
    if stage.network_calls():
        return f"called the network: {stage.network_calls()}"
    contents = stage.contents()
    differing = [name for name in whole.contents.keys() | contents if whole.contents.get(name) != contents.get(name)]
    return f"differing: {sorted(differing)}" if differing else ""


def _complete(stage: Stage, arguments: tuple[str, ...]) -> None:
    """Call a command that nobody disturbs."""
    process = stage.spawn(arguments)
    _, told = process.communicate()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, arguments, stderr=told)


def main(kills: int = 50, seed: int = 0) -> int:
    """Kill every command equally often, print a table, and tell by the exit code whether all went well."""
    moments = random.Random(seed)
    endings: list[Ending] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder / "data")
        data = make_small_data(folder / "data", folder)
        print("| command | killed at | temporary files left | orphans | then |\n| --- | --- | --- | --- | --- |")
        for number, scene in enumerate(SCENES):
            whole = rehearse(scene, data, folder / "whole")
            for _ in range(number, kills, len(SCENES)):
                ending = kill_and_call_again(whole, folder / "stage", moments.randint(1, len(whole.changes)))
                shutil.rmtree(folder / "stage")
                endings.append(ending)
                words = (ending.scene, ending.moment, len(ending.left), f"{ending.orphan_seconds:.1f} s")
                print("|", *(f"{word} |" for word in words), ending.error or "completed, equal", "|", flush=True)
    failures = sum(bool(ending.error) for ending in endings)
    print(f"\n{len(endings)} kills of living processes, {failures} failures, seed {seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
