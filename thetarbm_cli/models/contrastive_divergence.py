"""Contrastive divergence: the one learning loop of all models, from the orientations to the update (Eqs. 5–7).

Read from top to bottom: the orientations of a batch (`OrientationGroups`), what is trained (`EnergyModel`), what an
epoch leaves to the next (`TrainingState`), both phases of a batch (`CDBatch`), and the loop (`Trainer`): epochs,
batches, Gibbs steps, update. Its settings are `thetarbm_cli.parameters.CDParameters`.

An epoch is a pure function of the parameters, the increments and the epoch's number: its batch order and its random
numbers are seeded by the number alone. A state saved after any epoch therefore resumes bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend, Draw, RandomStream
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.models.couplings import Coupling
from thetarbm_cli.models.seeds import batch_order, seed_of
from thetarbm_cli.models.visible import VisibleUnits
from thetarbm_cli.parameters import CDParameters

# A reconstruction this many times worse than predicting the mean is divergence, long before it overflows.
DIVERGED = 1e3


class DivergenceError(ThetaRBMError):
    """Training left the numbers: the message says when and what to try."""


@dataclass(frozen=True)
class OrientationGroups:
    """Orientation of each of n rows that are sorted by orientation (the one-hot r of Eq. 2).

    Attributes
    ----------
    segments : (s, rows) for every orientation s that occurs, rows a slice
    index : (n,) device array of s
    memberships : (n, S) device array, the one-hot rows r
    """

    segments: tuple[tuple[int, slice], ...]
    index: Array
    memberships: Array

    @classmethod
    def of(cls, backend: Backend, sorted_index: NDArray[np.int64], count: int) -> OrientationGroups:
        """Describe host indices that are sorted already; `count` is S."""
        index = backend.asarray(sorted_index)
        return cls(_segments(sorted_index, count), index, _one_hot(backend, index, count))

    @classmethod
    def single(cls, backend: Backend, rows: int) -> OrientationGroups:
        """Describe rows that no orientation tells apart."""
        index = backend.xp.zeros(rows, dtype=np.int64)
        return cls(((0, slice(0, rows)),), index, _one_hot(backend, index, 1))


def _one_hot(backend: Backend, index: Array, count: int) -> Array:
    """Rows of r: (n, `count`) float32 with a 1 where the index is."""
    xp = backend.xp
    return (index[:, None] == xp.arange(count)[None, :]).astype(xp.float32)


def _segments(sorted_index: NDArray[np.int64], count: int) -> tuple[tuple[int, slice], ...]:
    """Slices of equal values in a sorted host array."""
    edges = np.searchsorted(sorted_index, np.arange(count + 1))
    return tuple((s, slice(int(edges[s]), int(edges[s + 1]))) for s in range(count) if edges[s] < edges[s + 1])


@dataclass
class EnergyModel:
    """A visible layer and its coupling to the hidden one; what follows from their energy (Eq. 1).

    Attributes
    ----------
    parameters : shared by both layers: ``weights``, ``hidden_bias``, ``visible_bias``, perhaps one of the variance
    units : the visible layer
    orientations : how many it tells apart: 1, or S
    """

    backend: Backend
    parameters: dict[str, Array]
    units: VisibleUnits
    coupling: Coupling
    orientations: int = 1

    def hidden(
        self,
        visible: Array,
        groups: OrientationGroups,
        out: Array | None = None,
        draw: Draw | None = None,
    ) -> Array:
        """p(h | x, r) of every hidden state (Eq. 3), (..., n, H); with a stream and an array to `draw`, also states."""
        return self.coupling.probabilities(self.units.scaled(visible, groups), groups, out, draw)

    def reconstruction(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """E[x | h, r] (Eq. 4), (n, V)."""
        return self.units.mean(self.coupling.top_down(hidden, groups, out), groups)

    def features(self, visible: Array, groups: OrientationGroups) -> Array:
        """p(h = 1 | x, r) of every unit, pooled where units have several states; (n, H)."""
        return self.coupling.pooled(self.hidden(visible, groups))

    def free_energy(self, visible: Array, groups: OrientationGroups) -> Array:
        """-log Σ_h exp(-E(x, h, r)), per image (n,)."""
        scaled = self.units.scaled(visible, groups)
        return self.units.energy(visible, groups) - self.coupling.log_normaliser(scaled, groups)


@dataclass(frozen=True)
class EpochRecord:
    """What one epoch did: mean squared error of the reconstruction, mean activation of the hidden units."""

    epoch: int
    reconstruction_error: float
    mean_activation: float


@dataclass
class TrainingState:
    """All that an epoch leaves to the next: parameters, their last increments, and the history."""

    parameters: dict[str, Array]
    increments: dict[str, Array]
    epoch: int = 0
    history: list[EpochRecord] = field(default_factory=list)

    def to_host(self, backend: Backend) -> TrainingState:
        """Copy the state to the host."""
        return TrainingState(
            {name: np.array(backend.to_host(value)) for name, value in self.parameters.items()},
            {name: np.array(backend.to_host(value)) for name, value in self.increments.items()},
            self.epoch,
            list(self.history),
        )

    def restore(self, saved: TrainingState, backend: Backend) -> None:
        """Go on from a state that was saved, in the arrays that are there."""
        for ours, theirs in ((self.parameters, saved.parameters), (self.increments, saved.increments)):
            for name in ours:
                ours[name][...] = backend.asarray(theirs[name])
        self.epoch = saved.epoch
        self.history = list(saved.history)


Monitor = Callable[[TrainingState], None]
# Inputs and orientations that an epoch, counted from 0, learns from.
ImagesOfEpoch = Callable[[int], tuple[Array, NDArray[np.int64]]]


@dataclass(frozen=True)
class CDBatch:
    """Both phases of one batch of n images, each in one array so that one product serves both.

    Attributes
    ----------
    visible : (2n, V) array of data, then reconstructions
    hidden : (..., 2n, H) array of hidden probabilities of the two
    difference : (n, V) array of data minus reconstructions
    activation : (H,) array of the activation of each unit by the data, summed over the batch; used up by the update
    groups : orientations of the n images
    """

    visible: Array
    hidden: Array
    difference: Array
    activation: Array
    groups: OrientationGroups


class Trainer:
    """Contrastive divergence of one model on one training set: standardised images (N, V).

    Their orientations (N,), on the host, are for models that have a slice or a bias per orientation. Where they change
    from epoch to epoch, `images_of` gives the images and orientations of each.
    """

    def __init__(
        self,
        model: EnergyModel,
        inputs: Array,
        orientations: NDArray[np.int64],
        config: CDParameters,
        seed: int,
        images_of: ImagesOfEpoch | None = None,
    ) -> None:
        self.model = model
        self.config = config
        self.seed = seed
        self._images_of = images_of
        self._learn_from(inputs, orientations)

    def _learn_from(self, inputs: Array, orientations: NDArray[np.int64]) -> None:
        """Bring images to the device, and make the buffers for their batches."""
        self.inputs = self.model.backend.asarray(inputs)
        self.orientations = orientations if self.model.orientations > 1 else None
        self._batch_size = min(self.config.batch_size, len(inputs))
        # Images that an epoch learns from.
        self._count = len(inputs) - (len(inputs) % self._batch_size if self.config.drop_last else 0)
        self._allocate()

    def _allocate(self) -> None:
        """Make the buffers of a batch once; both phases lie in one array, so that one product serves both."""
        backend, most = self.model.backend, self._batch_size
        xp, coupling = backend.xp, self.model.coupling
        pixels = self.inputs.shape[1]
        self._visible = xp.empty((2 * most, pixels), dtype=xp.float32)
        self._hidden = xp.empty(coupling.hidden_shape(2 * most), dtype=xp.float32)
        self._sampled = xp.empty(coupling.hidden_shape(most), dtype=xp.float32)
        self._difference = xp.empty((most, pixels), dtype=xp.float32)
        mean_square = float(backend.to_host((self.inputs**2).mean(axis=0)).mean())
        # Images may be constant: errors within the units' own scale are never divergence.
        self._limit = DIVERGED * max(mean_square, 1.0)
        if self.orientations is not None:
            self._index = backend.asarray(self.orientations)
            self._memberships = _one_hot(backend, self._index, self.model.orientations)
        else:
            # Batches without orientations differ in their length alone, and only the last one is shorter.
            lengths = {most, len(self.inputs) % most or most}
            self._single = {length: OrientationGroups.single(backend, length) for length in lengths}

    def start(self) -> TrainingState:
        """Make the state before the first epoch: no increments yet."""
        parameters, xp = self.model.parameters, self.model.backend.xp
        learned = (name for name in parameters if name not in self.model.units.tracked)
        return TrainingState(parameters, {name: xp.zeros_like(parameters[name]) for name in learned})

    def run(self, state: TrainingState, epochs: int, monitor: Monitor | None = None) -> None:
        """Train until the state has seen `epochs` epochs, calling `monitor` after each.

        Raises
        ------
        DivergenceError
            If the reconstruction error is not finite or absurd; the monitor is not called for that epoch.
        """
        # Divergence is found by its numbers at the end of an epoch; NumPy's warnings on the way add nothing.
        with np.errstate(over="ignore", invalid="ignore"):
            while state.epoch < epochs:
                state.history.append(self._epoch(state))
                state.epoch += 1
                if monitor is not None:
                    monitor(state)

    def _epoch(self, state: TrainingState) -> EpochRecord:
        if self._images_of is not None:
            self._learn_from(*self._images_of(state.epoch))
        backend, count = self.model.backend, self._count
        order = batch_order(self.seed, state.epoch, len(self.inputs))[:count]
        starts = range(0, count, self._batch_size)
        if self.orientations is not None:
            # Rows of a batch sorted by orientation are contiguous slices; the sum over a batch is the same.
            for first in starts:
                batch = order[first : first + self._batch_size]
                batch[:] = batch[np.argsort(self.orientations[batch], kind="stable")]
        rows = backend.asarray(order)
        random = backend.random(seed_of(self.seed, "sampling", state.epoch))
        sums = EpochSums(backend, self._batch_size, *state.parameters["weights"].shape[-2:])
        for first in starts:
            chosen = slice(first, min(first + self._batch_size, count))
            self._step(state, rows[chosen], self._groups(order[chosen], rows[chosen]), random, sums)
        return self._record(state, sums)

    def _groups(self, order: NDArray[np.int64], rows: Array) -> OrientationGroups:
        if self.orientations is None:
            return self._single[len(order)]
        take = self.model.backend.xp.take
        return OrientationGroups(
            _segments(self.orientations[order], self.model.orientations),
            take(self._index, rows, axis=0),
            take(self._memberships, rows, axis=0),
        )

    def _step(
        self, state: TrainingState, rows: Array, groups: OrientationGroups, random: RandomStream, sums: EpochSums
    ) -> None:
        """One update from one batch; what is summed over the epoch stays on the device."""
        backend, model = self.model.backend, self.model
        xp, count = backend.xp, len(rows)
        visible = self._visible[: 2 * count]
        data, negative_visible = visible[:count], visible[count:]
        hidden = _first(self._hidden, 2 * count)
        positive, negative = hidden[..., :count, :], hidden[..., count:, :]
        sampled = _first(self._sampled, count)
        difference = self._difference[:count]

        xp.take(self.inputs, rows, axis=0, out=data)
        model.hidden(data, groups, out=positive, draw=(random, sampled))
        if model.units.tracks_variance:
            # A tracked σ follows the error of reconstructions from probabilities instead of states.
            backend.difference(data, model.reconstruction(positive, groups), difference, sums.expected)
        for left in reversed(range(self.config.gibbs_steps)):
            model.reconstruction(sampled, groups, out=negative_visible)
            if self.config.visible_sampling == "sample":
                model.units.sample(negative_visible, groups, random)
            model.hidden(negative_visible, groups, out=negative, draw=(random, sampled) if left else None)

        backend.difference(data, negative_visible, difference, sums.errors)
        activation = model.coupling.pooled(positive.sum(axis=-2))
        sums.activation += activation
        apply_update(model, self.config, state, CDBatch(visible, hidden, difference, activation, groups))

    def _record(self, state: TrainingState, sums: EpochSums) -> EpochRecord:
        """Bring an epoch's numbers to the host and look for divergence."""
        error, expected, activation, is_finite = sums.on_host(state.parameters)
        pixels, units = self.inputs.shape[1], sums.activation.size
        mean_error = error / (self._count * pixels)
        if not is_finite or mean_error > self._limit:
            raise DivergenceError(
                f"training diverged in epoch {state.epoch + 1} (mean squared reconstruction error "
                f"{mean_error:.3g}); try a lower learning_rate than {self.config.learning_rate:g}"
            )
        self.model.units.track(expected / (self._count * pixels))
        return EpochRecord(state.epoch + 1, mean_error, activation / (self._count * units))


