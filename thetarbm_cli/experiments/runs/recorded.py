"""A recorded run in use again: its record, its model and its data, or a sentence on what is missing."""

from __future__ import annotations

from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs.images import RunData, load_data
from thetarbm_cli.experiments.runs.retraining import retrain_command
from thetarbm_cli.experiments.runs.settings import ALGORITHM, run_id
from thetarbm_cli.experiments.runs.store import RunRecord, Weights
from thetarbm_cli.experiments.runs.training import Workplace
from thetarbm_cli.models import Model, build


def checked_record(place: Workplace, run: str) -> RunRecord:
    """The record of a run that can be measured.

    Raises
    ------
    InputError
        If the record is damaged, the run failed, or it is of another algorithm or not what its id says.
    NewerFormatError
        If the record is of a newer version of the program.
    """
    place.store.refuse_newer(run)
    record = place.store.load(run)
    if record is None:
        raise InputError(f"the record of {run} in {place.store.path(run)} cannot be used; train it again")
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


def model_of(place: Workplace, record: RunRecord) -> Model:
    """The fitted model of a run; as `weights_of` where its weights are missing."""
    return fitted(place, record, weights_of(place, record))


def weights_of(place: Workplace, record: RunRecord) -> Weights:
    """The weights of a run, recorded or made here.

    Raises
    ------
    InputError
        If they are missing or damaged.
    """
    weights = place.store.load_weights(record)
    if weights is None:
        raise InputError(
            f"the weights of {record.run} are not in {place.store.path(record.run)}; "
            f"train it again: {retrain_command(record)}"
        )
    return weights


def fitted(place: Workplace, record: RunRecord, weights: Weights) -> Model:
    """The model of a run with these weights."""
    settings = record.settings
    model = build(settings.model, settings.complete_parameters, seed=record.seed, backend=place.backend_name)
    return model.load_arrays(weights.arrays)


def data_of(place: Workplace, record: RunRecord) -> RunData:
    """The data of a run, which must be what it was made from.

    Raises
    ------
    ThetaRBMError
        If the prepared data has another content.
    """
    data = load_data(place.data_dir, record.settings.data, sha256=record.data["train"]["sha256"])
    for role, described in record.data.items():
        if data.checksums[role] != described["sha256"]:
            raise ThetaRBMError(
                f"{record.run} was made from a {described['dataset']} with the checksum "
                f"{described['sha256'][:12]}…, the prepared one here has {data.checksums[role][:12]}…; "
                "prepare the same data or train again"
            )
    return data
