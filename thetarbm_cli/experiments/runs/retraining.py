"""The command that makes a run again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from thetarbm_cli.experiments.runs.profiles import Profile, shipped_profiles
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.followup import command_line


def retrain_command(record: RunRecord) -> str:
    """Build the command that makes a run again, under the same id.

    Counts of images that are a profile's are given by it: a profile takes as many images as there are, whereas a
    count that is named must be there.
    """
    settings = record.settings
    words = ["--model", settings.model, "--seed", str(record.seed)]
    data = settings.data.model_dump(exclude_defaults=True)
    for name, option in (("train_on", "--train-on"), ("source", "--source")):
        if name in data:
            words += [option, data.pop(name)]
    profile, size = _profile_of(data)
    sizes = size.data.model_dump(exclude_unset=True)
    perturbation = settings.perturbation.model_dump() if settings.perturbation else {}
    # What is as by default is left out of the settings, though the profile may say otherwise.
    data = {**{name: getattr(settings.data, name) for name in sizes}, **data}
    by_profile = {name: record.parameters[name] for name in record.parameters.keys() & size.parameters.keys()}
    parameters = {**settings.parameters, **by_profile}
    assignments = {
        **{f"data.{name}": value for name, value in _differing(data, sizes).items()},
        **_differing(parameters, size.parameters),
        **{f"perturbation.{name}": value for name, value in perturbation.items()},
        **{f"svm.{name}": value for name, value in settings.svm.model_dump(exclude_defaults=True).items()},
    }
    for name, value in assignments.items():
        words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    # On NumPy the same settings would be another run.
    backend = None if record.backend == "numpy" else record.backend
    return command_line("train", *words, profile=profile, backend=backend)


def _profile_of(data: dict[str, Any]) -> tuple[str, Profile]:
    """Find the shipped profile that has most of these counts of images; the paper's has none."""

    def in_common(name: str) -> int:
        sizes = profiles[name].data.model_dump(include={"train", "valid", "test"}, exclude_none=True)
        return len(sizes.items() & data.items())

    if not data.keys() & {"train", "valid", "test"}:
        return "paper", Profile()
    profiles = shipped_profiles()
    name = max(profiles, key=in_common)
    return name, profiles[name]


def _differing(values: dict[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in usual or value != usual[name]}
