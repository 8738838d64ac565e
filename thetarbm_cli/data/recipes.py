"""From what is asked for (data set, source, seed, …) to a recipe: a file name and how to make the arrays."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetarbm_cli import storage
from thetarbm_cli.data.fashion import find_fashion, read_fashion
from thetarbm_cli.data.generated import (
    FASHION_ROT_STREAM,
    Arrays,
    generate_mnist,
    generate_mnist_rot,
    generate_rotated,
)
from thetarbm_cli.data.official import CHECKSUM, archive_checksum, download_archive, read_official
from thetarbm_cli.data.own import read_own
from thetarbm_cli.data.turning import Progress
from thetarbm_cli.errors import InputError

DATASETS = ("mnist-rot", "mnist", "fashion-rot")
SOURCES = ("generated", "official", "shipped")
TRANSPOSE = ("auto", "yes", "no")
LARGEST_SEED = 2**32 - 1

# Names of the ways in which arrays are made; another name makes older files outdated.
ROTATED_METHOD = "PCG64 raw numbers, IEEE bilinear turns, uint8"
MNIST_METHOD = "PCG64 raw numbers"
OWN_METHOD = "split by PCG64 raw numbers of stream 3"

logger = logging.getLogger("thetarbm")

# Makes the arrays, and says what is to be recorded about how they were made.
Build = Callable[[Progress | None], tuple[Arrays, dict[str, Any]]]


@dataclass(frozen=True)
class Recipe:
    """One prepared file: what it is called and how it is made.

    `wanted` is what the recorded recipe of an existing file must hold, so that the file is what is asked for.
    """

    dataset: str
    source: str
    seed: int
    stem: str
    wanted: dict[str, Any]
    build: Build


def choose_recipe(
    data_dir: Path, dataset: str, source: str, *, archive: Path | None, transpose: str, seed: int
) -> Recipe:
    """Find the recipe for what is asked for; parameters as in `thetarbm_cli.data.prepared.prepare`.

    Raises
    ------
    InputError
        If the request makes no sense.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise InputError(f"the data seed {seed} is outside 0..{LARGEST_SEED}")
    if transpose not in TRANSPOSE:
        raise InputError(f"unknown transpose {transpose!r}: choose one of {', '.join(TRANSPOSE)}")
    if archive is not None and source != "official" and (dataset, source) != ("fashion-rot", "generated"):
        raise InputError("--archive is the official archive: use it with --source official")
    if source not in SOURCES:
        return _own(source, seed)
    if dataset not in DATASETS:
        raise InputError(f"unknown data set {dataset!r}: choose one of {', '.join(DATASETS)}")
    if dataset == "mnist":
        if source == "official":
            raise InputError("mnist ships inside the package and has no official archive: leave --source out")
        return _mnist(seed)
    if dataset == "fashion-rot":
        if source != "generated":
            raise InputError("fashion-rot is made from Fashion-MNIST and has no other source: leave --source out")
        return _fashion(data_dir, archive, seed)
    if source == "shipped":
        raise InputError("mnist-rot is not shipped: use --source generated or --source official")
    return _generated(seed) if source == "generated" else _official(data_dir, archive, transpose, seed)


def _generated(seed: int) -> Recipe:
    wanted = {"method": ROTATED_METHOD}

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        return generate_mnist_rot(seed, progress), wanted

    return Recipe("mnist-rot", "generated", seed, f"mnist-rot-generated-seed{seed}", wanted, build)


def _mnist(seed: int) -> Recipe:
    wanted = {"method": MNIST_METHOD}

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        arrays = generate_mnist(seed)
        if progress is not None:
            progress(1, 1)
        return arrays, wanted

    return Recipe("mnist", "shipped", seed, f"mnist-shipped-seed{seed}", wanted, build)


def _fashion(data_dir: Path, folder: Path | None, seed: int) -> Recipe:
    """The files are looked for only when the data is made: prepared data does without them."""
    wanted = {"method": ROTATED_METHOD}

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        images, labels = read_fashion(find_fashion(data_dir, folder))
        return generate_rotated(images, labels, seed, stream=FASHION_ROT_STREAM, progress=progress), wanted

    return Recipe("fashion-rot", "generated", seed, f"fashion-rot-generated-seed{seed}", wanted, build)


def _official(data_dir: Path, archive: Path | None, transpose: str, seed: int) -> Recipe:
    """Without an archive and with transpose "auto", any official file that was prepared before is right."""
    wanted: dict[str, Any] = {}
    if archive is not None:
        wanted["archive_sha1"] = archive_checksum(archive)
    if transpose != "auto":
        wanted["transposed"] = transpose == "yes"

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        if archive is None:
            local = download_archive(data_dir / "downloads", _stage(progress, 0.0, 0.5))
            arrays, transposed = read_official(local, transpose, progress=_stage(progress, 0.5, 1.0))
            return arrays, {"archive_sha1": CHECKSUM, "transposed": transposed}
        arrays, transposed = read_official(archive, transpose, progress=progress)
        if archive.is_file() and wanted["archive_sha1"] != CHECKSUM:
            logger.warning(
                "%s has another checksum than the published archive; its contents hold, so it is used",
                archive,
            )
        return arrays, {"archive_sha1": wanted["archive_sha1"], "transposed": transposed}

    return Recipe("mnist-rot", "official", seed, f"mnist-rot-official-seed{seed}", wanted, build)


def _own(source: str, seed: int) -> Recipe:
    path = Path(source)
    if not path.is_file() and path.suffix == ".npz":
        raise InputError(f"there is no file {source}: check the path, or use generated or official as the source")
    if not path.is_file():
        raise InputError(f"unknown source {source!r}: use generated, official, or the path of a .npz file")
    checksum = storage.sha256_of_file(path)
    wanted = {"file_sha256": checksum, "method": OWN_METHOD}
    # The name becomes part of file names: plain characters only, and not too many.
    name = re.sub(r"[^\w.-]+", "_", path.stem)[:60]

    def build(progress: Progress | None) -> tuple[Arrays, dict[str, Any]]:
        return read_own(path, seed), wanted

    return Recipe(name, source, seed, f"{name}-{checksum[:12]}-seed{seed}", wanted, build)


def _stage(progress: Progress | None, start: float, stop: float) -> Progress | None:
    """Show one stage of a longer step as its share of the whole, in thousandths."""
    if progress is None:
        return None

    def show(done: int, total: int) -> None:
        progress(round(1000 * (start + (stop - start) * done / max(total, 1))), 1000)

    return show
