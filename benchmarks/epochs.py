"""Time epochs of training: each model's, the matrix products that bound it, and other libraries'."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.neural_network import BernoulliRBM

from benchmarks.report import Part, Ratio
from benchmarks.timing import Job, compare, shares
from thetarbm_cli.backend import Backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import rotation_operators
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM

Images = NDArray[np.float32]

# How models learned when the goals were set (the universe `plain`): no weight decay, a sparsity pull on biases alone.
PLAIN: dict[str, Any] = {"sparsity_form": "bias", "sparsity_weight": 0.3, "weight_decay": 0.0}


@dataclass(frozen=True)
class Sizes:
    """How much is measured; `quick` is for a look, the full size for a record."""

    images: int = 10_000
    hidden: int = 500
    batch: int = 100
    rounds: int = 7
    fine_rotations: int = 72
    svm_epochs: int = 30
    svm_tested: int = 2_000
    oriented: int = 50_000
    rotated_by_peer: int = 2_000
    gamma_images: int = 60_000
    gamma_parts: int = 5_000
    scaling_rounds: int = 3
    payoff_images: int = 10_000

    @classmethod
    def quick(cls) -> Sizes:
        """Choose sizes for a look of about a minute."""
        return cls(
            images=2_000,
            rounds=3,
            svm_epochs=3,
            svm_tested=500,
            oriented=5_000,
            rotated_by_peer=300,
            gamma_images=3_000,
            gamma_parts=1_000,
            scaling_rounds=1,
            payoff_images=1_000,
        )


def training_ratios(images: Images, sizes: Sizes) -> Iterator[Ratio]:
    """Compare epochs of the models with each other and with the limit."""
    default: dict[str, Any] = {"batch_size": sizes.batch, "backend": "numpy"}
    common = {**default, **PLAIN}
    rounds, few = sizes.rounds, max(2, sizes.rounds // 3)
    rbm = epoch_of(RBM(sizes.hidden, **common), images)
    limit = products_of(images, sizes.hidden, sizes.batch)
    yield Ratio.compared("RBM epoch / its five matrix products", compare(rbm, limit, rounds), 1.15, at_most=True)
    for rotations, goal in ((9, 1.35), (sizes.fine_rotations, 1.5)):
        tied = epoch_of(ThetaRBM(sizes.hidden, rotations=rotations, **common), images)
        name = f"theta tied epoch / RBM epoch, S = {rotations}"
        yield Ratio.compared(name, compare(tied, rbm, rounds), goal, at_most=True)
    full = epoch_of(ThetaRBM(sizes.hidden, tensor="full", **common), images)
    yield Ratio.compared("theta full epoch / RBM epoch, S = 9", compare(full, rbm, rounds), 5.2, at_most=True)
    for name, model, plain in (
        ("RBM", RBM(sizes.hidden, **default), rbm),
        ("theta full", ThetaRBM(sizes.hidden, tensor="full", **default), full),
    ):
        times = compare(epoch_of(model, images), plain, rounds)
        yield Ratio.compared(f"{name} epoch, decay and pull on weights / without", times, 1.2, at_most=True)
    literal = literal_epoch_of(ThetaRBM(sizes.hidden, tensor="full", **common), images)
    yield Ratio.compared("literal gradient rotation / theta full epoch", compare(literal, full, few), 4.0)
    pooled = epoch_of(TransformInvariantRBM(sizes.hidden, **common), images)
    yield Ratio.compared("TI-RBM epoch / (9 × RBM epoch)", compare(pooled, rbm, few), 1.25, at_most=True, parts=9)


def epoch_of(model: RBM, images: Images) -> Job:
    """Make a job that trains a model for one more epoch; what precedes the training is done before."""
    trainer = model.trainer(images)
    state = trainer.start()
    return lambda: trainer.run(state, state.epoch + 1)


def products_of(images: Images, hidden: int, batch: int) -> Job:
    """Make a job that computes the five matrix products of an RBM's epoch and nothing else."""
    backend = Backend()
    count, pixels = images.shape
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((hidden, pixels), dtype=np.float32)
    increment = np.zeros_like(weights)
    up = generator.random((2 * batch, hidden), dtype=np.float32)
    down = np.empty((batch, pixels), dtype=np.float32)

    def products() -> None:
        for first in range(0, count - batch + 1, batch):
            rows = images[first : first + batch]
            backend.multiply(rows, weights, up[:batch])
            np.matmul(up[:batch], weights, out=down)
            backend.multiply(down, weights, up[batch:])
            backend.accumulate(up, np.concatenate([rows, down]), increment, scale=1e-9, keep=0.9)

    return products


