"""One epoch of each model as a job, and the matrix products that bound it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import NumpyBackend
from thetarbm_cli.benchmarks.timing import Job
from thetarbm_cli.imaging.rotation import rotation_operators
from thetarbm_cli.models import ThetaRBM
from thetarbm_cli.models.rbm import RBM

Images = NDArray[np.float32]


def epoch_of(model: RBM, images: Images) -> Job:
    """A job that trains a model for one more epoch; what precedes the training is done before."""
    trainer = model.trainer(images)
    state = trainer.start()
    return lambda: trainer.run(state, state.epoch + 1)


def products_of(images: Images, hidden: int, batch: int) -> Job:
    """A job that computes the five matrix products of an RBM's epoch and nothing else."""
    backend = NumpyBackend()
    count, pixels = len(images), images.shape[1]
    generator = np.random.default_rng(0)
    weights = generator.standard_normal((hidden, pixels), dtype=np.float32)
    increment = np.zeros_like(weights)
    up = generator.random((2 * batch, hidden), dtype=np.float32)
    down = np.empty((batch, pixels), dtype=np.float32)

    def products() -> None:
        for first in range(0, count - batch + 1, batch):
            rows = images[first : first + batch]
            np.matmul(rows, weights.T, out=up[:batch])
            np.matmul(up[:batch], weights, out=down)
            np.matmul(down, weights.T, out=up[batch:])
            backend.accumulate(up, np.concatenate([rows, down]), increment, scale=1e-9, keep=0.9)

    return products


def literal_theta_epoch(model: ThetaRBM, images: Images) -> Job:
    """A job that trains the full θ-RBM as the paper writes it: every slice's gradient turned into every other.

    A straightforward version with SciPy's sparse matrices, for comparison: R_θ(∇W_s) = ∇W_s T_θ' for all pairs of
    slices (Eqs. 5–6).
    """
    trainer = model.trainer(images)
    state = trainer.start()
    weights, increments = state.parameters["weights"], state.increments["weights"]
    hidden_bias = state.parameters["hidden_bias"]
    inputs, orientations = trainer.inputs, trainer.orientations
    assert orientations is not None
    operators = rotation_operators(model.size_, model.rotations, model.rotation)
    generator = np.random.default_rng(0)

    def sigmoid(x: NDArray[np.float32]) -> NDArray[np.float32]:
        return np.asarray(1 / (1 + np.exp(-np.clip(x, -80, 80))), dtype=np.float32)

    def epoch() -> None:
        for first in range(0, len(inputs), model.batch_size):
            batch = slice(first, first + model.batch_size)
            gradient = np.zeros_like(weights)
            for s in range(model.rotations):
                x = inputs[batch][orientations[batch] == s]
                if not len(x):
                    continue
                positive = sigmoid(x @ weights[s].T + hidden_bias)
                sampled = (generator.random(positive.shape, dtype=np.float32) < positive).astype(np.float32)
                reconstruction = sampled @ weights[s]
                negative = sigmoid(reconstruction @ weights[s].T + hidden_bias)
                own = (positive.T @ x - negative.T @ reconstruction) / model.batch_size
                for k in range(model.rotations):
                    gradient[k] += (operators[(k - s) % model.rotations] @ own.T).T
            increments[...] = model.momentum * increments + model.learning_rate * gradient
            weights[...] += increments

    return epoch
