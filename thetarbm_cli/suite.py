"""The suite, ``experiments.yaml``: experiments, published numbers, readings; from its file to cells and their specs.

Settings stand everywhere under the names that ``--set`` takes, in a mapping `set`: of `defaults`, profiles, options of
choices, and experiments. A cell is one point of an experiment's grid with all of them merged; it gives the descriptions
of its trainings and measurements. An experiment may be `like` another, from which it takes what it does not say itself.
A suite of one's own has the shipped tables and profiles beside its own.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationError

from thetarbm_cli import parameters
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.measures import MEASURES
from thetarbm_cli.registry import DATASETS, MODELS
from thetarbm_cli.specs import (
    SEES,
    MeasureSettings,
    MeasureSpec,
    TrainSpec,
    measure_settings,
    measure_specs,
    measuring,
    train_settings,
    train_spec,
)

NAME = "experiments.yaml"
LARGEST_BYTES = 1_000_000
DEEPEST = 20
# Cells of all profiles: a grid of a few long axes would have more than can be planned.
MOST_CELLS = 10_000
MOST_SEEDS = 1000
# Of more problems the first are told: a longer list helps nobody.
MOST_TOLD = 50
# Short names of axes; all others are settings by their names.
AXES = {
    **{name: f"perturbation.{name}" for name in ("n", "p", "overflow", "scope", "draws")},
    "source": "data.source",
    "data_seed": "data.seed",
}

Place = tuple[str | int, ...]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None
Settings = dict[str, Scalar]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=60)]
# No hyphen: the files of a profile or a source end in one, as table1-quick.md.
TableName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=60)]


class Node(BaseModel):
    """A part of a suite: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Paper(Node):
    """What is reproduced."""

    title: str
    authors: str
    year: int


class Literature(Node):
    """A test error on mnist-rot that was published elsewhere."""

    label: str = Field(min_length=1)
    year: int
    test_error_percent: float = Field(gt=0, lt=100)
    family: Literal["RBM", "CNN", "SVM"] = Field(description="Which kind of model learns from the images.")


class Profile(Node):
    """Sizes of runs, and how many seeds they have."""

    about: str = ""
    seeds: int = Field(default=1, ge=1, le=MOST_SEEDS, description="Seeds of every cell: 0, 1, …")
    set: Settings = Field(default={}, description="Settings over the defaults.")


class Option(Node):
    """One plausible reading of an open point: its settings, and why somebody would take it."""

    why: str = Field(min_length=1)
    taken: bool = Field(default=False, description="Whether it is the one that the suite takes.")
    alone: bool = Field(default=False, description="Tried by itself, never together with other changes.")
    set: Settings = Field(default={}, description="Settings of the models that the choice concerns.")
    gamma: Literal["mean", "ratio"] | None = Field(
        default=None, description="Which γ counts: the mean over units, or a ratio of sums."
    )


class Choice(Node):
    """A question that the paper leaves open, with its answers; a universe has one of each choice."""

    models: list[str] = Field(default=[], description="The models that it concerns; without, all.")
    options: dict[Name, Option] = Field(min_length=2)

    @property
    def taken(self) -> str:
        """The option that the suite takes."""
        return next(name for name, option in self.options.items() if option.taken)


class Assumption(Node):
    """An open point of the paper, the reading taken, why, and what else it could be."""

    name: Name
    reading: str = Field(min_length=1)
    why: str = Field(min_length=1)
    choices: dict[Name, Choice] = Field(default={})


class NamedUniverse(Node):
    """A universe that somebody wants to see, beside those that a design makes by itself."""

    why: str = Field(min_length=1)
    options: dict[Name, Name] = Field(min_length=1, description="By choice; others as the suite takes them.")


class Design(Node):
    """Cells that are run in every universe, and the choices that make the universes."""

    about: str = ""
    cells: list[str] = Field(min_length=1, description="Experiments, cells or patterns of cells.")
    choices: list[Name] = Field(min_length=1)
    measures: list[str] = Field(default=[], description="Instead of those that the cells ask for.")
    rare: dict[str, Annotated[StrictInt, Field(ge=0)]] = Field(
        default={}, description="In how many sampled universes a model is trained that is too expensive for all."
    )
    universes: dict[Name, NamedUniverse] = Field(default={}, description="Universes beside the designed ones.")


