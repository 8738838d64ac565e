"""What defines a run: model, data, parameters, perturbation and seed, and the id that follows from them."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from thetarbm_cli.errors import InputError
from thetarbm_cli.models.catalogue import check_parameters, defaults_of, preset_of

# Raise by hand whenever the same settings would give other numbers: every older run is then stale.
ALGORITHM = 1

Scope = Literal["train", "rbm", "all"]


class DataSettings(BaseModel):
    """Which images a run sees; counts of None mean all of a split."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train_on: str = "mnist-rot"
    source: str = "generated"
    seed: int = Field(default=0, ge=0)
    train: int | None = Field(default=None, ge=1)
    valid: int | None = Field(default=None, ge=1)
    test: int | None = Field(default=None, ge=1)


class Perturbation(BaseModel):
    """Table 3: s ← s ± ε, ε ~ Binomial(n, p)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int = Field(ge=1)
    p: float = Field(gt=0, lt=1)
    scope: Scope = "train"


class RunSettings(BaseModel):
    """Everything that the numbers of a run depend on, but for the data's content and the seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    data: DataSettings = DataSettings()
    parameters: dict[str, Any] = {}
    perturbation: Perturbation | None = None

    @property
    def complete_parameters(self) -> dict[str, Any]:
        """All parameters of the model, defaults included."""
        return {**defaults_of(self.model), **self.parameters}

    def canonical(self) -> dict[str, Any]:
        """The settings as they are hashed: only what differs from a default, so that new options change no id.

        Where the images come from is left out: the checksums of the data say what they are.
        """
        defaults = defaults_of(self.model)
        return {
            "model": self.model,
            "data": self.data.model_dump(include={"train", "valid", "test"}, exclude_defaults=True),
            "parameters": {k: v for k, v in self.parameters.items() if v != defaults[k]},
            "perturbation": self.perturbation.model_dump() if self.perturbation else None,
        }


# Sizes of a run; the paper profile is the defaults of models and data.
PROFILES: dict[str, dict[str, dict[str, Any]]] = {
    "paper": {"data": {}, "parameters": {}},
    "quick": {
        "data": {"train": 3000, "valid": 500, "test": 5000},
        "parameters": {"hidden": 300, "epochs": 10},
    },
    "tiny": {"data": {"train": 300, "valid": 100, "test": 300}, "parameters": {"hidden": 40, "epochs": 3}},
}


def resolve(
    model: str,
    *,
    profile: str = "paper",
    preset: str = "paper",
    data: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    perturbation: dict[str, Any] | None = None,
) -> RunSettings:
    """Settings from a profile, a preset and what the user gave, the later over the earlier.

    Raises
    ------
    InputError
        If a name, type or value is wrong.
    """
    if profile not in PROFILES:
        raise InputError(f"unknown profile {profile!r}: choose one of {', '.join(PROFILES)}")
    chosen = {**preset_of(model, preset), **PROFILES[profile]["parameters"], **(parameters or {})}
    try:
        return RunSettings(
            model=model,
            data=DataSettings(**{**PROFILES[profile]["data"], **(data or {})}),
            parameters=check_parameters(model, chosen),
            perturbation=Perturbation(**perturbation) if perturbation else None,
        )
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(_first_problem(error)) from error


def parse_assignments(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Parameters from ``key=value`` words; a value is JSON where it can be, a plain word else."""
    parameters = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes key=value, not {pair!r}")
        try:
            parameters[name] = json.loads(text)
        except json.JSONDecodeError:
            parameters[name] = None if text.lower() == "none" else text
    return parameters


def run_id(settings: RunSettings, checksums: dict[str, str], seed: int) -> str:
    """Name of a run: a hash of canonical settings, the data's checksums, the seed and the algorithm's version."""
    content = {
        "settings": settings.canonical(),
        "data": checksums,
        "seed": seed,
        "algorithm": ALGORITHM,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{settings.model}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _first_problem(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    first = errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg'].lower()} (given: {first['input']!r})"
