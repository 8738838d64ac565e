"""Time whole calls: commands of a terminal, and a fit in Python with all threads that its BLAS libraries start."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.report import Ratio
from benchmarks.timing import Comparison, compare, seconds_of
from thetarbm_cli.backend import THREAD_VARIABLES
from thetarbm_cli.models import ThetaRBM

ROOT = Path(__file__).parents[1]
# Seconds that each may take; those after the first read all records.
COMMANDS = {"--help": 0.15, "tables": 1.5, "status": 1.2}


def command_times(data_dir: Path, results: Path, rounds: int) -> Iterator[Ratio]:
    """Time commands from the start of the interpreter on, on a copy of the results; the fastest call counts."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "results"
        if results.is_dir():
            shutil.copytree(results, copy, ignore=shutil.ignore_patterns("*.npz", "*.lock", "multiverse"))
        options = ["--data-dir", str(data_dir), "--results", str(copy)]
        for name, goal in COMMANDS.items() if results.is_dir() else [("--help", COMMANDS["--help"])]:
            words = [sys.executable, "-m", "thetarbm_cli", *options, name]

            def call(words: list[str] = words) -> None:
                subprocess.run(words, cwd=ROOT, capture_output=True, check=False)

            call()
            seconds = min(seconds_of(call) for _ in range(rounds))
            yield Ratio.of(f"thetarbm {name}", seconds, goal, at_most=True, unit="s")


def thread_ratio() -> Ratio:
    """Compare a fit in a process that nobody has told a number of threads with the same on one thread."""
    free = {name: value for name, value in os.environ.items() if name not in THREAD_VARIABLES}
    code = "from benchmarks.calls import compare_threads as c; t = c(); print(t.seconds, t.base_seconds, t.ratio)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=free, capture_output=True, text=True, check=True)
    times = Comparison(*map(float, done.stdout.split()))
    return Ratio.compared("fit in Python, default threads / one thread", times, 1.2, at_most=True)


def compare_threads() -> Comparison:
    """Fit a small θ-RBM and take features, as Python users do, and under a limit of one thread."""
    images = np.random.default_rng(0).random((1000, 784), dtype=np.float32)

    def fit() -> None:
        ThetaRBM(hidden=100, epochs=2, backend="numpy").fit(images).transform(images)

    def limited() -> None:
        with threadpool_limits(1, user_api="blas"):
            fit()

    return compare(fit, limited, 5)
