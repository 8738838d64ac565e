"""Find how long the paper's tables take from nothing, for one seed on two cores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Ratio
from thetarbm_cli.errors import InputError
from thetarbm_cli.parameters import parameters_of
from thetarbm_cli.schedule import Job, plan
from thetarbm_cli.specs import TrainSpec
from thetarbm_cli.store import Store
from thetarbm_cli.suite import Cell, Suite

TABLES = {"1", "2", "3", "mnist"}
CORES = 2
TRAIN, TEST = 10_000, 50_000
GOAL_MINUTES = 17.0


@dataclass(frozen=True)
class RecordedTimes:
    """Times of the runs behind the tables, from their records.

    Attributes
    ----------
    seconds : dict
        By seed: training and measuring, summed over the runs of a seed of which none is missing.
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


def recorded_times(store: Store, suite: Suite) -> RecordedTimes:
    """Sum up the records behind Tables 1–3 and "Training on mnist", seed by seed.

    What is run for one seed alone, as the controls are, counts for every seed.
    """
    cells = _cells(suite)
    alone = [cell for cell in cells if cell.most_seeds == 1]
    several = [cell for cell in cells if cell.most_seeds != 1]
    common = _times(store, plan(store, alone, seeds=1))
    jobs = plan(store, several, seeds=max(cell.seeds for cell in several))
    seconds = {}
    for seed in sorted({job.spec.seed for job in jobs}):
        times = common + _times(store, [job for job in jobs if job.spec.seed == seed])
        if None not in times:
            seconds[seed] = sum(time for time in times if time is not None)
    first = common + _times(store, [job for job in jobs if job.spec.seed == 0])
    return RecordedTimes(seconds, sum(time is not None for time in first), len(first))


def _cells(suite: Suite) -> list[Cell]:
    """The cells that `thetarbm run` makes by itself for these tables."""
    return [cell for cell in suite.cells("paper") if TABLES & set(cell.tables) and not cell.on_request]


def _times(store: Store, jobs: Sequence[Job]) -> list[float | None]:
    """Read the seconds of each job, None where it is not done."""
    found = {each.run: each for each in store.trainings({job.run for job in jobs if job.run and job.state == "done"})}
    times: list[float | None] = []
    for job in jobs:
        training = found.get(job.run or "")
        measured = [training.by_key[spec.key].seconds or 0.0 for spec in job.wanted] if training else []
        times.append(training.seconds + sum(measured) if training else None)
    return times


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
    runs = {cell.train_spec().key: cell for cell in _cells(suite)}
    products = sum(_products(cell.train_spec(), "gamma" in cell.measures) for cell in runs.values())
    alone = products * seconds_per_product / CORES / 60
    name = "one-seed reproduction / its products"
    return Ratio.of(name, minutes / alone, 1.25, at_most=True, note=f"{minutes:.1f} min / {alone:.1f} min")


def _products(spec: TrainSpec, with_gamma: bool) -> float:
    """Count the products of a run: five an image and epoch, one for features, ten for γ, and the SVM's kernels."""
    train, test, pixels, parameters = TRAIN, TEST, 784, spec.parameters
    rotations = parameters.get("rotations", 1) if spec.model == "tirbm" else 1
    variants = 1 + parameters_of(spec.model).aligns_optionally
    measured = (train + test) * (1 + 10 * with_gamma) if "epochs" in parameters else 0
    # Kernels are in float64, which takes twice as long.
    kernels = 2 * (train + test) * train / pixels
    return float(rotations * (5 * parameters.get("epochs", 0) * train + variants * measured) + variants * kernels)


def _ratio(seconds: float, note: str) -> Ratio:
    name = "one-seed reproduction, 2 cores"
    return Ratio.of(name, seconds / 60, GOAL_MINUTES, at_most=True, unit="min", note=note)
