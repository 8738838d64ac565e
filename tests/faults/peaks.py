"""The most memory that each command takes at the paper's sizes: ``make test-memory`` prints it as a table.

Training is cut to one epoch, as each epoch takes the same. The records are those of the checkout, so that tables,
figures and the report have all that the paper has.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

CHECKOUT = Path(__file__).resolve().parents[2]
LIMIT_BYTES = 3_000_000_000
SUITE = """\
format: 2
title: large
profiles:
  paper: {seeds: 1, set: {epochs: 1}}
experiments:
  - {name: tirbm, label: TI-RBM, model: tirbm, tables: ["1"]}
  - {name: theta-full, label: θ-RBM, model: theta, set: {tensor: full}, tables: ["1"]}
"""
# In this order: some need what others have made. RUN stands for the run of the last θ-RBM that was trained.
COMMANDS = (
    "prepare-data",
    "train --model rbm --epochs 1",
    "train --model orbm --epochs 1",
    "train --model tirbm --epochs 1",
    "train --model theta --tensor full --epochs 1",
    "train --model theta --epochs 1",
    "evaluate RUN",
    "evaluate RUN --grid-search",
    "features RUN --out features.npz",
    "run --suite large.yaml -j 2",
    "perturb --n 4 --p 0.4 --set epochs=1",
    "train --model theta",
    "status",
    "show RUN",
    "tables",
    "figures",
    "report",
    "verify",
    "info",
)


@dataclass(frozen=True)
class Peak:
    """What a command took: memory that its processes held at the same time, and how long it ran."""

    command: str
    bytes: int
    seconds: float
    code: int
    told: str

    @property
    def is_fine(self) -> bool:
        """Whether it was done, within the limit."""
        return self.code == 0 and self.bytes < LIMIT_BYTES


def measure(commands: tuple[str, ...], folder: Path) -> Iterator[Peak]:
    """Call the commands one after another in a new folder, and yield each peak."""
    shutil.copytree(CHECKOUT / "results", folder / "results")
    (folder / "large.yaml").write_text(SUITE, encoding="utf-8")
    run = ""
    for command in commands:
        known = set((folder / "results" / "runs").glob("theta-*/weights.npz"))
        peak = _peak_of(command, command.replace("RUN", run).split(), folder)
        yield peak
        new = set((folder / "results" / "runs").glob("theta-*/weights.npz")) - known
        if command.startswith("train") and new:
            run = new.pop().parent.name


def _peak_of(command: str, arguments: list[str], folder: Path) -> Peak:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    started = time.perf_counter()
    with (folder / "told").open("w+", encoding="utf-8") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "thetarbm_cli", "--data-dir", "data", "--results", "results", *arguments],
            env={**kept, "PYTHONPATH": str(CHECKOUT), "PYTHONIOENCODING": "utf-8"},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=told,
        )
        together = 0
        while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            together = max(together, _resident_bytes(process.pid))
            time.sleep(0.02)
        # The system's own count misses no moment, but counts one process.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        words = told.read()
    largest = max(together, usage.ru_maxrss * 1024)
    return Peak(command, largest, time.perf_counter() - started, process.returncode, words)


def _resident_bytes(first: int) -> int:
    total = 0
    with suppress(psutil.Error):
        parent = psutil.Process(first)
        for process in (parent, *parent.children(recursive=True)):
            with suppress(psutil.Error):
                total += process.memory_info().rss
    return total


def main() -> int:
    """Print a table of all peaks; the exit code tells whether all are fine."""
    fine = True
    print("| command | peak in MB | seconds |\n| --- | --: | --: |")
    with tempfile.TemporaryDirectory() as name:
        for peak in measure(COMMANDS, Path(name)):
            print(f"| `{peak.command}` | {peak.bytes / 1e6:,.0f} | {peak.seconds:.0f} |", flush=True)
            if not peak.is_fine:
                print(f"\n`{peak.command}` ended with {peak.code}: {peak.told[-500:]}")
                fine = False
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