class Multiverse(Node):
    """What `thetarbm multiverse` goes through."""

    excludes: list[dict[Name, Name]] = Field(default=[], description="Options by choice that make no sense together.")
    designs: dict[Name, Design] = Field(min_length=1)


class Published(Node):
    """What the paper prints for one cell."""

    at: dict[str, Scalar] = Field(default={}, description="The cell: a value for every axis of the grid.")
    test_error_percent: float | None = Field(default=None, ge=0, le=100)
    gamma_train: float | None = Field(default=None, ge=0, le=1)
    gamma_test: float | None = Field(default=None, ge=0, le=1)


class TableKind(Node):
    """A table, which experiments name in their `tables`."""

    title: str = Field(min_length=1)
    layout: Literal["list", "sparsity", "perturbation", "axis"] = Field(
        default="list",
        description="list: a row for each cell; sparsity: rows are models, columns sparsity targets; perturbation: "
        "rows n, columns p; axis: columns the values of an axis.",
    )
    measures: list[str] = Field(
        default=["test_error_percent", "gamma_train", "gamma_test"], min_length=1, description="Its columns."
    )
    axis: str = Field(default="", description="The axis whose values are columns.")
    published_digits: int | None = Field(default=None, description="Digits that the paper prints, if fewer than ours.")
    note: str = Field(default="", description="A sentence below it.")


class Interest(Node):
    """When a difference of a measure matters: the rule of verdicts (`thetarbm_cli.reporting.claims`)."""

    difference: float = Field(ge=0, description="The smallest difference of interest between two of our numbers.")
    near: float | None = Field(default=None, ge=0, description="The same between one of ours and the paper's.")
    why: str = ""


class Experiment(Node):
    """A model with its settings, over a grid."""

    name: Name
    like: Name | None = Field(default=None, description="Another experiment, for all that is not given here.")
    label: str = Field(default="", description="What tables call it.")
    about: str = ""
    model: str = ""
    set: Settings = Field(default={}, description="Settings, over those of the defaults and the profile.")
    grid: dict[str, Annotated[list[Scalar], Field(min_length=1)]] = Field(
        default={}, description="Values of each axis: a setting, or n, p, scope, draws, overflow, source, data_seed."
    )
    readings: dict[Name, Name] = Field(
        default={}, description="Options by choice, over its other settings; what the profile and the grid say stays."
    )
    measures: list[str] = Field(default=["error", "gamma"], min_length=1)
    offsets: list[Annotated[float, Field(ge=0, lt=360)]] = Field(
        default=[], description="Further Δ in degrees for which γ is measured, on the training images."
    )
    seeds: StrictInt | None = Field(default=None, ge=1, description="Fewer seeds than the profile asks for.")
    tables: list[str] = Field(default=[])
    published: list[Published] = Field(default=[])
    context: str = Field(default="", description="A note for the reader of the tables.")
    on_request: bool = Field(default=False, description="Run only if it is named.")


class Defaults(Node):
    """Settings of all experiments."""

    set: Settings = Field(default={})


class Theory(Node):
    """Size of the numerical check of the paper's mathematics."""

    rotations: StrictInt = Field(default=9, ge=2, le=72)
    size: StrictInt = Field(default=28, ge=4, le=40)


