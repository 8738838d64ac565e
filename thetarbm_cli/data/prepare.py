"""Prepared data: one verified ``.npz`` per data set, source and seed, made when it is first needed.

Any NumPy user can open the file: ``images`` (N, h, h) uint8 or float32, ``labels`` (N,), ``split`` (N,) of 0
train, 1 valid, 2 test, ``angles`` where known. A JSON sidecar has its checksum and how it was made; a data file is used
only if its sidecar is whole, fits what is asked for, and has the file's checksum.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from thetarbm_cli import documents, storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.data.recipes import (
    NO_LABEL,
    PARTS,
    PartName,
    Progress,
    Recipe,
    Request,
    as_unit_floats,
    balanced_choice,
)
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.outputs import ImageSummary, PreparedFile, Splits
from thetarbm_cli.registry import DATASETS, USER_IMAGES, load_target, source_names

LARGEST_SEED = 2**32 - 1
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
# Images whose float copy is held at a time.
CHUNK = 2000

logger = logging.getLogger("thetarbm")


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
    cached: bool

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


def load_images(
    dataset: str | Path = "mnist-rot", source: str = "generated", seed: int = 0, data_dir: str | Path | None = None
) -> Prepared:
    """Load a data set as arrays; it is prepared first if it is not there.

    Parameters
    ----------
    dataset : its name, as `thetarbm prepare-data` takes it, or the path of a ``.npz`` with images of your own
    source : one of its sources; not needed with a path
    seed : decides which images are drawn, and their angles
    data_dir : folder of prepared data; by default the user's cache, as ``thetarbm info`` names it

    Returns
    -------
    Prepared
        Arrays ``images`` (N, h, h), ``labels``, ``split`` and ``angles``; ``train``, ``valid`` and ``test`` are pairs
        of images as models take them, (n, h·h) in [0, 1], and labels; ``subset`` has fewer of each.

    Examples
    --------
    >>> from thetarbm_cli import load_images
    >>> images, labels = load_images("mnist-rot").train
    >>> images.shape
    (10000, 784)
    """
    import platformdirs

    folder = data_dir or os.environ.get("THETARBM_DATA_DIR") or platformdirs.user_cache_path("thetarbm")
    name = str(dataset)
    if name.endswith(".npz"):
        name, source = "mnist-rot", name
    return prepare(Path(folder), name, source, seed=seed)


def prepare(
    data_dir: Path,
    dataset: str = "mnist-rot",
    source: str = "generated",
    *,
    archive: Path | None = None,
    transpose: str = "auto",
    seed: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Load prepared data, making it first if it is not there, damaged or outdated.

    Two processes that need the same file at the same time do not clash: one makes it, the other waits.

    Parameters
    ----------
    data_dir : folder of prepared data
    dataset : name of a data set of the registry; ignored where `source` is a file
    source : one of the data set's sources ("generated" stands for the first where it has none of that name), or the
        path of a ``.npz`` with images of a user
    archive : local copy of the official archive, a zip or a folder with its two files; for fashion-rot, the folder
        of Fashion-MNIST's four files
    transpose : "auto", "yes" or "no": whether the official images are transposed
    seed : the data seed
    force : make the file even if it is there
    progress : called with (done, total) while the file is made

    Raises
    ------
    InputError
        If the request or a file of the user is wrong.
    ThetaRBMError
        If a download or writing fails.
    """
    file = _find_file(dataset, Request(data_dir, source, seed, archive, transpose))
    if not force:
        # First without the lock, so that a folder that cannot be written to serves as well.
        with suppress(UnusableError):
            return file.load()
    with storage.locked(file.path):
        if not force and (file.path.exists() or sidecar_path(file.path).exists()):
            try:
                return file.load()
            except OutdatedError as reason:
                logger.info("%s is made again: %s", file.path.name, reason)
            except UnusableError as reason:
                logger.warning("%s is not used and is made again: %s", file.path, reason)
        return file.make(progress)


