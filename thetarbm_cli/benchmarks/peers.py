"""Other libraries' RBMs, used where they are installed and named where they are not."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.benchmarks.timing import Job
from thetarbm_cli.errors import InputError

PEERS = {"sklearn": "sklearn", "torch": "torch", "learnergy": "learnergy"}


def installed(name: str) -> bool:
    """Whether a peer can be imported."""
    return find_spec(PEERS[name]) is not None


def choose_peers(names: str | None) -> list[str]:
    """The peers to measure against: those that were asked for, or all that are installed."""
    if names is None:
        return [name for name in PEERS if installed(name)]
    chosen = [name for name in names.split(",") if name]
    for name in chosen:
        if name not in PEERS:
            raise InputError(f"unknown peer {name!r}: choose from {', '.join(PEERS)}")
        if not installed(name):
            raise InputError(f"the peer {name} is not installed; docs/performance.md says how to add it")
    return chosen


def left_out_peers(chosen: list[str]) -> list[str]:
    """The peers that are not measured, each with the reason where it is not the user's choice."""
    return [name if installed(name) else f"{name} (not installed)" for name in PEERS if name not in chosen]


def sklearn_epoch(images: NDArray[np.float32], hidden: int, batch: int) -> Job:
    """One epoch of scikit-learn's BernoulliRBM (persistent CD-1)."""
    from sklearn.neural_network import BernoulliRBM

    model = BernoulliRBM(hidden, learning_rate=0.01, batch_size=batch, n_iter=1, random_state=0)
    return lambda: model.fit(images)


def torch_epoch(images: NDArray[np.float32], hidden: int, batch: int, threads: int) -> Job:
    """One epoch of a plain CD-1 loop in PyTorch, as one would write it: Gaussian, with momentum."""
    import torch

    torch.set_num_threads(threads)
    data = torch.from_numpy(images)
    generator = torch.Generator().manual_seed(0)
    weights = 0.01 * torch.randn(hidden, images.shape[1], generator=generator)
    increment = torch.zeros_like(weights)
    hidden_bias, visible_bias = torch.zeros(hidden), torch.zeros(images.shape[1])

    def epoch() -> None:
        order = torch.randperm(len(data), generator=generator)
        for first in range(0, len(data), batch):
            x = data[order[first : first + batch]]
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


def learnergy_epoch(images: NDArray[np.float32], hidden: int, batch: int) -> Job:
    """One epoch of learnergy's Bernoulli RBM (CD-1)."""
    import torch
    from learnergy.models import bernoulli
    from torch.utils.data import TensorDataset

    data = TensorDataset(torch.from_numpy(images), torch.zeros(len(images)))
    model = bernoulli.RBM(n_visible=images.shape[1], n_hidden=hidden, steps=1, learning_rate=0.01, use_gpu=False)
    return lambda: model.fit(data, batch_size=batch, epochs=1)
