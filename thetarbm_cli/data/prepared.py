"""Prepared data: one verified ``.npz`` per data set, source and seed, made when it is first needed.

Any NumPy user can open the file: ``images`` (N, h, h) uint8 or float32, ``labels`` (N,), ``split`` (N,) of 0
train, 1 valid, 2 test, ``angles`` where known. A JSON sidecar beside it holds its checksum and how it was
made.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.data.recipes import Recipe, choose_recipe
from thetarbm_cli.data.sidecar import (
    FORMAT,
    OutdatedError,
    UnusableError,
    find_prepared,
    read_sidecar,
    write_sidecar,
)
from thetarbm_cli.data.splits import PARTS, PartName, balanced_choice
from thetarbm_cli.data.summary import as_unit_floats, summarise
from thetarbm_cli.data.turning import Progress
from thetarbm_cli.errors import InputError, ThetaRBMError

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class Prepared:
    """A data set in memory.

    Attributes
    ----------
    dataset : "mnist-rot", "mnist", "fashion-rot" or the name of the user's own file
    source : "generated", "official", "shipped" or the path of the user's own file
    path : the ``.npz``
    sha256 : checksum of that file
    seed : the data seed
    images : (N, h, h) uint8 array, or float32 in [0, 1]
    labels : (N,) int64 array
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

    @property
    def size(self) -> int:
        """Side h of the images in pixels."""
        return int(self.images.shape[1])

    def part(self, name: PartName) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Give one part as models take it.

        Returns
        -------
        images : (n, h*h) float32 array in [0, 1]
        labels : (n,) int64 array
        """
        rows = self.split == PARTS[name]
        return as_unit_floats(self.images[rows]), self.labels[rows]

    def subset(self, train: int | None, valid: int | None, test: int | None) -> Prepared:
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
    dataset : "mnist-rot", "mnist" or "fashion-rot"; ignored where `source` is a file
    source : "generated", "official" (mnist-rot only) or the path of a ``.npz`` with the user's own images
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
    recipe = choose_recipe(data_dir, dataset, source, archive=archive, transpose=transpose, seed=seed)
    target = data_dir / f"{recipe.stem}.npz"
    if not force:
        # First without the lock, so that a folder that cannot be written to serves as well.
        try:
            prepared = _load(recipe, target)
        except UnusableError:
            prepared = None
        if prepared is not None:
            return prepared
    with storage.locked(target):
        if not force:
            prepared = _load_or_say_why_not(recipe, target)
            if prepared is not None:
                return prepared
        return _make(recipe, target, progress)


def _load(recipe: Recipe, target: Path) -> Prepared | None:
    found = find_prepared(target, recipe.wanted)
    return None if found is None else _assemble(recipe, target, found.arrays, found.sidecar["sha256"], cached=True)


def _load_or_say_why_not(recipe: Recipe, target: Path) -> Prepared | None:
    try:
        return _load(recipe, target)
    except OutdatedError as reason:
        logger.info("%s is made again: %s", target.name, reason)
    except UnusableError as reason:
        logger.warning("%s is not used and is made again: %s", target, reason)
    return None


def _make(recipe: Recipe, target: Path, progress: Progress | None) -> Prepared:
    arrays, details = recipe.build(progress)
    write_arrays(target, arrays)
    sha256 = storage.sha256_of_file(target)
    prepared = _assemble(recipe, target, arrays, sha256, cached=False)
    write_sidecar(
        target,
        {
            "format": FORMAT,
            "dataset": recipe.dataset,
            "source": recipe.source,
            "seed": recipe.seed,
            "recipe": details,
            "sha256": sha256,
            "summary": prepared_summary(prepared),
        },
    )
    return prepared


def _assemble(recipe: Recipe, target: Path, arrays: dict[str, Any], sha256: str, *, cached: bool) -> Prepared:
    return Prepared(
        dataset=recipe.dataset,
        source=recipe.source,
        path=target,
        sha256=sha256,
        seed=recipe.seed,
        images=arrays["images"],
        labels=arrays["labels"],
        split=arrays["split"],
        angles=arrays.get("angles"),
        cached=cached,
    )


def load_prepared(path: Path) -> Prepared:
    """Load a prepared file as it is, without what it was made from.

    Raises
    ------
    ThetaRBMError
        If it is damaged.
    """
    try:
        found = find_prepared(path, {})
    except UnusableError as reason:
        raise ThetaRBMError(f"{path} cannot be used: {reason}") from reason
    assert found is not None
    return Prepared(
        path=path,
        images=found.arrays["images"],
        labels=found.arrays["labels"],
        split=found.arrays["split"],
        angles=found.arrays.get("angles"),
        cached=True,
        **{name: found.sidecar[name] for name in ("dataset", "source", "seed", "sha256")},
    )


def prepared_checksum(data_dir: Path, dataset: str, source: str, *, seed: int = 0) -> str | None:
    """Checksum of data that is prepared here, from its sidecar alone; None if it is not.

    Raises
    ------
    InputError
        If the request makes no sense.
    """
    recipe = choose_recipe(data_dir, dataset, source, archive=None, transpose="auto", seed=seed)
    target = data_dir / f"{recipe.stem}.npz"
    try:
        sidecar = read_sidecar(target)
    except UnusableError:
        return None
    fits = all(sidecar["recipe"].get(name) == value for name, value in recipe.wanted.items())
    return str(sidecar["sha256"]) if fits and target.is_file() else None


def prepared_summary(prepared: Prepared) -> dict[str, Any]:
    """Count parts and classes and average the pixels; see `thetarbm_cli.data.summary.summarise`."""
    return summarise(prepared.images, prepared.labels, prepared.split)


def list_prepared(data_dir: Path) -> list[dict[str, Any]]:
    """List what is prepared in a folder, from the sidecars alone.

    Returns
    -------
    list of dict
        ``dataset``, ``source``, ``seed``, ``path``, ``sha256`` and ``splits`` of each file, sorted by path.
    """
    entries = []
    for target in sorted(data_dir.glob("*.npz")):
        try:
            sidecar = read_sidecar(target)
        except UnusableError:
            continue
        entry = {name: sidecar[name] for name in ("dataset", "source", "seed", "sha256")}
        entries.append({**entry, "path": str(target), "splits": sidecar["summary"].get("splits", {})})
    return entries
