"""The store of runs: one folder a run, with its record, its weights and, while it trains, a checkpoint.

``run.json`` is written when a run ends, well or not, and once more when it is first measured. From then on it stays as
it is: further measures go into ``measures.json`` beside it and are read together with it, and a record that is
replaced all the same is kept in ``previous/``. Weights and checkpoints are plain ``.npz`` files without pickled
objects; ``weights.json`` says where weights were made that are not the recorded ones. Every file is replaced as a
whole, and a file that cannot be read is a miss with a warning.

Records are also read from packs (``packing.py``), which are never written here: a record in a folder of its own hides
a packed one, and whatever is added to a packed run goes to its folder.
"""

from __future__ import annotations

import copy
import itertools
import logging
import os
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from thetarbm_cli import documents, storage
from thetarbm_cli.arrays import read_arrays, write_arrays
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.packing import Pack, find_packs, shipped_packs
from thetarbm_cli.experiments.runs.record import (
    FORMAT,
    LaterMeasures,
    Measurement,
    RunRecord,
    StoredRun,
    Weights,
    WeightsNote,
    WeightsPart,
    load_document,
)
from thetarbm_cli.experiments.suite_file import run_identifiers
from thetarbm_cli.followup import command_line

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

    def absolute(self) -> RunContext:
        """Give the same to a process that works in another folder."""
        store = copy.copy(self.store)
        store.folder, store.packed = store.folder.absolute(), store.packed.absolute()
        return RunContext(self.data_dir.absolute(), store, self.backend_name)


