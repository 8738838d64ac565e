"""The knobs of contrastive divergence, checked, and their schedules."""

from __future__ import annotations

from dataclasses import dataclass

from thetarbm_cli.errors import InputError

SPARSITY_FORMS = ("bias", "bias+weights")
VISIBLE_SAMPLINGS = ("mean", "sample")


@dataclass(frozen=True)
class Learning:
    """Settings of the learning loop; see `thetarbm_cli.models.RBM` for what each means."""

    epochs: int
    batch_size: int
    learning_rate: float
    rate_decay: float
    momentum: float
    initial_momentum: float | None
    momentum_epochs: int
    weight_decay: float
    gibbs_steps: int
    visible_sampling: str
    sparsity: float | None
    sparsity_weight: float
    sparsity_form: str

    def __post_init__(self) -> None:
        _at_least("epochs", self.epochs, 0)
        _at_least("batch_size", self.batch_size, 1)
        _at_least("gibbs_steps", self.gibbs_steps, 1)
        _at_least("momentum_epochs", self.momentum_epochs, 0)
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate must be above 0, not {self.learning_rate}")
        for name in ("rate_decay", "weight_decay", "sparsity_weight"):
            if not getattr(self, name) >= 0:
                raise InputError(f"{name} must be 0 or above, not {getattr(self, name)}")
        for name in ("momentum", "initial_momentum"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"{name} must be in [0, 1), not {value}")
        if self.sparsity is not None and not 0 < self.sparsity < 1:
            raise InputError(f"sparsity must be between 0 and 1 (a share of units that are on), not {self.sparsity}")
        if self.sparsity_form not in SPARSITY_FORMS:
            raise InputError(f"sparsity_form must be one of {', '.join(SPARSITY_FORMS)}, not {self.sparsity_form!r}")
        if self.visible_sampling not in VISIBLE_SAMPLINGS:
            raise InputError(
                f"visible_sampling must be one of {', '.join(VISIBLE_SAMPLINGS)}, not {self.visible_sampling!r}"
            )

    def rate_at(self, epoch: int) -> float:
        """Learning rate η of an epoch (counted from 0)."""
        return self.learning_rate / (1 + self.rate_decay * epoch)

    def momentum_at(self, epoch: int) -> float:
        """Momentum α of an epoch (counted from 0)."""
        if self.initial_momentum is not None and epoch < self.momentum_epochs:
            return self.initial_momentum
        return self.momentum


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise InputError(f"{name} must be {least} or above, not {value}")
