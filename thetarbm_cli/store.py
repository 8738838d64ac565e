"""The store: what was made, found by its description and never changed.

``<results>/runs/<id>/run.json`` is a training, written once when it ends. ``measures.jsonl`` beside it has a line for
each measurement, appended when it is done. ``weights.npz`` is a cache: it is made again where it is missing.
``checkpoint.npz`` is there while a training is not done. A pack, ``<results>/packed/*.jsonl.xz``, has the same lines
of many trainings, compressed; an installed package has some inside. What a user made comes before what is packed.
Prepared images and orientations of images are caches in the data folder, and ``<results>/theory.json`` has the checks
of the paper's mathematics.
"""

from __future__ import annotations

import gc
import itertools
import logging
import lzma
import os
import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import platformdirs
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from thetarbm_cli import documents, storage
from thetarbm_cli.arrays import read_arrays, write_arrays
from thetarbm_cli.errors import InputError, StorageError
from thetarbm_cli.followup import command_line
from thetarbm_cli.specs import ALGORITHM, MeasureSpec, TrainSpec

FORMAT: Final = 2
RECORD, MEASUREMENTS, WEIGHTS, CHECKPOINT = "run.json", "measures.jsonl", "weights.npz", "checkpoint.npz"
PACKS = "*.jsonl.xz"
# What unpacks to more is not one of our files.
LARGEST_PACK = 1 << 29
# Runs that a message lists when several are meant.
MOST_NAMED = 8

logger = logging.getLogger("thetarbm")

Number = Annotated[float, Field(allow_inf_nan=False)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
# The name of a folder, never a path.
RunName = Annotated[str, Field(pattern=r"^\w[\w.-]*$")]


def _complete(history: list[dict[str, float]]) -> list[dict[str, float]]:
    for number, epoch in enumerate(history):
        for name in ("epoch", "reconstruction_error", "mean_activation"):
            if name not in epoch:
                raise ValueError(f"epoch {number} has no {name}")
    return history


class _Git(BaseModel):
    revision: str
    dirty: bool


class _Pool(BaseModel):
    library: str
    version: str | None
    threads: int


class _Known(BaseModel):
    """What readers may rely on of an environment; others of its names are anybody's."""

    version: str = ""
    python: str = ""
    platform: str = ""
    processor: str = ""
    backend: str = ""
    gpu: str | None = None
    libraries: dict[str, str] = {}
    blas: list[_Pool] = []
    git: _Git | None = None


def _readable(environment: dict[str, Any]) -> dict[str, Any]:
    _Known.model_validate(environment)
    return environment


Environment = Annotated[dict[str, Any], AfterValidator(_readable)]


class MadeFor(BaseModel):
    """What a training was first made for: cells of a suite, and the profile whose sizes it has."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str = "paper"
    suite: str = ""
    cells: tuple[str, ...] = ()


class Measurement(BaseModel):
    """A line of ``measures.jsonl``: numbers of one training's weights under one description.

    Attributes
    ----------
    values : by the names in `thetarbm_cli.measures.MEASURES`; null where a number is undefined
    details : lists behind the values: γ per unit, the confusion matrix, the grid of a search
    """

    model_config = ConfigDict(extra="forbid")

    run: RunName
    spec: MeasureSpec
    weights_sha256: Checksum
    images_sha256: Checksum
    values: dict[str, Number | None]
    details: dict[str, Any] = {}
    seconds: Number | None = None
    environment: Environment = {}


class Training(BaseModel):
    """What ``run.json`` holds, and the measurements beside it; one that diverged has no weights."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[2] = FORMAT
    run: RunName
    spec: TrainSpec
    images_sha256: Checksum
    state: Literal["done", "diverged"]
    error: str | None = None
    weights_sha256: Checksum | None = None
    history: Annotated[list[dict[str, Number]], AfterValidator(_complete)]
    seconds: Number
    cpu_seconds: Number | None = None
    checkpoint_seconds: Number = 0.0
    peak_memory_megabytes: Number | None = None
    products: int | None = None
    environment: Environment = {}
    made_for: MadeFor = MadeFor()
    measurements: list[Measurement] = Field(default=[], exclude=True)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value:g}" for name, value in self.values.items())
        return f"<{self.run}, {self.state}, seed {self.spec.seed}: {numbers or 'not measured'}>"

    @cached_property
    def by_key(self) -> dict[str, Measurement]:
        """Its measurements by their descriptions; of several, one with the recorded weights."""
        found: dict[str, Measurement] = {}
        for each in self.measurements:
            known = found.get(each.spec.key)
            if known is None or (known.weights_sha256 != self.weights_sha256 == each.weights_sha256):
                found[each.spec.key] = each
        return found

    @property
    def values(self) -> dict[str, float]:
        """All its own numbers by name, each as near to the usual settings as it was measured; the first of equals."""
        found: dict[str, float] = {}
        learned = (each for each in self.by_key.values() if each.spec.weights == "learned")
        for each in sorted(learned, key=lambda each: each.spec.distance):
            for name, value in each.values.items():
                if value is not None:
                    found.setdefault(name if each.spec.aligned is not False else f"{name}_unaligned", value)
        return found

    def lacking(self, wanted: Iterable[MeasureSpec]) -> list[MeasureSpec]:
        """List the measurements that it does not have."""
        return [spec for spec in wanted if spec.key not in self.by_key]

    @property
    def number(self) -> int:
        """Count trainings of one description: 1 for the first, 2 for ``<id>-2``."""
        ending = re.fullmatch(r".*-[0-9a-f]{12}-(\d+)", self.run)
        return int(ending[1]) if ending else 1


