"""The ratios that `bench` reports, each with its goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.benchmarks import peers
from thetarbm_cli.benchmarks.epochs import epoch_of, literal_theta_epoch, products_of
from thetarbm_cli.benchmarks.measures import gamma_ratio, orientation_seconds, rotation_ratio, svm_ratios
from thetarbm_cli.benchmarks.timing import compare
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM


@dataclass(frozen=True)
class Ratio:
    """One measured figure and its goal; `at_most` says on which side of the goal it should be."""

    name: str
    value: float
    goal: float
    at_most: bool
    unit: str = "×"

    @property
    def met(self) -> bool:
        """Whether the goal is reached."""
        return self.value <= self.goal if self.at_most else self.value >= self.goal


@dataclass(frozen=True)
class Sizes:
    """How much is measured; `quick` is for a look, the full size for a record."""

    images: int = 10_000
    hidden: int = 500
    batch: int = 100
    rounds: int = 7
    fine_rotations: int = 72
    svm_tested: int = 2_000
    oriented: int = 50_000
    rotated_by_peer: int = 2_000
    gamma_images: int = 60_000

    @classmethod
    def quick(cls) -> Sizes:
        """Sizes for a look of about a minute."""
        return cls(
            images=2_000,
            rounds=3,
            svm_tested=500,
            oriented=5_000,
            rotated_by_peer=300,
            gamma_images=3_000,
        )


def measure_ratios(
    train: NDArray[np.float32],
    labels: NDArray[np.int64],
    test: NDArray[np.float32],
    sizes: Sizes,
    chosen_peers: list[str],
    threads: int,
    on_ratio: Callable[[Ratio], None] | None = None,
) -> list[Ratio]:
    """Measure everything, one figure after the other."""
    images, labels = train[: sizes.images], labels[: sizes.images]
    ratios = []
    for ratio in _all(images, labels, test, sizes, chosen_peers, threads):
        ratios.append(ratio)
        if on_ratio is not None:
            on_ratio(ratio)
    return ratios


def _all(
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    test: NDArray[np.float32],
    sizes: Sizes,
    chosen_peers: list[str],
    threads: int,
) -> Iterator[Ratio]:
    yield from _training(images, sizes)
    yield from _against(images, sizes, chosen_peers, threads)
    fit, predict = svm_ratios(images, labels, test[: sizes.svm_tested], sizes.hidden)
    yield Ratio("SVC.fit / our fit", fit, 2.5, at_most=False)
    yield Ratio("SVC.predict / our prediction", predict, 20.0, at_most=False)
    seconds = orientation_seconds(test[: sizes.oriented])
    yield Ratio(f"orientation of {min(sizes.oriented, len(test)):,} images", seconds, 15.0, at_most=True, unit="s")
    rotated = test[: sizes.rotated_by_peer]
    yield Ratio("scikit-image rotation / ours", rotation_ratio(rotated), 10.0, at_most=False)
    everything = np.concatenate([images, test])[: sizes.gamma_images]
    yield Ratio("γ-score / its matrix products", gamma_ratio(images, everything, sizes.hidden), 3.0, at_most=True)


def _training(images: NDArray[np.float32], sizes: Sizes) -> Iterator[Ratio]:
    """Epochs of the models against each other and against the limit."""
    common: dict[str, Any] = {"batch_size": sizes.batch, "backend": "numpy"}
    rbm = epoch_of(RBM(sizes.hidden, **common), images)
    limit = products_of(images, sizes.hidden, sizes.batch)
    yield Ratio("RBM epoch / its five matrix products", compare(rbm, limit, sizes.rounds).ratio, 1.25, at_most=True)
    for rotations, goal in ((9, 1.35), (sizes.fine_rotations, 1.5)):
        tied = epoch_of(ThetaRBM(sizes.hidden, rotations=rotations, **common), images)
        value = compare(tied, rbm, sizes.rounds).ratio
        yield Ratio(f"theta tied epoch / RBM epoch, S = {rotations}", value, goal, at_most=True)
    full_model = ThetaRBM(sizes.hidden, tensor="full", **common)
    full = epoch_of(full_model, images)
    yield Ratio("theta full epoch / RBM epoch, S = 9", compare(full, rbm, sizes.rounds).ratio, 5.5, at_most=True)
    literal = literal_theta_epoch(ThetaRBM(sizes.hidden, tensor="full", **common), images)
    rounds = max(2, sizes.rounds // 3)
    yield Ratio(
        "literal gradient rotation / theta full epoch", compare(literal, full, rounds).ratio, 4.0, at_most=False
    )
    pooled = epoch_of(TransformInvariantRBM(sizes.hidden, **common), images)
    value = compare(pooled, rbm, rounds).ratio / 9
    yield Ratio("TI-RBM epoch / (9 × RBM epoch)", value, 1.25, at_most=True)


def _against(images: NDArray[np.float32], sizes: Sizes, chosen: list[str], threads: int) -> Iterator[Ratio]:
    """Other libraries' epochs against ours, each with the same work in both."""
    common: dict[str, Any] = {"batch_size": sizes.batch, "backend": "numpy"}
    bernoulli = RBM(sizes.hidden, visible="bernoulli", visible_sampling="sample", sparsity=None, **common)
    for name in chosen:
        if name == "sklearn":
            ours, goal = epoch_of(bernoulli, images), 1.35
            theirs = peers.sklearn_epoch(images, sizes.hidden, sizes.batch)
        elif name == "torch":
            ours, goal = epoch_of(RBM(sizes.hidden, sparsity=None, standardise=False, **common), images), 1.2
            theirs = peers.torch_epoch(images, sizes.hidden, sizes.batch, threads)
        else:
            ours, goal = epoch_of(bernoulli, images), 2.0
            theirs = peers.learnergy_epoch(images, sizes.hidden, sizes.batch)
        value = compare(theirs, ours, sizes.rounds).ratio
        yield Ratio(f"{name} epoch / RBM epoch", value, goal, at_most=False)
