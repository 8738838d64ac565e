"""Preparing data: a data set is found as it was made before, or made."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from thetarbm_cli import storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.data.prepared import (
    CHUNK,
    FORMAT,
    OutdatedError,
    Prepared,
    UnusableError,
    add_to_sidecar,
    in_memory,
    list_prepared,
    load_prepared,
    read_prepared,
    read_sidecar,
    sidecar_path,
    summarise,
    write_sidecar,
)
from thetarbm_cli.data.recipes import Build, Progress, Recipe, Request, as_unit_floats
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.registry import DATASETS, USER_IMAGES, load_target, source_names

__all__ = ["Prepared", "list_prepared", "load_images", "load_prepared", "prepare", "prepared_checksum"]

LARGEST_SEED = 2**32 - 1
logger = logging.getLogger("thetarbm")


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
    seed : the data seed
    force : make the file even if it is there
    progress : called with (done, total) while the file is made

    Raises
    ------
    InputError
        If the request or a file of the user is wrong.
    StorageError
        If writing fails.
    """
    file = _find_file(dataset, Request(data_dir, source, seed, archive))
    problem: UnusableError | None = None

    def read() -> Prepared | None:
        nonlocal problem
        try:
            # A user's file may have moved since: its source is the path that is asked for.
            return None if force else dataclasses.replace(read_prepared(file.path, file.wanted), source=file.source)
        except UnusableError as error:
            problem = error
            return None

    def make(held: storage.Held) -> Prepared:
        def report(done: int, total: int) -> None:
            held.report(f"preparing {file.dataset}", done, total)
            if progress is not None:
                progress(done, total)

        if isinstance(problem, OutdatedError):
            logger.info("%s is made again: %s", file.path.name, problem)
        elif problem is not None and (file.path.exists() or sidecar_path(file.path).exists()):
            logger.warning("%s is not used and is made again: %s", file.path, problem)
        return _make(file, seed, report)

    prepared, found = storage.get_or_make(file.path, read, make)
    return dataclasses.replace(prepared, cached=found)


class _File(NamedTuple):
    """A prepared file that may not be there yet."""

    dataset: str
    source: str
    path: Path
    wanted: Mapping[str, Any]
    build: Build


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
    return _File(dataset, source, path, recipe.wanted, recipe.build)


def _make(file: _File, seed: int, progress: Progress) -> Prepared:
    """Make a prepared file and its sidecar."""
    arrays, recipe = file.build(progress)
    write_arrays(file.path, arrays)
    sidecar = {"format": FORMAT, "dataset": file.dataset, "source": file.source, "seed": seed, "recipe": recipe}
    sidecar["sha256"] = storage.sha256_of_file(file.path)
    prepared = in_memory(file.path, arrays, sidecar)
    write_sidecar(file.path, {**sidecar, "summary": summarise(prepared).model_dump()})
    return prepared


def prepared_checksum(data_dir: Path, dataset: str, source: str, *, seed: int = 0) -> str | None:
    """Give the checksum of data that is prepared here, from its sidecar alone; None if it is not."""
    file = _find_file(dataset, Request(data_dir, source, seed))
    try:
        sidecar = read_sidecar(file.path, file.wanted)
    except UnusableError:
        return None
    return str(sidecar["sha256"]) if file.path.is_file() else None


def recognise_archive(prepared: Prepared) -> str | None:
    """Say whether official data is from the true archive; None of other data."""
    if prepared.source != "official":
        return None
    from thetarbm_cli.data.sources.official import differences

    wrong = differences(prepared.labels, prepared.split)
    return f"its contents are not the official ones: {wrong}" if wrong else "this is the official archive"


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
