"""The models by the names that the command line and the records use."""

from __future__ import annotations

from typing import Any

from thetarbm_cli.errors import InputError
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.registry import MODELS

# Parameters that are not settings of a model: a run has its own seed, a call its own backend.
OUTSIDE = ("random_state", "backend")
# Parameters that may also be None.
OPTIONAL: dict[str, type] = {"sparsity": float, "initial_momentum": float, "standardise": bool}
KIND_NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}


def defaults_of(model: str) -> dict[str, Any]:
    """Settings of a model with their default values, by name."""
    parameters: dict[str, Any] = MODELS.load(model)().get_params(deep=False)
    return {name: value for name, value in parameters.items() if name not in OUTSIDE}


def build(model: str, parameters: dict[str, Any], *, seed: int = 0, backend: str = "auto") -> RBM:
    """An unfitted estimator with these settings."""
    built: RBM = MODELS.load(model)(**parameters, random_state=seed, backend=backend)
    return built


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
