"""Contrastive divergence: the one learning loop of all models (Eqs. 5–7).

An epoch is a pure function of the parameters, the increments and the epoch's number: its batch order and its random
numbers are seeded by the number alone. A state saved after any epoch therefore resumes bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend, RandomStream
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.models.groups import Groups, one_hot, segments_of
from thetarbm_cli.models.interactions import Interaction
from thetarbm_cli.models.learning import Learning
from thetarbm_cli.models.seeds import batch_order, seed_of
from thetarbm_cli.models.visible import VisibleUnits

# A reconstruction this many times worse than predicting the mean is divergence, long before it overflows.
DIVERGED = 1e3


class DivergenceError(ThetaRBMError):
    """Training left the numbers: the message says when and what to try."""


@dataclass
class Machine:
    """A visible layer and its interaction with the hidden one; `parameters` is shared by both."""

    backend: Backend
    parameters: dict[str, Array]
    visible: VisibleUnits
    interaction: Interaction
    groups: int = 1

    def features(self, images: Array, groups: Groups | None) -> Array:
        """p(h = 1 | x, r) of every unit (Eq. 3), pooled where units have several states; (n, H)."""
        return self.interaction.pooled(
            self.interaction.probabilities(self.visible.drive(images, groups), groups)
        )

    def free_energy(self, images: Array, groups: Groups | None) -> Array:
        """-log Σ_h exp(-E(x, h, r)), per image (n,)."""
        drive = self.visible.drive(images, groups)
        return self.visible.energy(images, groups) - self.interaction.log_normaliser(drive, groups)


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


Monitor = Callable[[TrainingState], None]


class Trainer:
    """Contrastive divergence of one machine on one training set.

    Parameters
    ----------
    machine : Machine
    inputs : (N, V) device array
        Standardised images.
    orientations : (N,) host array or None
        Orientation index of each image, for machines with more than one group.
    learning : Learning
    seed : int
    """

    def __init__(
        self,
        machine: Machine,
        inputs: Array,
        orientations: NDArray[np.int64] | None,
        learning: Learning,
        seed: int,
    ) -> None:
        self.machine = machine
        self.inputs = inputs
        self.orientations = orientations if machine.groups > 1 else None
        self.learning = learning
        self.seed = seed
        self._batch_size = min(learning.batch_size, len(inputs))
        self._allocate()

    def _allocate(self) -> None:
        """Make the buffers of a batch once; both phases lie in one array, so that one product serves both."""
        xp, most = self.machine.backend.xp, self._batch_size
        pixels = self.inputs.shape[1]
        units = self.machine.interaction.hidden_shape(1)[-1]
        self._visible = xp.empty((2 * most, pixels), dtype=xp.float32)
        self._hidden = xp.empty(self.machine.interaction.hidden_shape(2 * most), dtype=xp.float32)
        self._sampled = xp.empty(self.machine.interaction.hidden_shape(most), dtype=xp.float32)
        self._uniforms = xp.empty((most, units), dtype=xp.float32)
        self._difference = xp.empty((most, pixels), dtype=xp.float32)
        mean_square = self.machine.backend.to_host((self.inputs**2).mean())
        self._limit = DIVERGED * max(float(mean_square), 1e-12)
        if self.orientations is not None:
            self._index = self.machine.backend.asarray(self.orientations)
            self._memberships = one_hot(self.machine.backend, self._index, self.machine.groups)

    def start(self) -> TrainingState:
        """State before the first epoch: no increments yet."""
        xp = self.machine.backend.xp
        increments = {name: xp.zeros_like(value) for name, value in self.machine.parameters.items()}
        increments.pop("sigma", None)
        return TrainingState(self.machine.parameters, increments)

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
        backend, count = self.machine.backend, len(self.inputs)
        xp = backend.xp
        order = batch_order(self.seed, state.epoch, count)
        starts = range(0, count, self._batch_size)
        if self.orientations is not None:
            # Rows of a batch sorted by orientation are contiguous slices; the sum over a batch is the same.
            for first in starts:
                batch = order[first : first + self._batch_size]
                batch[:] = batch[np.argsort(self.orientations[batch], kind="stable")]
        rows = backend.asarray(order)
        random = backend.random(seed_of(self.seed, "sampling", state.epoch))
        error = xp.zeros((), dtype=xp.float32)
        activation = xp.zeros((), dtype=xp.float32)
        for first in starts:
            batch = slice(first, min(first + self._batch_size, count))
            groups = self._groups(order[batch], rows[batch])
            batch_error, batch_activation = self._step(state, rows[batch], groups, random)
            error += batch_error
            activation += batch_activation
        return self._record(state, error, activation)

    def _groups(self, order: NDArray[np.int64], rows: Array) -> Groups | None:
        if self.orientations is None:
            return None
        take = self.machine.backend.xp.take
        return Groups(
            segments_of(self.orientations[order], self.machine.groups),
            take(self._index, rows, axis=0),
            take(self._memberships, rows, axis=0),
        )

    def _record(self, state: TrainingState, error: Array, activation: Array) -> EpochRecord:
        """Bring an epoch's two numbers to the host and judge them."""
        backend, count = self.machine.backend, len(self.inputs)
        totals = backend.to_host(backend.xp.stack([error, activation]))
        mean_error = float(totals[0]) / (count * self.inputs.shape[1])
        if not np.isfinite(totals).all() or mean_error > self._limit:
            raise DivergenceError(
                f"training diverged in epoch {state.epoch + 1} (mean squared reconstruction error "
                f"{mean_error:.3g}); try a lower learning_rate than {self.learning.learning_rate:g}"
            )
        if "sigma" in state.parameters:
            sigma = state.parameters["sigma"]
            sigma *= 0.99
            sigma += 0.01 * mean_error**0.5
        units = self._uniforms.shape[1]
        return EpochRecord(state.epoch + 1, mean_error, float(totals[1]) / (count * units))

    def _step(
        self, state: TrainingState, rows: Array, groups: Groups | None, random: RandomStream
    ) -> tuple[Array, Array]:
        """One update from one batch; squared error and activation, summed, stay on the device."""
        xp, machine = self.machine.backend.xp, self.machine
        visible_units, interaction = machine.visible, machine.interaction
        count = len(rows)
        visible = self._visible[: 2 * count]
        data, model = visible[:count], visible[count:]
        hidden = _first(self._hidden, 2 * count)
        positive, negative = hidden[..., :count, :], hidden[..., count:, :]
        sampled = _first(self._sampled, count)
        uniforms = self._uniforms[:count]

        xp.take(self.inputs, rows, axis=0, out=data)
        interaction.probabilities(visible_units.drive(data, groups), groups, out=positive)
        state_probabilities = positive
        for _ in range(self.learning.gibbs_steps):
            random.uniform(uniforms)
            interaction.sample(state_probabilities, uniforms, out=sampled)
            visible_units.mean(interaction.field(sampled, groups, out=model), groups)
            if self.learning.visible_sampling == "sample":
                visible_units.sample(model, groups, random)
            interaction.probabilities(visible_units.drive(model, groups), groups, out=negative)
            state_probabilities = negative

        difference = self._difference[:count]
        xp.subtract(data, model, out=difference)
        flat = difference.reshape(-1)
        error = xp.dot(flat, flat)
        pooled_sum = interaction.pooled(positive).sum(axis=0)
        self._update(state, visible, hidden, difference, pooled_sum, groups)
        return error, pooled_sum.sum()

    def _update(
        self,
        state: TrainingState,
        visible: Array,
        hidden: Array,
        difference: Array,
        pooled_sum: Array,
        groups: Groups | None,
    ) -> None:
        """Add the increments of Eq. 7 to all parameters.

        The paper's Eq. 7 adds α times the last *gradient*; read so it diverges, and the usual form, α times the last
        *increment*, is taken. The gradients of W, b and c are data minus model averages over the batch.
        """
        machine, learning, xp = self.machine, self.learning, self.machine.backend.xp
        parameters, increments = state.parameters, state.increments
        count = len(difference)
        rate, momentum = learning.rate_at(state.epoch), learning.momentum_at(state.epoch)
        positive, negative = hidden[..., :count, :], hidden[..., count:, :]

        variance_gradient = self._variance_gradient(visible, hidden, groups)
        pull = 0.0
        if learning.sparsity is not None and learning.sparsity_weight > 0:
            pull = learning.sparsity_weight * (learning.sparsity - pooled_sum / count)
            if learning.sparsity_form == "bias+weights":
                positive += pull * machine.interaction.sparsity_slope(positive)
                pull = 0.0
        xp.negative(negative, out=negative)

        drive = self._drive_both(visible, groups)
        machine.interaction.accumulate(
            drive, hidden, groups, increments["weights"], scale=rate / count, keep=momentum
        )
        if learning.weight_decay > 0:
            increments["weights"] -= (rate * learning.weight_decay) * parameters["weights"]

        bias = increments["hidden_bias"]
        bias *= momentum
        bias += rate * (hidden.sum(axis=-2) / count + pull)
        self._add_by_group(
            increments["visible_bias"], machine.visible.bias_difference(difference, groups), groups, rate, momentum
        )
        if variance_gradient is not None:
            self._add_by_group(increments["log_variance"], variance_gradient, groups, rate, momentum)
        for name, increment in increments.items():
            parameters[name] += increment

    def _drive_both(self, visible: Array, groups: Groups | None) -> Array:
        """What hidden units see in both phases, (2n, V)."""
        count = len(visible) // 2
        units = self.machine.visible
        if groups is None or not units.learns_variance:
            return units.drive(visible, groups)
        return self.machine.backend.xp.concatenate(
            [units.drive(visible[:count], groups), units.drive(visible[count:], groups)]
        )

    def _variance_gradient(self, visible: Array, hidden: Array, groups: Groups | None) -> Array | None:
        """Data minus model average of ∂(-E)/∂(log σ²), per image; None where σ is not learned."""
        units, interaction = self.machine.visible, self.machine.interaction
        if not units.learns_variance:
            return None
        count = len(visible) // 2
        xp = self.machine.backend.xp
        slopes = [
            units.variance_slope(
                visible[rows], interaction.field(xp.ascontiguousarray(hidden[..., rows, :]), groups), groups
            )
            for rows in (slice(0, count), slice(count, 2 * count))
        ]
        return slopes[0] - slopes[1]

    def _add_by_group(
        self, increment: Array, per_image: Array, groups: Groups | None, rate: float, momentum: float
    ) -> None:
        """increment (G, V) ← momentum · increment + rate · batch average, each image into its orientation's row."""
        scale = rate / len(per_image)
        if groups is None or len(increment) == 1:
            increment *= momentum
            increment += scale * per_image.sum(axis=0)
        else:
            self.machine.backend.accumulate(
                groups.memberships, per_image, increment, scale=scale, keep=momentum
            )


def _first(buffer: Array, count: int) -> Array:
    """Room for `count` images in a hidden buffer (..., B, H), contiguous also for a short last batch."""
    if buffer.shape[-2] == count:
        return buffer
    shape = (*buffer.shape[:-2], count, buffer.shape[-1])
    return buffer.reshape(-1)[: math.prod(shape)].reshape(shape)
