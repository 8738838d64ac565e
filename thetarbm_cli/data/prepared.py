"""Prepared data on disk and in memory: one verified ``.npz`` per data set, source and seed.

Any NumPy user can open the file: ``images`` (N, h, h) uint8 or float32, ``labels`` (N,), ``split`` (N,) of 0 train,
1 valid, 2 test; where they are known ``angles`` (N,), and ``source_indices`` (N,) into what it was made from. A JSON
sidecar has its checksum and how it was made; a data file is used only if its sidecar is whole, fits what is asked for,
and has the file's checksum.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from thetarbm_cli import documents, storage
from thetarbm_cli.data.recipes import NO_LABEL, PARTS, PartName, as_unit_floats, balanced_choice
from thetarbm_cli.errors import InputError, ThetaRBMError

# Raised when the layout of the data file or of the sidecar changes: older files are then made again.
FORMAT = 1
IDENTITY: dict[str, type] = {"dataset": str, "source": str, "seed": int, "sha256": str}
FIELDS: dict[str, type] = {"format": int, **IDENTITY, "recipe": dict, "summary": dict}
# Images whose float copy is held at a time.
CHUNK = 2000

Count = Annotated[int, Field(ge=0)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Described(BaseModel):
    """A JSON object whose fields are described by the line under them."""

    model_config = ConfigDict(use_attribute_docstrings=True, defer_build=True)


class Splits(Described):
    """Images in each part."""

    train: Count
    valid: Count
    test: Count


class PreparedFile(Described):
    """Prepared data that was found."""

    dataset: str
    source: str
    seed: int
    path: str
    sha256: Checksum
    splits: Splits


class ImageSummary(Described):
    """Counts and pixels of a data set."""

    splits: Splits
    classes: dict[str, dict[str, Count]]
    """Images of each class in each part."""
    pixel_mean: float
    """Over all pixels, in [0, 1]."""
    pixel_std: float


class PreparedData(ImageSummary, PreparedFile):
    """A data set."""

    orientations: list[float]
    """Share of the images with each dominant orientation of the support set."""
    preview: str
    """A picture of some images with their orientations."""
    cached: bool
    archive: str | None = None
    """Of the source official: whether its contents are those of the true archive."""


class PreparedSets(Described):
    """With ``--dataset all``."""

    datasets: list[PreparedData]


@dataclass(frozen=True)
class Prepared:
    """A data set in memory.

    Attributes
    ----------
    dataset : name of a data set of the registry, or of a user's file
    source : one of the data set's sources, or the path of a user's file
    path : the ``.npz``
    sha256 : checksum of that file
    seed : the data seed
    images : (N, h, h) uint8 array, or float32 in [0, 1]
    labels : (N,) int64 array; all -1 if a user's file has none
    split : (N,) uint8 array of 0 train, 1 valid, 2 test
    angles : (N,) float64 array of counter-clockwise degrees, or None where they are unknown
    cached : whether the file was there already
    """

    dataset: str
    source: str
    path: Path
    sha256: str
    seed: int
    images: NDArray[Any]
    labels: NDArray[np.int64]
    split: NDArray[np.uint8]
    angles: NDArray[np.float64] | None
    cached: bool = True

    def __repr__(self) -> str:
        counts = ", ".join(f"{np.count_nonzero(self.split == number)} {name}" for name, number in PARTS.items())
        return f"<{self.dataset}, {self.source}, seed {self.seed}: {counts} images of {self.size}×{self.size} pixels>"

    @property
    def size(self) -> int:
        """Side h of the images in pixels."""
        return int(self.images.shape[1])

    def part(self, name: PartName) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Give one part as models take it: images (n, h*h) in [0, 1], and labels (n,)."""
        rows = self.split == PARTS[name]
        return as_unit_floats(self.images[rows]), self.labels[rows]

    @property
    def train(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Training images and labels; as `part`."""
        return self.part("train")

    @property
    def valid(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Validation images and labels; as `part`."""
        return self.part("valid")

    @property
    def test(self) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Test images and labels; as `part`."""
        return self.part("test")

    def subset(self, train: int | None = None, valid: int | None = None, test: int | None = None) -> Prepared:
        """Take the first images of each class: a balanced, always equal part of each part.

        Classes come in equal numbers as far as they reach, in the original order; None, or more than there
        are, means all.
        """
        kept = []
        for number, count in ((PARTS["train"], train), (PARTS["valid"], valid), (PARTS["test"], test)):
            if count is not None and count < 0:
                raise InputError(f"cannot take {count} images")
            rows = np.flatnonzero(self.split == number)
            kept.append(rows if count is None else rows[balanced_choice(self.labels[rows], count)])
        rows = np.sort(np.concatenate(kept))
        return dataclasses.replace(
            self,
            images=self.images[rows],
            labels=self.labels[rows],
            split=self.split[rows],
            angles=None if self.angles is None else self.angles[rows],
        )


class UnusableError(Exception):
    """The prepared file cannot be used; the message says why."""


class OutdatedError(UnusableError):
    """The prepared file is sound, but it is not (or no longer) what is asked for."""


def sidecar_path(target: Path) -> Path:
    """Name the sidecar of the data file `target`."""
    return target.with_suffix(".json")


def read_sidecar(target: Path, wanted: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Read the sidecar of `target`, whose recipe must hold what is `wanted`.

    Raises
    ------
    OutdatedError
        If the data file was made to another recipe or format.
    UnusableError
        If the sidecar is missing or damaged.
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
    for name, value in (wanted or {}).items():
        if sidecar["recipe"].get(name) != value:
            raise OutdatedError(f"its {name} is {sidecar['recipe'].get(name)!r}, and {value!r} is asked for")
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


def read_prepared(target: Path, wanted: Mapping[str, Any]) -> Prepared:
    """Read a prepared file and verify it by its sidecar; raises as `read_sidecar`."""
    sidecar = read_sidecar(target, wanted)
    # One open file for both steps: a file that is replaced in between cannot be read under the old checksum.
    try:
        with storage.open_plain(target) as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != sidecar["sha256"]:
                raise UnusableError("its checksum is wrong")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                return in_memory(target, archive, sidecar)
    except FileNotFoundError as error:
        raise UnusableError("the data file is missing") from error
    except UnusableError:
        raise
    except Exception as error:  # foreign bytes can make NumPy and zipfile raise almost anything
        raise UnusableError(f"it cannot be read ({error})") from error


def in_memory(path: Path, arrays: Mapping[str, Any], sidecar: Mapping[str, Any]) -> Prepared:
    """Put the arrays of a data file and what its sidecar says of it together."""
    columns = {name: arrays[name] for name in ("images", "labels", "split")}
    return Prepared(path=path, **columns, angles=arrays.get("angles"), **{name: sidecar[name] for name in IDENTITY})


def load_prepared(path: Path) -> Prepared:
    """Load a prepared file as it is, without what it was made from; refuse one that is damaged or missing."""
    try:
        return read_prepared(path, {})
    except UnusableError as reason:
        raise ThetaRBMError(f"{path} cannot be used: {reason}") from reason


def list_prepared(data_dir: Path) -> list[PreparedFile]:
    """List what is prepared in a folder, sorted by path, from the sidecars alone."""
    files = []
    for target in sorted(data_dir.glob("*.npz")):
        try:
            sidecar = read_sidecar(target)
            content = {**sidecar, "path": str(target), "splits": sidecar["summary"].get("splits")}
            files.append(PreparedFile.model_validate(content))
        except (UnusableError, ValidationError):
            continue
    return files


def summarise(prepared: Prepared) -> ImageSummary:
    """Count parts and classes, and average the pixels."""
    labels, split = prepared.labels, prepared.split
    classes: dict[str, dict[str, int]] = {}
    for name, number in PARTS.items():
        values, counts = np.unique(labels[(split == number) & (labels != NO_LABEL)], return_counts=True)
        classes[name] = {str(value): int(count) for value, count in zip(values, counts, strict=True)}
    mean, std = _pixel_statistics(prepared.images)
    splits = Splits(**{name: int((split == number).sum()) for name, number in PARTS.items()})
    return ImageSummary(splits=splits, classes=classes, pixel_mean=mean, pixel_std=std)


def _pixel_statistics(images: NDArray[np.generic]) -> tuple[float, float]:
    """Compute mean and standard deviation of all pixels in [0, 1], in double precision without a double copy."""
    scale = 255.0 if images.dtype == np.uint8 else 1.0
    total = squares = 0.0
    for start in range(0, len(images), CHUNK):
        values = images[start : start + CHUNK].astype(np.float64)
        total += float(values.sum())
        squares += float(np.square(values).sum())
    mean = total / images.size
    variance = max(squares / images.size - mean * mean, 0.0)
    return mean / scale, variance**0.5 / scale
