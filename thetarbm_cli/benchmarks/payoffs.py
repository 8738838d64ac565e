"""What a bigger batch, float16 storage or a second thread would gain on this machine, and from where on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from thetarbm_cli.benchmarks.epochs import epoch_of
from thetarbm_cli.benchmarks.goals import Sizes
from thetarbm_cli.benchmarks.machine import cores, memory_megabytes
from thetarbm_cli.benchmarks.timing import Job, compare
from thetarbm_cli.models import RBM, ThetaRBM

Images = NDArray[np.float32]

# A change pays from here on: less is within what one machine differs from day to day.
PAYS = 1.1

BATCHES = (200, 500, 1000)
THREADED_BATCHES = (100, 500, 2000)


@dataclass(frozen=True)
class Payoff:
    """What one change gains.

    Attributes
    ----------
    change : {"batch", "float16", "threads"}
    setting : str
        Where it was tried.
    speedup : float
        Time of an epoch before by that after: above 1 the change is faster.
    memory : float
        Size of the training set after by that before.
    """

    change: str
    setting: str
    speedup: float
    memory: float = 1.0

    @property
    def pays(self) -> bool:
        """Whether the change is worth while for its speed."""
        return self.speedup >= PAYS


class HalfImages:
    """Images (N, V) stored in float16, made float32 batch by batch: what a `Trainer` asks of its inputs."""

    def __init__(self, images: Images) -> None:
        self.stored = images.astype(np.float16)
        self.shape = images.shape

    def __len__(self) -> int:
        return len(self.stored)

    def take(self, rows: NDArray[np.int64], axis: int, out: Images, mode: str) -> Images:
        """Rows as float32, written to `out`; `np.take` asks with `axis` and `mode`, which are its own defaults."""
        out[...] = self.stored[rows]
        return out


def measure_payoffs(images: Images, sizes: Sizes, on_payoff: Callable[[Payoff], None] | None = None) -> list[Payoff]:
    """Try every change on epochs of an RBM and of the tied θ-RBM."""
    payoffs = []
    for payoff in _all(images[: sizes.payoff_images], sizes):
        payoffs.append(payoff)
        if on_payoff is not None:
            on_payoff(payoff)
    return payoffs


def _all(images: Images, sizes: Sizes) -> Iterator[Payoff]:
    common: dict[str, Any] = {"backend": "numpy"}
    rounds = max(2, sizes.rounds // 2)
    base = epoch_of(ThetaRBM(sizes.hidden, batch_size=sizes.batch, **common), images)
    for batch in BATCHES:
        if batch <= len(images):
            bigger = epoch_of(ThetaRBM(sizes.hidden, batch_size=batch, **common), images)
            speedup = compare(base, bigger, rounds).ratio
            yield Payoff("batch", f"{batch} images instead of {sizes.batch}", speedup)
    half, memory = _half_stored_epoch(ThetaRBM(sizes.hidden, batch_size=sizes.batch, **common), images)
    yield Payoff("float16", f"{len(images):,} images", compare(base, half, rounds).ratio, memory)
    if cores() < 2:
        return
    for hidden in (sizes.hidden, 4 * sizes.hidden):
        for batch in THREADED_BATCHES:
            if batch <= len(images):
                # Wide machines need small steps; the time of an epoch does not depend on the rate.
                epoch = epoch_of(RBM(hidden, batch_size=batch, learning_rate=1e-4, **common), images)
                speedup = compare(_with_threads(epoch, 1), _with_threads(epoch, 2), rounds).ratio
                yield Payoff("threads", f"2 instead of 1, batch {batch}, {hidden} hidden", speedup)


def _half_stored_epoch(model: RBM, images: Images) -> tuple[Job, float]:
    """One more epoch of a model whose training set is stored in float16, and the share of the memory it takes."""
    trainer = model.trainer(images)
    before = trainer.inputs.nbytes
    half = HalfImages(trainer.inputs)
    trainer.inputs = half
    state = trainer.start()
    return lambda: trainer.run(state, state.epoch + 1), half.stored.nbytes / before


def _with_threads(job: Job, threads: int) -> Job:
    """The job under a limit of BLAS threads."""

    def limited() -> None:
        with threadpool_limits(threads, user_api="blas"):
            job()

    return limited


def conclusions(payoffs: list[Payoff], pixels: int) -> list[str]:
    """Say of each change, in a sentence, whether it pays and from where on; `pixels` is V."""
    sentences = []
    for change, words in (("batch", "A bigger batch"), ("threads", "A second BLAS thread")):
        tried = [payoff for payoff in payoffs if payoff.change == change]
        paying = [payoff.setting for payoff in tried if payoff.pays]
        if tried:
            verdict = f"pays at: {'; '.join(paying)}" if paying else "does not pay at any size tried"
            sentences.append(f"{words} {verdict}.")
    for payoff in payoffs:
        if payoff.change == "float16":
            speed = (
                f"is faster too (×{payoff.speedup:.2f})" if payoff.pays else f"gains no speed (×{payoff.speedup:.2f})"
            )
            fits = memory_megabytes() * 2**20 // (4 * pixels)
            sentences.append(
                f"Images stored in float16 take half of the memory, which {speed}: "
                f"it pays from about {fits:,} images on, whose float32 fills this machine's memory."
            )
    return sentences