class Suite(Node):
    """The whole file."""

    format: Literal[2]
    title: str
    paper: Paper | None = None
    literature: list[Literature] = Field(default=[], description="Errors on mnist-rot published elsewhere.")
    assumptions: list[Assumption] = Field(default=[])
    defaults: Defaults = Defaults()
    profiles: dict[Name, Profile] = Field(default={})
    multiverse: Multiverse | None = None
    theory: Theory | None = None
    interest: dict[str, Interest] = Field(default={}, description="Smallest differences of interest, by measure.")
    tables: dict[TableName, TableKind] = Field(default={}, description="Tables by name.")
    experiments: list[Experiment] = Field(min_length=1)

    @cached_property
    def choices(self) -> dict[str, Choice]:
        """All choices by name, in the order of the file."""
        return {name: choice for assumption in self.assumptions for name, choice in assumption.choices.items()}

    def profile(self, name: str) -> Profile:
        """Find a profile by its name."""
        if name not in self.profiles:
            raise InputError(f"the suite has no profile {name!r}: {did_you_mean(name, self.profiles)}")
        return self.profiles[name]

    def cells(self, profile: str = "paper", source: str | None = None, *, in_tables: bool = False) -> list[Cell]:
        """Give all cells of a profile, or those that tables show, in the order of the file.

        `source` replaces the source of the images, but where it is an axis.
        """
        self.profile(profile)
        return [
            self._cell(experiment, dict(zip(experiment.grid, values, strict=True)), profile, source)
            for experiment in self.experiments
            if experiment.tables or not in_tables
            for values in itertools.product(*experiment.grid.values())
        ]

    def _cell(self, experiment: Experiment, at: dict[str, Any], profile: str, source: str | None) -> Cell:
        size = self.profile(profile)
        published = next((each for each in experiment.published if each.at == at), Published())
        known = parameters.declared(experiment.model) if experiment.model in MODELS.names else {}
        common = {**self.defaults.set, **size.set}
        # What they say of learning means nothing to a control.
        common = {
            name: value for name, value in common.items() if "." in name or name in measure_settings() or name in known
        }
        axes = {AXES.get(axis, axis): value for axis, value in at.items()}
        given = {**common, **experiment.set, **({"data.source": source} if source else {}), **axes}
        cell = Cell(
            name=cell_name(experiment.name, at),
            profile=profile,
            experiment=experiment.name,
            label=experiment.label,
            model=experiment.model,
            at=at,
            given=given,
            measures=tuple(experiment.measures),
            offsets=tuple(experiment.offsets),
            tables=tuple(experiment.tables),
            seeds=min(experiment.seeds or size.seeds, size.seeds),
            most_seeds=experiment.seeds,
            published=published.model_dump(exclude={"at"}, exclude_none=True),
            context=experiment.context,
            on_request=experiment.on_request,
        )
        return cell.with_options(self.options_for(experiment.model, experiment.readings), {**size.set, **axes})

    def options_for(self, model: str, options: Mapping[str, str]) -> list[Option]:
        """Give the options, named by choice, that concern a model."""
        return [
            self.choices[name].options[option]
            for name, option in options.items()
            if not self.choices[name].models or model in self.choices[name].models
        ]


@dataclass(frozen=True)
class Cell:
    """One point of an experiment's grid: what is trained, what is measured of it, and one value of a table over seeds.

    Attributes
    ----------
    name : the experiment and the values of its axes, as ``theta/sparsity=0.3``
    at : values of the axes
    given : all settings that the suite gives, by name; others have their defaults
    seeds : how many seeds the profile asks for
    most_seeds : how many make sense at all, or None
    offsets : further Δ for which γ is measured on the training images
    published : the paper's values by measure
    gamma : which γ counts in a universe
    """

    name: str
    profile: str
    experiment: str
    label: str
    model: str
    at: dict[str, Any]
    given: dict[str, Any]
    measures: tuple[str, ...]
    offsets: tuple[float, ...]
    tables: tuple[str, ...]
    seeds: int
    most_seeds: int | None
    published: dict[str, float]
    context: str
    on_request: bool
    gamma: str = "mean"

    def with_options(self, options: Iterable[Option], kept: Mapping[str, Any] = {}) -> Cell:
        """Give the cell with the settings of options, but for values that are kept."""
        given, gamma = dict(self.given), self.gamma
        perturbed = any(name in given for name in ("perturbation.n", "perturbation.p"))
        for option in options:
            gamma = option.gamma or gamma
            for name, value in option.set.items():
                if perturbed or not name.startswith("perturbation."):
                    given[name] = kept.get(name, value)
        return replace(self, given=given, gamma=gamma)

    @property
    def compares_data(self) -> bool:
        """Whether the source or the seed of the data is an axis: its runs then belong with those of other images."""
        return "source" in self.at or "data_seed" in self.at

    @cached_property
    def _measuring(self) -> MeasureSettings:
        known = measure_settings()
        named = {name: value for name, value in self.given.items() if name in known}
        return measuring(named, self.given.get("data.source"))

    def train_spec(self, seed: int = 0) -> TrainSpec:
        """Describe its training of a seed."""
        return self._described.model_copy(update={"seed": seed}) if seed else self._described

    @cached_property
    def _described(self) -> TrainSpec:
        known = measure_settings()
        return train_spec(self.model, {name: value for name, value in self.given.items() if name not in known})

    @cached_property
    def measure_specs(self) -> list[MeasureSpec]:
        """Describe its measurements."""
        train, settings = self._described, self._measuring
        found = measure_specs(train, self.measures, settings)
        for offset in self.offsets:
            if offset != settings.offset:
                others = measure_specs(train, ["gamma"], settings.model_copy(update={"offset": float(offset)}))
                found += [spec for spec in others if spec.part == "train"]
        return found

    @property
    def tested_on(self) -> str:
        """The data set of its test images."""
        return self._described.tested_on

    @property
    def source(self) -> str:
        """The source of its test images."""
        return next((spec.source for spec in self.measure_specs if spec.part != "train"), self._described.data.source)

    def unperturbed(self, cells: Iterable[Cell]) -> Cell | None:
        """Find the cell of the same training with orientations as they are estimated."""
        wanted = self._described.model_copy(update={"perturbation": None})
        return next((cell for cell in cells if cell.model == self.model and cell.train_spec() == wanted), None)


