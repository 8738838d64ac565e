"""Features of a run as a file that any NumPy user can open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.data.own import read_own_images
from thetarbm_cli.data.summary import as_unit_floats
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.evaluation import checked_record, retrain_command
from thetarbm_cli.experiments.rundata import load_data
from thetarbm_cli.experiments.training_run import Workplace, load_model


def write_features(place: Workplace, run: str, out: Path, images: Path | None) -> tuple[int, int]:
    """Write features of the run's own data, or of a user's images, to a ``.npz``; (images, units)."""
    record = checked_record(place, run)
    model = load_model(place, record)
    if model is None:
        raise InputError(f"the weights of {run} are missing; train it again: {retrain_command(record)}")
    arrays: dict[str, NDArray[Any]] = {}
    if images is not None:
        pixels = as_unit_floats(read_own_images(images))
        if pixels.shape[1] != model.n_features_in_:
            raise InputError(
                f"{images} has images of {pixels.shape[1]} pixels, but {run} was trained on {model.n_features_in_}"
            )
    else:
        data = load_data(place.data_dir, record.settings.data).tested
        pixels = np.concatenate([data.part(name)[0] for name in ("train", "valid", "test")])
        arrays["labels"] = np.concatenate([data.part(name)[1] for name in ("train", "valid", "test")])
        arrays["split"] = np.repeat(
            np.arange(3, dtype=np.uint8), [len(data.part(name)[1]) for name in ("train", "valid", "test")]
        )
    features = model.transform(pixels)
    storage.write_arrays(out, {"features": features, **arrays})
    return features.shape[0], features.shape[1]
