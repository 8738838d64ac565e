"""What defines a run: model, data, parameters, perturbation and seed, and the id that follows from them.

The models are imported only where they are asked: scikit-learn, which is behind them, takes a while, and who only reads
records needs no model. Names and sizes of profiles stand in ``experiments.yaml`` alone.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.suite_file import read_document, shipped_path
from thetarbm_cli.registry import DATASETS, MODELS, source_names

# More would be a plan that never ends.
MOST_SEEDS = 1000

Protocol = Literal["paper", "choice", "final"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None


class Sizes(BaseModel):
    """How many images of each split, where not all of it, and which splits are learned from and tested on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: int | None = Field(default=None, ge=1)
    valid: int | None = Field(default=None, ge=1)
    test: int | None = Field(default=None, ge=1)
    protocol: Protocol | None = None


class Profile(BaseModel):
    """What a profile lays over the defaults, and how many seeds it asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str = ""
    seeds: int = Field(default=1, ge=1, le=MOST_SEEDS, description="Seeds of every cell: 0, 1, …")
    data: Sizes = Field(default=Sizes(), description="Sizes of the splits.")
    parameters: dict[str, Scalar] = Field(default={}, description="Settings of the models.")


@cache
def shipped_profiles() -> dict[str, Profile]:
    """The profiles of the shipped suite, by name."""
    content = read_document(shipped_path()).content
    return TypeAdapter(dict[str, Profile]).validate_python(content["profiles"])


# Raise by hand whenever the same settings would give other numbers: every older run is then stale.
ALGORITHM = 1

Scope = Literal["train", "rbm", "all"]


class DataSettings(BaseModel):
    """Which images a run sees; counts of None mean all of a split.

    The `protocol` says which splits those are: ``paper`` learns from the training images and is tested on the test
    images; ``choice`` learns from the same and is tested on the validation images, so that settings can be chosen;
    ``final`` learns from training and validation images, with settings that were chosen before.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    train_on: str = Field(default="mnist-rot", description="The data set.")
    source: str = Field(default="generated", description="Where its images come from.")
    seed: int = Field(default=0, ge=0, description="Seed of choice and angles.")
    train: int | None = Field(default=None, ge=1, description="Training images; null: all.")
    valid: int | None = Field(default=None, ge=1, description="Validation images; null: all.")
    test: int | None = Field(default=None, ge=1, description="Test images; null: all.")
    protocol: Protocol = Field(default="paper", description="Which splits it learns from and is tested on.")

    @property
    def tested_elsewhere(self) -> bool:
        """Whether another data set has the test images, which the source is then of: mnist is tested on mnist-rot."""
        return self.source in source_names() and DATASETS[self.train_on].tested_on is not None

    @property
    def tested_on(self) -> str:
        """The data set of the test images."""
        return DATASETS[self.train_on].tested_on or self.train_on


class Perturbation(BaseModel):
    """Table 3: s ← s ± ε, ε ~ Binomial(n, p)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int = Field(ge=1, description="Largest error of the orientation index.")
    p: float = Field(gt=0, lt=1, description="Probability of the Binomial distribution.")
    scope: Scope = Field(default="train", description="Which images have wrong orientations, as perturb --scope.")


class SVMSettings(BaseModel):
    """The RBF-SVM that judges the features; by default the paper's C = 10 and "σ = 0.02", read as exp(-0.02 d²)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    C: float = Field(default=10.0, gt=0, allow_inf_nan=False, description="Penalty of the SVM.")
    gamma: float = Field(default=0.02, gt=0, allow_inf_nan=False, description="γ of its kernel exp(-γ d²).")