class EpochSums:
    """Sums over the batches of an epoch, on the device: squared errors, those a tracked σ follows, and activations."""

    def __init__(self, backend: Backend, batch_size: int, units: int, pixels: int) -> None:
        self.backend = backend
        self.errors = backend.squares(batch_size, pixels)
        self.expected = backend.squares(batch_size, pixels)
        self.activation = backend.xp.zeros(units, dtype=np.float32)

    def on_host(self, parameters: dict[str, Array]) -> tuple[float, float, float, bool]:
        """Give the three sums, and whether they and all parameters are finite, by one copy from the device."""
        xp = self.backend.xp
        # The last update of an epoch shows in no error yet, only in the parameters.
        parts = [self.errors.sum(axis=0), self.expected.sum(axis=0), self.activation]
        parts += [value.sum().reshape(1) for value in parameters.values()]
        numbers = self.backend.to_host(xp.concatenate(parts)).astype(np.float64)
        ends = np.cumsum([part.size for part in parts[:3]])
        errors, expected, activation, _ = (float(each.sum()) for each in np.split(numbers, ends))
        return errors, expected, activation, bool(np.isfinite(numbers).all())


def _first(buffer: Array, count: int) -> Array:
    """Space for `count` images in a hidden buffer (..., B, H), contiguous also for a short last batch."""
    if buffer.shape[-2] == count:
        return buffer
    shape = (*buffer.shape[:-2], count, buffer.shape[-1])
    return buffer.reshape(-1)[: math.prod(shape)].reshape(shape)


