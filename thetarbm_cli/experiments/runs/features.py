"""Features of a run as a file that any NumPy user can open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.data.recipes import as_unit_floats
from thetarbm_cli.data.sources.user_npz import read_user_images
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.recorded import checked_record, data_of, model_of
from thetarbm_cli.experiments.runs.training import Workplace


def write_features(place: Workplace, run: str, out: Path, images: Path | None) -> tuple[int, int]:
    """Write features of the run's own data, or of a user's images, to a ``.npz``; (images, units)."""
    record = checked_record(place, run)
    model = model_of(place, record)
    arrays: dict[str, NDArray[Any]] = {}
    if images is not None:
        pixels = as_unit_floats(read_user_images(images))
        if pixels.shape[1] != model.n_features_in_:
            raise InputError(
                f"{images} has images of {pixels.shape[1]} pixels, but {run} was trained on {model.n_features_in_}"
            )
    else:
        data = data_of(place, record)
        parts = [data.learned.part("train"), data.learned.part("valid"), data.tested.part("test")]
        pixels = np.concatenate([part for part, _ in parts])
        arrays["labels"] = np.concatenate([labels for _, labels in parts])
        arrays["split"] = np.repeat(np.arange(3, dtype=np.uint8), [len(labels) for _, labels in parts])
    features = model.transform(pixels)
    write_arrays(out, {"features": features, **arrays})
    return features.shape[0], features.shape[1]
