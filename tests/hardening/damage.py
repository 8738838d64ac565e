"""Ways to spoil a file, and a small results folder in which every kind of file is there to be spoiled."""

from __future__ import annotations

import json
import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import Outcome, call
from thetarbm_cli.experiments.runs import checkpoints
from thetarbm_cli.experiments.runs.store import RunStore

Damage = Callable[[Path], None]

PRECIOUS = b'{"format": 1, "precious": true}\n'

# Two runs on images of the user: everything is made again in no time, also the data.
SUITE = """\
format: 1
title: to be spoiled
theory: {rotations: 2, size: 4}
profiles:
  tiny: {parameters: {hidden: 3, epochs: 2, rotations: 3}}
experiments:
  - {name: theta, label: θ-RBM, model: theta, tables: ["1", "2"]}
  - {name: tirbm, label: TI-RBM, model: tirbm, tables: ["1", "2"]}
"""


@dataclass(frozen=True)
class House:
    """Folders of a finished suite, which can be spoiled and be put back as they were.

    They stay where they are: the path of the user's images is a setting of the runs.
    """

    base: Path

    def keep(self, name: str) -> None:
        """Remember the folders as they are."""
        shutil.copytree(self.base, self.base.with_name(name), symlinks=True)

    def put_back(self, name: str) -> None:
        """Make the folders what they were."""
        shutil.rmtree(self.base)
        shutil.copytree(self.base.with_name(name), self.base, symlinks=True)

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def results(self) -> Path:
        return self.base / "results"

    @property
    def images(self) -> Path:
        return self.base / "mine.npz"

    @property
    def suite(self) -> Path:
        return self.base / "suite.yaml"

    def file(self, kind: str) -> Path:
        """The one file of a kind; of two runs, the θ-RBM's."""
        patterns = {
            "data": "data/*.npz",
            "sidecar": "data/*.json",
            "record": "results/runs/theta-*/run.json",
            "weights": "results/runs/theta-*/weights.npz",
            "checkpoint": "results/runs/theta-*/checkpoint.npz",
            "table": "results/tables/table1-tiny-mine.md",
            "verdicts": "results/verdicts-tiny-*.md",
            "theory": "results/theory.json",
        }
        (found,) = self.base.glob(patterns[kind])
        return found

    def __call__(self, command: str) -> Outcome:
        """A command in these folders, by a word or two."""
        suite = ["--suite", str(self.suite), "--profile", "tiny"]
        source = ["--source", str(self.images)]
        settings = ["--set", "hidden=3", "--set", "epochs=2", "--set", "rotations=3"]
        train = ["train", "--model", "theta", "--profile", "paper", *source, *settings]
        arguments = {
            "prepare-data": ["prepare-data", *source],
            "train": train,
            "train again": [*train, "--force"],
            "evaluate": ["evaluate", "theta"],
            "evaluate again": ["evaluate", "theta", "--force"],
            "evaluate all": ["evaluate", "--all"],
            "features": ["features", "theta", "--out", str(self.base / "features.npz")],
            "show": ["show", "theta", *suite[:2]],
            "run": ["run", *suite, *source],
            "status": ["status", *suite, *source],
            "tables": ["tables", *suite],
            "check": ["tables", *suite, "--check"],
            "clean": ["clean", *suite[:2]],
            "info": ["info"],
        }[command]
        return call(self.data, self.results, "--backend", "numpy", *arguments)


def build(base: Path) -> House:
    """Make data, runs, tables and verdicts."""
    house = House(base)
    base.mkdir()
    random = np.random.default_rng(0)
    labels = np.arange(60) % 3
    images = np.clip(random.random((60, 6, 6)) / 2 + labels[:, None, None] / 4, 0, 1)
    np.savez(house.images, images=images, labels=labels)
    house.suite.write_text(SUITE, encoding="utf-8")
    for command in ("run", "prepare-data", "tables"):
        assert house(command).code == 0
    return house


def cut_off(house: House) -> None:
    """Leave of the θ-RBM's run what it has after its first epoch."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "SHARE", 0.0)
        patch.setattr(RunStore, "remove_checkpoint", lambda store, run: None)
        assert house("train again").code == 0
    for kind in ("record", "weights"):
        house.file(kind).unlink()


def flip(path: Path) -> None:
    """Change one bit of what a file says.

    Some bits say nothing, and nothing is wrong with a file in which one of them is another: the date in the header of a
    zip, the last digit of a number that has more than its type holds, the name of the checksum. ``test_arrays.py`` and
    ``test_documents.py`` try each bit.
    """
    content = path.read_bytes()
    first, size = 0, len(content)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            largest = max(archive.infolist(), key=lambda member: member.compress_size)
        first, size = end_of_header(content, largest.header_offset), largest.compress_size
    # Where it is depends on how long the file is, and that on times and names of folders.
    places = np.random.default_rng(len(content)).integers([size, 8], size=(100, 2))
    damaged = (_flipped(content, first + place, bit) for place, bit in places)
    path.write_bytes(next(other for other in damaged if path.suffix != ".json" or _says(other) != _says(content)))


def _flipped(content: bytes, place: int, bit: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def _says(text: bytes) -> Any:
    """What a document says, but for the name of its last part; nothing if it is none."""
    try:
        *parts, (_, checksum) = json.loads(text).items()
    except ValueError:
        return None
    return parts, checksum


def end_of_header(content: bytes | bytearray, start: int) -> int:
    """Where the content of a member begins whose header begins at `start`: its name and extra field lie between."""
    name, extra = struct.unpack_from("<HH", content, start + 26)
    return start + 30 + int(name) + int(extra)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def to_dangling_link(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def to_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def to_link_to_another(path: Path) -> None:
    """A link to a file that is whole, but another one; it must stay as it is."""
    other = precious(path)
    other.write_bytes(PRECIOUS)
    path.unlink()
    path.symlink_to(other)


def precious(path: Path) -> Path:
    return path.with_name("precious" + path.suffix)


def to_pipe(path: Path) -> None:
    """Who opens it waits for a writer that never comes."""
    path.unlink()
    os.mkfifo(path)


def to_endless_file(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


DAMAGES: dict[str, Damage] = {
    "flip": flip,
    "truncate": truncate,
    "empty": empty,
    "folder": to_folder,
    "dangling link": to_dangling_link,
    "link to itself": to_link_to_itself,
    "link to another": to_link_to_another,
    "pipe": to_pipe,
    "endless": to_endless_file,
}