def literal_epoch_of(model: ThetaRBM, images: Images) -> Job:
    """Make a job that trains the full θ-RBM as the paper writes it: every slice's gradient rotated into every other.

    A straightforward version with SciPy's sparse matrices, for comparison: R_θ(∇W_s) = ∇W_s T_θ' for all pairs of
    slices (Eqs. 5–6).
    """
    trainer = model.trainer(images)
    state = trainer.start()
    orientations = trainer.orientations
    assert orientations is not None
    return literal_epoch(model, trainer.inputs, orientations, state.parameters, state.increments["weights"])


def literal_epoch(
    model: ThetaRBM,
    inputs: Images,
    orientations: NDArray[np.int64],
    parameters: Mapping[str, NDArray[np.float32]],
    increments: NDArray[np.float32],
) -> Job:
    """Make the job of `literal_epoch_of` from its arrays.

    Parameters
    ----------
    model : ThetaRBM
        For its settings and the size of images.
    inputs : (N, V) array
        Standardised images.
    orientations : (N,) array
        Orientation index of each.
    parameters : mapping
        "weights" (S, H, V), which the job changes, and "hidden_bias" (H,).
    increments : (S, H, V) array
        The previous update of the weights.
    """
    weights, hidden_bias = parameters["weights"], parameters["hidden_bias"]
    operators = rotation_operators(model.size_, model.rotations, model.rotation)
    generator = np.random.default_rng(0)

    def activate(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(1 / (1 + np.exp(-np.clip(x, -80, 80))), dtype=np.float32)

    def epoch() -> None:
        for first in range(0, len(inputs), model.batch_size):
            batch = slice(first, first + model.batch_size)
            gradient = np.zeros_like(weights)
            for s in range(model.rotations):
                x = inputs[batch][orientations[batch] == s]
                if not len(x):
                    continue
                positive = activate(x @ weights[s].T + hidden_bias)
                sampled = (generator.random(positive.shape, dtype=np.float32) < positive).astype(np.float32)
                reconstruction = sampled @ weights[s]
                negative = activate(reconstruction @ weights[s].T + hidden_bias)
                own = (positive.T @ x - negative.T @ reconstruction) / model.batch_size
                for k in range(model.rotations):
                    gradient[k] += (operators[(k - s) % model.rotations] @ own.T).T
            increments[...] = model.momentum * increments + model.learning_rate * gradient
            weights[...] += increments

    return epoch


def epoch_parts(images: Images, sizes: Sizes) -> list[Part]:
    """Find where the time of an RBM's epoch goes: its parts alone, on arrays of the sizes that they have in it."""
    batch, hidden, pixels = sizes.batch, sizes.hidden, images.shape[1]
    starts = range(0, len(images) // batch * batch, batch)
    backend = Backend()
    random = backend.random(np.random.SeedSequence(0))
    generator = np.random.default_rng(0)
    probabilities, uniforms, states = generator.random((3, batch, hidden), dtype=np.float32)
    weights, increment = np.zeros((2, hidden, pixels), dtype=np.float32)

    def activate() -> None:
        for _ in range(2):
            backend.sigmoid(probabilities)

    def draw() -> None:
        random.uniform(uniforms)
        np.less(uniforms, probabilities, out=states)

    def each_batch(job: Job) -> Job:
        return lambda: [job() for _ in starts]

    parts = {
        "matrix products": products_of(images, hidden, batch),
        "sigmoid, both phases": each_batch(activate),
        "random numbers and samples": each_batch(draw),
        "increment added to the weights": each_batch(lambda: np.add(weights, increment, out=weights)),
        "images of the batch": batches_of(images, batch),
    }
    whole = epoch_of(RBM(hidden, batch_size=batch, backend="numpy", **PLAIN), images)
    return Part.all_of("RBM epoch", shares(whole, parts, sizes.rounds))


def batches_of(images: NDArray[Any], batch: int) -> Callable[[], Images]:
    """Make a job that gathers the float32 batches of an epoch from images (N, V) of any float type, and gives the last.

    Other images in every batch: the same ones again would come from the processor's cache.
    """
    rows = np.random.default_rng(0).permutation(len(images))
    taken = np.empty((batch, images.shape[1]), dtype=np.float32)

    def gather() -> Images:
        for first in range(0, len(images) // batch * batch, batch):
            chosen = rows[first : first + batch]
            if images.dtype == taken.dtype:
                np.take(images, chosen, axis=0, out=taken)
            else:
                taken[...] = images[chosen]
        return taken

    return gather


def choose_peers(names: str | None) -> list[str]:
    """Choose the libraries to measure against: those that were asked for, or all that are installed."""
    if names is None:
        return [name for name in PEERS if _installed(name)]
    chosen = [name for name in names.split(",") if name]
    for name in chosen:
        if name not in PEERS:
            raise InputError(f"unknown peer {name!r}: choose from {', '.join(PEERS)}")
        if not _installed(name):
            raise InputError(f"the peer {name} is not installed; docs/performance.md says how to add it")
    return chosen


def left_out_peers(chosen: list[str]) -> list[str]:
    """List the peers that are not measured, each with the reason where it is not the user's choice."""
    return [name if _installed(name) else f"{name} (not installed)" for name in PEERS if name not in chosen]


def peer_ratios(images: Images, sizes: Sizes, chosen: list[str], threads: int) -> Iterator[Ratio]:
    """Compare other libraries' epochs with ours, each with the same work in both."""
    common: dict[str, Any] = {"batch_size": sizes.batch, "sparsity": None, "weight_decay": 0.0, "backend": "numpy"}
    bernoulli: dict[str, Any] = {"visible": "bernoulli", "visible_sampling": "sample"}
    for name in chosen:
        make, goal = PEERS[name]
        ours = RBM(sizes.hidden, **common, **({"standardise": False} if name == "torch" else bernoulli))
        times = compare(make(images, sizes, threads), epoch_of(ours, images), sizes.rounds)
        yield Ratio.compared(f"{name} epoch / RBM epoch", times, goal)


def _sklearn_epoch(images: Images, sizes: Sizes, threads: int) -> Job:
    """Make a job of one epoch of scikit-learn's BernoulliRBM (persistent CD-1)."""
    model = BernoulliRBM(sizes.hidden, learning_rate=0.01, batch_size=sizes.batch, n_iter=1, random_state=0)
    return lambda: model.fit(images)


def _torch_epoch(images: Images, sizes: Sizes, threads: int) -> Job:
    """Make a job of one epoch of a plain CD-1 loop in PyTorch, as one would write it: Gaussian, with momentum."""
    import torch

    torch.set_num_threads(threads)
    data = torch.from_numpy(images)
    generator = torch.Generator().manual_seed(0)
    weights = 0.01 * torch.randn(sizes.hidden, images.shape[1], generator=generator)
    increment = torch.zeros_like(weights)
    hidden_bias, visible_bias = torch.zeros(sizes.hidden), torch.zeros(images.shape[1])

    def epoch() -> None:
        order = torch.randperm(len(data), generator=generator)
        for first in range(0, len(data), sizes.batch):
            x = data[order[first : first + sizes.batch]]
            positive = torch.sigmoid(x @ weights.T + hidden_bias)
            sampled = torch.bernoulli(positive, generator=generator)
            reconstruction = sampled @ weights + visible_bias
            negative = torch.sigmoid(reconstruction @ weights.T + hidden_bias)
            gradient = (positive.T @ x - negative.T @ reconstruction) / len(x)
            increment.mul_(0.9).add_(gradient, alpha=0.01)
            weights.add_(increment)
            hidden_bias.add_((positive - negative).mean(0), alpha=0.01)
            visible_bias.add_((x - reconstruction).mean(0), alpha=0.01)

    return epoch


def _learnergy_epoch(images: Images, sizes: Sizes, threads: int) -> Job:
    """Make a job of one epoch of learnergy's Bernoulli RBM (CD-1)."""
    import torch
    from learnergy.models import bernoulli
    from torch.utils.data import TensorDataset

    data = TensorDataset(torch.from_numpy(images), torch.zeros(len(images)))
    model = bernoulli.RBM(n_visible=images.shape[1], n_hidden=sizes.hidden, steps=1, learning_rate=0.01, use_gpu=False)
    return lambda: model.fit(data, batch_size=sizes.batch, epochs=1)


# What makes a job of another library's epoch, and how much faster ours should be; names are also those of the imports.
PEERS: dict[str, tuple[Callable[[Images, Sizes, int], Job], float]] = {
    "sklearn": (_sklearn_epoch, 1.35),
    "torch": (_torch_epoch, 1.15),
    "learnergy": (_learnergy_epoch, 2.3),
}


def _installed(name: str) -> bool:
    return find_spec(name) is not None
