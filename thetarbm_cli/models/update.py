"""The update rule: what one batch adds to every parameter (Eqs. 5–7)."""

from __future__ import annotations

from dataclasses import dataclass, field

from thetarbm_cli.backend import Array
from thetarbm_cli.models.groups import Groups
from thetarbm_cli.models.learning import Learning
from thetarbm_cli.models.machine import Machine


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


@dataclass(frozen=True)
class Phases:
    """Both phases of one batch of n images, each in one array so that one product serves both.

    Attributes
    ----------
    visible : (2n, V) array
        Data, then reconstructions.
    hidden : (..., 2n, H) array
        Hidden probabilities of the two.
    difference : (n, V) array
        Data minus reconstructions.
    pooled_sum : (H,) array
        Activation of each unit by the data, summed over the batch.
    groups : Groups or None
        Orientations of the n images.
    """

    visible: Array
    hidden: Array
    difference: Array
    pooled_sum: Array
    groups: Groups | None


def apply_update(machine: Machine, learning: Learning, state: TrainingState, phases: Phases) -> None:
    """Add the increments of Eq. 7 to all parameters; `phases.hidden` is used up.

    The paper's Eq. 7 adds α times the last *gradient*; read so it diverges, and the usual form, α times the last
    *increment*, is taken. The gradients of W, b and c are data minus model averages over the batch.
    """
    parameters, increments, groups = state.parameters, state.increments, phases.groups
    hidden, count = phases.hidden, len(phases.difference)
    rate, momentum = learning.rate_at(state.epoch), learning.momentum_at(state.epoch)
    positive, negative = hidden[..., :count, :], hidden[..., count:, :]

    variance_gradient = _variance_gradient(machine, phases)
    pull = 0.0
    if learning.sparsity is not None and learning.sparsity_weight > 0:
        pull = learning.sparsity_weight * (learning.sparsity - phases.pooled_sum / count)
        if learning.sparsity_form == "bias+weights":
            positive += pull * machine.interaction.sparsity_slope(positive)
            pull = 0.0
    machine.backend.xp.negative(negative, out=negative)

    weights = increments["weights"]
    drive = _drive_of_both(machine, phases)
    machine.interaction.accumulate(drive, hidden, groups, weights, scale=rate / count, keep=momentum)
    if learning.weight_decay > 0:
        weights -= (rate * learning.weight_decay) * parameters["weights"]

    bias = increments["hidden_bias"]
    bias *= momentum
    bias += rate * (hidden.sum(axis=-2) / count + pull)
    bias_gradient = machine.visible.bias_difference(phases.difference, groups)
    _add_by_group(machine, increments["visible_bias"], bias_gradient, groups, rate, momentum)
    if variance_gradient is not None:
        _add_by_group(machine, increments["log_variance"], variance_gradient, groups, rate, momentum)
    for name, increment in increments.items():
        parameters[name] += increment


def _drive_of_both(machine: Machine, phases: Phases) -> Array:
    """What hidden units see in both phases, (2n, V)."""
    units, visible = machine.visible, phases.visible
    if phases.groups is None or not units.learns_variance:
        return units.drive(visible, None)
    count = len(phases.difference)
    parts = [units.drive(rows, phases.groups) for rows in (visible[:count], visible[count:])]
    return machine.backend.xp.concatenate(parts)


def _variance_gradient(machine: Machine, phases: Phases) -> Array | None:
    """Data minus model value of ∂(-E)/∂(log σ²), per image (n, V); None where σ is not learned."""
    units, groups = machine.visible, phases.groups
    if not units.learns_variance:
        return None
    count = len(phases.difference)
    slopes = []
    for rows in (slice(0, count), slice(count, 2 * count)):
        hidden = machine.backend.xp.ascontiguousarray(phases.hidden[..., rows, :])
        slopes.append(units.variance_slope(phases.visible[rows], machine.interaction.field(hidden, groups), groups))
    return slopes[0] - slopes[1]


def _add_by_group(
    machine: Machine, increment: Array, per_image: Array, groups: Groups | None, rate: float, momentum: float
) -> None:
    """Momentum and batch average into a (G, V) increment, each image (n, V) into its orientation's row."""
    scale = rate / len(per_image)
    if groups is None or len(increment) == 1:
        increment *= momentum
        increment += scale * per_image.sum(axis=0)
    else:
        machine.backend.accumulate(groups.memberships, per_image, increment, scale=scale, keep=momentum)
