"""What learns: the RBM and its kin as scikit-learn estimators over one contrastive-divergence loop, and controls."""

from collections.abc import Mapping
from typing import Any

from thetarbm_cli.errors import InputError
from thetarbm_cli.models.base import Model
from thetarbm_cli.models.controls import AlignedPCA, AlignedPixels, AugmentedRBM, Pixels
from thetarbm_cli.models.local_theta import LocalThetaRBM
from thetarbm_cli.models.oriented import OrientedRBM
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.models.theta import ThetaRBM
from thetarbm_cli.models.transform_invariant import TransformInvariantRBM
from thetarbm_cli.registry import MODELS

__all__ = [
    "RBM",
    "AlignedPCA",
    "AlignedPixels",
    "AugmentedRBM",
    "LocalThetaRBM",
    "Model",
    "OrientedRBM",
    "Pixels",
    "ThetaRBM",
    "TransformInvariantRBM",
    "build",
    "model_class",
]


def model_class(name: str) -> type[Model]:
    """Find the class of a model by its name in the registry."""
    found = MODELS.load(name)
    if not (isinstance(found, type) and issubclass(found, Model)):
        raise InputError(f"the model {name} of the plug-in {MODELS[name].about} does not derive from {Model.__name__}")
    return found


def build(name: str, settings: Mapping[str, Any], *, seed: int = 0, backend: str = "auto") -> Model:
    """Make an unfitted model with these settings."""
    return model_class(name)(**settings, random_state=seed, backend=backend)
