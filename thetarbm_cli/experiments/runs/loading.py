"""Take up a recorded run again: its record, its model and its data, or a sentence on what is missing and makes it.

Models and images are imported when they are loaded: `thetarbm show` takes only the command from here.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs.record import RunRecord, Weights
from thetarbm_cli.experiments.runs.settings import ALGORITHM, Profile, run_id, shipped_profiles
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.followup import call_options, command_line

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.images import RunData
    from thetarbm_cli.models import Model


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
    # The run is another one on another backend, so that it is named wherever a call would not take it by itself.
    chosen = "--backend" in call_options().words or record.backend != _usual_backend()
    return command_line("train", *words, profile=profile, backend=record.backend if chosen else None)


def _usual_backend() -> str:
    """Name the backend that a call takes by itself; without CuPy, which is quickly seen, it is NumPy."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is None:
        return "numpy"
    from thetarbm_cli.backend import select_backend

    return select_backend().name


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


def load_checked(context: RunContext, run: str) -> RunRecord:
    """The record of a run that can be measured.

    Raises
    ------
    InputError
        If the record is damaged, the run failed, or it is of another algorithm or not what its id says.
    NewerFormatError
        If the record is of a newer version of the program.
    """
    record = context.store.load(run, refuse_newer=True)
    if record is None:
        raise InputError(f"the record of {run} in {context.store.path(run)} cannot be used; train it again")
    if record.state == "failed":
        raise InputError(f"{run} failed when it was trained ({record.error}), so there is nothing to measure")
    if record.algorithm != ALGORITHM:
        raise InputError(
            f"{run} was made by version {record.algorithm} of the algorithm, this is {ALGORITHM}; "
            f"train it again: {retrain_command(record)}"
        )
    if not _has_its_id(record):
        raise InputError(
            f"the record of {run} has other settings, data or another seed than its id says; "
            f"train it again: {retrain_command(record)} --force"
        )
    return record


def _has_its_id(record: RunRecord) -> bool:
    """Whether what a record says of its run is what the run is named after."""
    try:
        checksums = {role: described["sha256"] for role, described in record.data.items()}
        return run_id(record.settings, checksums, record.seed, record.backend) == record.run
    except (InputError, KeyError):
        # A model or setting that there is not.
        return False


def load_model(context: RunContext, record: RunRecord) -> Model:
    """The fitted model of a run; as `load_weights` where its weights are missing."""
    return fitted(context, record, load_weights(context, record))


def load_weights(context: RunContext, record: RunRecord) -> Weights:
    """The weights of a run, recorded or made here.

    Raises
    ------
    InputError
        If they are missing or damaged.
    """
    weights = context.store.load_weights(record)
    if weights is None:
        raise InputError(
            f"the weights of {record.run} are not in {context.store.path(record.run)}; "
            f"train it again: {retrain_command(record)}"
        )
    return weights


def fitted(context: RunContext, record: RunRecord, weights: Weights) -> Model:
    """Build the model of a run with these weights."""
    from thetarbm_cli.models import build

    settings = record.settings
    model = build(settings.model, settings.complete_parameters, seed=record.seed, backend=context.backend_name)
    return model.load_arrays(weights.arrays)


def load_run_data(context: RunContext, record: RunRecord) -> RunData:
    """The data of a run, which must be what it was made from.

    Raises
    ------
    ThetaRBMError
        If the prepared data has another content.
    """
    from thetarbm_cli.experiments.runs.images import load_data

    data = load_data(context.data_dir, record.settings.data, sha256=record.data["train"]["sha256"])
    for role, described in record.data.items():
        if data.checksums[role] != described["sha256"]:
            raise ThetaRBMError(
                f"{record.run} was made from a {described['dataset']} with the checksum "
                f"{described['sha256'][:12]}…, the prepared one here has {data.checksums[role][:12]}…; "
                "prepare the same data or train again"
            )
    return data
