"""Runs that differ only in what is measured train once: the later ones take the weights of the first.

A training has a key of its own, made of the settings that learning depends on. A file for each key in
``<results>/trainings`` names a run that has its weights; what it says is checked, and without it a run is trained as
any other.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thetarbm_cli import documents, storage
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM, RunSettings
from thetarbm_cli.experiments.runs.store import RunStore

FOLDER = "trainings"
# Settings of a run that learning does not see; all others are taken for such that it does.
MEASURED_ONLY = ("svm", "features")

logger = logging.getLogger("thetarbm")


def training_part(settings: RunSettings) -> dict[str, Any]:
    """Give the settings that learning depends on, as they are hashed."""
    part = {name: value for name, value in settings.canonical().items() if name not in MEASURED_ONLY}
    # Only one protocol learns from validation images; the others differ in what is tested.
    final = part["data"].get("protocol") == "final"
    ignored = {"data": ("test", "gamma", *(() if final else ("protocol", "valid"))), "perturbation": ("scope", "draws")}
    for section, names in ignored.items():
        part[section] = {name: value for name, value in (part[section] or {}).items() if name not in names}
    return part


class Training:
    """The training of a run, which others may share: on images of these checksums by role, made in an environment."""

    def __init__(
        self,
        store: RunStore,
        settings: RunSettings,
        seed: int,
        checksums: Mapping[str, str],
        environment: Mapping[str, Any],
    ) -> None:
        self.store, self.environment = store, environment
        self.key = _key(settings, seed, checksums["train"], str(environment["backend"]))
        self.path: Path = store.folder.parent / FOLDER / f"{self.key}.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the training for this process; another that wants the same waits and finds it done."""
        with storage.locked(self.path.with_suffix("")):
            yield

    def find(self) -> RunRecord | None:
        """Find a run that has these weights, made by the same libraries on the same kind of machine."""
        try:
            record = self.store.load(str(documents.read(self.path).get("run")))
        except (FileNotFoundError, ValueError):
            return None
        if record is None or record.state != "done" or record.algorithm != ALGORITHM:
            return None
        try:
            key = _key(record.settings, record.seed, record.checksums["train"], record.backend)
        except InputError:
            # A model that there is no longer.
            return None
        if key != self.key or _machine(record.environment) != _machine(self.environment):
            return None
        return record

    def adopt(self, run: str) -> RunRecord | None:
        """Take over the weights of another run; the run that they come from, or None if there is none."""
        found = self.find()
        if found is None or found.run == run:
            return None
        try:
            weights = self.store.weights_path(found.run).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(weights).hexdigest() != found.weights_sha256:
            return None
        storage.write_bytes(self.store.weights_path(run), weights)
        logger.info("%s has the training of %s, which differs only in what is measured", run, found.run)
        return found

    def note(self, run: str) -> None:
        """Note that a run has these weights."""
        documents.write(self.path, {"run": run})


def _key(settings: RunSettings, seed: int, images: str, backend: str) -> str:
    content = [training_part(settings), seed, images, backend, ALGORITHM]
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()[:24]


def _machine(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Give what the bits of weights may depend on besides the settings: all but the revision of the code."""
    return {name: value for name, value in environment.items() if name != "git"}
