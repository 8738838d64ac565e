"""Where the time of an RBM's epoch and of a γ-score goes: their parts alone, in turn with the whole.

A part is timed by itself, on arrays of the sizes that it has in the whole; what no part accounts for is the rest.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import NumpyBackend
from thetarbm_cli.benchmarks.epochs import epoch_of, products_of
from thetarbm_cli.benchmarks.goals import Sizes
from thetarbm_cli.benchmarks.timing import Job, seconds_of
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.imaging.standardise import Standardiser
from thetarbm_cli.measures.gamma import DEFAULT_CHUNK, GammaAccumulator, gamma_score
from thetarbm_cli.models import RBM, ThetaRBM
from thetarbm_cli.models.activation import sigmoid

Images = NDArray[np.float32]

REST = "everything else"
# The γ-score's rotations of an image, and the image itself.
_TURNS, _OFFSET = 9, 20.0


@dataclass(frozen=True)
class Part:
    """A part of a job.

    Attributes
    ----------
    of, name : str
        The job, and its part.
    share : float
        Of the job's time; what the parts leave is `REST`, and may be below 0 where a part alone is slower.
    """

    of: str
    name: str
    share: float


def measure_parts(
    train: Images, test: Images, sizes: Sizes, on_part: Callable[[Part], None] | None = None
) -> list[Part]:
    """The parts of an epoch of the RBM, and of a γ-score of the tied θ-RBM."""
    parts = []
    for of, (whole, alone) in {
        "RBM epoch": _epoch(train, sizes),
        "γ-score": _gamma(train, test[: sizes.gamma_parts], sizes),
    }.items():
        for part in shares(of, whole, alone, sizes.rounds):
            parts.append(part)
            if on_part is not None:
                on_part(part)
    return parts


def shares(of: str, whole: Job, parts: Mapping[str, Job], rounds: int) -> list[Part]:
    """Time a job and its parts in turn, after one call of each: medians over the rounds, largest first."""
    for job in (whole, *parts.values()):
        job()
    times = [(seconds_of(whole), {name: seconds_of(job) for name, job in parts.items()}) for _ in range(rounds)]
    found = {name: statistics.median(own[name] / all_ for all_, own in times) for name in parts}
    ordered = [Part(of, name, found[name]) for name in sorted(found, key=found.__getitem__, reverse=True)]
    return [*ordered, Part(of, REST, 1 - sum(found.values()))]


def _epoch(images: Images, sizes: Sizes) -> tuple[Job, dict[str, Job]]:
    """One epoch of the paper's RBM."""
    batch, hidden, pixels = sizes.batch, sizes.hidden, images.shape[1]
    batches = len(images) // batch
    random = NumpyBackend().random(np.random.SeedSequence(0))
    generator = np.random.default_rng(0)
    probabilities, uniforms, states = generator.random((3, batch, hidden), dtype=np.float32)
    rows, taken = generator.permutation(len(images)), np.empty((batch, pixels), dtype=np.float32)
    weights, increment = np.zeros((2, hidden, pixels), dtype=np.float32)

    def activate() -> None:
        for _ in range(2):
            sigmoid(np, probabilities)

    def draw() -> None:
        random.uniform(uniforms)
        np.less(uniforms, probabilities, out=states)

    def update() -> None:
        np.add(weights, increment, out=weights)

    def gather() -> None:
        for first in range(0, batches * batch, batch):
            np.take(images, rows[first : first + batch], axis=0, out=taken)

    every_batch: dict[str, Job] = {
        "sigmoid, both phases": activate,
        "random numbers and samples": draw,
        "increment added to the weights": update,
    }
    alone = {name: _repeated(job, batches) for name, job in every_batch.items()}
    # Other images in every batch: the same ones again would come from the processor's cache.
    alone["images of the batch"] = gather
    whole = epoch_of(RBM(hidden, batch_size=batch, backend="numpy"), images)
    return whole, {"matrix products": products_of(images, hidden, batch), **alone}


def _gamma(train: Images, images: Images, sizes: Sizes) -> tuple[Job, dict[str, Job]]:
    """The γ-score of the tied θ-RBM: every image as it is and turned nine ways."""
    model = ThetaRBM(sizes.hidden, epochs=1, backend="numpy").fit(train)
    size, views = model.size_, _TURNS + 1
    weights = np.ascontiguousarray(model.weights_)
    turns, back = Rotations(size, _TURNS, offset=_OFFSET), Rotations(size, model.rotations)
    estimator: OrientationEstimator = model.orientation_estimator()
    chunks = [images[first : first + DEFAULT_CHUNK] for first in range(0, len(images), DEFAULT_CHUNK)]
    # Features are taken of images that are sorted by orientation.
    orders = [np.sort(estimator(chunk)) for chunk in chunks]
    standardiser = Standardiser(rotations=model.rotations).fit(train, estimator(train))
    features = model.transform(chunks[0])
    accumulator = GammaAccumulator(sizes.hidden)

    def each(job: Callable[[Images, Any], object], times: int = views) -> Job:
        def over_chunks() -> None:
            for chunk, order in zip(chunks, orders, strict=True):
                for _ in range(times):
                    job(chunk, order)

        return over_chunks

    def activate(chunk: Images, order: Any) -> None:
        sigmoid(np, features[: len(chunk)])

    def add(chunk: Images, order: Any) -> None:
        own = features[: len(chunk)]
        accumulator.add(own, (own for _ in range(_TURNS)))

    alone = {
        "dominant orientations": each(lambda chunk, order: estimator(chunk)),
        "products with the weights": each(lambda chunk, order: chunk @ weights.T),
        "turning back, T_s'x": each(lambda chunk, order: back.rotate(chunk, order, transpose=True)),
        "turning the copies": each(lambda chunk, order: [None for _ in turns.rotate_each(chunk)], 1),
        "float64 sums": each(add, 1),
        "sigmoid": each(activate),
        "standardisation": each(standardiser.transform),
    }
    return lambda: gamma_score(model.transform, images, size=size, rotations=_TURNS, offset=_OFFSET), alone


def _repeated(job: Job, times: int) -> Job:
    def repeat() -> None:
        for _ in range(times):
            job()

    return repeat
