"""Find how the cost of an epoch grows with each size, and what a change of the settings would gain."""

from __future__ import annotations

import statistics
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.epochs import Images, Sizes, batches_of, epoch_of
from benchmarks.report import Payoff, Scaling
from benchmarks.timing import Job, compare, seconds_of, shares
from thetarbm_cli.backend import cores
from thetarbm_cli.models import RBM, ThetaRBM

BATCHES = (200, 500, 1000)
THREADED_BATCHES = (100, 500, 2000)
# Wide models need small steps; the time of an epoch does not depend on the rate.
_SLOWLY: dict[str, Any] = {"learning_rate": 1e-4, "backend": "numpy"}


def measure_scaling(images: Images, sizes: Sizes) -> Iterator[Scaling]:
    """Double each size thrice, the others at their middle values, in epochs of the tied θ-RBM."""
    count = len(images)
    base = {"images": count // 4, "hidden": 250, "rotations": 9, "batch": 100}
    axes = {
        "images": [count // 8 * factor for factor in (1, 2, 4, 8)],
        "hidden": [125, 250, 500, 1000],
        "rotations": [9, 18, 36, 72],
        "batch": [50, 100, 200, 400],
    }
    for axis, values in axes.items():
        measured = [epoch_cost(images, {**base, axis: value}, sizes.scaling_rounds) for value in values]
        seconds = [time for time, _ in measured]
        yield Scaling(
            axis=axis,
            values=values,
            seconds=seconds,
            peak_megabytes=[memory for _, memory in measured],
            exponent=float(np.polyfit(np.log(values), np.log(seconds), 1)[0]),
        )


def epoch_cost(images: Images, at: dict[str, int], rounds: int) -> tuple[float, float]:
    """Measure median seconds and peak megabytes of an epoch, the training set included."""
    model = ThetaRBM(at["hidden"], rotations=at["rotations"], batch_size=at["batch"], **_SLOWLY)
    part = images[: at["images"]]
    epoch = epoch_of(model, part)
    epoch()
    seconds = statistics.median(seconds_of(epoch) for _ in range(rounds))
    tracemalloc.start()
    traced = epoch_of(model, part)
    traced()
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, round(peak, 1)


def measure_payoffs(images: Images, sizes: Sizes) -> Iterator[Payoff]:
    """Try bigger batches, float16 storage and a second thread, each against the setting as it is."""
    images = images[: sizes.payoff_images]
    rounds = max(2, sizes.rounds // 2)
    base = epoch_of(ThetaRBM(sizes.hidden, batch_size=sizes.batch, backend="numpy"), images)
    for batch in BATCHES:
        if batch <= len(images):
            bigger = epoch_of(ThetaRBM(sizes.hidden, batch_size=batch, backend="numpy"), images)
            yield Payoff.of("batch", f"{batch} images instead of {sizes.batch}", compare(base, bigger, rounds).ratio)
    half = images.astype(np.float16)
    # Only the gathering of batches would change: its time in an epoch gives way to that from float16.
    gathering = {"now": batches_of(images, sizes.batch), "half": batches_of(half, sizes.batch)}
    share = shares(base, gathering, rounds)
    speedup = 1 / (1 - share["now"] + share["half"])
    yield Payoff.of("float16", f"{len(images):,} images", speedup, half.nbytes / images.nbytes)
    if cores() < 2:
        return
    for hidden in (sizes.hidden, 4 * sizes.hidden):
        for batch in THREADED_BATCHES:
            if batch <= len(images):
                epoch = epoch_of(RBM(hidden, batch_size=batch, **_SLOWLY), images)
                speedup = compare(with_threads(epoch, 1), with_threads(epoch, 2), rounds).ratio
                yield Payoff.of("threads", f"2 instead of 1, batch {batch}, {hidden} hidden", speedup)


def with_threads(job: Job, threads: int) -> Job:
    """Make a job that runs another under a limit of BLAS threads."""

    def limited() -> None:
        with threadpool_limits(threads, user_api="blas"):
            job()

    return limited
