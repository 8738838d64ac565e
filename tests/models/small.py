"""The models by name, with settings for tests that take a moment."""

from typing import Any

from thetarbm_cli.models import RBM, AugmentedRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM

MODELS: dict[str, tuple[type[RBM], dict[str, Any]]] = {
    "rbm": (RBM, {}),
    "orbm": (OrientedRBM, {}),
    "augmented": (AugmentedRBM, {"rotations": 3}),
    "tirbm": (TransformInvariantRBM, {}),
    "theta-tied": (ThetaRBM, {"tensor": "tied"}),
    "theta-full": (ThetaRBM, {"tensor": "full"}),
}
# What the TI-RBM's authors do in their paper and program, where it differs from what the θ-RBM's paper gives to all.
AUTHORS_SETTINGS: dict[str, Any] = {
    "epochs": 150,
    "batch_size": 200,
    "learning_rate": 0.005,
    "rate_decay": 0.01,
    "momentum": 0.9,
    "initial_momentum": 0.5,
    "momentum_epochs": 4,
    "weight_decay": 1e-4,
    "sparsity_weight": 3.0,
    "sparsity_form": "bias+weights",
    "variance": "tracked",
    "initial_scale": 0.02,
    "rotation": "replicated",
    "initial_bias": "zero",
    "sparsity_slope": "each",
    "drop_last": True,
}


def small(name: str, **settings: Any) -> RBM:
    """A model of 8 hidden units and 3 epochs, if the settings say nothing else."""
    model_class, own = MODELS[name]
    return model_class(**{"hidden": 8, "epochs": 3, **own, **settings})
