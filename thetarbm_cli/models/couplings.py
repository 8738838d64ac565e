"""Couplings: how hidden units meet the visible ones, by weights W, a hidden bias b, and the products between them.

Four forms share one interface: `SharedCoupling` has one matrix (RBM, O-RBM), `TiedCoupling` one matrix whose rotated
copies are the θ-RBM's slices, `TensorCoupling` the paper's S slices in full, `PooledCoupling` the TI-RBM's rotated
copies. All arrays are the backend's; n is the number of images, hidden states have shape (..., n, H).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import scipy.sparse

from thetarbm_cli.backend import Array, Backend, Draw
from thetarbm_cli.imaging.rotation import Rotations, round_trip_operators

if TYPE_CHECKING:
    from thetarbm_cli.models.contrastive_divergence import OrientationGroups


class Coupling(ABC):
    """Weights and hidden bias of a model: parameters ``weights`` and ``hidden_bias``, of shapes as the form says."""

    def __init__(self, backend: Backend, parameters: dict[str, Array]) -> None:
        self.backend = backend
        self.parameters = parameters

    def hidden_shape(self, count: int) -> tuple[int, ...]:
        """Shape of the hidden states of `count` images."""
        return (count, self.parameters["hidden_bias"].shape[-1])

    @abstractmethod
    def bottom_up(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W_s x for every hidden state, of what hidden units see of the images (n, V)."""

    def probabilities(
        self,
        visible: Array,
        groups: OrientationGroups,
        out: Array | None = None,
        draw: Draw | None = None,
    ) -> Array:
        """p(h | x, r) of Eq. 3; with a stream and an array to `draw`, also states drawn from it."""
        return self.activated(self.bottom_up(visible, groups, out), self.parameters["hidden_bias"], draw)

    def activated(self, x: Array, bias: Array | None = None, draw: Draw | None = None) -> Array:
        """σ(b + x), written over x."""
        return self.backend.sigmoid(x, bias, draw)

    @abstractmethod
    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W_s'h for every image, (n, V)."""

    @abstractmethod
    def accumulate(
        self, visible: Array, hidden: Array, groups: OrientationGroups, increment: Array, scale: float, keep: float
    ) -> None:
        """Increment of the weights: keep · increment + scale · ∇W, in place.

        `visible` (2n, V) and `hidden` (..., 2n, H) hold the positive phase and, with hidden states negated, the
        negative phase, so that one product gives their difference. `groups` describes the first n rows.
        """

    def pooled(self, hidden: Array) -> Array:
        """Features (n, H) of hidden states: themselves, or the probability that a unit is on in any state."""
        return hidden

    def pull(self, probabilities: Array, pull: Array) -> Array | None:
        """Add the sparsity pull (H,) on each unit, times the slope h (1 - h) of its activation, to the hidden states.

        Gives what the hidden biases get of it beyond what passes through each state; None where that is all.
        """
        self.backend.pull(probabilities, pull)
        return None

    def pre_activation(self, visible: Array, groups: OrientationGroups) -> Array:
        """b + W_s x for every hidden state."""
        result = self.bottom_up(visible, groups)
        result += self.parameters["hidden_bias"]
        return result

    def log_normaliser(self, visible: Array, groups: OrientationGroups) -> Array:
        """Σ_j log Σ_{h_j} exp(h_j (b_j + W_s x)), per image (n,): minus the hidden part of the free energy."""
        return softplus(self.backend.xp, self.pre_activation(visible, groups)).sum(axis=1)


