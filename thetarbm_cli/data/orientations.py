"""The shares of the dominant orientations in a prepared file, computed once and kept in its sidecar."""

from __future__ import annotations

from typing import Any

import numpy as np

from thetarbm_cli.data.prepared import Prepared
from thetarbm_cli.data.sidecar import UnusableError, add_to_sidecar, read_sidecar
from thetarbm_cli.data.summary import as_unit_floats
from thetarbm_cli.data.turning import Progress
from thetarbm_cli.imaging.orientation import OrientationEstimator

CHUNK = 2000
FIELD = "orientations"


def orientation_shares(prepared: Prepared, progress: Progress | None = None) -> list[float]:
    """Share of the images with each dominant orientation φ_s, found by the default estimator.

    Parameters
    ----------
    prepared : a whole prepared file or a subset of it
    progress : called with (images done, images in all)

    Returns
    -------
    list of S floats whose sum is 1
    """
    estimator = OrientationEstimator()
    # What the shares belong to: another estimator or another choice of images finds no shares kept.
    belonging = {"estimator": repr(estimator), "images": len(prepared.images), "sha256": prepared.sha256}
    kept = _kept_shares(prepared, belonging)
    if kept is not None:
        return kept
    counts = np.zeros(estimator.rotations, dtype=np.int64)
    for start in range(0, len(prepared.images), CHUNK):
        indices = estimator(as_unit_floats(prepared.images[start : start + CHUNK]))
        counts += np.bincount(indices, minlength=len(counts))
        if progress is not None:
            progress(min(start + CHUNK, len(prepared.images)), len(prepared.images))
    shares = [float(share) for share in counts / len(prepared.images)]
    add_to_sidecar(prepared.path, prepared.sha256, FIELD, {**belonging, "shares": shares})
    return shares


def _kept_shares(prepared: Prepared, belonging: dict[str, Any]) -> list[float] | None:
    """Shares from the sidecar, if they are there and belong to what is asked for."""
    try:
        kept = read_sidecar(prepared.path).get(FIELD)
    except UnusableError:
        return None
    if not isinstance(kept, dict) or any(kept.get(name) != value for name, value in belonging.items()):
        return None
    shares = kept.get("shares")
    return shares if isinstance(shares, list) and all(isinstance(share, float) for share in shares) else None