class RunStore:
    """Runs in ``<results>/runs/<id>/``, records in ``<results>/packed/*.records.xz``.

    With `shipped`, those inside the package count too, which an installed one has.
    """

    def __init__(self, results: Path, *, shipped: bool = True) -> None:
        self.folder = results / "runs"
        self.packed = results / "packed"
        self.shipped = shipped

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

    def locked(self, run: str) -> AbstractContextManager[None]:
        """Hold a run for this process; another that wants it waits."""
        return storage.locked(self.path(run) / "run")

    def is_held(self, run: str) -> bool:
        """Whether a process works on a run at this moment."""
        return storage.is_locked(self.path(run) / "run")

    def load(self, run: str, *, refuse_newer: bool = False) -> RunRecord | None:
        """Load the record of a run with all its numbers, later ones included; None if there is none that can be used.

        With `refuse_newer`, a record of a newer version of the program is a `NewerFormatError`: it is not to be made
        again.
        """
        if refuse_newer:
            documents.refuse_newer(self.record_path(run), FORMAT)
        found = self.load_parts(run)
        return None if found is None else found.whole()

    def require(self, run: str) -> RunRecord:
        """Load the record of a run as `load`; refuse one that cannot be used."""
        record = self.load(run, refuse_newer=True)
        if record is None:
            raise InputError(f"the record of {run} in {self.path(run)} cannot be used; train it again")
        return record

    def load_parts(self, run: str) -> StoredRun | None:
        """Load a run as its files or a pack have it, later measures by themselves."""
        if self.record_path(run).exists():
            return self._load_own(run)
        return self._load_packed(run, self._packs().get(run, []))

    def _load_own(self, run: str) -> StoredRun | None:
        record = self._read(RunRecord, self.record_path(run), run)
        return None if record is None else StoredRun(record=record, measurements=self._later(record).measurements)

    def _load_packed(self, run: str, packs: Sequence[Pack]) -> StoredRun | None:
        """Load a run from the packs that have it: the first measured record, and what only the others have."""
        copies = []
        for pack in packs:
            try:
                copies.append(pack.load(run))
            except ValueError as error:
                logger.warning("%s in %s is not used: %s", run, pack.path, error)
        if not copies:
            return None
        found, *others = sorted(copies, key=lambda copy: not copy.record.is_measured)
        for other in others:
            found = found.with_measures_of(other)
        later = self._later(found.record).measurements
        return found.model_copy(update={"measurements": found.measurements + later}) if later else found

    def _packs(self) -> dict[str, list[Pack]]:
        """The packs of every packed run, the preferred one first."""
        folders = [self.packed, *([shipped_packs()] if self.shipped else [])]
        packs: dict[str, list[Pack]] = {}
        for pack in find_packs(*folders):
            for run in pack.lines:
                packs.setdefault(run, []).append(pack)
        return packs

    def pack_of(self, run: str) -> Path | None:
        """The pack that a run's record is read from; None if it has a file of its own, or there is none."""
        packs = [] if self.record_path(run).exists() else self._packs().get(run, [])
        return packs[0].path if packs else None

    def _read(self, kind: type[Kind], path: Path, run: str) -> Kind | None:
        """Read a document of a run; None, with a warning, if it is damaged or another run's."""
        found = load_document(kind, path, FORMAT)
        if found is not None and found.run != run:
            logger.warning("%s is not used: it belongs to run %s", path, found.run)
            return None
        return found

    def save(self, record: RunRecord) -> None:
        """Write a record, but not over one of a newer version; one that has numbers or is damaged is kept before.

        It is kept as ``previous/run-1.json``, ``-2``, …, with the later measures that belong to it.
        """
        run = record.run
        documents.refuse_newer(self.record_path(run), FORMAT)
        parts = self.load_parts(run)
        before = parts.record if parts else None
        replaced = self.record_path(run).is_file() if before is None else before.is_measured and before != record
        if replaced:
            self._keep(self.record_path(run), self.measures_path(run))
        documents.write(self.record_path(run), record.document())
        if replaced:
            self.measures_path(run).unlink(missing_ok=True)

    def add_measures(self, record: RunRecord, measurement: Measurement) -> None:
        """Keep numbers beside a record that has its own; `load` gives both."""
        path = self.measures_path(record.run)
        documents.refuse_newer(path, FORMAT)
        later = self._later(record)
        if not later.measurements:
            # If there is a file, it is damaged or of another record.
            self._keep(path)
        later.measurements.append(measurement)
        documents.write(path, later.model_dump(mode="json"))

    @staticmethod
    def _keep(*paths: Path) -> None:
        """Copy files of a run, which are about to be replaced, into its folder ``previous`` under a new number."""
        folder = paths[0].parent / "previous"
        number = next(n for n in itertools.count(1) if not any(folder.glob(f"*-{n}.json")))
        for path in paths:
            if path.is_file():
                storage.write_bytes(folder / f"{path.stem}-{number}.json", path.read_bytes())

    def _later(self, record: RunRecord) -> LaterMeasures:
        """What was measured after a record had its own numbers."""
        path = self.measures_path(record.run)
        later = self._read(LaterMeasures, path, record.run) if os.path.lexists(path) else None
        if later is None or later.recorded_weights_sha256 != record.weights_sha256:
            return LaterMeasures(run=record.run, recorded_weights_sha256=record.weights_sha256, measurements=[])
        return later

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
        """Check that weights are the recorded ones (None), or such as were made here; a `ValueError` if neither."""
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

    def own_identifiers(self) -> list[str]:
        """Names of the runs that have a record in a folder of their own, sorted."""
        return run_identifiers(self.folder)

    def identifiers(self) -> list[str]:
        """Names of all runs that have a record, sorted."""
        return sorted({*self.own_identifiers(), *self._packs()})

    def load_all(self, only: Collection[str] | None = None) -> list[RunRecord]:
        """Every record that can be used, by its id; of all runs, or of these."""
        own, packs = set(self.own_identifiers()), self._packs()
        loaded = (
            self._load_own(run) if run in own else self._load_packed(run, packs[run])
            for run in sorted({*own, *packs})
            if only is None or run in only
        )
        return [found.whole() for found in loaded if found is not None]

    def find(self, name: str, *, unfinished: bool = False) -> str:
        """The run that a user means by an id, the beginning of one, or the path of its folder or of its record.

        It must be one run, and have a record unless an `unfinished` one will do.
        """
        wanted = name
        if "/" in name or os.sep in name or name == RECORD:
            path = Path(os.path.expanduser(name)).absolute()
            path = path.parent if path.name == RECORD else path
            wanted = path.name
            if path.resolve().parent != self.folder.resolve():
                raise InputError(f"{name} is not in {self.folder}; name its results folder with --results")
        known = self.identifiers()
        candidates = [*known, *self.unfinished()] if unfinished else known
        matches = [run for run in candidates if run == wanted]
        matches = matches or [run for run in candidates if wanted and run.startswith(wanted)]
        begun = [] if matches or not wanted else [run for run in self.unfinished() if run.startswith(wanted)]
        if begun:
            raise InputError(
                f"{begun[0]} has no record yet: it is being trained or was cut off, and the command that began it goes "
                "on with it; thetarbm show says how far it is"
            )
        if not matches:
            hint = f"{command_line('list')} shows those there are" if known else "train one first"
            raise InputError(f"there is no run {name!r} in {self.folder}; {hint}")
        if len(matches) > 1:
            raise InputError(f"{name!r} may be any of these, write more of the id:\n{self._listed(matches)}")
        return matches[0]

    def _listed(self, runs: list[str]) -> str:
        """Runs, one a line, with the settings in which they differ, as far as a message has room."""
        begun = self.unfinished()
        records = [record for run in runs[:MOST_NAMED] if (record := self.load(run))]
        settings = {
            record.run: {**record.parameters, "seed": record.seed, **record.settings.by_name(exclude_defaults=True)}
            for record in records
        }
        names = dict.fromkeys(name for each in settings.values() for name in each)
        differing = [name for name in names if len({str(each.get(name, "none")) for each in settings.values()}) > 1]
        lines = []
        for run in runs[:MOST_NAMED]:
            known = settings.get(run)
            words = [f"{name}={known[name]}" for name in differing if name in known] if known else ["no usable record"]
            words = ["not finished"] if run in begun else words
            lines.append(f"  {run} ({', '.join(words)})" if words else f"  {run}")
        rest = len(runs) - MOST_NAMED
        return "\n".join([*lines, *([f"  or {rest} more"] if rest > 0 else [])])

    def unfinished(self) -> list[str]:
        """Runs that have a checkpoint or are being made, and no record."""
        begun = {path.parent.name for path in self.folder.glob("*/checkpoint.npz")}
        begun |= {path.parent.name for path in self.folder.glob("*/run.lock") if self.is_held(path.parent.name)}
        return sorted(begun - set(self.identifiers()))


def _reason(error: Exception) -> str:
    """Why a file cannot be used, without its name."""
    return f"it cannot be read ({error.strerror})" if isinstance(error, OSError) else str(error)
