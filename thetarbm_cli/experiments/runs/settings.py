"""What defines a run: model, data, parameters, perturbation and seed, and the id that follows from them.

The models are imported only where they are asked: scikit-learn, which is behind them, takes a while, and who only reads
records needs no model. Names and sizes of profiles stand in ``experiments.yaml`` alone.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, Literal, cast

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

from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.experiments.suite_file import read_document, shipped_path
from thetarbm_cli.registry import DATASETS, MODELS, source_names

# More would be a plan that never ends.
MOST_SEEDS = 1000

Protocol = Literal["paper", "choice", "final"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None


class Part(BaseModel):
    """Settings, or anything in a suite: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Sizes(Part):
    """How many images of each split, where not all of it, and which splits are learned from and tested on."""

    train: StrictInt | None = Field(default=None, ge=1)
    valid: StrictInt | None = Field(default=None, ge=1)
    test: StrictInt | None = Field(default=None, ge=1)
    gamma: StrictInt | None = Field(default=None, ge=1, description="Images for the γ-score, the first of each role.")
    protocol: Protocol | None = Field(
        default=None,
        description="paper: train and test images; choice: train and validation images; final: train and validation "
        "images to learn from, test images.",
    )


class Profile(Part):
    """What a profile lays over the defaults, and how many seeds it asks for."""

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

# What the parameters of a model are hashed against, what records leave out, and what they do not say if they are older
# than a setting: the defaults of the day when it was frozen. Hashed against the defaults of the code, every recorded
# run would have another id as soon as one of them changes. So a default may change in its signature; a new setting is
# added here with the value that gives what was done before there was one. The defaults of all other settings, below,
# are hashed against as they are: they never change.
BASELINE: dict[str, Any] = {
    "align": True,
    "angles": "circle",
    "batch_size": 100,
    "contrast": 0.0,
    "drop_last": False,
    "epochs": 30,
    "field": 8,
    "fields": 40_000,
    "floor": 0.0,
    "gibbs_steps": 1,
    "hidden": 500,
    "hypotheses": 1.0,
    "initial": "rotated",
    "initial_bias": "half",
    "initial_momentum": None,
    "initial_scale": 0.01,
    "learning_rate": 0.01,
    "momentum": 0.9,
    "momentum_epochs": 0,
    "orientation_binning": "shared",
    "orientation_border": "repeated",
    "orientation_operator": "gaussian",
    "orientation_scale": 2.0,
    "orientation_smoothing": 0.0,
    "orientation_weighting": "squared",
    "pooling": 4,
    "pooling_width": 0.0,
    "power": 1.0,
    "rate_decay": 0.0,
    "rotation": "bilinear",
    "rotations": 9,
    "sparsity": 0.3,
    "sparsity_form": "bias",
    "sparsity_slope": "pooled",
    "sparsity_weight": 0.3,
    "standardise": None,
    "stride": 2,
    "tensor": "tied",
    "turn": "back",
    "unit_length": False,
    "variance": "fixed",
    "visible": "gaussian",
    "visible_sampling": "mean",
    "weight_decay": 0.0,
    "whiten": False,
}
# Defaults of a model's signature that are no longer the baseline's, by model, for those who read records without
# models: of all that learn. A test compares them with the signatures.
LEARNING = {"batch_size": 200, "sparsity_form": "bias+weights", "sparsity_weight": 3.0, "weight_decay": 0.0001}
CHANGED_DEFAULTS: dict[str, dict[str, Any]] = {
    name: LEARNING for name in MODELS.own if name not in ("pixels", "aligned-pixels")
}

Scope = Literal["train", "rbm", "all"]
Features = Literal["probabilities", "states"]
Draws = Literal["two", "one"]
Overflow = Literal["modulo", "clip"]


class DataSettings(Part):
    """Which images a run sees; counts of None mean all of a split.

    The `protocol` says which splits those are: ``paper`` learns from the training images and is tested on the test
    images; ``choice`` learns from the same and is tested on the validation images, so that settings can be chosen;
    ``final`` learns from training and validation images, with settings that were chosen before.
    """

    train_on: str = Field(default="mnist-rot", description="The data set.")
    source: str = Field(default="generated", description="Where its images come from.")
    seed: int = Field(default=0, ge=0, description="Seed of choice and angles.")
    train: int | None = Field(default=None, ge=1, description="Training images; null: all.")
    valid: int | None = Field(default=None, ge=1, description="Validation images; null: all.")
    test: int | None = Field(default=None, ge=1, description="Test images; null: all.")
    gamma: int | None = Field(default=None, ge=1, description="The first of each, for the γ-score; null: all.")
    protocol: Protocol = Field(default="paper", description="Which splits it learns from and is tested on.")

    @property
    def tested_elsewhere(self) -> bool:
        """Whether another data set has the test images, which the source is then of: mnist is tested on mnist-rot."""
        return self.source in source_names() and DATASETS[self.train_on].tested_on is not None

    @property
    def tested_on(self) -> str:
        """The data set of the test images."""
        return DATASETS[self.train_on].tested_on or self.train_on


