"""Commands that are killed at random moments, and then called again: ``make test-kills`` does it fifty times.

A moment is a share of the time that the command computes, or one of its changes of files: creating a temporary
file, renaming it, removing a checkpoint. The second kind falls into every gap between two writes.
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

from tests.experiments.runs import make_small_data
from tests.faults.scenes import SCENES, SUITE, Scene, Stage, cpu_seconds
from thetarbm_cli.data.prepare import prepare

PATIENCE_SECONDS = 900


@dataclass(frozen=True)
class Whole:
    """A scene that nobody disturbed: where it began, what it left and how much it took."""

    scene: Scene
    start: Path
    contents: dict[str, Any]
    changes: list[str]
    cpu_seconds: float


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
    seconds = _complete(stage, scene.command)
    return Whole(scene, start, stage.contents(), stage.changes(), seconds)


def kill_and_call_again(whole: Whole, folder: Path, moment: int | float) -> Ending | None:
    """Kill the command of a scene, then call it again and compare what it leaves.

    Parameters
    ----------
    moment : the number of a change of a file, or a share of the time that the undisturbed command computed

    Returns
    -------
    Ending, or None if the command was quicker than its death
    """
    stage = Stage.set_up(whole.start, folder)
    if isinstance(moment, int):
        process = stage.spawn(whole.scene.command, kill_at=moment)
    else:
        process = stage.spawn(whole.scene.command)
        while process.poll() is None and cpu_seconds(process) < moment * whole.cpu_seconds:
            time.sleep(0.02)
        process.kill()
    process.wait(timeout=PATIENCE_SECONDS)
    killed = time.perf_counter()
    # Workers that live on keep the ends of its pipes.
    process.communicate(timeout=60)
    psutil.wait_procs(stage.processes(), timeout=60)
    orphan_seconds = time.perf_counter() - killed
    if process.returncode != -signal.SIGKILL:
        return None
    last = stage.changes()[-1:] or ["nothing"]
    words = f"{moment:.0%} of its time" if isinstance(moment, float) else f"change of a file {moment}: {last[0]}"
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


def _complete(stage: Stage, arguments: tuple[str, ...]) -> float:
    """Call a command that nobody disturbs; the seconds that it computed."""
    process = stage.spawn(arguments)
    seconds = 0.0
    while process.poll() is None:
        seconds = max(seconds, cpu_seconds(process))
        time.sleep(0.02)
    _, told = process.communicate()
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, arguments, stderr=told)
    return seconds


def kill_in_turn(whole: Whole, folder: Path, kills: int, moments: random.Random) -> list[Ending]:
    """Kill the command of a scene so often, by its time and by its changes of files in turn; print a row for each."""
    endings: list[Ending] = []
    too_late = 0
    while len(endings) < kills:
        by_change = len(endings) % 2 == 1
        moment = moments.randint(1, len(whole.changes)) if by_change else moments.random()
        ending = kill_and_call_again(whole, folder / "stage", moment)
        shutil.rmtree(folder / "stage")
        if ending is None:
            too_late += 1
            continue
        endings.append(ending)
        then = ending.error or "completed, equal"
        left = len(ending.left)
        print(f"| {ending.scene} | {ending.moment} | {left} | {ending.orphan_seconds:.1f} s | {then} |", flush=True)
    print(f"| {whole.scene.name} | {too_late} times after its end, which do not count | | | |", flush=True)
    return endings


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
            share = len(range(number, kills, len(SCENES)))
            endings += kill_in_turn(rehearse(scene, data, folder / "whole"), folder, share, moments)
    failures = sum(bool(ending.error) for ending in endings)
    print(f"\n{len(endings)} kills of living processes, {failures} failures, seed {seed}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