class SharedCoupling(Coupling):
    """One matrix for all images: ``weights`` (H, V), ``hidden_bias`` (H,)."""

    def bottom_up(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W x, (n, H)."""
        return self.backend.multiply(visible, self.parameters["weights"], out)

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W'h, (n, V)."""
        return self.backend.combine(hidden, self.parameters["weights"], out)

    def accumulate(
        self, visible: Array, hidden: Array, groups: OrientationGroups, increment: Array, scale: float, keep: float
    ) -> None:
        """One product for both phases and the momentum."""
        self.backend.accumulate(hidden, visible, increment, scale=scale, keep=keep)


class TiedCoupling(SharedCoupling):
    """Slices W_s = R_{φs}(M) = M T_s' of one matrix M in ``weights`` (H, V), ``hidden_bias`` (H,).

    Everything happens in the frame of M: images come as T_s'x, so that W_s x = M (T_s'x), and a reconstruction
    x̂ = c_s + W_s'h goes back into the frame as T_s'x̂ = T_s'c_s + T_s'T_s (M'h). With an exact group T_s'T_s is
    the identity; an interpolated rotation forth and back blurs, and the model sees that as the paper's would.
    """

    def __init__(self, backend: Backend, parameters: dict[str, Array], size: int, rotations: int, kind: str) -> None:
        super().__init__(backend, parameters)
        trips = round_trip_operators(size, rotations, kind)
        self._round_trips = backend.stack(trips) if any(trip is not None for trip in trips) else None
        self._in_frame: Array | None = None

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """T_s'T_s (M'h), (n, V)."""
        if self._round_trips is None:
            return super().top_down(hidden, groups, out)
        if self._in_frame is None or len(self._in_frame) != len(hidden):
            self._in_frame = self.backend.xp.empty((len(hidden), self.parameters["weights"].shape[1]), hidden.dtype)
        return self._round_trips.each(super().top_down(hidden, groups, self._in_frame), groups.index, out)


class TensorCoupling(Coupling):
    """Slices W_s in ``weights`` (S, H, V), ``hidden_bias`` (H,).

    Eq. 5 asks for ∇W_k = Σ_i R_{φk-φs_i}(h_i x_i'). As R_θ(A) = A T_θ' rotates rows, R_θ(h x') = h (T_θ x)': rotating
    the B images of a batch S ways gives the same sum as rotating S gradients of H rows each, at a fraction of the cost.
    """

    def __init__(self, backend: Backend, parameters: dict[str, Array], size: int, kind: str) -> None:
        super().__init__(backend, parameters)
        self.rotations, _, self.pixels = parameters["weights"].shape
        self._rotate = Rotations(size, self.rotations, kind, backend=backend)
        self._is_exact = kind == "permutation"

    def bottom_up(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W_s x with the slice of each image's orientation, (n, H)."""
        if out is None:
            out = self.backend.xp.empty(self.hidden_shape(len(visible)), dtype=visible.dtype)
        for s, rows in groups.segments:
            self.backend.multiply(visible[rows], self.parameters["weights"][s], out[rows])
        return out

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W_s'h with the slice of each image's orientation, (n, V)."""
        if out is None:
            out = self.backend.xp.empty((len(hidden), self.pixels), dtype=hidden.dtype)
        for s, rows in groups.segments:
            self.backend.combine(hidden[rows], self.parameters["weights"][s], out[rows])
        return out

    def accumulate(
        self, visible: Array, hidden: Array, groups: OrientationGroups, increment: Array, scale: float, keep: float
    ) -> None:
        """Rotate every image of both phases S ways once, then one product for each slice."""
        both = self.backend.xp.concatenate([groups.index, groups.index])
        if self._is_exact:
            self._accumulate_exactly(visible, hidden, both, increment, scale, keep)
            return
        # Slice k gets T_{k - s_i} x_i of each image.
        rotated = self._rotate.forth.relative(visible, both)
        self.backend.accumulate_each(hidden, rotated, increment, scale=scale, keep=keep)

    def _accumulate_exactly(
        self, visible: Array, hidden: Array, index: Array, increment: Array, scale: float, keep: float
    ) -> None:
        """The same for an exact group: one gradient in the frame of slice 0, rotated into every slice.

        A product rounds differently in different columns, rotating by a permutation never does: so the slices stay
        rotated copies of each other to the last bit, as Lemma 1 says.
        """
        gradient = self.backend.xp.zeros(increment.shape[1:], dtype=increment.dtype)
        in_frame = self._rotate.back.each(visible, index)
        self.backend.accumulate(hidden, in_frame, gradient, scale=scale, keep=0.0)
        increment *= keep
        increment += self._rotate.rotate_all(gradient)


class PooledCoupling(Coupling):
    """``weights`` (H, V) and one ``hidden_bias`` per rotation and unit (S, H); hidden states are (S, n, H).

    p(h_js = 1 | x) = exp(b_js + w_j T_s x) / (1 + Σ_t exp(b_jt + w_j T_t x)), after Sohn & Lee (2012). The operators
    are S sparse (V, V) matrices T_s, on the host. The sparsity pull passes through a unit by the slope of its
    ``pooled`` activation, or by that of ``each`` rotation as if it were alone, all biases of a unit moved alike.
    """

    def __init__(
        self,
        backend: Backend,
        parameters: dict[str, Array],
        operators: Sequence[scipy.sparse.csr_matrix],
        slope: str = "pooled",
    ) -> None:
        super().__init__(backend, parameters)
        self.rotations, self.units = parameters["hidden_bias"].shape
        self.pixels = operators[0].shape[0]
        self.slope = slope
        self._rotate = backend.stack(operators)
        self._rotate_back = backend.stack([operator.T.tocsr() for operator in operators])

    def hidden_shape(self, count: int) -> tuple[int, ...]:
        """(S, n, H)."""
        return (self.rotations, count, self.units)

    def bottom_up(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """w_j T_s x, (S, n, H)."""
        return self.backend.multiply(self._rotate.turned(visible), self.parameters["weights"], out)

    def activated(self, x: Array, bias: Array | None = None, draw: Draw | None = None) -> Array:
        """Softmax over the rotations and the off state, (S, n, H)."""
        return self.backend.softmax(x, bias, draw)

    def pre_activation(self, visible: Array, groups: OrientationGroups) -> Array:
        """b_js + w_j T_s x, (S, n, H)."""
        result = self.bottom_up(visible, groups)
        result += self.parameters["hidden_bias"][:, None, :]
        return result

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """Σ_s T_s' W' h_s, (n, V)."""
        room = self._rotate_back.room(hidden.shape[1])
        return self._rotate_back.total(self.backend.combine(hidden, self.parameters["weights"], room), out)

    def accumulate(
        self, visible: Array, hidden: Array, groups: OrientationGroups, increment: Array, scale: float, keep: float
    ) -> None:
        """Σ_s h_s (T_s x)', both phases at once."""
        self.backend.accumulate(hidden, self._rotate.turned(visible), increment, scale=scale, keep=keep)

    def pooled(self, hidden: Array) -> Array:
        """Probability that a unit is on in any rotation, (n, H)."""
        return hidden.sum(axis=0)

    def pull(self, probabilities: Array, pull: Array) -> Array | None:
        """Pull through the slope of the pooled activation, p_js (1 - Σ_t p_jt), or of each rotation, p_js (1 - p_js).

        With the slope of each rotation, all biases of a unit get the sum: here, (S, H), what the others give.
        """
        if self.slope == "pooled":
            pulls = probabilities * (1 - probabilities.sum(axis=0))
            pulls *= pull
            probabilities += pulls
            return None
        means = self.backend.pull(probabilities, pull).sum(axis=1) / probabilities.shape[1]
        return means.sum(axis=0) - means

    def log_normaliser(self, visible: Array, groups: OrientationGroups) -> Array:
        """Σ_j log(1 + Σ_s exp(pre-activation_js)), per image (n,)."""
        return log_sum_with_off(self.backend.xp, self.pre_activation(visible, groups)).sum(axis=1)


def softplus(xp: Any, x: Array) -> Array:
    """log(1 + exp(x)), as a new array."""
    return xp.logaddexp(x, x.dtype.type(0))


def log_sum_with_off(xp: Any, x: Array) -> Array:
    """log(1 + Σ_s exp(x_s)) over the first axis of an (S, n, H) array, as a new (n, H) array."""
    highest = xp.maximum(x.max(axis=0), 0)
    return highest + xp.log(xp.exp(-highest) + xp.exp(x - highest).sum(axis=0))
