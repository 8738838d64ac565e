"""The images of a run: what it learns from, and what it is tested on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.prepare import Prepared, list_prepared, load_prepared, prepare, prepared_checksum
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs.record import DataPart, ImagesPart
from thetarbm_cli.experiments.runs.settings import DataSettings, Protocol
from thetarbm_cli.outputs import PreparedFile
from thetarbm_cli.registry import GENERATED, source_names

logger = logging.getLogger("thetarbm")

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

    def describe(self) -> DataPart:
        """What the record says of the data."""
        return DataPart(train=_described(self.learned), test=_described(self.tested))

    def train(self) -> Part:
        """Images and labels to learn from."""
        train = _part_of(self.learned, "train")
        if self.protocol != "final":
            return train
        valid = _part_of(self.learned, "valid")
        return np.concatenate([train[0], valid[0]]), np.concatenate([train[1], valid[1]])

    def valid(self) -> Part:
        """Validation images and labels."""
        if self.protocol == "final":
            raise InputError(
                "this run learns from the validation images, so nothing can be chosen on them: "
                "choose with data.protocol=choice"
            )
        return _part_of(self.learned, "valid")

    def test(self) -> Part:
        """Images and labels to be tested on."""
        return _part_of(self.tested, "valid" if self.protocol == "choice" else "test")


def load_data(
    data_dir: Path,
    settings: DataSettings,
    progress: Callable[[int, int], None] | None = None,
    *,
    sha256: str | None = None,
) -> RunData:
    """Load what a run needs, preparing it first if it is not there.

    Where a file of the user has moved, its prepared copy serves; `sha256` is the copy's, where it is known.
    """
    copy = prepared_copy(data_dir, settings, sha256)
    found = None if copy is None else _load_copy(Path(copy.path), settings.source)
    if found is not None:
        learned = tested = found
    else:
        learned = tested = prepare(data_dir, settings.tested_on, settings.source, seed=settings.seed, progress=progress)
        if settings.tested_elsewhere:
            learned = prepare(data_dir, settings.train_on, seed=settings.seed, progress=progress)
    counts = (settings.train, settings.valid, settings.test)
    subset = learned.subset(*counts)
    return RunData(subset, subset if tested is learned else tested.subset(*counts), settings.protocol)


def prepared_copy(data_dir: Path, settings: DataSettings, sha256: str | None = None) -> PreparedFile | None:
    """The prepared copy of a user's file, by its checksum or, if the file is no longer there, by its name.

    None if there is no such copy, or if the file itself is there and no checksum is given.
    """
    source = Path(settings.source)
    if settings.source in source_names() or (sha256 is None and source.is_file()):
        return None
    copies = [
        entry
        for entry in list_prepared(data_dir)
        if entry.source not in source_names()
        and (
            entry.sha256 == sha256 if sha256 else (Path(entry.source).name, entry.seed) == (source.name, settings.seed)
        )
    ]
    if len({entry.sha256 for entry in copies}) > 1:
        found = ", ".join(entry.path for entry in copies)
        raise InputError(f"there is no file {source}, and several of this name were prepared ({found}): give its path")
    return copies[0] if copies else None


def _load_copy(copy: Path, source: str) -> Prepared | None:
    """The prepared copy of a user's file; None if it is damaged and the file itself is there to make it again."""
    moved = not Path(source).is_file()
    try:
        found = load_prepared(copy)
    except ThetaRBMError:
        if moved:
            raise
        return None
    if moved:
        logger.info("there is no file %s: its prepared copy %s is used", source, copy)
    return found


def require_images(data_dir: Path, settings: DataSettings) -> None:
    """Refuse images that are not there and cannot be made."""
    if prepared_copy(data_dir, settings) is None:
        prepared_checksum(data_dir, settings.tested_on, settings.source, seed=settings.seed)


def described_data(data_dir: Path, settings: DataSettings) -> DataPart | None:
    """What a record says of the data, from what lies beside prepared files alone; None if it is not prepared here."""
    try:
        copy = prepared_copy(data_dir, settings)
        if copy is not None:
            return DataPart(train=_described(copy), test=_described(copy))
        tested = prepared_checksum(data_dir, settings.tested_on, settings.source, seed=settings.seed)
        learned = tested
        if settings.tested_elsewhere:
            learned = prepared_checksum(data_dir, settings.train_on, GENERATED, seed=settings.seed)
    except ThetaRBMError:
        return None
    entries = {entry.sha256: entry for entry in list_prepared(data_dir)}
    if learned not in entries or tested not in entries:
        return None
    return DataPart(train=_described(entries[learned]), test=_described(entries[tested]))


def _part_of(data: Prepared, name: Any) -> Part:
    images, labels = data.part(name)
    if len(images) == 0:
        raise InputError(f"{data.path} has no {name} images; give it a split that has some")
    return images, labels


def _described(data: Prepared | PreparedFile) -> ImagesPart:
    """Give a data set as a record has it, its source without the folders of one machine."""
    is_file = "/" in data.source or data.source.endswith(".npz")
    source = Path(data.source).name if is_file else data.source
    return ImagesPart(dataset=data.dataset, source=source, sha256=data.sha256)
