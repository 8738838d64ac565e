"""Commands at a tiny size, each with the folder that it starts from and what it leaves behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.runs import lasting, store_of

HOOKS = Path(__file__).with_name("hooks")
# The package of this checkout, wherever another one may be installed.
CHECKOUT = Path(__file__).parents[2]

SUITE = """\
format: 2
title: small
profiles:
  tiny:
    seeds: 1
    set: {hidden: 10, epochs: 3, data.train: 300, data.test: 300}
experiments:
  - {name: rbm, label: RBM, model: rbm, grid: {sparsity: [0.3, 0.1]}, tables: ["1", "2"]}
  - {name: theta, label: θ-RBM, model: theta, grid: {sparsity: [0.3, 0.1]}, measures: [error], tables: ["1"]}
"""


@dataclass(frozen=True)
class Scene:
    """A command in a folder of its own, which has ``data``, ``results`` and ``suite.yaml``.

    Attributes
    ----------
    before : commands that have been called when it begins
    """

    name: str
    command: tuple[str, ...]
    before: tuple[tuple[str, ...], ...] = ()


TINY = ("--profile", "tiny", "--suite", "suite.yaml")
TRAIN = ("train", "--model", "theta", "--profile", "tiny", "--set", "batch_size=10")
RUN = ("run", *TINY, "-j", "2")
SCENES = (
    Scene("prepare-data", ("prepare-data",)),
    Scene("train", TRAIN),
    Scene("evaluate", ("evaluate", "--all"), before=(TRAIN,)),
    Scene("run -j 2", RUN),
    Scene("tables", ("tables", *TINY), before=(RUN,)),
)


@dataclass(frozen=True)
class Stage:
    """Where a scene is played, and a mark by which the processes of this performance are known."""

    folder: Path
    mark: str

    @classmethod
    def set_up(cls, start: Path, folder: Path) -> Stage:
        """A new stage with the content of `start`."""
        shutil.copytree(start, folder)
        stage = cls(folder, uuid.uuid4().hex)
        stage.log.unlink(missing_ok=True)
        return stage

    def spawn(self, arguments: Sequence[str], **faults: int) -> subprocess.Popen[str]:
        """The command line in a process of its own; see `python`."""
        return self.python(["-m", "thetarbm_cli", "--data-dir", "data", "--results", "results", *arguments], **faults)

    def python(self, arguments: Sequence[str], *, kill_at: int = 0, network: int = 0) -> subprocess.Popen[str]:
        """A Python of its own, which is watched, and may be killed at one of its changes of files.

        Parameters
        ----------
        kill_at : number of the change; 0 for none
        network : whether there is one
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("THETARBM_", "FAULT_"))}
        faults = {"FAULT_FOLDER": str(self.folder), "FAULT_LOG": str(self.log), "FAULT_MARK": self.mark}
        faults |= {"FAULT_KILL_AT": str(kill_at), "FAULT_NETWORK": str(int(network))}
        return subprocess.Popen(
            [sys.executable, *arguments],
            env={**kept, **faults, "PYTHONPATH": f"{HOOKS}{os.pathsep}{CHECKOUT}", "PYTHONIOENCODING": "utf-8"},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )

    @property
    def log(self) -> Path:
        """Where the watched processes write what they do."""
        return self.folder.with_name(f"{self.folder.name}.log")

    def changes(self) -> list[str]:
        """What they did to files."""
        return [line for line in self._lines() if not line.startswith("socket.")]

    def network_calls(self) -> list[str]:
        """What they wanted of a network."""
        return [line for line in self._lines() if line.startswith("socket.")]

    def _lines(self) -> list[str]:
        return self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []

    def processes(self) -> list[psutil.Process]:
        """All that is alive of this performance, whoever its parent is."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get("FAULT_MARK") == self.mark and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def temporary_files(self) -> list[str]:
        """Names of files that have not become what they were to be."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob(".*.part"))

    def contents(self) -> dict[str, Any]:
        """What lasts of every file: all bytes, or of records all that equal runs have in common."""
        found: dict[str, Any] = {}
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.suffix != ".lock" and path.name not in ("run.json", "measures.jsonl"):
                found[str(path.relative_to(self.folder))] = path.read_bytes()
        for training in store_of(self.folder / "data", self.folder / "results").trainings():
            # A line that a kill has torn stays, and its measurement is made again.
            found[training.run] = lasting(training)
        return found
