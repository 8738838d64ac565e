"""The ratios that `bench` reports, each with its goal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.benchmarks import peers
from thetarbm_cli.benchmarks.epochs import epoch_of, literal_theta_epoch, products_of
from thetarbm_cli.benchmarks.goals import Ratio, Sizes
from thetarbm_cli.benchmarks.measures import (
    gamma_comparison,
    orientation_seconds,
    rotation_comparison,
    svm_comparisons,
)
from thetarbm_cli.benchmarks.timing import compare
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM

Images = NDArray[np.float32]


def measure_ratios(
    train: Images,
    labels: NDArray[np.int64],
    test: Images,
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
    images: Images,
    labels: NDArray[np.int64],
    test: Images,
    sizes: Sizes,
    chosen_peers: list[str],
    threads: int,
) -> Iterator[Ratio]:
    yield from _training(images, sizes)
    yield from _against(images, sizes, chosen_peers, threads)
    yield from _measuring(images, labels, test, sizes)


def _training(images: Images, sizes: Sizes) -> Iterator[Ratio]:
    """Epochs of the models against each other and against the limit."""
    common: dict[str, Any] = {"batch_size": sizes.batch, "backend": "numpy"}
    rounds, few = sizes.rounds, max(2, sizes.rounds // 3)
    rbm = epoch_of(RBM(sizes.hidden, **common), images)
    limit = products_of(images, sizes.hidden, sizes.batch)
    yield Ratio.of("RBM epoch / its five matrix products", compare(rbm, limit, rounds), 1.25, at_most=True)
    for rotations, goal in ((9, 1.35), (sizes.fine_rotations, 1.5)):
        tied = epoch_of(ThetaRBM(sizes.hidden, rotations=rotations, **common), images)
        name = f"theta tied epoch / RBM epoch, S = {rotations}"
        yield Ratio.of(name, compare(tied, rbm, rounds), goal, at_most=True)
    full = epoch_of(ThetaRBM(sizes.hidden, tensor="full", **common), images)
    yield Ratio.of("theta full epoch / RBM epoch, S = 9", compare(full, rbm, rounds), 5.5, at_most=True)
    literal = literal_theta_epoch(ThetaRBM(sizes.hidden, tensor="full", **common), images)
    name = "literal gradient rotation / theta full epoch"
    yield Ratio.of(name, compare(literal, full, few), 4.0, at_most=False)
    pooled = epoch_of(TransformInvariantRBM(sizes.hidden, **common), images)
    yield Ratio.of("TI-RBM epoch / (9 × RBM epoch)", compare(pooled, rbm, few), 1.25, at_most=True, parts=9)


def _against(images: Images, sizes: Sizes, chosen: list[str], threads: int) -> Iterator[Ratio]:
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
        yield Ratio.of(f"{name} epoch / RBM epoch", compare(theirs, ours, sizes.rounds), goal, at_most=False)


def _measuring(images: Images, labels: NDArray[np.int64], test: Images, sizes: Sizes) -> Iterator[Ratio]:
    """Classifier, orientation, rotation and γ-score."""
    tested = test[: sizes.svm_tested]
    fit, predict, supports = svm_comparisons(images, labels, tested, sizes.hidden, sizes.svm_epochs)
    yield Ratio.of("SVC.fit / our fit", fit, 2.5, at_most=False, note=f"{len(images):,} images")
    note = f"{supports:,} support vectors, {len(tested):,} images"
    yield Ratio.of("SVC.predict / our prediction", predict, 20.0, at_most=False, note=note)
    oriented = test[: sizes.oriented]
    # The goal is 15 s for 50,000 images.
    goal = round(15.0 * len(oriented) / 50_000, 3)
    name = f"orientation of {len(oriented):,} images"
    yield Ratio(name, orientation_seconds(oriented), goal, at_most=True, unit="s")
    rotated = test[: sizes.rotated_by_peer]
    note = f"{len(rotated):,} images"
    yield Ratio.of("scikit-image rotation / ours", rotation_comparison(rotated), 10.0, at_most=False, note=note)
    everything = np.concatenate([images, test])[: sizes.gamma_images]
    compared = gamma_comparison(images, everything, sizes.hidden)
    note = f"{len(everything):,} images"
    yield Ratio.of("γ-score / its matrix products", compared, 3.0, at_most=True, note=note)
