"""A machine: a visible layer, its interaction with the hidden one, and what follows from their energy (Eq. 1)."""

from __future__ import annotations

from dataclasses import dataclass

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.models.groups import Groups
from thetarbm_cli.models.interactions import Interaction
from thetarbm_cli.models.visible import VisibleUnits


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
        return self.interaction.pooled(self.interaction.probabilities(self.visible.drive(images, groups), groups))

    def free_energy(self, images: Array, groups: Groups | None) -> Array:
        """-log Σ_h exp(-E(x, h, r)), per image (n,)."""
        drive = self.visible.drive(images, groups)
        return self.visible.energy(images, groups) - self.interaction.log_normaliser(drive, groups)
