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

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.imaging.rotation import Rotations, round_trip_operators
from thetarbm_cli.models.visible import sigmoid

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
    def pre_activation(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """b + W_s x for every hidden state."""

    def probabilities(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """p(h | x, r) of Eq. 3, from what hidden units see of the images (n, V)."""
        return sigmoid(self.backend.xp, self.pre_activation(visible, groups, out))

    def sample(self, probabilities: Array, uniforms: Array, out: Array) -> Array:
        """Draw hidden states; `uniforms` is (n, H) on [0, 1)."""
        return self.backend.xp.less(uniforms, probabilities, out=out)

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

    def sparsity_slope(self, probabilities: Array) -> Array:
        """Derivative of a unit's activation by its pre-activation: h (1 - h)."""
        slope = 1 - probabilities
        slope *= probabilities
        return slope

    def pull_on_bias_alone(self, pulls: Array) -> Array | float:
        """What the hidden biases get of the sparsity pulls (..., n, H) beyond what passes through each state."""
        return 0.0

    def log_normaliser(self, visible: Array, groups: OrientationGroups) -> Array:
        """Σ_j log Σ_{h_j} exp(h_j (b_j + W_s x)), per image (n,): minus the hidden part of the free energy."""
        return softplus(self.backend.xp, self.pre_activation(visible, groups)).sum(axis=1)


class SharedCoupling(Coupling):
    """One matrix for all images: ``weights`` (H, V), ``hidden_bias`` (H,)."""

    def pre_activation(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """b + W x, (n, H)."""
        result = self.backend.multiply(visible, self.parameters["weights"], out)
        result += self.parameters["hidden_bias"]
        return result

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W'h, (n, V)."""
        return self.backend.xp.matmul(hidden, self.parameters["weights"], out=out)

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
        self._round_trips = [
            None if operator is None else backend.sparse(operator)
            for operator in round_trip_operators(size, rotations, kind)
        ]

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """T_s'T_s (M'h), (n, V)."""
        result = super().top_down(hidden, groups, out)
        for s, rows in groups.segments:
            operator = self._round_trips[s]
            if operator is not None:
                result[rows] = (operator @ result[rows].T).T
        return result


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
        if not self._is_exact:
            self._rotate.bring()
        self._all_rotated: Array | None = None

    def pre_activation(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """b + W_s x with the slice of each image's orientation, (n, H)."""
        xp = self.backend.xp
        if out is None:
            out = xp.empty(self.hidden_shape(len(visible)), dtype=visible.dtype)
        for s, rows in groups.segments:
            self.backend.multiply(visible[rows], self.parameters["weights"][s], out[rows])
        out += self.parameters["hidden_bias"]
        return out

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """W_s'h with the slice of each image's orientation, (n, V)."""
        xp = self.backend.xp
        if out is None:
            out = xp.empty((len(hidden), self.pixels), dtype=hidden.dtype)
        for s, rows in groups.segments:
            xp.matmul(hidden[rows], self.parameters["weights"][s], out=out[rows])
        return out

    def accumulate(
        self, visible: Array, hidden: Array, groups: OrientationGroups, increment: Array, scale: float, keep: float
    ) -> None:
        """Rotate every image of both phases S ways once, then one product for each slice."""
        if self._is_exact:
            self._accumulate_exactly(visible, hidden, groups, increment, scale, keep)
            return
        xp = self.backend.xp
        rotations, both = self.rotations, len(visible)
        if self._all_rotated is None or self._all_rotated.shape[1] != both:
            self._all_rotated = xp.empty((rotations, *visible.shape), dtype=visible.dtype)
        # Row d·2n + i holds T_d x_i: slice k takes d = k - s_i of each image.
        rotated = self._rotate.rotate_all(visible, out=self._all_rotated).reshape(rotations * both, self.pixels)
        orientations = xp.concatenate([groups.index, groups.index])
        images = xp.arange(both)
        for k in range(rotations):
            rows = (k - orientations) % rotations * both + images
            right = xp.take(rotated, rows, axis=0)
            self.backend.accumulate(hidden, right, increment[k], scale=scale, keep=keep)

    def _accumulate_exactly(
        self, visible: Array, hidden: Array, groups: OrientationGroups, increment: Array, scale: float, keep: float
    ) -> None:
        """The same for an exact group: one gradient in the frame of slice 0, rotated into every slice.

        A product rounds differently in different columns, rotating by a permutation never does: so the slices stay
        rotated copies of each other to the last bit, as Lemma 1 says.
        """
        xp = self.backend.xp
        count = len(visible) // 2
        canonical = xp.empty_like(visible)
        for s, rows in groups.segments:
            for both in (rows, slice(rows.start + count, rows.stop + count)):
                canonical[both] = self._rotate.rotate_by(visible[both], s, transpose=True)
        gradient = scale * xp.matmul(hidden.T, canonical)
        increment *= keep
        for k in range(self.rotations):
            increment[k] += self._rotate.rotate_by(gradient, k)


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
        stacked = scipy.sparse.vstack(operators, format="csr")
        self._operators = backend.sparse(stacked)
        self._operators_transposed = backend.sparse(stacked.T.tocsr())

    def hidden_shape(self, count: int) -> tuple[int, ...]:
        """(S, n, H)."""
        return (self.rotations, count, self.units)

    def _rotated(self, visible: Array) -> Array:
        """T_s x for every rotation, images in columns: (S, V, n)."""
        columns = self.backend.xp.ascontiguousarray(visible.T)
        return (self._operators @ columns).reshape(self.rotations, self.pixels, len(visible))

    def pre_activation(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """b_js + w_j T_s x, (S, n, H)."""
        rotated = self._rotated(visible).transpose(0, 2, 1)
        result = self.backend.xp.matmul(rotated, self.parameters["weights"].T, out=out)
        result += self.parameters["hidden_bias"][:, None, :]
        return result

    def probabilities(self, visible: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """Softmax over the rotations and the off state, (S, n, H)."""
        return softmax_with_off(self.backend.xp, self.pre_activation(visible, groups, out))

    def sample(self, probabilities: Array, uniforms: Array, out: Array) -> Array:
        """Draw one rotation or off for every unit: the rotation in whose share of [0, 1) the uniform number falls."""
        xp = self.backend.xp
        lower = xp.zeros_like(uniforms)
        for s in range(self.rotations):
            upper = lower + probabilities[s]
            out[s] = (uniforms >= lower) & (uniforms < upper)
            lower = upper
        return out

    def top_down(self, hidden: Array, groups: OrientationGroups, out: Array | None = None) -> Array:
        """Σ_s T_s' W' h_s, (n, V)."""
        xp = self.backend.xp
        count = hidden.shape[1]
        rotated = xp.matmul(self.parameters["weights"].T, hidden.transpose(0, 2, 1))
        rows = (self._operators_transposed @ rotated.reshape(self.rotations * self.pixels, count)).T
        if out is None:
            return xp.ascontiguousarray(rows)
        out[...] = rows
        return out

    def accumulate(
        self, visible: Array, hidden: Array, groups: OrientationGroups, increment: Array, scale: float, keep: float
    ) -> None:
        """Σ_s h_s (T_s x)', both phases in one product per rotation."""
        rotated = self._rotated(visible)
        for s in range(self.rotations):
            self.backend.accumulate(hidden[s], rotated[s].T, increment, scale=scale, keep=keep if s == 0 else 1.0)

    def pooled(self, hidden: Array) -> Array:
        """Probability that a unit is on in any rotation, (n, H)."""
        return hidden.sum(axis=0)

    def sparsity_slope(self, probabilities: Array) -> Array:
        """Derivative of the pooled activation by each pre-activation, p_js (1 - Σ_t p_jt); or p_js (1 - p_js)."""
        if self.slope == "each":
            return super().sparsity_slope(probabilities)
        return probabilities * (1 - probabilities.sum(axis=0))

    def pull_on_bias_alone(self, pulls: Array) -> Array | float:
        """With the slope of each rotation, what the other biases of a unit get: so all get the sum, (S, H)."""
        if self.slope == "pooled":
            return 0.0
        means = pulls.sum(axis=1) / pulls.shape[1]
        return means.sum(axis=0) - means

    def log_normaliser(self, visible: Array, groups: OrientationGroups) -> Array:
        """Σ_j log(1 + Σ_s exp(pre-activation_js)), per image (n,)."""
        return log_sum_with_off(self.backend.xp, self.pre_activation(visible, groups)).sum(axis=1)


def softplus(xp: Any, x: Array) -> Array:
    """log(1 + exp(x)), as a new array."""
    return xp.logaddexp(x, x.dtype.type(0))


def softmax_with_off(xp: Any, x: Array) -> Array:
    """Probabilities of the states along the first axis against an off state of energy 0, written over `x` (S, n, H).

    Of pre-activations z_s they are exp(z_s) / (1 + Σ_t exp(z_t)).
    """
    highest = xp.maximum(x.max(axis=0), 0)
    x -= highest
    xp.exp(x, out=x)
    xp.negative(highest, out=highest)
    xp.exp(highest, out=highest)
    highest += x.sum(axis=0)
    x /= highest
    return x


def log_sum_with_off(xp: Any, x: Array) -> Array:
    """log(1 + Σ_s exp(x_s)) over the first axis of an (S, n, H) array, as a new (n, H) array."""
    highest = xp.maximum(x.max(axis=0), 0)
    return highest + xp.log(xp.exp(-highest) + xp.exp(x - highest).sum(axis=0))
