"""Contrastive divergence: the one learning loop of all models (Eqs. 5–7).

An epoch is a pure function of the parameters, the increments and the epoch's number: its batch order and its random
numbers are seeded by the number alone. A state saved after any epoch therefore resumes bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, RandomStream
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.models.groups import Groups, one_hot, segments_of
from thetarbm_cli.models.learning import Learning
from thetarbm_cli.models.machine import Machine
from thetarbm_cli.models.seeds import batch_order, seed_of
from thetarbm_cli.models.update import EpochRecord, Phases, TrainingState, apply_update

# A reconstruction this many times worse than predicting the mean is divergence, long before it overflows.
DIVERGED = 1e3


class DivergenceError(ThetaRBMError):
    """Training left the numbers: the message says when and what to try."""


Monitor = Callable[[TrainingState], None]


class Trainer:
    """Contrastive divergence of one machine on one training set.

    Parameters
    ----------
    machine : Machine
    inputs : (N, V) device array
        Standardised images.
    orientations : (N,) host array or None
        Orientation index of each image, for machines that have a slice or a bias per orientation.
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
        self.orientations = orientations
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
        # Images may be constant: errors within the units' own scale are never divergence.
        self._limit = DIVERGED * max(float(mean_square), 1.0)
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
            chosen = slice(first, min(first + self._batch_size, count))
            groups = self._groups(order[chosen], rows[chosen])
            batch_error, batch_activation = self._step(state, rows[chosen], groups, random)
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
        """Bring an epoch's numbers to the host and judge them."""
        backend, count = self.machine.backend, len(self.inputs)
        # The last update of an epoch shows in no error yet, only in the parameters.
        sums = [value.sum() for value in state.parameters.values()]
        totals = backend.to_host(backend.xp.stack([error, activation, *sums]))
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
        apply_update(machine, self.learning, state, Phases(visible, hidden, difference, pooled_sum, groups))
        return error, pooled_sum.sum()


def _first(buffer: Array, count: int) -> Array:
    """Room for `count` images in a hidden buffer (..., B, H), contiguous also for a short last batch."""
    if buffer.shape[-2] == count:
        return buffer
    shape = (*buffer.shape[:-2], count, buffer.shape[-1])
    return buffer.reshape(-1)[: math.prod(shape)].reshape(shape)
