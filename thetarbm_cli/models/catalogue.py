"""The models by the names that the command line and the records use."""

from __future__ import annotations

from typing import Any

from thetarbm_cli.errors import InputError
from thetarbm_cli.models import RBM, LocalThetaRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.controls import AlignedPixels, Pixels
from thetarbm_cli.models.transform_invariant import REFERENCE

MODELS: dict[str, type[RBM]] = {
    "rbm": RBM,
    "orbm": OrientedRBM,
    "tirbm": TransformInvariantRBM,
    "theta": ThetaRBM,
    "theta-local": LocalThetaRBM,
    "pixels": Pixels,
    "aligned-pixels": AlignedPixels,
}
PRESETS: dict[str, dict[str, dict[str, Any]]] = {"tirbm": {"reference": REFERENCE}}

# Parameters that are not settings of a model: a run has its own seed, a call its own backend.
OUTSIDE = ("random_state", "backend")
# Parameters that may also be None.
OPTIONAL: dict[str, type] = {"sparsity": float, "initial_momentum": float, "standardise": bool}
KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def defaults_of(model: str) -> dict[str, Any]:
    """Settings of a model with their default values, by name."""
    parameters: dict[str, Any] = _class_of(model)().get_params(deep=False)
    return {name: value for name, value in parameters.items() if name not in OUTSIDE}


def preset_of(model: str, preset: str) -> dict[str, Any]:
    """What a preset changes from the defaults; ``paper`` is the defaults."""
    _class_of(model)
    presets = {"paper": {}, **PRESETS.get(model, {})}
    if preset not in presets:
        raise InputError(f"model {model} has no preset {preset!r}: choose one of {', '.join(presets)}")
    return presets[preset]


def build(model: str, parameters: dict[str, Any], *, seed: int = 0, backend: str = "auto") -> RBM:
    """An unfitted estimator with these settings."""
    return _class_of(model)(**parameters, random_state=seed, backend=backend)


def check_parameters(model: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of the right names, types and ranges, or an `InputError` that names the wrong one."""
    defaults = defaults_of(model)
    checked = {}
    for name, value in parameters.items():
        if name not in defaults:
            raise InputError(f"model {model} has no setting {name!r}; it has {', '.join(defaults)}")
        checked[name] = _of_type(name, value, defaults[name])
    build(model, {**defaults, **checked}).check_settings()
    return checked


def _class_of(model: str) -> type[RBM]:
    if model not in MODELS:
        raise InputError(f"unknown model {model!r}: choose one of {', '.join(MODELS)}")
    return MODELS[model]


def _of_type(name: str, value: Any, default: Any) -> Any:
    """The value as the setting's type has it; a whole number may stand for a number, nothing else is converted."""
    kind: type = OPTIONAL.get(name, type(default))
    if value is None and name in OPTIONAL:
        return None
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise InputError(f"setting {name} must be {KIND_NAMES[kind]}, not {value!r}")
    return value
