"""The file of a suite: where it is, its content together with the place of every value, and its names.

Only plain YAML is read: no tags, no anchors, no aliases. So nothing can be constructed but text, numbers, lists and
mappings, and a small file cannot grow into a large value. Nothing here imports NumPy or pydantic: a shell
that completes a word asks for the names at every press of a key.
"""

from __future__ import annotations

import itertools
import json
import lzma
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from thetarbm_cli.errors import InputError

NAME = "experiments.yaml"
LARGEST_BYTES = 1_000_000
DEEPEST = 20
# Cells of all profiles: a grid of a few long axes would have more than can be planned.
MOST_CELLS = 10_000
# Of more problems the first are told: who has so many is not helped by a longer list.
MOST_TOLD = 50

Key = str | int
Place = tuple[Key, ...]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    place: Place
    message: str
    line: int
    column: int


@dataclass
class Document:
    """A YAML file as plain values, with the line and column of each."""

    path: Path
    lines: list[str]
    content: Any = None
    marks: dict[Place, tuple[int, int]] = field(default_factory=dict)
    key_marks: dict[Place, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    noted: set[Place] = field(default_factory=set)

    def add(self, place: Place, message: str, *, at_key: bool = False) -> None:
        """Note a problem at a value, or at its key; a place that is not in the file is shown at its nearest parent."""
        known = place
        while known and known not in self.marks:
            known = known[:-1]
        marks = self.key_marks if at_key and known == place and known in self.key_marks else self.marks
        line, column = marks.get(known, (1, 1))
        self.problems.append(Problem(place, message, line, column))
        self.noted.add(place)

    def raise_problems(self) -> None:
        """Raise all problems as one error, in the order of the file."""
        if not self.problems:
            return
        problems = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        first = f", of which the first {MOST_TOLD} are" if len(problems) > MOST_TOLD else ""
        told = [self._show(each) for each in problems[:MOST_TOLD]]
        raise InputError("\n".join([f"{self.path} has {count}{first}:", *told]))

    def _show(self, problem: Problem) -> str:
        where = f"{dotted(problem.place)}: " if problem.place else ""
        text = f"  {self.path}:{problem.line}:{problem.column}: {where}{problem.message}"
        if problem.line > len(self.lines):
            return text
        excerpt = self.lines[problem.line - 1][:160]
        number = f"{problem.line:>6} | "
        return f"{text}\n{number}{excerpt}\n{'| ':>{len(number)}}{' ' * (problem.column - 1)}^"


def dotted(place: Place) -> str:
    """A place as people write it: ``experiments[2].grid.sparsity``."""
    text = ""
    for key in place:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def shipped_path() -> Path:
    """The suite of the package: inside it where it was installed, beside it in a checkout."""
    inside = Path(__file__).with_name(NAME)
    return inside if inside.is_file() else Path(__file__).parents[2] / NAME


def find_suite(given: Path | None = None) -> Path:
    """The file that was given, else the one of the current folder, else the shipped one."""
    if given is not None:
        return given
    here = Path(NAME)
    return here if here.is_file() else shipped_path()


def read_document(path: Path) -> Document:
    """Read a file of plain YAML."""
    text = read_suite_text(path)
    document = Document(path, text.splitlines())
    try:
        # What is wrong is told by the parser in Python, which says more of it.
        loader = LOADER if _is_plain(text) else yaml.SafeLoader
        document.problems.extend(find_extras(text, loader))
        document.raise_problems()
        node = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        message = str(getattr(error, "problem", None) or "it is not YAML")
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        document.problems.append(Problem((), message, line, column))
        document.raise_problems()
        raise AssertionError("unreachable") from error
    if node is None:
        raise InputError(f"the suite {path} is empty")
    document.content = _plain(document, node, ())
    document.raise_problems()
    return document


def _is_plain(text: str) -> bool:
    """Whether a text is YAML without tags, anchors, aliases and deep nesting."""
    try:
        return next(find_extras(text, LOADER), None) is None
    except yaml.YAMLError:
        return False


def read_suite_text(path: Path) -> str:
    """Text of a suite, which may not be too large."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"cannot read the suite {path}: it is not a file")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise InputError(f"{path} is larger than {LARGEST_BYTES} bytes: that is no suite")
        return content.decode()
    except OSError as error:
        raise InputError(f"cannot read the suite {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the suite {path} is not UTF-8 text (byte {error.start})") from error


def find_extras(text: str, loader: Any) -> Iterator[Problem]:
    """Every tag, anchor and alias in a text, and what is too deep, without building anything from them."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (0, 0)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            yield Problem((), f"deeper than {DEEPEST} levels", line, column)
            return
        extra = None
        if isinstance(event, yaml.AliasEvent):
            extra = f"alias *{event.anchor}"
        elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            extra = f"anchor &{event.anchor}"
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            extra = f"tag {event.tag}"
        if extra:
            yield Problem((), f"{extra} is not allowed: write the value out", line, column)


def _plain(document: Document, node: yaml.Node, place: Place) -> Any:
    """The value of a node; marks and doubled keys are noted on the way."""
    document.marks[place] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(document, child, (*place, number)) for number, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        mapping = {}
        for key_node, child in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            mark = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if key in mapping or not isinstance(key_node, yaml.ScalarNode):
                what = f"{key!r} is there twice" if key in mapping else "a key must be a word"
                document.problems.append(Problem((*place, key), what, *mark))
                continue
            mapping[key] = _plain(document, child, (*place, key))
            document.key_marks[(*place, key)] = mark
        return mapping
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        document.add(place, f"cannot be read as a value ({error})".split("\n", maxsplit=1)[0])
        return None


# The parser in C is fifteen times as fast; without line numbers and checks it is all that names need.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class SuiteNames:
    """What a suite has by name: experiments and profiles with what each is about, cells by experiment, tables."""

    experiments: dict[str, str]
    cells: dict[str, list[str]]
    profiles: dict[str, str]
    tables: tuple[str, ...]


NOTHING = SuiteNames({}, {}, {}, ())


# Of the first lines of a pack, which name its runs.
LARGEST_LINE = 1 << 24


def run_identifiers(folder: Path) -> list[str]:
    """Names of all runs in a folder of runs that have a record, sorted."""
    return sorted(path.parent.name for path in folder.glob("*/run.json"))


def packed_identifiers(folder: Path | None = None) -> list[str]:
    """Names of all runs in a folder of packs, or in the package's; see `experiments.runs.packing`."""
    names: list[str] = []
    for path in (folder or Path(__file__).with_name("packed")).glob("*.records.xz"):
        with suppress(OSError, EOFError, lzma.LZMAError, ValueError, KeyError, TypeError), lzma.open(path) as stream:
            stream.readline(LARGEST_LINE)
            names += json.loads(stream.readline(LARGEST_LINE))["runs"]
    return names


def cell_name(experiment: str, at: dict[str, Any]) -> str:
    """Name of a cell: ``theta/sparsity=0.3``, or the experiment's own name if it has one cell."""
    words = (f"{axis}={value:g}" if isinstance(value, float) else f"{axis}={value}" for axis, value in at.items())
    values = ",".join(words)
    return f"{experiment}/{values}" if values else experiment


def suite_names(given: Path | None = None) -> SuiteNames:
    """Names in a suite, which is read but not checked; one that cannot be read has none."""
    try:
        text = read_suite_text(find_suite(given))
        # The loader itself would follow aliases that grow, and nesting until its stack ends.
        if not _is_plain(text):
            return NOTHING
        content = yaml.load(text, Loader=LOADER)
        experiments = {entry["name"]: entry for entry in content["experiments"]}
        return SuiteNames(
            {name: str(entry.get("about") or entry.get("label", "")) for name, entry in experiments.items()},
            {name: _cells(name, entry.get("grid", {})) for name, entry in experiments.items()},
            {name: str((profile or {}).get("about", "")) for name, profile in content["profiles"].items()},
            tuple(dict.fromkeys(str(table) for entry in experiments.values() for table in entry.get("tables", []))),
        )
    except (ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return NOTHING


def _cells(experiment: str, grid: dict[str, list[Any]]) -> list[str]:
    if math.prod(len(values) for values in grid.values()) > MOST_CELLS:
        return []
    return [cell_name(experiment, dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]
