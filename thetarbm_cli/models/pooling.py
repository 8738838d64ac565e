"""The TI-RBM's interaction: each hidden unit sees the image turned S ways and is on in one of them, or off."""

from __future__ import annotations

import scipy.sparse

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.imaging.rotation import rotation_operators
from thetarbm_cli.models.activation import log_sum_with_off, softmax_with_off
from thetarbm_cli.models.groups import Groups
from thetarbm_cli.models.interactions import Interaction


class PooledInteraction(Interaction):
    """``weights`` (H, V) and one ``hidden_bias`` per turn and unit (S, H); hidden states are (S, n, H).

    p(h_js = 1 | x) = exp(b_js + w_j T_s x) / (1 + Σ_t exp(b_jt + w_j T_t x)), after Sohn & Lee (2012).

    Parameters
    ----------
    backend, parameters : see `Interaction`
    size : int
        Side of the images.
    kind : str
        Kind of the rotation operators.
    """

    def __init__(self, backend: Backend, parameters: dict[str, Array], size: int, kind: str) -> None:
        super().__init__(backend, parameters)
        self.rotations, self.units = parameters["hidden_bias"].shape
        self.pixels = size * size
        stacked = scipy.sparse.vstack(rotation_operators(size, self.rotations, kind), format="csr")
        self._all_ways = backend.sparse(stacked)
        self._all_ways_back = backend.sparse(stacked.T.tocsr())

    def hidden_shape(self, count: int) -> tuple[int, ...]:
        """(S, n, H)."""
        return (self.rotations, count, self.units)

    def _turned(self, visible: Array) -> Array:
        """T_s x for every turn, images in columns: (S, V, n)."""
        columns = self.backend.xp.ascontiguousarray(visible.T)
        return (self._all_ways @ columns).reshape(self.rotations, self.pixels, len(visible))

    def drives(self, visible: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """b_js + w_j T_s x, (S, n, H)."""
        turned = self._turned(visible).transpose(0, 2, 1)
        result = self.backend.xp.matmul(turned, self.parameters["weights"].T, out=out)
        result += self.parameters["hidden_bias"][:, None, :]
        return result

    def probabilities(self, visible: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """Softmax over the turns and the off state, (S, n, H)."""
        return softmax_with_off(self.backend.xp, self.drives(visible, groups, out))

    def sample(self, probabilities: Array, uniforms: Array, out: Array) -> Array:
        """Draw one turn or off for every unit: the turn in whose share of [0, 1) the uniform number falls."""
        xp = self.backend.xp
        lower = xp.zeros_like(uniforms)
        for s in range(self.rotations):
            upper = lower + probabilities[s]
            out[s] = (uniforms >= lower) & (uniforms < upper)
            lower = upper
        return out

    def field(self, hidden: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """Σ_s T_s' W' h_s, (n, V)."""
        xp = self.backend.xp
        count = hidden.shape[1]
        turned = xp.matmul(self.parameters["weights"].T, hidden.transpose(0, 2, 1))
        rows = (self._all_ways_back @ turned.reshape(self.rotations * self.pixels, count)).T
        if out is None:
            return xp.ascontiguousarray(rows)
        out[...] = rows
        return out

    def accumulate(
        self,
        visible: Array,
        hidden: Array,
        groups: Groups | None,
        increment: Array,
        scale: float,
        keep: float,
    ) -> None:
        """Σ_s h_s (T_s x)', both phases in one product a turn."""
        turned = self._turned(visible)
        for s in range(self.rotations):
            self.backend.accumulate(hidden[s], turned[s].T, increment, scale=scale, keep=keep if s == 0 else 1.0)

    def pooled(self, hidden: Array) -> Array:
        """Probability that a unit is on in any turn, (n, H)."""
        return hidden.sum(axis=0)

    def sparsity_slope(self, probabilities: Array) -> Array:
        """Derivative of the pooled activation by each drive: p_js (1 - Σ_t p_jt)."""
        return probabilities * (1 - probabilities.sum(axis=0))

    def log_normaliser(self, visible: Array, groups: Groups | None) -> Array:
        """Σ_j log(1 + Σ_s exp(drive_js)), per image (n,)."""
        return log_sum_with_off(self.backend.xp, self.drives(visible, groups)).sum(axis=1)
