"""Controls that ask whether anything was learned: a fitted network with weights that learning had no part in.

Images, their preparation, the network and the classifier stay. Unit j gets other weights of the learned length |W_j|,
and the hidden bias with which it is, on average over the training images, as active as the learned one: what is left
of the difference is the direction of the weights, which is all that learning could find (Coates et al. 2011).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, few_threads, select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.models.base import Images, Orientations
from thetarbm_cli.models.contrastive_divergence import EnergyModel, OrientationGroups
from thetarbm_cli.models.couplings import PooledCoupling, TensorCoupling
from thetarbm_cli.models.rbm import CHUNK, RBM, integer_seed
from thetarbm_cli.models.seeds import generator_of, seed_of

# What rows of weights are: normal random numbers, centres of clusters of the inputs, inputs picked at random. The
# position is part of every random number: append, never reorder.
KINDS = ("normal", "kmeans", "images")
# Halvings of the interval that a bias is sought in: 2^-30 of some hundreds is far below what activations can tell.
_HALVINGS = 30
# Added to both ends of that interval, where σ is 0 or 1 to every digit.
_BEYOND = 40.0

Model = TypeVar("Model", bound=RBM)


def unlearned(model: Model, kind: str, images: Images, orientations: Orientations | None = None) -> Model:
    """Copy a fitted model with weights that were not learned.

    Parameters
    ----------
    kind : one of `KINDS`
    images : (N, V) array
        The training images.
    orientations : (N,) array, optional
        Their orientations in training, where these were given.
    """
    if kind not in KINDS:
        raise InputError(f"weights must be one of {', '.join(KINDS)}, not {kind!r}")
    copied = copy.copy(model)
    copied._seed = seed = integer_seed(model.random_state)
    with few_threads():
        images, given = copied._learned_from(images, orientations)
        index = copied._orientations(images, given)
        inputs = copied._inputs_to_learn(images, index, index)
    seen = _Seen.of(copied, inputs, index)
    target = seen.mean_activations()

    learned = copied._parameters()
    matrix = _rows(kind, copied.hidden, seen.in_frame(copied), seed)
    weights = copied._rotated_copies(matrix) if seen.has_slices else matrix
    every = tuple(axis for axis in range(weights.ndim) if axis != weights.ndim - 2)
    lengths, made = (
        np.sqrt(np.square(each, dtype=np.float64).sum(axis=every)) for each in (learned["weights"], weights)
    )
    weights = weights * np.divide(lengths, made, out=np.zeros_like(made), where=made > 0).astype(np.float32)[:, None]

    changed = {
        **learned,
        "weights": np.ascontiguousarray(weights),
        "hidden_bias": np.zeros_like(learned["hidden_bias"]),
    }
    copied._set_parameters(changed)
    bias = _bias_of(target, _Seen.of(copied, inputs, index))
    copied._set_parameters({**changed, "hidden_bias": np.broadcast_to(bias, learned["hidden_bias"].shape).copy()})
    copied.__dict__.pop("state_", None)
    return copied


@dataclass(frozen=True)
class _Seen:
    """The network's inputs of all training images (N, V), sorted by their orientations, and the network."""

    network: EnergyModel
    inputs: Images
    index: Orientations

    @classmethod
    def of(cls, model: RBM, inputs: Images, index: Orientations) -> _Seen:
        backend = select_backend(model.backend)
        parameters = {name: backend.asarray(value) for name, value in model._parameters().items()}
        network = model._energy_model(backend, parameters)
        if network.orientations == 1:
            # There may be other inputs than one for each image: fields.
            return cls(network, inputs, np.zeros(len(inputs), dtype=np.int64))
        order = np.argsort(index, kind="stable")
        return cls(network, inputs[order], index[order])

    @property
    def has_slices(self) -> bool:
        return isinstance(self.network.coupling, TensorCoupling)

    def chunks(self) -> Iterator[tuple[Array, OrientationGroups]]:
        backend = self.network.backend
        for start in range(0, len(self.inputs), CHUNK):
            rows = slice(start, start + CHUNK)
            groups = OrientationGroups.of(backend, self.index[rows], self.network.orientations)
            yield backend.asarray(self.inputs[rows]), groups

    def mean_activations(self) -> NDArray[np.float64]:
        """Average the features of each unit over all images, (H,)."""
        network = self.network
        sums = [network.features(*chunk).sum(axis=0, dtype=np.float64) for chunk in self.chunks()]
        return np.asarray(network.backend.to_host(sum(sums[1:], sums[0]))) / len(self.inputs)

    def in_frame(self, model: Any) -> Images:
        """What hidden units see of the images, (N, V), in the frame of the one matrix whose rows they are to be."""
        network = self.network
        seen = np.concatenate([network.backend.to_host(network.units.scaled(*chunk)) for chunk in self.chunks()])
        return model._rotations().rotate(seen, self.index, transpose=True) if self.has_slices else seen

    def pre_activations(self) -> Array:
        """What units sum up of each image without a bias, (N, H); of several rotations, log Σ_s exp(w T_s x)."""
        network, xp = self.network, self.network.backend.xp
        parts = []
        for inputs, groups in self.chunks():
            sums = network.coupling.bottom_up(network.units.scaled(inputs, groups), groups)
            if isinstance(network.coupling, PooledCoupling):
                highest = sums.max(axis=0)
                sums = highest + xp.log(xp.exp(sums - highest).sum(axis=0))
            parts.append(sums)
        return xp.concatenate(parts)


def _rows(kind: str, units: int, seen: Images, seed: int) -> NDArray[np.float32]:
    """Give the direction of each unit's weights, (H, V): of any length."""
    key = KINDS.index(kind)
    generator = generator_of(seed, "controls", key)
    if kind == "normal":
        return generator.standard_normal((units, seen.shape[1]), dtype=np.float32)
    if kind == "images":
        return seen[generator.choice(len(seen), units, replace=len(seen) < units)]
    # Few measurements need it, and it takes a while to import.
    from sklearn.cluster import MiniBatchKMeans

    state = int(seed_of(seed, "controls", key).generate_state(1)[0])
    clusters = MiniBatchKMeans(min(units, len(seen)), random_state=state, n_init=1, batch_size=1024).fit(seen)
    # More units than images have some of the centres twice.
    return np.resize(clusters.cluster_centers_, (units, seen.shape[1])).astype(np.float32)


def _bias_of(target: NDArray[np.float64], seen: _Seen) -> NDArray[np.float32]:
    """Find the bias of each unit (H,) with which its mean activation is the target, by bisection."""
    backend = seen.network.backend
    sums = seen.pre_activations()
    low = -np.asarray(backend.to_host(sums.max(axis=0)), dtype=np.float64) - _BEYOND
    high = -np.asarray(backend.to_host(sums.min(axis=0)), dtype=np.float64) + _BEYOND
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        active = backend.sigmoid(sums.copy(), backend.asarray(middle.astype(np.float32)))
        mean = np.asarray(backend.to_host(active.mean(axis=0, dtype=np.float64)))
        low, high = np.where(mean < target, middle, low), np.where(mean < target, high, middle)
    return np.asarray((low + high) / 2, dtype=np.float32)