class Perturbation(Part):
    """Table 3: s ← s ± ε, ε ~ Binomial(n, p)."""

    n: int = Field(ge=1, description="Largest error of the orientation index.")
    p: float = Field(gt=0, lt=1, description="Probability of the Binomial distribution.")
    scope: Scope = Field(default="train", description="Which images have wrong orientations, as perturb --scope.")
    draws: Draws = Field(
        default="two", description="two: the SVM's training images err on their own; one: as in the RBM's training."
    )
    overflow: Overflow = Field(default="modulo", description="What an index below 0 or above S - 1 becomes.")

    def named(self) -> dict[str, Any]:
        """Give what is always named, and what else differs from its default."""
        return {**self.model_dump(include={"n", "p", "scope"}), **self.model_dump(exclude_defaults=True)}


class SVMSettings(Part):
    """The RBF-SVM that judges the features; by default the paper's C = 10 and "σ = 0.02", read as exp(-0.02 d²)."""

    C: float = Field(default=10.0, gt=0, allow_inf_nan=False, description="Penalty of the SVM.")
    gamma: float = Field(default=0.02, gt=0, allow_inf_nan=False, description="γ of its kernel exp(-γ d²).")
    scaled: StrictBool = Field(default=False, description="Whether each feature is scaled to unit variance first.")


# The settings of a run that are none of its model's, by the word before the dot of their names.
SECTIONS: dict[str, type[BaseModel]] = {"data": DataSettings, "perturbation": Perturbation, "svm": SVMSettings}
# Some settings of a run: those of `SECTIONS` and of its model, ``parameters``, as mappings, and ``features``.
Sections = dict[str, Any]


class RunSettings(Part):
    """Everything that the numbers of a run depend on, but for the data's content and the seed."""

    model: str
    data: DataSettings = DataSettings()
    parameters: dict[str, Any] = {}
    perturbation: Perturbation | None = None
    svm: SVMSettings = SVMSettings()
    features: Features = Field(
        default="probabilities", description="What is measured of hidden units; states: drawn once, by the run's seed."
    )

    @property
    def complete_parameters(self) -> dict[str, Any]:
        """All parameters of the model."""
        known = baseline_parameters(self.model)
        # Records of controls from before they lost the settings of learning may still have those.
        return {**known, **{name: value for name, value in self.parameters.items() if name in known}}

    @property
    def differing_parameters(self) -> dict[str, Any]:
        """The parameters that differ from the defaults of today, found without the model."""
        changed = changed_defaults(self.model)
        given = {**{name: BASELINE[name] for name in changed}, **self.parameters}
        return differing(given, changed)

    def by_name(self, *, exclude_defaults: bool = False) -> dict[str, Any]:
        """Give the settings that are none of the model's, by the names that ``--set`` takes."""
        content = self.model_dump(include={*SECTIONS, "features"}, exclude_defaults=exclude_defaults)
        sections = {section: content.pop(section, None) or {} for section in SECTIONS}
        named = {f"{section}.{name}": value for section, values in sections.items() for name, value in values.items()}
        return {**named, **content}

    def canonical(self) -> dict[str, Any]:
        """The settings as they are hashed: only what differs from the baseline, so that new settings change no id.

        Where the images come from is left out: the checksums of the data say what they are.
        """
        svm = self.svm.model_dump(exclude_defaults=True)
        return {
            "model": self.model,
            "data": self.data.model_dump(exclude={"train_on", "source", "seed"}, exclude_defaults=True),
            "parameters": differing(self.parameters, baseline_parameters(self.model)),
            "perturbation": self.perturbation.named() if self.perturbation else None,
            **({"svm": svm} if svm else {}),
            **self.model_dump(include={"features"}, exclude_defaults=True),
        }


