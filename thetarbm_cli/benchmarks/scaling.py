"""How the cost of an epoch grows with images, hidden units, rotations and batch."""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.benchmarks.epochs import epoch_of
from thetarbm_cli.benchmarks.timing import seconds_of
from thetarbm_cli.models import ThetaRBM


@dataclass(frozen=True)
class Scaling:
    """Seconds and memory of an epoch of the tied θ-RBM as one size doubles.

    Attributes
    ----------
    axis : str
    values : list of int
    seconds : list of float
    peak_megabytes : list of float
        Largest memory of arrays while the epoch runs, training set included.
    exponent : float
        Slope of log seconds against log value: 1 is linear.
    """

    axis: str
    values: list[int]
    seconds: list[float]
    peak_megabytes: list[float]
    exponent: float


def measure_scaling(
    images: NDArray[np.float32],
    *,
    rounds: int = 3,
    on_axis: Callable[[Scaling], None] | None = None,
) -> list[Scaling]:
    """Double each size thrice, the others at their middle values."""
    count = len(images)
    base = {"images": count // 4, "hidden": 250, "rotations": 9, "batch": 100}
    axes = {
        "images": [count // 8 * factor for factor in (1, 2, 4, 8)],
        "hidden": [125, 250, 500, 1000],
        "rotations": [9, 18, 36, 72],
        "batch": [50, 100, 200, 400],
    }
    results = []
    for axis, values in axes.items():
        measured = [_epoch(images, {**base, axis: value}, rounds) for value in values]
        seconds = [time for time, _ in measured]
        slope = float(np.polyfit(np.log(values), np.log(seconds), 1)[0])
        scaling = Scaling(axis, values, seconds, [memory for _, memory in measured], slope)
        results.append(scaling)
        if on_axis is not None:
            on_axis(scaling)
    return results


def _epoch(images: NDArray[np.float32], sizes: dict[str, int], rounds: int) -> tuple[float, float]:
    """Median seconds and peak memory of an epoch."""
    model = ThetaRBM(
        sizes["hidden"],
        rotations=sizes["rotations"],
        batch_size=sizes["batch"],
        # Wide machines need small steps; the time of an epoch does not depend on the rate.
        learning_rate=1e-4,
        backend="numpy",
    )
    part = images[: sizes["images"]]
    epoch = epoch_of(model, part)
    epoch()
    seconds = statistics.median(seconds_of(epoch) for _ in range(rounds))
    tracemalloc.start()
    traced = epoch_of(model, part)
    traced()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, round(peak, 1)