def cell_name(experiment: str, at: Mapping[str, Any]) -> str:
    """Name a cell: ``theta/sparsity=0.3``, or the experiment's own name if it has one cell."""
    words = (f"{axis}={value:g}" if isinstance(value, float) else f"{axis}={value}" for axis, value in at.items())
    values = ",".join(words)
    return f"{experiment}/{values}" if values else experiment


def choose_cells(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """Choose the cells of the named experiments or cells; without names, all that do not wait to be named.

    A name may be an experiment (``theta``), a cell (``theta/sparsity=0.3``), a pattern (``perturbation/n=1,*``) or a
    table (``fashion``), for all of its cells.
    """
    if not names:
        return [cell for cell in cells if not cell.on_request]
    for name in names:
        if not any(is_named(cell, name) for cell in cells):
            # Cells are many: they are named where an experiment is.
            known = dict.fromkeys(cell.name if "/" in name else cell.experiment for cell in cells)
            tables = dict.fromkeys(table for cell in cells for table in cell.tables)
            hint = did_you_mean(name, [*known, *tables], "it has {}")
            raise InputError(f"the suite has no experiment, cell or table {name!r}; {hint}")
    return [cell for cell in cells if any(is_named(cell, name) for name in names)]


def is_named(cell: Cell, name: str) -> bool:
    """Whether a name means a cell; see `choose_cells`."""
    return name in (cell.experiment, cell.name, *cell.tables) or fnmatchcase(cell.name, name)


def is_designed(cell: Cell, design: Design) -> bool:
    """Whether a cell is one of a design's."""
    return any(name == cell.experiment or fnmatchcase(cell.name, name) for name in design.cells)


def seeds_of(cell: Cell, seeds: int | None) -> int:
    """Count the seeds of a cell: what was asked for or its own number, and never more than make sense."""
    if seeds is not None and seeds > MOST_SEEDS:
        raise InputError(f"{seeds} seeds are too many: at most {MOST_SEEDS} are planned")
    wanted = seeds or cell.seeds
    return wanted if cell.most_seeds is None else min(wanted, cell.most_seeds)


# Reading the file


@dataclass
class Document:
    """A YAML file as plain values, with the line and column of each, and what is wrong with it."""

    path: Path
    lines: list[str]
    content: Any = None
    marks: dict[Place, tuple[int, int]] = field(default_factory=dict)
    key_marks: dict[Place, tuple[int, int]] = field(default_factory=dict)
    problems: list[tuple[int, int, str]] = field(default_factory=list)

    def add(self, place: Place, message: str, *, at_key: bool = False) -> None:
        """Note a problem at a value, or at its key; a place that is not in the file is shown at its nearest parent."""
        known = place
        while known and known not in self.marks:
            known = known[:-1]
        marks = self.key_marks if at_key and known == place and known in self.key_marks else self.marks
        where = f"{dotted(place)}: " if place else ""
        self.problems.append((*marks.get(known, (1, 1)), where + message))

    def raise_problems(self) -> None:
        """Raise all problems as one error, in the order of the file."""
        if not self.problems:
            return
        problems = sorted(dict.fromkeys(self.problems))
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        first = f", of which the first {MOST_TOLD} are" if len(problems) > MOST_TOLD else ""
        told = [self._show(*each) for each in problems[:MOST_TOLD]]
        raise InputError("\n".join([f"{self.path} has {count}{first}:", *told]))

    def _show(self, line: int, column: int, message: str) -> str:
        text = f"  {self.path}:{line}:{column}: {message}"
        if line > len(self.lines):
            return text
        number = f"{line:>6} | "
        return f"{text}\n{number}{self.lines[line - 1][:160]}\n{'| ':>{len(number)}}{' ' * (column - 1)}^"


def dotted(place: Place) -> str:
    """Write a place as people do: ``experiments[2].grid.sparsity``."""
    text = ""
    for key in place:
        text += f"[{key}]" if isinstance(key, int) else f".{key}" if text else key
    return text


def shipped_path() -> Path:
    """Give the suite of the package: inside it where it was installed, beside it in a checkout."""
    inside = Path(__file__).with_name(NAME)
    return inside if inside.is_file() else Path(__file__).parents[1] / NAME


def find_suite(given: Path | None = None) -> Path:
    """Find the file that was given, else the one of the current folder, else the shipped one."""
    if given is not None:
        return given
    here = Path(NAME)
    return here if here.is_file() else shipped_path()


# The parser in C is fifteen times as fast.
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_document(path: Path) -> Document:
    """Read a file of plain YAML, without tags, anchors and aliases: a small file cannot grow into a large value."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"cannot read the suite {path}: it is not a file")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise InputError(f"{path} is larger than {LARGEST_BYTES} bytes: that is no suite")
        text = content.decode()
    except OSError as error:
        raise InputError(f"cannot read the suite {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"the suite {path} is not UTF-8 text (byte {error.start})") from error
    document = Document(path, text.splitlines())
    try:
        try:
            extras = list(_extras(text, LOADER))
            node = None if extras else yaml.compose(text, Loader=LOADER)
        except yaml.YAMLError:
            # The parser in Python says more of what is wrong.
            extras, node = list(_extras(text, yaml.SafeLoader)), yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        extras, node = [(*place, str(getattr(error, "problem", None) or "it is not YAML"))], None
    document.problems += extras
    document.raise_problems()
    if node is None:
        raise InputError(f"the suite {path} is empty")
    document.content = _plain(document, node, ())
    document.raise_problems()
    return document


def _extras(text: str, loader: Any) -> Iterator[tuple[int, int, str]]:
    """Find every tag, anchor and alias in a text, and what is too deep, without building anything from them."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):
        mark = event.start_mark
        line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            yield line, column, f"deeper than {DEEPEST} levels"
            return
        extra = None
        if isinstance(event, yaml.AliasEvent):
            extra = f"alias *{event.anchor}"
        elif isinstance(event, yaml.NodeEvent) and event.anchor is not None:
            extra = f"anchor &{event.anchor}"
        elif isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent) and event.tag is not None:
            extra = f"tag {event.tag}"
        if extra:
            yield line, column, f"{extra} is not allowed: write the value out, or let an experiment be `like` another"


