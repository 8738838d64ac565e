"""Features of a run as a file: ``.npz`` for NumPy, ``.csv`` for everything else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.data.recipes import as_unit_floats
from thetarbm_cli.data.sources.user_npz import read_user_images
from thetarbm_cli.data.splits import NO_LABEL, PARTS
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.loading import load_checked, load_model, load_run_data
from thetarbm_cli.experiments.runs.store import RunContext

STDOUT = Path("-")


def write_features(context: RunContext, run: str, out: Path, images: Path | None) -> tuple[int, int]:
    """Write features of the run's own data, or of a user's images, and give the number of images and of units.

    Parameters
    ----------
    out : a ``.npz``, a ``.csv``, or ``-`` for CSV on stdout
    images : a ``.npz`` of the user; None for the run's own data
    """
    if out != STDOUT and out.suffix not in (".npz", ".csv"):
        raise InputError(f"features are written as FILE.npz, FILE.csv or - for CSV on stdout, not as {str(out)!r}")
    arrays = _compute(context, run, images)
    if out == STDOUT:
        _write_csv(sys.stdout, arrays)
    elif out.suffix == ".csv":
        with storage.replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
            _write_csv(stream, arrays)
    else:
        write_arrays(out, arrays)
    count, units = arrays["features"].shape
    return count, units


def _compute(context: RunContext, run: str, images: Path | None) -> dict[str, NDArray[Any]]:
    """Compute ``features`` (N, H); of the run's own data also ``labels`` (N,) and ``split`` (N,)."""
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

    features = arrays["features"]
    table = pd.DataFrame(features, columns=[f"unit{unit}" for unit in range(features.shape[1])])
    if "split" in arrays:
        table.insert(0, "split", np.array(list(PARTS))[arrays["split"]])
    if "labels" in arrays:
        table.insert(0, "label", arrays["labels"])
    # Nine digits give every float32 back.
    table.to_csv(stream, index=False, float_format="%.9g", lineterminator="\n")
