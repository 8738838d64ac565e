"""The paper's tensor: tied to one matrix, or S slices with every gradient turned into each (Eqs. 5–6)."""

from __future__ import annotations

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.imaging.rotation import Rotations, round_trip_operators
from thetarbm_cli.models.groups import Groups
from thetarbm_cli.models.interactions import Interaction, SharedInteraction


class TiedInteraction(SharedInteraction):
    """Slices W_s = R_{φs}(M) = M T_s' of one matrix M in ``weights`` (H, V), ``hidden_bias`` (H,).

    Everything happens in the frame of M: images come as T_s'x, so that W_s x = M (T_s'x), and a reconstruction
    x̂ = c_s + W_s'h goes back into the frame as T_s'x̂ = T_s'c_s + T_s'T_s (M'h). With an exact group T_s'T_s is
    the identity; an interpolated rotation forth and back blurs, and the machine sees that as the paper's would.

    Parameters
    ----------
    backend, parameters : see `Interaction`
    size, rotations : int
        Side of the images; S.
    kind : str
        Kind of the rotation operators.
    """

    def __init__(self, backend: Backend, parameters: dict[str, Array], size: int, rotations: int, kind: str) -> None:
        super().__init__(backend, parameters)
        self._there_and_back = [
            None if operator is None else backend.sparse(operator)
            for operator in round_trip_operators(size, rotations, kind)
        ]

    def field(self, hidden: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """T_s'T_s (M'h), (n, V)."""
        result = super().field(hidden, groups, out)
        if groups is not None:
            for s, rows in groups.segments:
                operator = self._there_and_back[s]
                if operator is not None:
                    result[rows] = (operator @ result[rows].T).T
        return result


class TensorInteraction(Interaction):
    """Slices W_s in ``weights`` (S, H, V), ``hidden_bias`` (H,).

    Eq. 5 asks for ∇W_k = Σ_i R_{φk-φs_i}(h_i x_i'). As R_θ(A) = A T_θ' turns rows, R_θ(h x') = h (T_θ x)': turning
    the B images of a batch S ways gives the same sum as turning S gradients of H rows each, at a fraction of the cost.

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
        self.rotations, _, self.pixels = parameters["weights"].shape
        self._turns = Rotations(size, self.rotations, kind, backend=backend)
        self._is_exact = kind == "permutation"
        if not self._is_exact:
            self._turns.bring()
        self._turned: Array | None = None

    def drives(self, visible: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """b + W_s x with the slice of each image's orientation, (n, H)."""
        assert groups is not None
        xp = self.backend.xp
        if out is None:
            out = xp.empty(self.hidden_shape(len(visible)), dtype=visible.dtype)
        for s, rows in groups.segments:
            xp.matmul(visible[rows], self.parameters["weights"][s].T, out=out[rows])
        out += self.parameters["hidden_bias"]
        return out

    def field(self, hidden: Array, groups: Groups | None, out: Array | None = None) -> Array:
        """W_s'h with the slice of each image's orientation, (n, V)."""
        assert groups is not None
        xp = self.backend.xp
        if out is None:
            out = xp.empty((len(hidden), self.pixels), dtype=hidden.dtype)
        for s, rows in groups.segments:
            xp.matmul(hidden[rows], self.parameters["weights"][s], out=out[rows])
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
        """Turn every image of both phases S ways once, then one product for each slice."""
        assert groups is not None
        if self._is_exact:
            self._accumulate_exactly(visible, hidden, groups, increment, scale, keep)
            return
        xp = self.backend.xp
        rotations, both = self.rotations, len(visible)
        if self._turned is None or self._turned.shape[1] != both:
            self._turned = xp.empty((rotations, *visible.shape), dtype=visible.dtype)
        # Row d·2n + i holds T_d x_i: slice k takes d = k - s_i of each image.
        turned = self._turns.rotate_all(visible, out=self._turned).reshape(rotations * both, self.pixels)
        orientations = xp.concatenate([groups.index, groups.index])
        images = xp.arange(both)
        for k in range(rotations):
            rows = (k - orientations) % rotations * both + images
            right = xp.take(turned, rows, axis=0)
            self.backend.accumulate(hidden, right, increment[k], scale=scale, keep=keep)

    def _accumulate_exactly(
        self,
        visible: Array,
        hidden: Array,
        groups: Groups,
        increment: Array,
        scale: float,
        keep: float,
    ) -> None:
        """The same for an exact group: one gradient in the frame of slice 0, turned into every slice.

        A product rounds differently in different columns, turning by a permutation never does: so the slices stay
        turned copies of each other to the last bit, as Lemma 1 says.
        """
        xp = self.backend.xp
        count = len(visible) // 2
        canonical = xp.empty_like(visible)
        for s, rows in groups.segments:
            for both in (rows, slice(rows.start + count, rows.stop + count)):
                canonical[both] = self._turns.rotate_by(visible[both], s, transpose=True)
        gradient = scale * xp.matmul(hidden.T, canonical)
        increment *= keep
        for k in range(self.rotations):
            increment[k] += self._turns.rotate_by(gradient, k)
