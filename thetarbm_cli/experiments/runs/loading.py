"""Take up a recorded run again: its record, model, data and features, or a sentence on what is missing and makes it.

Models and images are imported when they are loaded: `thetarbm show` takes only the command from here.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs.record import RunRecord, Weights
from thetarbm_cli.experiments.runs.settings import ALGORITHM, Profile, RunSettings, differing, run_id, shipped_profiles
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.followup import call_options, command_line

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.images import RunData
    from thetarbm_cli.models import Model

STDOUT = Path("-")


def retrain_command(record: RunRecord) -> str:
    """Build the command that makes a run again, under the same id."""
    # The run is another one on another backend, so that it is named wherever a call would not take it by itself.
    chosen = "--backend" in call_options().words or record.backend != _usual_backend()
    backend = record.backend if chosen else None
    return train_command(record.settings, record.parameters, "--seed", str(record.seed), backend=backend)


def train_command(
    settings: RunSettings, parameters: dict[str, Any] | None = None, *more: str, backend: str | None = None
) -> str:
    """Build the command that trains a model with these settings.

    Its `parameters` are complete; they are found if they are not given. Counts of images that are a profile's are given
    by it: a profile takes as many images as there are, whereas a count that is named must be there.
    """
    parameters = settings.complete_parameters if parameters is None else parameters
    words = ["--model", settings.model, *more]
    data = settings.data.model_dump(exclude_defaults=True)
    for name, option in (("train_on", "--train-on"), ("source", "--source")):
        if name in data:
            words += [option, data.pop(name)]
    profile, size = _profile_of(data)
    sizes = size.data.model_dump(exclude_unset=True)
    perturbation = settings.perturbation.named() if settings.perturbation else {}
    # What is as by default is left out of the settings, though the profile may say otherwise.
    data = {**{name: getattr(settings.data, name) for name in sizes}, **data}
    by_profile = {name: parameters[name] for name in parameters.keys() & size.parameters.keys()}
    assignments = {
        **{f"data.{name}": value for name, value in differing(data, sizes).items()},
        **differing({**settings.differing_parameters, **by_profile}, size.parameters),
        **{f"perturbation.{name}": value for name, value in perturbation.items()},
        **{f"svm.{name}": value for name, value in settings.svm.model_dump(exclude_defaults=True).items()},
        **settings.model_dump(include={"features"}, exclude_defaults=True),
    }
    for name, value in assignments.items():
        words += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return command_line("train", *words, profile=profile, backend=backend)


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


class LoadedRun(NamedTuple):
    """A run: its fitted model, and its record with all its numbers."""

    model: Model
    record: RunRecord


def load_run(run: str, results: str | Path = "results", *, backend: str = "auto") -> LoadedRun:
    """Load a recorded run as a fitted estimator.

    Parameters
    ----------
    run : its id, the beginning of one, or its path
    results : the folder of results, as ``--results`` names it
    backend : auto, numpy or cupy

    Returns
    -------
    model : a fitted scikit-learn transformer of images
    record : settings, history, and numbers: ``record.metrics.value("test_error_percent")``

    Raises
    ------
    InputError
        If there is no such run, or its weights are missing here; the message says how to make them.
    """
    store = RunStore(Path(results))
    context = RunContext(store.folder, store, backend)
    record = load_checked(context, store.find(run))
    return LoadedRun(load_model(context, record), record)


def load_checked(context: RunContext, run: str) -> RunRecord:
    """The record of a run that can be measured; refuse what is damaged, failed, of another version or another run's."""
    record = context.store.require(run)
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
        return run_id(record.settings, record.checksums, record.seed, record.backend) == record.run
    except InputError:
        # A model that there is not.
        return False


def load_model(context: RunContext, record: RunRecord) -> Model:
    """The fitted model of a run; as `load_weights` where its weights are missing."""
    return fitted(context, record, load_weights(context, record))


def load_weights(context: RunContext, record: RunRecord) -> Weights:
    """The weights of a run, recorded or made here."""
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
    """The data of a run, which must be what it was made from."""
    from thetarbm_cli.experiments.runs.images import load_data

    data = load_data(context.data_dir, record.settings.data, sha256=record.checksums["train"])
    for role, images in (("train", record.data.train), ("test", record.data.test)):
        if data.checksums[role] != images.sha256:
            raise ThetaRBMError(
                f"{record.run} was made from a {images.dataset} with the checksum {images.sha256[:12]}…, "
                f"the prepared one here has {data.checksums[role][:12]}…; "
                "prepare the same data or train again"
            )
    return data


def write_features(context: RunContext, run: str, out: Path, images: Path | None) -> tuple[int, int]:
    """Write features of the run's own data, or of a user's images, and give the number of images and of units.

    Parameters
    ----------
    out : a ``.npz``, a ``.csv``, or ``-`` for CSV on stdout
    images : a ``.npz`` of the user; None for the run's own data
    """
    if out != STDOUT and out.suffix not in (".npz", ".csv"):
        raise InputError(f"features are written as FILE.npz, FILE.csv or - for CSV on stdout, not as {str(out)!r}")
    arrays = _compute_features(context, run, images)
    if out == STDOUT:
        _write_csv(sys.stdout, arrays)
    elif out.suffix == ".csv":
        with storage.replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
            _write_csv(stream, arrays)
    else:
        write_arrays(out, arrays)
    count, units = arrays["features"].shape
    return count, units


def _compute_features(context: RunContext, run: str, images: Path | None) -> dict[str, NDArray[Any]]:
    """Compute ``features`` (N, H); of the run's own data also ``labels`` (N,) and ``split`` (N,)."""
    from thetarbm_cli.data.recipes import NO_LABEL, as_unit_floats
    from thetarbm_cli.data.sources.user_npz import read_user_images

    record = load_checked(context, run)
    model = load_model(context, record)
    if images is not None:
        pixels = as_unit_floats(read_user_images(images))
        if pixels.shape[1] != model.n_features_in_:
            raise InputError(
                f"{images} has images of {pixels.shape[1]} pixels, but {run} was trained on {model.n_features_in_}"
            )
        return {"features": model.transform(pixels)}
    data = load_run_data(context, record)
    parts = [data.learned.part("train"), data.learned.part("valid"), data.tested.part("test")]
    labels = np.concatenate([labels for _, labels in parts])
    return {
        "features": model.transform(np.concatenate([pixels for pixels, _ in parts])),
        **({} if NO_LABEL in labels else {"labels": labels}),
        "split": np.repeat(np.arange(3, dtype=np.uint8), [len(labels) for _, labels in parts]),
    }


def _write_csv(stream: IO[str], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a line for each image: label and name of its part where they are known, then the units."""
    import pandas as pd

    from thetarbm_cli.data.recipes import PARTS

    features = arrays["features"]
    table = pd.DataFrame(features, columns=[f"unit{unit}" for unit in range(features.shape[1])])
    if "split" in arrays:
        table.insert(0, "split", np.array(list(PARTS))[arrays["split"]])
    if "labels" in arrays:
        table.insert(0, "label", arrays["labels"])
    # Nine digits give every float32 back.
    table.to_csv(stream, index=False, float_format="%.9g", lineterminator="\n")