def apply_update(model: EnergyModel, config: CDParameters, state: TrainingState, batch: CDBatch) -> None:
    """Add the increments of Eq. 7 to all parameters; `batch.hidden` is used up.

    The paper's Eq. 7 adds α times the last *gradient*; read so it diverges, and the usual form, α times the last
    *increment*, is taken. The gradients of W, b and c are data minus model averages over the batch.
    """
    parameters, increments, groups = state.parameters, state.increments, batch.groups
    hidden, count = batch.hidden, len(batch.difference)
    rate, momentum = config.rate_at(state.epoch), config.momentum_at(state.epoch)

    variance_gradient = _variance_gradient(model, batch)
    pull_on_bias = _pull_towards_sparsity(model, config, batch)
    # With the hidden states of the negative phase negated, one product gives data minus model.
    negative = hidden[..., count:, :]
    model.backend.xp.negative(negative, out=negative)

    backend, weights = model.backend, increments["weights"]
    scaled = _scaled_phases(model, batch)
    model.coupling.accumulate(scaled, hidden, groups, weights, scale=rate / count, keep=momentum)
    backend.update(parameters["weights"], weights, decay=rate * config.weight_decay)

    hidden_gradient = hidden.sum(axis=-2)
    if pull_on_bias is not None:
        hidden_gradient += count * pull_on_bias
    backend.momentum(parameters["hidden_bias"], increments["hidden_bias"], hidden_gradient, rate / count, momentum)
    gradients = {"visible_bias": model.units.scaled(batch.difference, groups), "log_variance": variance_gradient}
    for name, gradient in gradients.items():
        if gradient is not None:
            _update_by_group(model, parameters[name], increments[name], gradient, groups, rate, momentum)


