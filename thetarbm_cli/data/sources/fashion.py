"""Fashion-MNIST as the user has it, and fashion-rot, which is made from it: four idx files, checked and read.

Fashion-MNIST is Zalando SE's, under the MIT License. It is not inside the package, and nothing is downloaded:
Debian's package ``dataset-fashion-mnist`` installs the files, and any other copy of them will do.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from thetarbm_cli.data.recipes import FASHION_BILINEAR_STREAM, FASHION_ROT_STREAM, Recipe, Request
from thetarbm_cli.data.rotated_digits import rotating_recipe
from thetarbm_cli.data.sources.mnist import FILES, IMAGES_HEADER, Bytes, read_set
from thetarbm_cli.errors import InputError
from thetarbm_cli.followup import command_line

# Where the files are looked for, in this order, if no folder is named: in the data folder, and where Debian has them.
FOLDER = "fashion-mnist"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
VARIABLE = "THETARBM_FASHION_DIR"
# MD5 of the unpacked files. The sums that Zalando gives are those of its own .gz files; Debian packs them anew.
MD5 = {
    "train-images-idx3-ubyte": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte": "15d484375f8d13e6eb1aabb0c3f46965",
}
# Bytes of the largest file: what unpacks to more is another.
LARGEST = IMAGES_HEADER + 60_000 * 28 * 28


def rotated_recipe(request: Request) -> Recipe:
    """Make fashion-rot as mnist-rot: 62,000 images drawn from Fashion-MNIST with replacement, rotated."""
    return rotating_recipe(request, lambda: _load(request), FASHION_ROT_STREAM, takes_archive=True)


def bilinear_recipe(request: Request) -> Recipe:
    """Make fashion-rot of 62,000 distinct images of Fashion-MNIST, rotated bilinearly."""
    return rotating_recipe(request, lambda: _load(request), FASHION_BILINEAR_STREAM, bilinear=True, takes_archive=True)


def _load(request: Request) -> tuple[Bytes, Bytes]:
    return read_fashion(find_fashion(request.data_dir, request.archive))


def find_fashion(data_dir: Path, named: Path | None = None) -> Path:
    """Find the folder of the four files: the one that the user names, by the variable too, or one of the usual."""
    variable = os.environ.get(VARIABLE)
    folder = named or (Path(os.path.expanduser(variable)) if variable else None)
    candidates = [folder] if folder else [data_dir / FOLDER, DEBIAN]
    for candidate in candidates:
        if all(_path(candidate, name).is_file() for name in FILES):
            return candidate
    raise InputError(
        f"the four files of Fashion-MNIST ({', '.join(FILES)}, each with or without .gz) are not in "
        f"{' or '.join(map(str, candidates))}: install Debian's package dataset-fashion-mnist, or name their folder "
        f"by {VARIABLE}, or with "
        f"{command_line('prepare-data', '--dataset', 'fashion-rot', '--archive', 'FOLDER')}"
    )


def read_fashion(folder: Path, md5: Mapping[str, str] = MD5) -> tuple[Bytes, Bytes]:
    """Read the four files of a folder, each with or without ``.gz``, and of these MD5 when it is unpacked.

    Returns
    -------
    images : (70000, 28, 28) uint8 array, 60,000 training and 10,000 test images; read-only
    labels : (70000,) uint8 array; read-only
    """
    parts = {}
    for name in FILES:
        path = _path(folder, name)
        content = _unpacked(path)
        found = hashlib.md5(content, usedforsecurity=False).hexdigest()
        if found != md5[name]:
            raise InputError(f"{path} is not Fashion-MNIST's: its MD5, unpacked, is {found}, and {md5[name]} is needed")
        parts[name] = content
    return read_set(parts)


def _path(folder: Path, name: str) -> Path:
    """Find the file as it is, or else packed."""
    plain = folder / name
    return plain if plain.is_file() else folder / f"{name}.gz"


def _unpacked(path: Path) -> bytes:
    """Read the content of a file, never more than the largest may have."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            content = bytes(stream.read(LARGEST + 1))
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read ({why}): get it again") from error
    if len(content) > LARGEST:
        raise InputError(f"{path} is not Fashion-MNIST's: it has more than {LARGEST} bytes")
    return content
