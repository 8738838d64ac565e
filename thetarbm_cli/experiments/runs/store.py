"""The store of runs: one folder a run, with its record, its weights and, while it trains, a checkpoint.

``run.json`` is written when a run ends, well or not, and once more when it is first measured. From then on it stays as
it is: further measures go into ``measures.json`` beside it and are read together with it, and a record that is
replaced all the same is kept in ``previous/``. Weights and checkpoints are plain ``.npz`` files without pickled
objects; ``weights.json`` says where weights were made that are not the recorded ones. Every file is replaced as a
whole, and a file that cannot be read is a miss with a warning.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from thetarbm_cli import documents, storage
from thetarbm_cli.arrays import read_arrays, write_arrays
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.record import (
    FORMAT,
    OPTIONAL_FIELDS,
    LaterMeasures,
    Measurement,
    MetricsPart,
    RunRecord,
    Weights,
    WeightsNote,
    WeightsPart,
    joined,
    validated,
)
from thetarbm_cli.experiments.suite_file import run_identifiers

RECORD = "run.json"
# Runs that a message lists when several are meant.
MOST_NAMED = 8

logger = logging.getLogger("thetarbm")

Kind = TypeVar("Kind", "RunRecord", "LaterMeasures", "WeightsNote")


@dataclass(frozen=True)
class RunContext:
    """Where and with what runs are made: the folders and the backend of one call."""

    data_dir: Path
    store: RunStore
    backend_name: str = "auto"


class RunStore:
    """Runs in ``<results>/runs/<id>/``."""

    def __init__(self, results: Path) -> None:
        self.folder = results / "runs"

    def path(self, run: str) -> Path:
        """Folder of a run."""
        return self.folder / run

    def record_path(self, run: str) -> Path:
        """File of a run's record."""
        return self.path(run) / RECORD

    def weights_path(self, run: str) -> Path:
        """File of a run's weights."""
        return self.path(run) / "weights.npz"

    def measures_path(self, run: str) -> Path:
        """File of what was measured after the record had its own numbers."""
        return self.path(run) / "measures.json"

    def weights_note_path(self, run: str) -> Path:
        """File that says where weights were made that are not the recorded ones."""
        return self.path(run) / "weights.json"

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

    def load(self, run: str, *, refuse_newer: bool = False) -> RunRecord | None:
        """Load the record of a run with all its numbers, later ones included; None if there is none that can be used.

        Raises
        ------
        NewerFormatError
            With `refuse_newer`, if the record is of a newer version of the program: it is not to be made again.
        """
        record = self._load_own(run, refuse_newer=refuse_newer)
        if record is None or not record.is_measured:
            return record
        metrics = record.metrics or MetricsPart()
        for later in self._later(record).measurements:
            metrics = joined(metrics, later.metrics)
        return record.model_copy(update={"metrics": metrics})

    def _load_own(self, run: str, *, refuse_newer: bool = False) -> RunRecord | None:
        """Load the record of a run as its file has it."""
        return self._read(RunRecord, self.record_path(run), run, refuse_newer=refuse_newer)

    def _read(self, kind: type[Kind], path: Path, run: str, *, refuse_newer: bool = False) -> Kind | None:
        """Read a document of a run; None, with a warning, if it is damaged."""
        try:
            content = documents.read(path)
            if refuse_newer and documents.is_newer(content.get("format"), FORMAT):
                raise documents.newer_format_error(path, content["format"], FORMAT)
            documents.check_format(content, FORMAT)
            found = validated(kind, content)
            if found.run != run:
                raise ValueError(f"it belongs to run {found.run}")
        except FileNotFoundError:
            return None
        except ValueError as error:
            logger.warning("%s is not used: %s", path, error)
            return None
        return found

    def save(self, record: RunRecord) -> None:
        """Write a record, but not over one of a newer version; one that has numbers or is damaged is kept before.

        It is kept as ``previous/run-1.json``, ``-2``, …, with the later measures that belong to it.

        Raises
        ------
        NewerFormatError
            If there is a record of a newer version.
        """
        run = record.run
        before = self._load_own(run, refuse_newer=True)
        replaced = self.record_path(run).is_file() if before is None else before.is_measured and before != record
        if replaced:
            folder = self.path(run) / "previous"
            number = next(n for n in itertools.count(1) if not (folder / f"run-{n}.json").exists())
            for path in (self.record_path(run), self.measures_path(run)):
                if path.is_file():
                    storage.write_bytes(folder / f"{path.stem}-{number}.json", path.read_bytes())
        content = record.model_dump(mode="json")
        for name in OPTIONAL_FIELDS:
            if content[name] is None:
                del content[name]
        documents.write(self.record_path(run), content)
        if replaced:
            self.measures_path(run).unlink(missing_ok=True)

    def add_measures(self, record: RunRecord, measurement: Measurement) -> None:
        """Keep numbers beside a record that has its own; `load` gives both."""
        documents.refuse_newer(self.measures_path(record.run), FORMAT)
        later = self._later(record)
        later.measurements.append(measurement)
        documents.write(self.measures_path(record.run), later.model_dump(mode="json"))

    def _later(self, record: RunRecord) -> LaterMeasures:
        """What was measured after a record had its own numbers."""
        later = self._read(LaterMeasures, self.measures_path(record.run), record.run)
        if later is None or later.recorded_weights_sha256 != record.weights_sha256:
            return LaterMeasures(run=record.run, recorded_weights_sha256=record.weights_sha256, measurements=[])
        return later

    def newer_format(self, run: str) -> int | None:
        """Format of a run's record if it is of a newer version of the program, else None."""
        return documents.newer_format(self.record_path(run), FORMAT)

    def save_weights(self, run: str, arrays: dict[str, NDArray[Any]]) -> str:
        """Write weights, float32; their checksum."""
        target = self.weights_path(run)
        write_arrays(target, arrays)
        return storage.sha256_of_file(target)

    def note_weights(self, record: RunRecord, made: WeightsPart) -> bool:
        """Note where weights were made that are not the recorded ones; whether they are others."""
        if made.sha256 == record.weights_sha256:
            self.weights_note_path(record.run).unlink(missing_ok=True)
            return False
        note = WeightsNote(run=record.run, weights=made)
        documents.write(self.weights_note_path(record.run), note.model_dump(mode="json"))
        return True

    def verify_weights(self, record: RunRecord) -> WeightsPart | None:
        """Check that weights are the recorded ones (None), or such as were made here.

        Raises
        ------
        FileNotFoundError
            If there are none.
        ValueError
            If they are neither.
        """
        found = storage.sha256_of_file(self.weights_path(record.run))
        if found == record.weights_sha256:
            return None
        note = self._read(WeightsNote, self.weights_note_path(record.run), record.run)
        if note is None or note.weights.sha256 != found:
            raise ValueError("its checksum is not the record's")
        return note.weights

    def load_weights(self, record: RunRecord) -> Weights | None:
        """Weights of a run: the recorded ones, or such as were made here; None if they are missing or damaged."""
        target = self.weights_path(record.run)
        try:
            made_here = self.verify_weights(record)
            return Weights(read_arrays(target), made_here)
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

    def load_all(self) -> list[RunRecord]:
        """Every record that can be used, by its id."""
        loaded = (self.load(run) for run in self.identifiers())
        return [record for record in loaded if record is not None]

    def find(self, name: str) -> str:
        """The run that a user means by an id, the beginning of one, or the path of its folder or of its record.

        Raises
        ------
        InputError
            If no run or more than one fits.
        """
        wanted = name
        if "/" in name or name == RECORD:
            path = Path(os.path.expanduser(name)).absolute()
            path = path.parent if path.name == RECORD else path
            wanted = path.name
            if path.resolve().parent != self.folder.resolve():
                raise InputError(f"{name} is not in {self.folder}; name its results folder with --results")
        matches = [run for run in self.identifiers() if run == wanted]
        matches = matches or [run for run in self.identifiers() if wanted and run.startswith(wanted)]
        if not matches:
            self._refuse_unfinished(wanted)
            raise InputError(f"there is no run {name!r} in {self.folder}; train one first")
        if len(matches) > 1:
            raise InputError(f"{name!r} may be any of {self._listed(matches)}: write more of the id")
        return matches[0]

    def _listed(self, runs: list[str]) -> str:
        """Runs with the settings in which they differ, as far as a message has room."""
        records = [record for run in runs[:MOST_NAMED] if (record := self.load(run))]
        settings = {record.run: {**record.parameters, "seed": record.seed, **record.run_settings} for record in records}
        names = dict.fromkeys(name for each in settings.values() for name in each)
        differing = [name for name in names if len({str(each.get(name, "none")) for each in settings.values()}) > 1]
        lines = []
        for run in runs[:MOST_NAMED]:
            known = settings.get(run)
            words = [f"{name}={known[name]}" for name in differing if name in known] if known else ["no usable record"]
            lines.append(f"{run} ({', '.join(words)})" if words else run)
        rest = len(runs) - MOST_NAMED
        return ", ".join(lines) + (f" or {rest} more" if rest > 0 else "")

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
