"""The images of a run: what it learns from, and what it is tested on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.prepared import Prepared, list_prepared, prepare, prepared_checksum
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs.profiles import Protocol
from thetarbm_cli.experiments.runs.settings import DataSettings

Part = tuple[NDArray[np.float32], NDArray[np.int64]]


@dataclass(frozen=True)
class RunData:
    """Prepared data of a run.

    "Training on mnist" learns from mnist and is tested on mnist-rot; every other run stays in one data set.
    """

    learned: Prepared
    tested: Prepared
    protocol: Protocol = "paper"

    @property
    def checksums(self) -> dict[str, str]:
        """Checksums of the files behind the run, part of its id."""
        return {"train": self.learned.sha256, "test": self.tested.sha256}

    def describe(self) -> dict[str, dict[str, Any]]:
        """What the record says of the data."""
        return {
            role: {"dataset": data.dataset, "source": _source_name(data.source), "sha256": data.sha256}
            for role, data in (("train", self.learned), ("test", self.tested))
        }

    def train(self) -> Part:
        """Images and labels to learn from."""
        train = _part_of(self.learned, "train")
        if self.protocol != "final":
            return train
        valid = _part_of(self.learned, "valid")
        return np.concatenate([train[0], valid[0]]), np.concatenate([train[1], valid[1]])

    def valid(self) -> Part:
        """Validation images and labels.

        Raises
        ------
        InputError
            If they are learned from.
        """
        if self.protocol == "final":
            raise InputError(
                "this run learns from the validation images, so nothing can be chosen on them: "
                "choose with data.protocol=choice"
            )
        return _part_of(self.learned, "valid")

    def test(self) -> Part:
        """Images and labels to be tested on."""
        return _part_of(self.tested, "valid" if self.protocol == "choice" else "test")


def load_data(data_dir: Path, settings: DataSettings, progress: Callable[[int, int], None] | None = None) -> RunData:
    """Load what a run needs, preparing it first if it is not there."""
    # mnist ships with the package: "official" is where its counterpart for testing comes from.
    shipped = settings.train_on == "mnist" and settings.source == "official"
    source = "shipped" if shipped else settings.source
    learned = prepare(data_dir, settings.train_on, source, seed=settings.seed, progress=progress)
    tested = learned
    if learned.dataset == "mnist":
        tested = prepare(data_dir, "mnist-rot", settings.source, seed=settings.seed, progress=progress)
    counts = (settings.train, settings.valid, settings.test)
    subset = learned.subset(*counts)
    return RunData(subset, subset if tested is learned else tested.subset(*counts), settings.protocol)


def described_data(data_dir: Path, settings: DataSettings) -> dict[str, dict[str, Any]] | None:
    """What a record says of the data, from what lies beside prepared files alone; None if it is not prepared here."""
    checksums = prepared_checksums(data_dir, settings)
    entries = {entry["sha256"]: entry for entry in list_prepared(data_dir)}
    if checksums is None or not entries.keys() >= set(checksums.values()):
        return None
    found = {role: entries[checksum] for role, checksum in checksums.items()}
    return {
        role: {"dataset": entry["dataset"], "source": _source_name(entry["source"]), "sha256": entry["sha256"]}
        for role, entry in found.items()
    }


def prepared_checksums(data_dir: Path, settings: DataSettings) -> dict[str, str] | None:
    """Checksums of the prepared data by its role, from its sidecars; None if it is not prepared here."""
    try:
        tested = prepared_checksum(data_dir, settings.tested_on, settings.source, seed=settings.seed)
        learned = tested
        if settings.train_on == "mnist" and settings.source in ("generated", "official"):
            learned = prepared_checksum(data_dir, "mnist", "shipped", seed=settings.seed)
    except ThetaRBMError:
        return None
    return {"train": learned, "test": tested} if learned and tested else None


def _part_of(data: Prepared, name: Any) -> Part:
    images, labels = data.part(name)
    if len(images) == 0:
        raise InputError(f"{data.path} has no {name} images; give it a split that has some")
    return images, labels


def _source_name(source: str) -> str:
    """The source without the folders of one machine."""
    return Path(source).name if "/" in source or source.endswith(".npz") else source