def _pull_towards_sparsity(model: EnergyModel, config: CDParameters, batch: CDBatch) -> Array | None:
    """Pull the mean activation q of each unit towards the target p by λ (p - q); give what the hidden biases get of it.

    A pull on weights and biases passes through the slope of each state: it is added to the hidden states of the data,
    whose products and sums carry it into W and b.
    """
    if config.sparsity is None or config.sparsity_weight == 0:
        return None
    count = len(batch.difference)
    pull = batch.activation
    pull *= -config.sparsity_weight / count
    pull += config.sparsity_weight * config.sparsity
    if config.sparsity_form == "bias":
        return pull
    return model.coupling.pull(batch.hidden[..., :count, :], pull)


def _scaled_phases(model: EnergyModel, batch: CDBatch) -> Array:
    """What hidden units see in both phases, (2n, V)."""
    count = len(batch.difference)
    if model.orientations == 1 or not model.units.learns_variance:
        return model.units.scaled(batch.visible, batch.groups)
    phases = (batch.visible[:count], batch.visible[count:])
    return model.backend.xp.concatenate([model.units.scaled(phase, batch.groups) for phase in phases])


def _variance_gradient(model: EnergyModel, batch: CDBatch) -> Array | None:
    """Data minus model value of ∂(-E)/∂(log σ²), per image (n, V); None where σ is not learned."""
    if not model.units.learns_variance:
        return None
    count = len(batch.difference)
    slopes = []
    for rows in (slice(0, count), slice(count, 2 * count)):
        hidden = model.backend.xp.ascontiguousarray(batch.hidden[..., rows, :])
        top_down = model.coupling.top_down(hidden, batch.groups)
        slopes.append(model.units.variance_slope(batch.visible[rows], top_down, batch.groups))
    return slopes[0] - slopes[1]


def _update_by_group(
    model: EnergyModel,
    parameter: Array,
    increment: Array,
    per_image: Array,
    groups: OrientationGroups,
    rate: float,
    momentum: float,
) -> None:
    """Update a (G, V) parameter with momentum and batch average, each image (n, V) in its orientation's row."""
    backend, scale = model.backend, rate / len(per_image)
    if len(increment) == 1:
        backend.momentum(parameter[0], increment[0], model.units.summed(per_image, groups), scale, momentum)
    else:
        backend.accumulate(groups.memberships, per_image, increment, scale=scale, keep=momentum)
        backend.update(parameter, increment)
