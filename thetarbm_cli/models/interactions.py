"""How hidden units meet the visible ones: weights W, hidden bias b, and the products between them.

Three forms share one interface: `SharedInteraction` has one matrix (RBM, O-RBM, and the tied θ-RBM on images that
were turned back), `TensorInteraction` the paper's S slices, `PooledInteraction` the TI-RBM's turned copies.
All arrays are the backend's; n is the number of images, hidden states have shape (..., n, H).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.models.activation import sigmoid, softplus
from thetarbm_cli.models.groups import Groups


class Interaction(ABC):
    """Weights and hidden bias of a machine.

    Parameters
    ----------
    backend : Backend
    parameters : dict
        ``weights`` and ``hidden_bias``, shapes as the form says.
    """

    def __init__(self, backend: Backend, parameters: dict[str, Array]) -> None:
        self.backend = backend
        self.parameters = parameters

    def hidden_shape(self, count: int) -> tuple[int, ...]:
        """Shape of the hidden states of `count` images."""
        return (count, self.parameters["hidden_bias"].shape[-1])

    @abstractmethod
    def drives(self, visible: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """b + W_s x for every hidden state."""

    def probabilities(self, visible: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """p(h | x, r) of Eq. 3, from what hidden units see of the images (n, V)."""
        return sigmoid(self.backend.xp, self.drives(visible, groups, out))

    def sample(self, probabilities: Array, uniforms: Array, out: Array) -> Array:
        """Draw hidden states; `uniforms` is (n, H) on [0, 1)."""
        return self.backend.xp.less(uniforms, probabilities, out=out)

    @abstractmethod
    def field(self, hidden: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """W_s'h for every image, (n, V)."""

    @abstractmethod
    def accumulate(
        self,
        visible: Array,
        hidden: Array,
        groups: Groups | None,
        increment: Array,
        scale: float,
        keep: float,
    ) -> None:
        """Increment of the weights: keep · increment + scale · ∇W, in place.

        `visible` (2n, V) and `hidden` (..., 2n, H) hold the positive phase and, with hidden states negated, the
        negative phase, so that one product gives their difference. `groups` describes the first n rows.
        """

    def pooled(self, hidden: Array) -> Array:
        """Features (n, H) of hidden states: themselves, or the probability that a unit is on in any state."""
        return hidden

    def sparsity_slope(self, probabilities: Array) -> Array:
        """Derivative of a unit's activation by its drive: h (1 - h)."""
        return probabilities * (1 - probabilities)

    def log_normaliser(self, visible: Array, groups: Groups | None) -> Array:
        """Σ_j log Σ_{h_j} exp(h_j (b_j + W_s x)), per image (n,): minus the hidden part of the free energy."""
        return softplus(self.backend.xp, self.drives(visible, groups)).sum(axis=1)


class SharedInteraction(Interaction):
    """One matrix for all images: ``weights`` (H, V), ``hidden_bias`` (H,)."""

    def drives(self, visible: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """b + W x, (n, H)."""
        result = self.backend.xp.matmul(visible, self.parameters["weights"].T, out=out)
        result += self.parameters["hidden_bias"]
        return result

    def field(self, hidden: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """W'h, (n, V)."""
        return self.backend.xp.matmul(hidden, self.parameters["weights"], out=out)

    def accumulate(
        self,
        visible: Array,
        hidden: Array,
        groups: Groups | None,
        increment: Array,
        scale: float,
        keep: float,
    ) -> None:
        """One product for both phases and the momentum."""
        self.backend.accumulate(hidden, visible, increment, scale=scale, keep=keep)