@dataclass(frozen=True)
class _File:
    """A prepared file that may not be there yet."""

    dataset: str
    source: str
    seed: int
    path: Path
    recipe: Recipe

    def load(self) -> Prepared:
        """Read and verify the file; an `UnusableError` says why it is not what is asked for."""
        # A user's file may have moved since: its source is the path that is asked for.
        return dataclasses.replace(read_prepared(self.path, self.recipe.wanted), source=self.source)

    def make(self, progress: Progress | None) -> Prepared:
        """Make the file and its sidecar."""
        arrays, details = self.recipe.build(progress)
        write_arrays(self.path, arrays)
        sidecar = {
            "format": FORMAT,
            "dataset": self.dataset,
            "source": self.source,
            "seed": self.seed,
            "recipe": details,
            "sha256": storage.sha256_of_file(self.path),
        }
        prepared = _in_memory(self.path, arrays, sidecar, cached=False)
        write_sidecar(self.path, {**sidecar, "summary": summarise(prepared).model_dump()})
        return prepared


def _in_memory(path: Path, arrays: Mapping[str, Any], sidecar: Mapping[str, Any], *, cached: bool) -> Prepared:
    return Prepared(
        path=path,
        images=arrays["images"],
        labels=arrays["labels"],
        split=arrays["split"],
        angles=arrays.get("angles"),
        cached=cached,
        **{name: sidecar[name] for name in ("dataset", "source", "seed", "sha256")},
    )


def _find_file(dataset: str, request: Request) -> _File:
    """Find the recipe for what is asked for, and where its file is; refuse a request that makes no sense."""
    if not 0 <= request.seed <= LARGEST_SEED:
        raise InputError(f"the data seed {request.seed} is outside 0..{LARGEST_SEED}")
    if request.source in source_names():
        source, target = DATASETS[dataset].recipe(request.source)
    else:
        source, target = request.source, USER_IMAGES
    recipe: Recipe = load_target(target)(request)
    if request.archive is not None and not recipe.takes_archive:
        raise InputError(
            f"--archive is not for {dataset} from the source {source}: name another --source, or leave it out"
        )
    dataset = recipe.name or dataset
    path = request.data_dir / f"{dataset}-{recipe.content or source}-seed{request.seed}.npz"
    return _File(dataset, source, request.seed, path, recipe)


def load_prepared(path: Path) -> Prepared:
    """Load a prepared file as it is, without what it was made from; refuse one that is damaged or missing."""
    try:
        return read_prepared(path, {})
    except UnusableError as reason:
        raise ThetaRBMError(f"{path} cannot be used: {reason}") from reason


def prepared_checksum(data_dir: Path, dataset: str, source: str, *, seed: int = 0) -> str | None:
    """Give the checksum of data that is prepared here, from its sidecar alone; None if it is not."""
    file = _find_file(dataset, Request(data_dir, source, seed))
    try:
        sidecar = read_sidecar(file.path, file.recipe.wanted)
    except UnusableError:
        return None
    return str(sidecar["sha256"]) if file.path.is_file() else None


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


def recognise_archive(prepared: Prepared) -> str | None:
    """Say whether official data is from the true archive; None of other data."""
    if prepared.source != "official":
        return None
    from thetarbm_cli.data.sources.official import recognise

    return recognise(prepared.labels, prepared.split)


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


def orientation_shares(prepared: Prepared, progress: Progress | None = None) -> list[float]:
    """Compute the share of the images with each dominant orientation φ_s, and keep the S shares in the sidecar."""
    estimator = OrientationEstimator()
    # Another estimator or another choice of images finds no shares kept.
    belonging = {"estimator": repr(estimator), "images": len(prepared.images), "sha256": prepared.sha256}
    with suppress(UnusableError):
        kept: dict[str, Any] = read_sidecar(prepared.path).get("orientations", {})
        if belonging.items() <= kept.items():
            return list(kept["shares"])
    counts = np.zeros(estimator.rotations, dtype=np.int64)
    for start in range(0, len(prepared.images), CHUNK):
        indices = estimator(as_unit_floats(prepared.images[start : start + CHUNK]))
        counts += np.bincount(indices, minlength=len(counts))
        if progress is not None:
            progress(min(start + CHUNK, len(prepared.images)), len(prepared.images))
    shares = [float(share) for share in counts / len(prepared.images)]
    add_to_sidecar(prepared.path, prepared.sha256, "orientations", {**belonging, "shares": shares})
    return shares


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
                return _in_memory(target, archive, sidecar, cached=True)
    except FileNotFoundError as error:
        raise UnusableError("the data file is missing") from error
    except UnusableError:
        raise
    except Exception as error:  # foreign bytes can make NumPy and zipfile raise almost anything
        raise UnusableError(f"it cannot be read ({error})") from error