class Store:
    """Trainings with their measurements in a results folder and its packs; caches in a data folder.

    With `shipped`, packs inside the package count, too.
    """

    def __init__(self, results: Path, data_dir: Path | None = None, *, shipped: bool = True) -> None:
        self.results = results
        self.data_dir = data_dir or Path(
            os.environ.get("THETARBM_DATA_DIR") or platformdirs.user_cache_path("thetarbm")
        )
        self.folder = results / "runs"
        self.shipped = shipped

    def absolute(self) -> Store:
        """Give the same store to a process that works in another folder."""
        return Store(self.results.absolute(), self.data_dir.absolute(), shipped=self.shipped)

    # Where things are

    def path(self, run: str, name: str = "") -> Path:
        """Give the folder of a run, or a file in it."""
        return self.folder / run / name if name else self.folder / run

    def locked(self, run: str) -> AbstractContextManager[storage.Held]:
        """Hold a run for this process; another that wants it waits."""
        return storage.locked(self.path(run, "run"))

    def holder(self, run: str) -> storage.Progress | None:
        """Say who works on a run at this moment, and how far they are."""
        return storage.holder(self.path(run, "run"))

    # Reading

    def trainings(self, only: Collection[str] | None = None) -> list[Training]:
        """Load every training that can be read, or those of these ids, with their measurements."""
        own = {path.parent.name for path in self.folder.glob(f"*/{RECORD}")}
        with _uncollected():
            packed = self._packed()
            names = sorted({*own, *packed})
            found = (self._load(run, packed.get(run, [])) for run in names if only is None or run in only)
            return [training for training in found if training is not None]

    def load(self, run: str) -> Training | None:
        """Load one training; None if there is none that can be read."""
        return self._load(run, self._packed().get(run, []))

    def _load(self, run: str, packed: list[dict[str, Any]]) -> Training | None:
        path, lines = self.path(run, RECORD), list(packed)
        try:
            lines.insert(0, {"format": None, **documents.read(path)})
        except FileNotFoundError:
            pass
        except ValueError as error:
            logger.warning("%s is not used: %s", path, error)
        if not lines:
            return None
        measured, problems = documents.read_lines(self.path(run, MEASUREMENTS))
        for problem in problems:
            logger.warning("%s: %s; it is measured again when it is asked for", self.path(run, MEASUREMENTS), problem)
        # What the user measured comes before what is packed.
        return _from_lines(run, [*lines[:1], *measured, *lines[1:]], path)

    def _packed(self) -> dict[str, list[dict[str, Any]]]:
        """Read the lines of all packs by run; a pack hides one of the same name inside the package."""
        folders = [*([shipped_packs()] if self.shipped else []), self.results / "packed"]
        paths = {path.name: path for folder in folders for path in folder.glob(PACKS)}
        lines: dict[str, list[dict[str, Any]]] = {}
        for name in sorted(paths):
            for run, own in read_pack(paths[name]).items():
                lines.setdefault(run, []).extend(own)
        return lines

    def packs_of(self, run: str) -> list[Path]:
        """Name the packs that have a run."""
        folders = [self.results / "packed", *([shipped_packs()] if self.shipped else [])]
        return [path for folder in folders for path in sorted(folder.glob(PACKS)) if run in read_pack(path)]

    def require(self, run: str) -> Training:
        """Load a training that can be measured; refuse what is damaged, diverged, or of another version."""
        path = self.path(run, RECORD)
        documents.refuse_newer(path, FORMAT)
        training = self.load(run)
        if training is None:
            raise InputError(f"the record of {run} in {self.path(run)} cannot be used; train it again")
        if training.state == "diverged":
            raise InputError(f"{run} diverged when it was trained ({training.error}), so there is nothing to measure")
        if training.spec.algorithm != ALGORITHM:
            raise InputError(
                f"{run} was made by version {training.spec.algorithm} of the algorithm, this is {ALGORITHM}: "
                "train it again"
            )
        return training

    def find(self, spec: TrainSpec, images_sha256: str | None = None) -> Training | None:
        """Find the newest training of a description, on images of a checksum where one is given.

        One that diverged counts only if there is no other.
        """

        def may_be(run: str, lines: list[dict[str, Any]]) -> bool:
            described = [line.get("spec") for line in lines if "format" in line]
            seeds = [each.get("seed") for each in described if isinstance(each, dict)]
            return run.startswith(f"{spec.model}-") and (not seeds or spec.seed in seeds)

        packed = self._packed()
        candidates = [run for run in {*self.own_identifiers(), *packed} if may_be(run, packed.get(run, []))]
        found = [
            each
            for run in candidates
            if (each := self._load(run, packed.get(run, []))) is not None
            and each.spec == spec
            and images_sha256 in (None, each.images_sha256)
        ]
        return max(found, key=lambda each: (each.state == "done", each.number), default=None)

    def identifiers(self) -> list[str]:
        """Name all runs that have a record, sorted."""
        return sorted({*self.own_identifiers(), *self._packed()})

    def own_identifiers(self) -> list[str]:
        """Name the runs that have a record in a folder of their own, sorted."""
        return sorted(path.parent.name for path in self.folder.glob(f"*/{RECORD}"))

    def unfinished(self) -> list[str]:
        """Name the runs that have a checkpoint or are being made, and no record."""
        begun = {path.parent.name for path in self.folder.glob(f"*/{CHECKPOINT}")}
        begun |= {path.parent.name for path in self.folder.glob("*/run.progress") if self.holder(path.parent.name)}
        return sorted(begun - set(self.identifiers()))

    def find_run(self, name: str, *, unfinished: bool = False) -> str:
        """Find the run that a user means by an id, the beginning of one, or the path of its folder or a file in it.

        It must be one run, and have a record unless an `unfinished` one will do.
        """
        wanted = name
        if "/" in name or name in (RECORD, WEIGHTS, MEASUREMENTS):
            path = Path(os.path.expanduser(name)).absolute()
            path = path.parent if path.name in (RECORD, WEIGHTS, MEASUREMENTS) else path
            wanted = path.name
            if path.resolve().parent != self.folder.resolve():
                raise InputError(f"{name} is not in {self.folder}; name its results folder with --results")
        known, begun = self.identifiers(), self.unfinished()
        candidates = [*known, *begun] if unfinished else known
        matches = [run for run in candidates if run == wanted]
        matches = matches or [run for run in candidates if wanted and run.startswith(wanted)]
        cut_off = [run for run in begun if not matches and wanted and run.startswith(wanted)]
        if cut_off:
            raise InputError(
                f"{cut_off[0]} has no record yet: it is being trained or was cut off, and the command that began it "
                "goes on with it; thetarbm show says how far it is"
            )
        if not matches:
            hint = f"{command_line('list')} shows those there are" if known else "train one first"
            raise InputError(f"there is no run {name!r} in {self.folder}; {hint}")
        if len(matches) > 1:
            raise InputError(f"{name!r} may be any of these, write more of the id:\n{self._listed(matches)}")
        return matches[0]

    def _listed(self, runs: list[str]) -> str:
        """List runs, one a line, with the settings in which they differ, as far as a message has room."""
        settings = {
            each.run: {**each.spec.named(), "seed": each.spec.seed} for each in self.trainings(runs[:MOST_NAMED])
        }
        names = dict.fromkeys(name for each in settings.values() for name in each)
        differing = [name for name in names if len({str(each.get(name, "none")) for each in settings.values()}) > 1]
        lines = []
        for run in runs[:MOST_NAMED]:
            known = settings.get(run, {})
            words = ", ".join(f"{name}={known[name]}" for name in differing if name in known)
            lines.append(f"  {run} ({words})" if words else f"  {run}")
        rest = len(runs) - MOST_NAMED
        return "\n".join([*lines, *([f"  or {rest} more"] if rest > 0 else [])])

    # Writing

    def new_id(self, spec: TrainSpec, images_sha256: str) -> str:
        """Name a further training of a description: its id, or ``<id>-2`` and so on.

        A record that cannot be read leaves its name to the next; one of a newer version is refused.
        """
        base = spec.run_id(images_sha256)
        names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        found = next(name for name in names if self.load(name) is None)
        documents.refuse_newer(self.path(found, RECORD), FORMAT)
        return found

    def save(self, training: Training) -> None:
        """Write a training; one that is there already is never written over."""
        path = self.path(training.run, RECORD)
        documents.refuse_newer(path, FORMAT)
        if self._load(training.run, []) is not None:
            raise StorageError(f"{path} is there already, and is not written over")
        if path.exists():
            _put_aside(path)
        documents.write(path, training.model_dump(mode="json"))

    def add(self, measurement: Measurement) -> None:
        """Append a measurement to its training's."""
        path = self.path(measurement.run, MEASUREMENTS)
        if os.path.lexists(path) and not path.is_file():
            _put_aside(path)
        documents.append_line(path, measurement.model_dump(mode="json"))

    # Weights and checkpoints

    def save_weights(self, run: str, arrays: Mapping[str, NDArray[Any]]) -> str:
        """Write weights; give their checksum."""
        write_arrays(self.path(run, WEIGHTS), arrays)
        return storage.sha256_of_file(self.path(run, WEIGHTS))

    def load_weights(self, run: str) -> tuple[dict[str, NDArray[Any]], str] | None:
        """Read weights and their checksum; None if they are missing or, with a warning, damaged."""
        path = self.path(run, WEIGHTS)
        try:
            return read_arrays(path), storage.sha256_of_file(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s is not used: %s", path, error)
            return None

    def load_checkpoint(self, run: str) -> dict[str, NDArray[Any]] | None:
        """Read the state after the last saved epoch; None if there is none that can be used."""
        path = self.path(run, CHECKPOINT)
        try:
            return read_arrays(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.warning("%s is not used, training starts anew: %s", path, error)
            return None

    # Packs

    def pack(self, path: Path, runs: Iterable[str], *, slim: bool = False) -> int:
        """Write trainings and measurements, together with what the pack has already; count its trainings.

        The same records give the same bytes. A slim pack is without the details behind the numbers and, in the folder
        of packs, without what another pack has.
        """
        if not path.name.endswith(PACKS.removeprefix("*")):
            raise InputError(f"{path} is not read by any command: let its name end in {PACKS.removeprefix('*')}")
        there = read_pack(path) if path.exists() else {}
        if path.exists() and not there:
            raise InputError(f"{path} cannot be read, and is not written over: move it away first")
        wanted, packed = {*runs, *there}, self._packed()
        loaded = (self._load(run, [*packed.get(run, []), *there.get(run, [])]) for run in wanted)
        found = {training.run: training for training in loaded if training is not None}
        for run in sorted(wanted - found.keys()):
            raise InputError(f"the record of {run} in {self.path(run)} cannot be used; train it again or leave it out")
        leaves_out = slim and path.parent == self.results / "packed"
        beside = [read_pack(each) for each in sorted(path.parent.glob(PACKS)) if leaves_out and each != path]
        lines = []
        for run in sorted(found):
            others = [line for pack in beside for line in pack.get(run, [])]
            for each in (found[run], *found[run].by_key.values()):
                content = each.model_dump(mode="json")
                told = {
                    name: value for name, value in content.items() if name in ("format", "weights_sha256", "values")
                }
                if any(line["spec"] == content["spec"] and told.items() <= line.items() for line in others):
                    continue
                if slim and "details" in content:
                    content["details"] = {}
                lines.append(documents.line_text(content))
        storage.write_bytes(path, lzma.compress("".join(f"{line}\n" for line in lines).encode(), preset=9))
        return len(found)

    def remove_packed(self, path: Path) -> list[str]:
        """Remove the own records of runs that a pack has with all their numbers, and name them; weights stay."""
        pack, removed = read_pack(path), []
        for run in self.own_identifiers():
            if run not in pack:
                continue
            if self.holder(run):
                logger.warning("%s stays in %s: another process works on it", run, self.path(run))
                continue
            own, there = self._load(run, []), _from_lines(run, pack[run], path)
            if own is None or there is None or _texts(own) - _texts(there):
                logger.warning("%s stays in %s: it is not as it was packed", run, self.path(run))
                continue
            self.path(run, RECORD).unlink()
            self.path(run, MEASUREMENTS).unlink(missing_ok=True)
            removed.append(run)
            with suppress(OSError):
                if {each.name for each in self.path(run).iterdir()} <= {"run.lock"}:
                    shutil.rmtree(self.path(run))
        return removed


@contextmanager
def _uncollected() -> Iterator[None]:
    """Leave garbage alone for a moment: looking for it among records as they are made takes a third of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def shipped_packs() -> Path:
    """Give the folder of packs inside an installed package; a checkout has its own results."""
    return Path(__file__).with_name("packed")


def read_pack(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Read the lines of a pack by run; one that cannot be read has none, with a warning."""
    try:
        status = path.stat()
        return _read_once(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        logger.warning("%s is not used: it cannot be read (%s)", path, error.strerror)
        return {}


@lru_cache(maxsize=8)
def _read_once(path: Path, changed: int, size: int) -> dict[str, list[dict[str, Any]]]:
    """Read a pack once a call, as long as it does not change."""
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=LARGEST_PACK)
    try:
        with storage.open_plain(path) as stream:
            text = unpacker.decompress(stream.read(LARGEST_PACK), max_length=LARGEST_PACK)
    except lzma.LZMAError as error:
        logger.warning("%s is not used: it is not whole xz (%s); the records in it are missing", path, error)
        return {}
    if not unpacker.eof or unpacker.unused_data:
        logger.warning("%s is not used: it is cut off, or is followed by something else", path)
        return {}
    lines, problems = documents.read_lines(text)
    for problem in problems:
        logger.warning("%s: %s and is not used", path, problem)
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        found.setdefault(str(line.get("run")), []).append(line)
    return found


def _from_lines(run: str, lines: Iterable[dict[str, Any]], path: Path) -> Training | None:
    """Make a training of the first line that describes one, and of all that are measurements."""
    found: Training | None = None
    measurements = []
    for line in lines:
        if "format" not in line:
            measurements.append(line)
        elif found is None and (training := _validated(Training, line, path)) is not None:
            if training.run == run:
                found = training
            else:
                logger.warning("%s is not used: it belongs to run %s", path, training.run)
    if found is not None:
        own = (
            _validated(Measurement, line, path.with_name(MEASUREMENTS))
            for line in measurements
            if line.get("run") == run
        )
        found.measurements = [each for each in own if each is not None]
    return found


def _put_aside(path: Path) -> None:
    """Keep what cannot be read beside, as ``damaged-1`` and so on."""
    names = (path.with_name(f"damaged-{number}{path.suffix}") for number in itertools.count(1))
    target = next(name for name in names if not os.path.lexists(name))
    logger.warning("%s cannot be used, and is kept as %s", path, target.name)
    try:
        path.rename(target)
    except OSError as error:
        raise StorageError(f"cannot rename {path}: {error.strerror}") from error


def _texts(training: Training) -> set[str]:
    """Give a training and each of its measurements as a text, without what a slim pack leaves out."""
    return {each.model_dump_json(exclude={"details"}) for each in (training, *training.by_key.values())}


Kind = TypeVar("Kind", Training, Measurement)


def _validated(kind: type[Kind], content: dict[str, Any], path: Path) -> Kind | None:
    """Make a record of its content; None, with a warning, if this version does not read it."""
    try:
        if kind is Training:
            documents.check_format(content, FORMAT)
        return kind.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        reason = f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
    except ValueError as error:
        reason = str(error)
    logger.warning("%s is not used: %s", path, reason)
    return None


def run_identifiers(results: Path) -> Iterator[str]:
    """Name the runs in a results folder for a shell that completes a word."""
    for path in (results / "runs").glob(f"*/{RECORD}"):
        yield path.parent.name
    for pack in (results / "packed").glob(PACKS):
        yield from read_pack(pack)
