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


def small(name: str, **settings: Any) -> RBM:
    """A model of 8 hidden units and 3 epochs, if the settings say nothing else."""
    model_class, own = MODELS[name]
    return model_class(**{"hidden": 8, "epochs": 3, **own, **settings})
