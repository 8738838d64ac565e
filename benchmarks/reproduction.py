"""Find how long the paper's tables take from nothing, for one seed on two cores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Ratio
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.execution.job import USUAL_TEST, USUAL_TRAIN
from thetarbm_cli.experiments.execution.plan import PlannedRun, make_plan
from thetarbm_cli.experiments.runs.settings import RunSettings
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.parameters import parameters_of

TABLES = {"1", "2", "3", "mnist"}
CORES = 2
GOAL_MINUTES = 17.0


@dataclass(frozen=True)
class RecordedTimes:
    """Times of the runs behind the tables, from their records.

    Attributes
    ----------
    seconds : dict
        By seed: training, checkpoints and measuring, summed over the runs of a seed of which none is missing.
    runs, wanted : int
        Runs of seed 0 that are recorded, and that one seed of the tables needs.
    """

    seconds: dict[int, float]
    runs: int
    wanted: int

    def ratio(self) -> Ratio | None:
        """Give the figure if a seed has all its runs: they have one thread each, so two of them fill two cores.

        Whatever else a machine does only adds time, so the fastest seed counts; the note has all.
        """
        if not self.seconds:
            return None
        minutes = ", ".join(f"{self.seconds[seed] / CORES / 60:.1f}" for seed in sorted(self.seconds))
        note = f"times of {self.wanted} records by {CORES}; seed by seed {minutes} min"
        return _ratio(min(self.seconds.values()) / CORES, note)


def recorded_times(context: RunContext, suite: Suite) -> RecordedTimes:
    """Sum up the records behind Tables 1–3 and "Training on mnist", seed by seed.

    What is run for one seed alone, as the controls are, counts for every seed.
    """
    cells = _cells(suite)
    alone = [cell for cell in cells if cell.most_seeds == 1]
    several = [cell for cell in cells if cell.most_seeds != 1]
    common = _times(context, make_plan(context, alone, seeds=1))
    plan = make_plan(context, several, seeds=max(cell.seeds for cell in several))
    seconds = {}
    for seed in sorted({run.seed for run in plan}):
        times = common + _times(context, [run for run in plan if run.seed == seed])
        if None not in times:
            seconds[seed] = sum(time for time in times if time is not None)
    first = common + _times(context, [run for run in plan if run.seed == 0])
    return RecordedTimes(seconds, sum(time is not None for time in first), len(first))


def _cells(suite: Suite) -> list[Cell]:
    """The cells that `thetarbm run` makes by itself for these tables."""
    return [cell for cell in suite.cells("paper") if TABLES & set(cell.tables) and not cell.on_request]


def _times(context: RunContext, plan: Sequence[PlannedRun]) -> list[float | None]:
    """Read the seconds of each run, None where there is no record."""
    done = (context.store.load(run.run) if run.run is not None and run.state == "done" else None for run in plan)
    return [None if record is None else sum(record.timings.values()) for record in done]


def logged_time(path: Path) -> Ratio:
    """Take the figure from what ``thetarbm run --json`` printed: wall time, processes and data included.

    Raises
    ------
    InputError
        If the file is not of that kind, or the runs were not all made from nothing.
    """
    try:
        log = json.loads(path.read_text(encoding="utf-8"))
        done, others, seconds = log["done"], log["cached"] + log["failed"], float(log["seconds"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the output of thetarbm run --json ({error})") from error
    if others or not done:
        raise InputError(
            f"{path} has {done} runs made and {others} found or failed; "
            "the time of a reproduction needs all runs made in an empty results folder"
        )
    return _ratio(seconds, f"wall time of {done} runs")


def products_ratio(minutes: float, suite: Suite, seconds_per_product: float) -> Ratio:
    """Compare the time of a reproduction with that of its matrix products alone, on as many cores.

    Parameters
    ----------
    seconds_per_product : float
        Of one image with the weights of 500 units, as in an RBM's epoch.
    """
    runs = {cell.settings().model_dump_json(): cell for cell in _cells(suite)}
    products = sum(_products(cell.settings(), "gamma" in cell.measures) for cell in runs.values())
    alone = products * seconds_per_product / CORES / 60
    name = "one-seed reproduction / its products"
    return Ratio.of(name, minutes / alone, 1.25, at_most=True, note=f"{minutes:.1f} min / {alone:.1f} min")


def _products(settings: RunSettings, with_gamma: bool) -> float:
    """Count the products of a run: five an image and epoch, one for features, ten for γ, and the SVM's kernels."""
    train, test, pixels = USUAL_TRAIN, USUAL_TEST, 784
    parameters = settings.complete_parameters
    rotations = parameters.get("rotations", 1) if settings.model == "tirbm" else 1
    variants = 1 + parameters_of(settings.model).aligns_optionally
    measured = (train + test) * (1 + 10 * with_gamma) if "epochs" in parameters else 0
    # Kernels are in float64, which takes twice as long.
    kernels = 2 * (train + test) * train / pixels
    return float(rotations * (5 * parameters.get("epochs", 0) * train + variants * measured) + variants * kernels)


def _ratio(seconds: float, note: str) -> Ratio:
    name = "one-seed reproduction, 2 cores"
    return Ratio.of(name, seconds / 60, GOAL_MINUTES, at_most=True, unit="min", note=note)