def _plain(document: Document, node: yaml.Node, place: Place) -> Any:
    """Give the value of a node; marks and doubled keys are noted on the way."""
    document.marks[place] = (node.start_mark.line + 1, node.start_mark.column + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_plain(document, child, (*place, number)) for number, child in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key_node, child in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else "?"
            mark = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if key in mapping or not isinstance(key_node, yaml.ScalarNode):
                what = f"{key!r} is there twice" if key in mapping else "a key must be a word"
                document.problems.append((*mark, f"{dotted((*place, key))}: {what}"))
                continue
            mapping[key] = _plain(document, child, (*place, key))
            document.key_marks[(*place, key)] = mark
        return mapping
    try:
        return yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        document.add(place, f"cannot be read as a value ({error})".split("\n", maxsplit=1)[0])
        return None


def load_suite(given: Path | None = None, *, check_settings: bool = True) -> Suite:
    """Read and check a suite: the file that is given, else the one of the current folder, else the shipped one.

    Every problem is found at once, and shown with its place. With `check_settings`, those of every cell are tried on
    its model, too; what reads only records does without.
    """
    path = find_suite(given)
    document = read_document(path)
    content = document.content
    if isinstance(content, dict):
        _resolve_likes(document, content)
        if path.resolve() != shipped_path().resolve():
            content = _with_shipped(content)
    try:
        suite = Suite.model_validate(content)
    except ValidationError as error:
        for problem in error.errors():
            _note(document, problem["loc"], problem["type"], problem["msg"])
        document.raise_problems()
        raise AssertionError("unreachable") from error
    for place, message, at_key in _problems(suite):
        document.add(place, message, at_key=at_key)
    document.raise_problems()
    if check_settings:
        _check_settings(document, suite)
        document.raise_problems()
    return suite


@cache
def _shipped() -> dict[str, Any]:
    content: dict[str, Any] = read_document(shipped_path()).content
    return content


def _with_shipped(content: dict[str, Any]) -> dict[str, Any]:
    """Add the shipped tables and profiles; a profile of the same name takes from the shipped one what it lacks."""
    shipped, merged = _shipped(), dict(content)
    own = content.get("profiles") or {}
    if isinstance(own, dict):
        merged["profiles"] = {**shipped["profiles"], **own}
        for name, profile in own.items():
            if isinstance(profile, dict) and name in shipped["profiles"]:
                usual = shipped["profiles"][name]
                both = isinstance(profile.get("set", {}), dict)
                merged["profiles"][name] = {
                    **usual,
                    **profile,
                    **({"set": {**usual.get("set", {}), **profile.get("set", {})}} if both else {}),
                }
    if isinstance(content.get("tables", {}), dict):
        merged["tables"] = {**shipped["tables"], **content.get("tables", {})}
    if isinstance(content.get("interest", {}), dict):
        merged["interest"] = {**shipped["interest"], **content.get("interest", {})}
    return merged


def _resolve_likes(document: Document, content: dict[str, Any]) -> None:
    """Complete experiments by those that they are like, in the order of the file."""
    entries = content.get("experiments")
    known: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(entry, dict):
            continue
        like = entry.get("like")
        if like is not None:
            if not isinstance(like, str) or like not in known:
                message = f"no experiment {like!r} above: {did_you_mean(str(like), known)}"
                document.add(("experiments", number, "like"), message)
                continue
            base = known[like]
            sets = {**(base.get("set") or {}), **(entry.get("set") or {})} if _are_mappings(base, entry) else {}
            entry = {**base, **entry, **({"set": sets} if sets else {})}
            content["experiments"][number] = entry
        known[str(entry.get("name"))] = {name: value for name, value in entry.items() if name != "like"}
    document.raise_problems()


def _are_mappings(*entries: dict[str, Any]) -> bool:
    return all(isinstance(entry.get("set") or {}, dict) for entry in entries)


def _note(document: Document, location: tuple[int | str, ...], kind: str, message: str) -> None:
    """Note a problem that pydantic found; it names the alternatives of a union after the place, which are dropped."""
    place: list[int | str] = []
    for key in location:
        if (*place, key) not in document.marks and kind != "missing":
            break
        place.append(key)
    if kind == "extra_forbidden":
        document.add(tuple(place), "unknown key", at_key=True)
    else:
        document.add(tuple(place), message[0].lower() + message[1:])


Found = tuple[Place, str, bool]


def _problems(suite: Suite) -> Iterator[Found]:
    """Find what is wrong with a suite as a whole: names of nothing, names that are taken, grids that are too large."""
    yield from _doubled_names(suite)
    yield from _wrong_experiments(suite)
    yield from _wrong_choices(suite)
    for measure in suite.interest:
        if measure not in MEASURES:
            yield ("interest", measure), f"no measure {measure!r}: {did_you_mean(measure, MEASURES)}", True
    for name, kind in suite.tables.items():
        for number, measure in enumerate(kind.measures):
            if measure not in MEASURES:
                hint = did_you_mean(measure, MEASURES)
                yield ("tables", name, "measures", number), f"no measure {measure!r}: {hint}", False


def _doubled_names(suite: Suite) -> Iterator[Found]:
    for section, names in (
        ("experiments", [each.name for each in suite.experiments]),
        ("assumptions", [each.name for each in suite.assumptions]),
    ):
        for number, name in enumerate(names):
            if name in names[:number]:
                taken = f"the name {name!r} is taken by {section}[{names.index(name)}]"
                yield (section, number, "name"), taken, False
            if name == "theory":
                yield (section, number, "name"), "'theory' is a name of its own", False
    for name in suite.tables:
        # Files are called after tables, those of a number table1 and so on.
        if name in ("all", "verdicts") or re.fullmatch(r"table\d+", name):
            yield ("tables", name), f"the name {name!r} is taken", True


def _wrong_experiments(suite: Suite) -> Iterator[Found]:
    counts = [math.prod(len(values) for values in each.grid.values()) for each in suite.experiments]
    total = len(suite.profiles) * sum(counts)
    if total > MOST_CELLS:
        place: Place = ("experiments", counts.index(max(counts)), "grid")
        yield place, f"the suite has {total} cells in its {len(suite.profiles)} profiles, {MOST_CELLS} may be", False
        return
    for number, each in enumerate(suite.experiments):
        place = ("experiments", number)
        if not each.label:
            yield (*place, "label"), "field required", False
        if each.model not in MODELS.names:
            yield (*place, "model"), f"unknown model {each.model!r}: {did_you_mean(each.model, MODELS.names)}", False
        for at, word in enumerate(each.measures):
            if word not in SEES:
                yield (*place, "measures", at), f"no measure {word!r}: it is one of {', '.join(SEES)}", False
        for at, name in enumerate(each.tables):
            if name not in suite.tables:
                known = ", ".join(suite.tables)
                yield (*place, "tables", at), f"no table {name!r}: {known}, or add it to `tables`", False
        dataset = each.set.get("data.dataset")
        if dataset is not None and dataset not in DATASETS.names:
            hint = did_you_mean(str(dataset), DATASETS.names)
            yield (*place, "set", "data.dataset"), f"unknown data set {dataset!r}: {hint}", False
        for axis, values in each.grid.items():
            for value, count in Counter(map(repr, values)).items():
                if count > 1:
                    yield (*place, "grid", axis), f"the value {value} is there {count} times", False
        cells = [dict(zip(each.grid, values, strict=True)) for values in itertools.product(*each.grid.values())]
        for at, published in enumerate(each.published):
            if published.at not in cells:
                yield (*place, "published", at, "at"), "a cell without runs: the grid has no such values", False
            elif published.at in [other.at for other in each.published[:at]]:
                yield (*place, "published", at, "at"), "this cell has a published value already", False
        yield from _wrong_options(suite, (*place, "readings"), each.readings)


def _wrong_choices(suite: Suite) -> Iterator[Found]:
    owners: dict[str, str] = {}
    for number, assumption in enumerate(suite.assumptions):
        for name, choice in assumption.choices.items():
            place: Place = ("assumptions", number, "choices", name)
            if name in owners:
                yield place, f"the choice {name!r} is there for {owners[name]} already", True
            owners[name] = assumption.name
            taken = [option for option, each in choice.options.items() if each.taken]
            if len(taken) != 1:
                yield (*place, "options"), f"one option is to be `taken`, not {len(taken)}", True
            elif choice.options[taken[0]].alone:
                yield (*place, "options", taken[0], "alone"), "the taken option is never alone", False
    if suite.multiverse is None:
        return
    for number, excluded in enumerate(suite.multiverse.excludes):
        yield from _wrong_options(suite, ("multiverse", "excludes", number), excluded)
    names = [(each.name, each.grid) for each in suite.experiments]
    cells = [
        (name, cell_name(name, dict(zip(grid, values, strict=True))))
        for name, grid in names
        for values in itertools.product(*grid.values())
    ]
    for design, each in suite.multiverse.designs.items():
        place = ("multiverse", "designs", design)
        for number, name in enumerate(each.choices):
            if name not in suite.choices:
                yield (*place, "choices", number), f"no choice {name!r}: it has {', '.join(suite.choices)}", False
        for universe, named in each.universes.items():
            at = (*place, "universes", universe, "options")
            yield from _wrong_options(suite, at, named.options)
            for name in named.options.keys() - set(each.choices):
                yield (*at, name), f"the design has no choice {name!r}", True
        for number, pattern in enumerate(each.cells):
            if not any(pattern == experiment or fnmatchcase(name, pattern) for experiment, name in cells):
                yield (*place, "cells", number), f"there is no cell {pattern!r}", False


def _wrong_options(suite: Suite, place: Place, options: Mapping[str, str]) -> Iterator[Found]:
    for name, option in options.items():
        if name not in suite.choices or option not in suite.choices[name].options:
            yield (*place, name), f"there is no option {option!r} of {name!r}", False


def _check_settings(document: Document, suite: Suite) -> None:
    """Try the settings of every cell of every profile, and every option by itself on the cells of each design."""
    numbers = {experiment.name: number for number, experiment in enumerate(suite.experiments)}
    told: set[tuple[Place, str]] = set()

    def try_cell(cell: Cell, place: Place, what: str, *, at_key: bool = False) -> None:
        try:
            _ = cell.train_spec(), cell.measure_specs
        except InputError as error:
            found = place if at_key else _blamed(document, place, cell.profile, str(error))
            if (found, str(error)) not in told:
                told.add((found, str(error)))
                document.add(found, f"{what}: {error}", at_key=at_key)

    for profile in suite.profiles:
        for cell in suite.cells(profile):
            try_cell(cell, ("experiments", numbers[cell.experiment]), f"{cell.name} with profile {profile}")
    document.raise_problems()
    places: dict[str, Place] = {
        name: ("assumptions", number, "choices", name, "options")
        for number, assumption in enumerate(suite.assumptions)
        for name in assumption.choices
    }
    cells = suite.cells(next(iter(suite.profiles)))
    for design in suite.multiverse.designs.values() if suite.multiverse else ():
        taken = {name: suite.choices[name].taken for name in design.choices}
        chosen = [cell for cell in cells if is_designed(cell, design)]
        # Cells of one model are alike to an option, but for perturbed ones.
        for cell in {(cell.model, "perturbation.n" in cell.given): cell for cell in chosen}.values():
            for name in design.choices:
                for option in suite.choices[name].options:
                    options = suite.options_for(cell.model, {**taken, name: option})
                    try_cell(cell.with_options(options), (*places[name], option), cell.model, at_key=True)


def _blamed(document: Document, place: Place, profile: str, message: str) -> Place:
    """Find the most special place whose key the message names; else the experiment."""
    words = set(re.split(r"[\s':;,()=]+", message))
    words |= {
        f"{section}.{word}" for section in ("data", "svm", "perturbation") for word in words
    } & train_settings().keys()
    for section in ((*place, "grid"), (*place, "set"), ("profiles", profile, "set"), ("defaults", "set")):
        for known in document.key_marks:
            if known[:-1] == section and (known[-1] in words or AXES.get(str(known[-1])) in words):
                return known
    return place


# Names, for completion


def suite_names(given: Path | None = None) -> dict[str, dict[str, str]]:
    """Give names in a suite, which is read but not checked: ``experiments``, ``cells``, ``profiles`` and ``tables``.

    Each has what it is about; a suite that cannot be read has none.
    """
    try:
        document = read_document(find_suite(given))
        content = document.content
        _resolve_likes(document, content)
        merged = _with_shipped(content)
        experiments = {entry["name"]: entry for entry in content["experiments"]}
        if not all(isinstance(name, str) for name in experiments):
            raise TypeError("a name must be a word")
        cells = {}
        for name, entry in experiments.items():
            grid = entry.get("grid", {})
            if math.prod(len(values) for values in grid.values()) <= MOST_CELLS:
                for values in itertools.product(*grid.values()):
                    cells[cell_name(name, dict(zip(grid, values, strict=True)))] = ""
        return {
            "experiments": {
                name: str(each.get("about") or each.get("label", "")) for name, each in experiments.items()
            },
            "cells": cells,
            "profiles": {name: str((each or {}).get("about", "")) for name, each in merged["profiles"].items()},
            "tables": dict.fromkeys(
                (str(table) for each in experiments.values() for table in each.get("tables", [])), ""
            ),
        }
    except (InputError, KeyError, TypeError, AttributeError):
        return {"experiments": {}, "cells": {}, "profiles": {}, "tables": {}}