def changed_defaults(model: str) -> dict[str, Any]:
    """The defaults of a model that are no longer the baseline's; only a plug-in is imported to find them."""
    if model in MODELS.own:
        return CHANGED_DEFAULTS.get(model, {})
    if model not in MODELS.names:  # a plug-in that is no longer installed
        return {}
    from thetarbm_cli.models import model_class

    return differing(model_class(model).default_settings(), baseline_parameters(model))


def differing(given: dict[str, Any], usual: dict[str, Any]) -> dict[str, Any]:
    """Leave out what is as usual."""
    return {name: value for name, value in given.items() if name not in usual or value != usual[name]}


def baseline_parameters(model: str) -> dict[str, Any]:
    """The parameters of a model as the baseline has them; one that a plug-in declares is as by its default."""
    from thetarbm_cli.models import model_class

    kind = model_class(model)
    ours = _own_parameters(cast(Hashable, kind))
    return {
        name: BASELINE.get(name, default) if name in ours else default
        for name, default in kind.default_settings().items()
    }


@cache
def _own_parameters(kind: Any) -> frozenset[str]:
    """Name the parameters of a model that this package declares, not a plug-in."""
    declaring = {
        name: next(each for each in kind.__mro__ if name in inspect.get_annotations(each))
        for name in kind.default_settings()
    }
    return frozenset(name for name, each in declaring.items() if each.__module__.startswith("thetarbm_cli."))


def resolve(
    model: str,
    *,
    profile: str | Profile = "paper",
    preset: str = "paper",
    data: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    perturbation: dict[str, Any] | None = None,
    svm: dict[str, Any] | None = None,
    features: str = "probabilities",
) -> RunSettings:
    """Settings from a profile, a preset and what the user gave, the later over the earlier."""
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
    if features == "states" and not kind.has_states:
        raise InputError(f"features of model {model} are no probabilities of states: leave features=states out")
    checked = kind.checked_settings(chosen, name=model)
    defaults = {name: value for name, value in kind.default_settings().items() if name not in checked}
    return checked_run(
        model=model,
        data={**size.data.model_dump(exclude_unset=True), **(data or {})},
        # One form for equal settings, whatever the defaults: what is as in the baseline is left out.
        parameters=differing({**checked, **defaults}, baseline_parameters(model)),
        perturbation=perturbation or None,
        svm=svm or {},
        features=features,
    )


def checked_run(**given: Any) -> RunSettings:
    """Make settings of a run; its parameters are taken as they are, all else that is wrong is an `InputError`."""
    try:
        return RunSettings.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            raise InputError(f"there is no setting {place}; {did_you_mean(place, section_settings())}") from error
        raise InputError(f"setting {place}: {problem['msg'].lower()} (given: {problem['input']!r})") from error


def section_settings() -> dict[str, str]:
    """Give the settings of a run that are none of its model, as ``data.train``, each with what it means."""
    return {
        f"{section}.{name}": field.description or ""
        for section, kind in SECTIONS.items()
        for name, field in kind.model_fields.items()
    }


def _shipped_profile(name: str) -> Profile:
    profiles = shipped_profiles()
    if name not in profiles:
        raise InputError(f"unknown profile {name!r}: {did_you_mean(name, profiles)}")
    return profiles[name]


def parse_assignments(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Settings by name from ``key=value`` words, the later over the earlier."""
    settings = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes key=value, not {pair!r}")
        settings[name] = _value(name, text)
    if isinstance(settings.get("data.source"), str):
        settings["data.source"] = os.path.expanduser(settings["data.source"])
    return settings


def by_section(named: Mapping[str, Any]) -> Sections:
    """Sort settings, by the names that ``--set`` takes, into the sections that `resolve` checks.

    ``data.x``, ``perturbation.x``, ``svm.x`` and ``features`` are the run's, all others the model's.
    """
    sections: Sections = {}
    for name, value in named.items():
        section, dot, key = name.partition(".")
        if name == "features":
            sections[name] = value
        elif dot and section in SECTIONS:
            sections.setdefault(section, {})[key] = value
        else:
            sections.setdefault("parameters", {})[name] = value
    return sections


def lay_over(*layers: Sections) -> Sections:
    """Lay settings over one another, section by section, the later over the earlier; None says nothing of a section."""
    sections: Sections = {}
    for layer in layers:
        for section, given in layer.items():
            if isinstance(given, dict):
                sections[section] = {**sections.get(section, {}), **given}
            elif given is not None:
                sections[section] = given
    return sections


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