class RunSettings(BaseModel):
    """Everything that the numbers of a run depend on, but for the data's content and the seed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    data: DataSettings = DataSettings()
    parameters: dict[str, Any] = {}
    perturbation: Perturbation | None = None
    svm: SVMSettings = SVMSettings()

    @property
    def complete_parameters(self) -> dict[str, Any]:
        """All parameters of the model, defaults included."""
        from thetarbm_cli.models import model_class

        defaults = model_class(self.model).default_settings()
        # Records of controls from before they lost the settings of learning may still have those.
        return {**defaults, **{name: value for name, value in self.parameters.items() if name in defaults}}

    def canonical(self) -> dict[str, Any]:
        """The settings as they are hashed: only what differs from a default, so that new options change no id.

        Where the images come from is left out: the checksums of the data say what they are.
        """
        from thetarbm_cli.models import model_class

        defaults = model_class(self.model).default_settings()
        svm = self.svm.model_dump(exclude_defaults=True)
        return {
            "model": self.model,
            "data": self.data.model_dump(include={"train", "valid", "test", "protocol"}, exclude_defaults=True),
            "parameters": {k: v for k, v in self.parameters.items() if k not in defaults or v != defaults[k]},
            "perturbation": self.perturbation.model_dump() if self.perturbation else None,
            # Records from before there was a choice are named without it.
            **({"svm": svm} if svm else {}),
        }


def resolve(
    model: str,
    *,
    profile: str | Profile = "paper",
    preset: str = "paper",
    data: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    perturbation: dict[str, Any] | None = None,
    svm: dict[str, Any] | None = None,
) -> RunSettings:
    """Settings from a profile, a preset and what the user gave, the later over the earlier.

    Raises
    ------
    InputError
        If a name, type or value is wrong.
    """
    from thetarbm_cli.models import RBM, model_class

    size = profile if isinstance(profile, Profile) else _shipped_profile(profile)
    kind = model_class(model)
    # What a profile says of learning means nothing to a control.
    ignored = RBM.default_settings().keys() - kind.default_settings().keys()
    profiled = {name: value for name, value in size.parameters.items() if name not in ignored}
    chosen = {**MODELS[model].preset(preset), **profiled, **(parameters or {})}
    if perturbation and not kind.uses_orientations:
        others = (name for name in MODELS.own if model_class(name).uses_orientations)
        raise InputError(f"model {model} sees no orientations to perturb; {', '.join(others)} do")
    defaults = kind.default_settings()
    checked = kind.checked_settings(chosen, name=model)
    return RunSettings(
        model=model,
        data=_section(DataSettings, "data", {**size.data.model_dump(exclude_unset=True), **(data or {})}),
        # One form for equal settings: what is as by default is left out.
        parameters={name: value for name, value in checked.items() if value != defaults[name]},
        perturbation=_section(Perturbation, "perturbation", perturbation) if perturbation else None,
        svm=_section(SVMSettings, "svm", svm or {}),
    )


def _shipped_profile(name: str) -> Profile:
    profiles = shipped_profiles()
    if name not in profiles:
        raise InputError(f"unknown profile {name!r}: choose one of {', '.join(profiles)}")
    return profiles[name]


@dataclass(frozen=True)
class Assignments:
    """Settings from ``key=value`` words: ``data.x``, ``perturbation.x``, ``svm.x`` are the run's, others the model's.

    Each section is checked when the settings are resolved.
    """

    parameters: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    perturbation: dict[str, Any] = field(default_factory=dict)
    svm: dict[str, Any] = field(default_factory=dict)


def parse_assignments(pairs: tuple[str, ...]) -> Assignments:
    """Settings from ``key=value`` words, the later over the earlier."""
    assignments = Assignments()
    sections = {"data": assignments.data, "perturbation": assignments.perturbation, "svm": assignments.svm}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes key=value, not {pair!r}")
        section, dot, key = name.partition(".")
        if dot and section in sections:
            sections[section][key] = _value(name, text)
        else:
            assignments.parameters[name] = _value(name, text)
    if isinstance(assignments.data.get("source"), str):
        assignments.data["source"] = os.path.expanduser(assignments.data["source"])
    return assignments


def _value(name: str, text: str) -> Any:
    """A value is JSON where it can be, a plain word else."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return None if text.lower() == "none" else text
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"setting {name} must be a finite number, not {text}")
    return value


def run_id(settings: RunSettings, checksums: dict[str, str], seed: int, backend: str = "numpy") -> str:
    """Name of a run: a hash of canonical settings, the data's checksums, the seed and the algorithm's version.

    Another backend than NumPy draws other random numbers, and is part of the name.
    """
    content = {
        "settings": settings.canonical(),
        "data": checksums,
        "seed": seed,
        "algorithm": ALGORITHM,
        **({} if backend == "numpy" else {"backend": backend}),
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return f"{settings.model}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


Section = TypeVar("Section", DataSettings, Perturbation, SVMSettings)


def _section(kind: type[Section], name: str, values: dict[str, Any]) -> Section:
    """A part of the settings, or an `InputError` that names what is wrong in it."""
    try:
        return kind(**values)
    except ValidationError as error:
        problem: Any = error.errors()[0]
        place = ".".join(str(part) for part in (name, *problem["loc"]))
        raise InputError(f"setting {place}: {problem['msg'].lower()} (given: {problem['input']!r})") from error
