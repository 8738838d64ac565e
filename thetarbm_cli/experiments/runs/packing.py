"""Many records in one compressed file, to publish them or to keep a thousand runs without a thousand folders.

A pack is xz-compressed text, a JSON document a line. The first line has the format of the pack and the SHA-256 of all
lines after it; the second says which program wrote it, whether the records are slim, where runs were made (each
environment once), and which runs follow. Then comes a line per run: its record as ``run.json`` has it, and what was
measured later. A slim record is without values per unit and confusion matrices. A pack that is damaged is not used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import lzma
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic_core import from_json

from thetarbm_cli import __version__, documents, storage
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.record import FORMAT, StoredRun, validated

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.store import RunStore

PACK_FORMAT = 1
SUFFIX = ".records.xz"
# A hundred thousand slim records; what unpacks to more is not one of our files.
LARGEST_BYTES = 1 << 29
# The end of a number of a hundred digits or more; a pattern that begins with one letter is found five times as fast.
HUGE = tuple(re.compile(letter + rb"\+?\d{3,}[,\]}]") for letter in (b"e", b"E"))

logger = logging.getLogger("thetarbm")


def shipped_packs() -> Path:
    """The folder of packs in the package: the paper's runs, where it was installed; a checkout has its own results."""
    return Path(__file__).parents[1] / "packed"


class Contents(BaseModel):
    """The second line of a pack."""

    program: str
    slim: bool
    environments: list[dict[str, Any]]
    runs: list[str]


@dataclass(frozen=True)
class Pack:
    """A pack that was read and is whole; each record is checked when it is asked for."""

    path: Path
    contents: Contents
    lines: dict[str, bytes]

    def load(self, run: str) -> StoredRun:
        """Read one run; a record that this version does not read is a `ValueError`."""
        line = self.lines[run]
        if any(huge.search(line) for huge in HUGE):
            raise ValueError("it holds a number that is too large")
        content = from_json(line, allow_inf_nan=False)
        try:
            documents.check_format(content["record"], FORMAT)
            for part in _with_environment(content):
                part["environment"] = self.contents.environments[part["environment"]]
        except (TypeError, KeyError, IndexError) as error:
            raise ValueError("it is not a record") from error
        found = validated(StoredRun, content)
        if found.record.run != run:
            raise ValueError(f"it belongs to run {found.record.run}")
        return found


def _with_environment(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Find the parts of a run's document that say where something was made."""
    record = content["record"]
    weights = [each["weights"] for each in content.get("measurements", [])]
    return [record, *([record["measured_with"]] if record.get("measured_with") else []), *weights]


def pack_records(store: RunStore, path: Path, runs: Iterable[str], slim: bool = True) -> int:
    """Write the records of runs, with what was measured later, into one file; give how many there are.

    The same records give the same bytes.
    """
    if not path.name.endswith(SUFFIX):
        raise InputError(f"{path} is not read by any command: let its name end in {SUFFIX}")
    environments: dict[str, int] = {}
    lines, names = [], sorted(set(runs))
    for run in names:
        found = store.load_parts(run)
        if found is None:
            raise InputError(f"the record of {run} in {store.path(run)} cannot be used; train it again or leave it out")
        document = found.document(slim=slim)
        for part in _with_environment(document):
            part["environment"] = environments.setdefault(_line(part["environment"]), len(environments))
        lines.append(_line(document))
    contents = Contents(
        program=__version__, slim=slim, environments=[json.loads(each) for each in environments], runs=names
    )
    body = "\n".join([_line(contents.model_dump()), *lines, ""]).encode()
    header = _line({"format": PACK_FORMAT, "sha256": hashlib.sha256(body).hexdigest()}).encode()
    storage.write_bytes(path, lzma.compress(header + b"\n" + body, preset=9))
    return len(names)


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def add_records(store: RunStore, path: Path, runs: Iterable[str], slim: bool) -> int:
    """Write the records of runs into a pack of the store's own; those that it has already stay."""
    try:
        there = read_pack(path)
    except FileNotFoundError:
        return pack_records(store, path, runs, slim)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is there and cannot be added to: {error}; choose another file with --out") from error
    if there.contents.slim != slim:
        kind = "slim" if there.contents.slim else "whole"
        raise InputError(f"{path} has {kind} records, which are not mixed; choose another file with --out")
    return pack_records(store, path, {*runs, *there.lines}, slim)


def remove_packed(store: RunStore, path: Path) -> list[str]:
    """Remove the own records of runs that a pack has word for word, slim if it is slim, and name them; weights stay.

    One that another process works on, or that is not as it was packed, is left out with a warning.
    """
    pack = read_pack(path)
    removed = []
    for run in store.own_identifiers():
        if run not in pack.lines:
            continue
        if store.is_held(run):
            logger.warning("%s stays in %s: another process works on it", run, store.path(run))
            continue
        with store.locked(run):
            own = store.load_parts(run)
            if own is None or own.document(slim=pack.contents.slim) != pack.load(run).document():
                logger.warning("%s stays in %s: it is not as it was packed", run, store.path(run))
                continue
            store.record_path(run).unlink()
            store.measures_path(run).unlink(missing_ok=True)
        removed.append(run)
        with suppress(OSError):
            if {each.name for each in store.path(run).iterdir()} <= {"run.lock"}:
                shutil.rmtree(store.path(run))
    return removed


def find_packs(*folders: Path) -> list[Pack]:
    """Read the packs of some folders; those with whole records come before slim ones, then they go by name.

    A pack hides one of the same name in a later folder. One that is not whole is left out, with a warning.
    """
    paths = {path.name: path for folder in reversed(folders) for path in folder.glob(f"*{SUFFIX}")}
    packs = (_usable_pack(path) for path in paths.values())
    return sorted((pack for pack in packs if pack), key=lambda pack: (pack.contents.slim, pack.path.name))


def _usable_pack(path: Path) -> Pack | None:
    try:
        status = path.stat()
        return _read_once(path, status.st_mtime_ns, status.st_size)
    except OSError as error:
        logger.warning("%s is not used: it cannot be read (%s)", path, error.strerror)
        return None


@lru_cache(maxsize=8)
def _read_once(path: Path, changed: int, size: int) -> Pack | None:
    """Read a pack once a call, as long as it does not change."""
    try:
        return read_pack(path)
    except ValueError as error:
        logger.warning("%s is not used: %s; the records in it are missing", path, error)
        return None


def read_pack(path: Path) -> Pack:
    """Read a pack; an `OSError` if it cannot be read, a `ValueError` that says how if it is damaged."""
    with storage.open_plain(path) as stream:
        first, _, body = _unpacked(stream.read(LARGEST_BYTES)).partition(b"\n")
    try:
        header = from_json(first)
        if not isinstance(header, dict):
            raise ValueError("it has no header")
        documents.check_format(header, PACK_FORMAT)
        if header.get("sha256") != hashlib.sha256(body).hexdigest():
            raise ValueError("its checksum is not that of its content: it was damaged or changed by hand")
        second, *lines = body.split(b"\n")[:-1]
        contents = validated(Contents, from_json(second))
        return Pack(path, contents, dict(zip(contents.runs, lines, strict=True)))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _unpacked(content: bytes) -> bytes:
    """Decompress, but not without end."""
    unpacker = lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=LARGEST_BYTES)
    try:
        text = unpacker.decompress(content, max_length=LARGEST_BYTES)
    except lzma.LZMAError as error:
        raise ValueError(f"it is not whole xz ({error})") from error
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("it is cut off, or is followed by something else")
    return text
