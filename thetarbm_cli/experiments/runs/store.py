"""The store of runs: one folder a run, with its record, its weights and, while it trains, a checkpoint.

``run.json`` is written when a run ends, well or not; weights and checkpoints are plain ``.npz`` files without
pickled objects. Every file is replaced as a whole, and a file that cannot be read is a miss with a warning.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, model_validator

from thetarbm_cli import documents, storage
from thetarbm_cli.arrays import read_arrays, write_arrays
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.fields import (
    DataPart,
    EnvironmentPart,
    EpochPart,
    MetricsPart,
    Number,
    of_kind,
    validated,
)
from thetarbm_cli.experiments.runs.settings import RunSettings
from thetarbm_cli.experiments.suite_file import run_identifiers

FORMAT = 1
# Runs that a message lists when several are meant.
MOST_NAMED = 8

logger = logging.getLogger("thetarbm")


class RunRecord(BaseModel):
    """What ``run.json`` holds; fields may be added, never taken away."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    algorithm: int
    run: str
    state: Literal["done", "failed"]
    error: str | None = None
    settings: RunSettings
    parameters: dict[str, Any]
    seed: int
    seeds: dict[str, Any]
    data: Annotated[dict[str, dict[str, Any]], of_kind(DataPart)]
    environment: Annotated[dict[str, Any], of_kind(EnvironmentPart)]
    history: Annotated[list[dict[str, float]], of_kind(list[EpochPart])]
    timings: dict[str, Number]
    peak_memory_megabytes: Number
    weights_sha256: str | None = None
    metrics: Annotated[dict[str, Any] | None, of_kind(MetricsPart | None)] = None
    cells: list[str] = []

    @model_validator(mode="after")
    def _check_time(self) -> RunRecord:
        if self.state == "done" and "train_seconds" not in self.timings:
            raise ValueError("a run that is done needs its train_seconds")
        return self


class RunStore:
    """Runs in ``<results>/runs/<id>/``."""

    def __init__(self, results: Path) -> None:
        self.folder = results / "runs"

    def path(self, run: str) -> Path:
        """Folder of a run."""
        return self.folder / run

    def record_path(self, run: str) -> Path:
        """File of a run's record."""
        return self.path(run) / "run.json"

    def weights_path(self, run: str) -> Path:
        """File of a run's weights."""
        return self.path(run) / "weights.npz"

    def checkpoint_path(self, run: str) -> Path:
        """File of a run's last finished epoch, while it is not done."""
        return self.path(run) / "checkpoint.npz"

    @contextmanager
    def locked(self, run: str) -> Iterator[None]:
        """Hold a run for this process; another that wants it waits."""
        with storage.locked(self.path(run) / "run"):
            yield

    def is_held(self, run: str) -> bool:
        """Whether a process works on a run at this moment."""
        return storage.is_locked(self.path(run) / "run")

    def load(self, run: str) -> RunRecord | None:
        """Record of a run; None if there is none that can be used."""
        path = self.record_path(run)
        try:
            content = documents.read(path)
            documents.check_format(content, FORMAT)
            record = validated(RunRecord, content)
            if record.run != run:
                raise ValueError(f"it belongs to run {record.run}")
        except FileNotFoundError:
            return None
        except ValueError as error:
            logger.warning("%s is not used: %s", path, error)
            return None
        return record

    def save(self, record: RunRecord) -> None:
        """Write a record, but not over one of a newer version.

        Raises
        ------
        NewerFormatError
            If there is one.
        """
        self.refuse_newer(record.run)
        documents.write(self.record_path(record.run), record.model_dump(mode="json"))

    def newer_format(self, run: str) -> int | None:
        """Format of a run's record if it is of a newer version of the program, else None."""
        return documents.newer_format(self.record_path(run), FORMAT)

    def refuse_newer(self, run: str) -> None:
        """Raise a `NewerFormatError` if the record of a run is of a newer version: it is not to be made again."""
        documents.refuse_newer(self.record_path(run), FORMAT)

    def save_weights(self, run: str, arrays: dict[str, NDArray[Any]]) -> str:
        """Write weights, float32; their checksum."""
        target = self.weights_path(run)
        write_arrays(target, arrays)
        return storage.sha256_of_file(target)

    def load_weights(self, record: RunRecord) -> dict[str, NDArray[Any]] | None:
        """Weights of a run, checked against its record; None if they are missing or damaged."""
        target = self.weights_path(record.run)
        try:
            if storage.sha256_of_file(target) != record.weights_sha256:
                raise ValueError("its checksum is not the record's")
            return read_arrays(target)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s is not used: %s", target, _reason(error))
            return None

    def save_checkpoint(self, run: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Write the state after an epoch."""
        write_arrays(self.checkpoint_path(run), arrays)

    def load_checkpoint(self, run: str) -> dict[str, NDArray[Any]] | None:
        """The state after the last saved epoch; None if there is none that can be used."""
        target = self.checkpoint_path(run)
        try:
            return read_arrays(target)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s is not used, training starts anew: %s", target, _reason(error))
            return None

    def remove_checkpoint(self, run: str) -> None:
        """Forget the checkpoint of a finished run."""
        self.checkpoint_path(run).unlink(missing_ok=True)

    def remove_leftovers(self, run: str) -> None:
        """Remove what killed processes left half written."""
        storage.remove_leftovers(self.path(run))

    def identifiers(self) -> list[str]:
        """Names of all runs that have a record, sorted."""
        return run_identifiers(self.folder)

    def find(self, name: str) -> str:
        """The run that a user means by an id, the beginning of one, or the path of its folder.

        Raises
        ------
        InputError
            If no run or more than one fits.
        """
        wanted = name
        if "/" in name:
            wanted = Path(name).name
            if Path(name).resolve().parent != self.folder.resolve():
                raise InputError(f"{name} is not in {self.folder}; name its results folder with --results")
        matches = [run for run in self.identifiers() if run == wanted]
        matches = matches or [run for run in self.identifiers() if wanted and run.startswith(wanted)]
        if not matches:
            self._refuse_unfinished(wanted)
            raise InputError(f"there is no run {name!r} in {self.folder}; thetarbm train makes one")
        if len(matches) > 1:
            named, rest = matches[:MOST_NAMED], len(matches) - MOST_NAMED
            more = f" or {rest} more" if rest > 0 else ""
            raise InputError(f"{name!r} may be any of {', '.join(named)}{more}: write more of the id")
        return matches[0]

    def _refuse_unfinished(self, wanted: str) -> None:
        """Say so if what is wanted is a run that has a checkpoint and no record."""
        for path in sorted(self.folder.glob("*/checkpoint.npz")):
            if wanted and path.parent.name.startswith(wanted):
                raise InputError(
                    f"{path.parent.name} has no record yet: it is being trained or was cut off, and the command that "
                    "began it goes on with it"
                )


def _reason(error: Exception) -> str:
    """Why a file cannot be used, without its name."""
    return f"it cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
