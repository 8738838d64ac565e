"""How long the paper's tables take from nothing, for one seed on two cores."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from thetarbm_cli.benchmarks.goals import Ratio
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.plan import make_plan
from thetarbm_cli.experiments.suite import Suite
from thetarbm_cli.experiments.training_run import Workplace

TABLES = {"1", "2", "3", "mnist"}
CORES = 2
GOAL_MINUTES = 30.0


@dataclass(frozen=True)
class Recorded:
    """Times of the runs behind the tables, as their records tell them.

    Attributes
    ----------
    seconds : float
        Training, checkpoints and measuring, summed over the runs that are recorded.
    runs, wanted : int
        Runs that are recorded, and that one seed of the tables needs.
    """

    seconds: float
    runs: int
    wanted: int

    def ratio(self) -> Ratio | None:
        """The figure, if no run is missing: runs have one thread each, so two of them fill two cores."""
        if self.runs < self.wanted:
            return None
        note = f"times of {self.runs} records by {CORES}"
        return _ratio(self.seconds / CORES, note)


def recorded_times(place: Workplace, suite: Suite) -> Recorded:
    """Sum up the records of seed 0 behind Tables 1–3 and "Training on mnist"."""
    cells = [cell for cell in suite.cells("paper") if TABLES & set(cell.tables)]
    plan = make_plan(place, cells, seeds=1)
    records = [place.store.load(run.run) for run in plan if run.run is not None and run.state == "done"]
    seconds = [sum(record.timings.values()) for record in records if record is not None]
    return Recorded(sum(seconds), len(seconds), len(plan))


def logged_time(path: Path) -> Ratio:
    """The figure from what ``thetarbm run --json`` printed: wall time, processes and data included.

    Raises
    ------
    InputError
        If the file is not of that kind, or the runs were not all made from nothing.
    """
    try:
        log = json.loads(path.read_text())
        done, others, seconds = log["done"], log["cached"] + log["failed"], float(log["seconds"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} does not hold what thetarbm run --json prints ({error})") from error
    if others or not done:
        raise InputError(
            f"{path} tells of {done} runs made and {others} found or failed; "
            "the time of a reproduction is that of all runs made in an empty results folder"
        )
    return _ratio(seconds, f"wall time of {done} runs")


def _ratio(seconds: float, note: str) -> Ratio:
    return Ratio("one-seed reproduction, 2 cores", seconds / 60, GOAL_MINUTES, at_most=True, unit="min", note=note)
