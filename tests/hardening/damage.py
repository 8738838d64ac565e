"""Ways to spoil a file, and a small results folder in which every kind of file is there to be spoiled."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.runs import Outcome, call
from thetarbm_cli import pipeline

Damage = Callable[[Path], None]

PRECIOUS = b'{"format": 1, "precious": true}\n'

# Two runs on images of the user: everything is made again in no time, also the data.
SUITE = """\
format: 2
title: to be spoiled
theory: {rotations: 2, size: 4}
profiles:
  tiny: {set: {hidden: 3, epochs: 2, rotations: 3}}
experiments:
  - {name: theta, label: θ-RBM, model: theta, tables: ["1", "2"]}
  - {name: tirbm, label: TI-RBM, model: tirbm, tables: ["1", "2"]}
"""


class House:
    """Folders of a finished suite, which can be spoiled and be put back as they were.

    They stay where they are: the path of the user's images is a setting of the runs.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.data, self.results = base / "data", base / "results"
        self.images, self.suite = base / "mine.npz", base / "suite.yaml"

    def keep(self, name: str) -> None:
        """Remember the folders as they are."""
        shutil.copytree(self.base, self.base.with_name(name), symlinks=True)

    def put_back(self, name: str) -> None:
        """Make the folders what they were."""
        shutil.rmtree(self.base)
        shutil.copytree(self.base.with_name(name), self.base, symlinks=True)

    def file(self, kind: str) -> Path:
        """The one file of a kind; of two runs, the θ-RBM's."""
        patterns = {
            "data": "data/*.npz",
            "sidecar": "data/*.json",
            "record": "results/runs/theta-*/run.json",
            "measures": "results/runs/theta-*/measures.jsonl",
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
        train = ["train", "--model", "theta", "--profile", "tiny", *source, *settings]
        arguments = {
            "prepare-data": ["prepare-data", *source],
            "train": train,
            "evaluate": ["evaluate", "theta"],
            "evaluate again": ["evaluate", "theta", "--force"],
            "evaluate all": ["evaluate", "--all"],
            "features": ["features", "theta", "--out", str(self.base / "features.npz")],
            "show": ["show", "theta", *suite[:2]],
            "run": ["run", *suite, *source],
            "status": ["status", *suite, *source],
            "tables": ["tables", *suite],
            "check": ["tables", *suite, "--check"],
            "clean": ["clean", "--dry-run", *suite[:2]],
            "info": ["info"],
            "list": ["list"],
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
    for kind in ("record", "measures", "weights"):
        house.file(kind).unlink()
    write, calls = pipeline.write_arrays, []

    def interrupted(path: Path, arrays: dict[str, Any]) -> None:
        calls.append(path)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(path, arrays)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "CHECKPOINT_SHARE", 1e9)
        patch.setattr(pipeline, "write_arrays", interrupted)
        assert house("train").code == 130
    assert house.file("checkpoint") == calls[0]


def flip(path: Path) -> None:
    """Change one bit of what a file says: of its first array, of its checksum, or of its text.

    ``test_arrays.py`` and ``test_documents.py`` try each bit.
    """
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    if path.suffix == ".npz":
        # Behind the 128 bytes of the array's header.
        place = content.index(b"\x93NUMPY") + 130
    elif path.suffix in (".json", ".jsonl"):
        place = content.rindex(b'"') - 1
    content[place] ^= 1
    path.write_bytes(content)


def to_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path, target: Path) -> None:
    path.unlink()
    path.symlink_to(target)


def to_link_to_another(path: Path) -> None:
    """A link to a file that is whole, but another one; it must stay as it is."""
    precious(path).write_bytes(PRECIOUS)
    link(path, precious(path))


def precious(path: Path) -> Path:
    return path.with_name("precious" + path.suffix)


def to_pipe(path: Path) -> None:
    """Who opens it waits for a writer that never comes."""
    path.unlink()
    os.mkfifo(path)


DAMAGES: dict[str, Damage] = {
    "flip": flip,
    "truncate": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: os.truncate(path, 0),
    "folder": to_folder,
    "dangling link": lambda path: link(path, path.with_name("nowhere")),
    "link to itself": lambda path: link(path, path),
    "link to another": to_link_to_another,
    "pipe": to_pipe,
    "endless": lambda path: link(path, Path("/dev/zero")),
}
