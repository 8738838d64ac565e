"""The JSON file beside each prepared ``.npz``: what the data is, how it was made, and its checksum.

A data file is used only if its sidecar is whole, fits what is asked for, and carries the file's checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import documents, storage

# Raised when the layout of the data file or of the sidecar changes: older files are then made again.
FORMAT = 1
FIELDS: dict[str, type] = {
    "format": int,
    "dataset": str,
    "source": str,
    "seed": int,
    "recipe": dict,
    "sha256": str,
    "summary": dict,
}


class UnusableError(Exception):
    """The prepared file cannot be used; the message says why."""


class OutdatedError(UnusableError):
    """The prepared file is sound, but it is not (or no longer) what is asked for."""


@dataclass(frozen=True)
class Found:
    """A prepared file that was read and verified."""

    arrays: dict[str, NDArray[Any]]
    sidecar: dict[str, Any]


def sidecar_path(target: Path) -> Path:
    """Where the sidecar of the data file `target` is."""
    return target.with_suffix(".json")


def read_sidecar(target: Path) -> dict[str, Any]:
    """Read the sidecar of `target`.

    Raises
    ------
    UnusableError
        If it is missing, damaged or of another format.
    """
    path = sidecar_path(target)
    try:
        sidecar = documents.read(path)
    except FileNotFoundError as error:
        raise UnusableError(f"{path.name} is missing") from error
    except ValueError as error:
        raise UnusableError(f"{path.name} cannot be used: {error}") from error
    if isinstance(sidecar.get("format"), int) and sidecar["format"] != FORMAT:
        raise OutdatedError(f"it is of format {sidecar['format']}, and this version writes {FORMAT}")
    for field, kind in FIELDS.items():
        if not isinstance(sidecar.get(field), kind):
            raise UnusableError(f"{path.name} has no valid {field!r}")
    return sidecar


def write_sidecar(target: Path, content: Mapping[str, Any]) -> None:
    """Write the sidecar of `target` atomically."""
    documents.write(sidecar_path(target), content)


def add_to_sidecar(target: Path, sha256: str, field: str, value: Any) -> None:
    """Add a field to the sidecar of `target`, unless the data file has been replaced meanwhile."""
    with storage.locked(target):
        try:
            sidecar = read_sidecar(target)
        except UnusableError:
            return
        if sidecar["sha256"] == sha256:
            write_sidecar(target, {**sidecar, field: value})


def find_prepared(target: Path, wanted: Mapping[str, Any]) -> Found | None:
    """Read and verify a prepared file.

    Parameters
    ----------
    target : the ``.npz``
    wanted : items that the sidecar's recipe must hold

    Returns
    -------
    Found, or None if nothing is there

    Raises
    ------
    OutdatedError
        If the file was made to another recipe or format.
    UnusableError
        If the file or its sidecar is damaged, half written or foreign.
    """
    if not target.exists() and not sidecar_path(target).exists():
        return None
    sidecar = read_sidecar(target)
    for name, value in wanted.items():
        if sidecar["recipe"].get(name) != value:
            raise OutdatedError(f"its {name} is {sidecar['recipe'].get(name)!r}, and {value!r} is asked for")
    # One open file for both steps: a file that is replaced in between cannot be read under the old checksum.
    try:
        with storage.open_plain(target) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sidecar["sha256"]:
                raise UnusableError("its checksum is wrong")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise UnusableError("the data file is missing") from error
    except UnusableError:
        raise
    except Exception as error:  # foreign bytes can make NumPy and zipfile raise almost anything
        raise UnusableError(f"it cannot be read ({error})") from error
    if not _is_layout(arrays):
        raise UnusableError("its arrays are not those of prepared data")
    return Found(arrays, sidecar)


def _is_layout(arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether the arrays are ``images`` (N, h, h), ``labels`` (N,) and ``split`` (N,) of the right types."""
    if not {"images", "labels", "split"} <= set(arrays):
        return False
    images, labels, split = arrays["images"], arrays["labels"], arrays["split"]
    return (
        images.ndim == 3
        and images.shape[1] == images.shape[2]
        and images.dtype in (np.uint8, np.float32)
        and labels.shape == split.shape == images.shape[:1]
        and labels.dtype == np.int64
        and split.dtype == np.uint8
    )
