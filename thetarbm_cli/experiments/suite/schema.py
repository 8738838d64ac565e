"""What ``experiments.yaml`` may say, and its cells: each one value (over seeds) of a table."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictInt, StrictStr, WithJsonSchema
from pydantic_core import PydanticCustomError

from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.experiments.runs.settings import (
    BASELINE,
    LEARNING,
    SECTIONS,
    DataSettings,
    Draws,
    Features,
    Overflow,
    Part,
    Profile,
    RunSettings,
    Scalar,
    Scope,
    Sections,
    Sizes,
    SVMSettings,
    by_section,
    changed_defaults,
    checked_run,
    lay_over,
    resolve,
)
from thetarbm_cli.experiments.suite_file import cell_name
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, TABLES, VARIANTS, TableKind
from thetarbm_cli.registry import DATASETS, MODELS, Registry, preset_names

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.record import RunRecord

# The sections of a run's settings.
GIVEN = (*SECTIONS, "parameters", "features")
PERTURBATION_AXES = ("n", "p", "scope", "draws", "overflow")
# Axes of a run by the names that --set takes; all others are settings of the model.
RUN_AXES = {
    **{axis: f"perturbation.{axis}" for axis in PERTURBATION_AXES},
    **{name: name for name in (*(f"svm.{each}" for each in SVMSettings.model_fields), "features")},
    "train_on": "data.train_on",
    "source": "data.source",
    "data_seed": "data.seed",
}


@dataclass(frozen=True)
class Cell:
    """One point of an experiment's grid, with all settings laid over one another.

    Attributes
    ----------
    name : the experiment and the values of its axes, as ``theta/sparsity=0.3``
    at : values of the axes
    seeds : how many seeds the profile asks for
    most_seeds : how many make sense at all, or None
    offsets : further Δ for which γ is measured on the training images
    published : the paper's values by measure
    """

    name: str
    profile: str
    experiment: str
    label: str
    model: str
    at: dict[str, Any]
    measures: tuple[str, ...]
    offsets: tuple[float, ...]
    tables: tuple[str, ...]
    seeds: int
    most_seeds: int | None
    published: dict[str, float]
    context: str
    on_request: bool
    data: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    perturbation: dict[str, Any] | None = None
    svm: dict[str, Any] = field(default_factory=dict)
    features: str = "probabilities"

    @property
    def given(self) -> Sections:
        """All its settings, by section."""
        return {section: getattr(self, section) for section in GIVEN}

    def with_settings(self, *layers: Sections) -> Cell:
        """The cell with these settings over its own."""
        return replace(self, **lay_over(self.given, *layers))

    @property
    def data_settings(self) -> DataSettings:
        """Which images its runs see."""
        return self._run.data

    @property
    def tested_on(self) -> str:
        """The data set of its test images."""
        return self.data_settings.tested_on

    @property
    def compares_data(self) -> bool:
        """Whether the source or the seed of the data is an axis: its runs then belong with those of other images."""
        return "source" in self.at or "data_seed" in self.at

    def settings(self) -> RunSettings:
        """The settings of its runs, checked."""
        # Its parameters hold the profile's and the suite's defaults, of which a control takes what it has.
        profile = Profile(parameters=self.parameters)
        return resolve(self.model, profile=profile, **{**self.given, "parameters": {}})

    def fits(self, record: RunRecord, *, any_source: bool = False) -> bool:
        """Whether a record was made with the settings of this cell, whatever its seed, data and algorithm.

        With `any_source`, images of another source than the cell's will do. A record's settings leave out what is as in
        the baseline, and its parameters are complete: so this needs no model.
        """
        settings = record.settings
        if settings.model != self.model or settings.features != self.features:
            return False
        changed = changed_defaults(self.model)
        wanted = {**changed, **self.parameters}
        learns = "epochs" in record.parameters
        found = {**BASELINE, **record.parameters} if learns else record.parameters
        if self.model in MODELS.own and not changed:
            # A control has no settings of learning, whatever the suite, or a record from before it lost them, says.
            wanted = {name: value for name, value in wanted.items() if name not in LEARNING}
        if not settings.parameters.keys() <= wanted.keys() or not all(
            found[name] == value if name in found else not learns for name, value in wanted.items()
        ):
            return False
        run, other = self._run, any_source and not self.compares_data
        return (
            all(value == getattr(run.data, name) for name, value in settings.data if not (other and name == "source"))
            and settings.svm == run.svm
            and settings.perturbation == run.perturbation
        )

    def unperturbed(self, cells: list[Cell]) -> Cell | None:
        """The cell of the same settings with orientations as they are estimated."""
        given = {**self.given, "perturbation": None}
        return next((cell for cell in cells if cell.model == self.model and cell.given == given), None)

    @cached_property
    def _run(self) -> RunSettings:
        """The settings of its runs without those of the model, checked."""
        return checked_run(model=self.model, **{**self.given, "parameters": {}})


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=60)]
Percent = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]
Offset = Annotated[float, Field(ge=0, lt=360)]
# No hyphen: the files of a profile or a source end in one, as table1-quick.md.
TableName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_]*$", max_length=60)]
if TYPE_CHECKING:
    Measure = str
    Column = str
    Variant = str
else:
    # γ for further Δ is several values a run.
    Column = Literal[tuple(name for name in MEASURES if name != "gamma_offset_train")]
    Variant = Literal[tuple(VARIANTS)]
    Measure = Literal[tuple(dict.fromkeys(measure.asked_as for measure in MEASURES.values() if measure.asked_as))]


def _known(registry: Registry[Any]) -> AfterValidator:
    """Make the check that a name is in a registry."""

    def check(name: str) -> str:
        try:
            return str(registry[name].name)
        except InputError as error:
            raise PydanticCustomError("unknown_name", "{problem}", {"problem": str(error)}) from error

    return AfterValidator(check)


# Editors offer the package's models and take those of plug-ins.
Model = Annotated[
    str,
    _known(MODELS),
    WithJsonSchema({"anyOf": [{"enum": list(MODELS.own)}, {"type": "string"}], "title": "Model"}),
]
Table = Annotated[str, WithJsonSchema({"anyOf": [{"enum": list(TABLES)}, {"type": "string"}], "title": "Table"})]
Dataset = Annotated[str, _known(DATASETS), WithJsonSchema({"enum": list(DATASETS.own), "type": "string"})]


class Paper(Part):
    """What is reproduced."""

    title: str
    authors: str
    year: int


class Literature(Part):
    """A test error on mnist-rot that was published elsewhere."""

    label: str = Field(min_length=1)
    year: int
    test_error_percent: float = Field(gt=0, lt=100)
    family: Literal["RBM", "CNN", "SVM"] = Field(description="Which kind of model learns from the images.")


class DataPart(Sizes):
    """Which images runs see; what is not given is as in `defaults` and the profile."""

    train_on: Dataset | None = None
    source: StrictStr | None = Field(
        default=None, description="generated, bilinear, official or the path of a .npz file"
    )
    seed: StrictInt | None = Field(default=None, ge=0)


class PerturbationPart(Part):
    """Table 3: s ← s ± ε, ε ~ Binomial(n, p); what is not given is an axis of the grid."""

    n: StrictInt | None = Field(default=None, ge=1)
    p: float | None = Field(default=None, gt=0, lt=1)
    scope: Scope | None = None
    draws: Draws | None = None
    overflow: Overflow | None = None


class CountsPart(Part):
    """Which of a run's recorded numbers count: these need no other run."""

    variant: Variant | None = Field(default=None, description="The O-RBM's evaluation.")
    gamma: Literal["mean", "ratio"] | None = Field(
        default=None, description="γ as the mean over units, or as a ratio of sums."
    )


class Option(Part):
    """One plausible reading of an open point: its settings, and why somebody would take it."""

    why: str = Field(min_length=1)
    taken: bool = Field(default=False, description="Whether it is the one that the suite takes.")
    alone: bool = Field(default=False, description="Tried by itself, never together with other changes.")
    parameters: dict[str, Scalar] = Field(default={}, description="Settings of the models that the choice concerns.")
    data: DataPart = DataPart()
    svm: SVMSettings = SVMSettings()
    perturbation: PerturbationPart = PerturbationPart()
    features: Features | None = None
    counts: CountsPart = CountsPart()


class Choice(Part):
    """A question that the paper leaves open, with its answers; a universe has one of each choice."""

    models: list[Model] = Field(default=[], description="The models that it concerns; without, all.")
    options: dict[Name, Option] = Field(min_length=2)

    @property
    def taken(self) -> str:
        """The option that the suite takes."""
        return next(name for name, option in self.options.items() if option.taken)


class Assumption(Part):
    """An open point of the paper, the reading taken, why, and what else it could be."""

    name: Name
    reading: str = Field(min_length=1)
    why: str = Field(min_length=1)
    choices: dict[Name, Choice] = Field(default={})


class NamedUniverse(Part):
    """A universe that somebody wants to see, beside those that a design makes by itself."""

    why: str = Field(min_length=1)
    options: dict[Name, Name] = Field(min_length=1, description="By choice; others as the suite takes them.")


class Design(Part):
    """Cells that are run in every universe, and the choices that make the universes."""

    about: str = ""
    cells: list[str] = Field(min_length=1, description="Experiments, cells or patterns of cells.")
    choices: list[Name] = Field(min_length=1)
    measures: list[Measure] = Field(default=[], description="Instead of those that the cells ask for.")
    rare: dict[Model, Annotated[StrictInt, Field(ge=0)]] = Field(
        default={}, description="In how many universes a model is trained that is too dear for all."
    )
    universes: dict[Name, NamedUniverse] = Field(default={}, description="Universes beside the designed ones.")


class Multiverse(Part):
    """What `thetarbm multiverse` goes through."""

    excludes: list[dict[Name, Name]] = Field(default=[], description="Options by choice that make no sense together.")
    designs: dict[Name, Design] = Field(min_length=1)


class Published(Part):
    """What the paper prints for one cell."""

    at: dict[str, Scalar] = Field(default={}, description="The cell: a value for every axis of the grid.")
    test_error_percent: Percent | None = None
    gamma_train: Share | None = None
    gamma_test: Share | None = None


class OwnTable(Part):
    """A table beside the paper's, which experiments name in their `tables`."""

    title: str = Field(min_length=1)
    layout: Literal["list", "sparsity"] = Field(
        default="list", description="list: a row for each cell; sparsity: rows are models, columns sparsity targets."
    )
    measures: list[Column] = Field(default=[ERROR, GAMMA_TRAIN, GAMMA_TEST], min_length=1, description="Its columns.")
    note: str = Field(default="", description="A sentence below it.")


class Experiment(Part):
    """A model with its settings, over a grid."""

    name: Name
    label: str = Field(min_length=1, description="What tables call it.")
    about: str = ""
    model: Model
    preset: str = Field(default="paper", json_schema_extra={"examples": list(preset_names())})
    data: DataPart = DataPart()
    parameters: dict[str, Scalar] = Field(default={}, description="Settings of the model, over all others.")
    perturbation: PerturbationPart | None = None
    svm: SVMSettings = SVMSettings()
    features: Features = Field(default="probabilities", description="What is measured of hidden units.")
    grid: dict[str, Annotated[list[Scalar], Field(min_length=1)]] = Field(
        default={},
        description="Values of each axis: a setting of the model, train_on, source, data_seed, features, svm.C, "
        "svm.gamma, svm.scaled, or a perturbation's n, p, scope, draws, overflow.",
    )
    readings: dict[Name, Name] = Field(
        default={}, description="Options by choice, over its other settings; what the profile and the grid say stays."
    )
    measures: list[Measure] = Field(default=["error", "gamma"], min_length=1)
    offsets: list[Offset] = Field(
        default=[], description="Further Δ in degrees for which γ is measured, on the training images."
    )
    seeds: StrictInt | None = Field(default=None, ge=1, description="Fewer seeds than the profile asks for.")
    tables: list[Table] = Field(default=[])
    published: list[Published] = Field(default=[])
    context: str = Field(default="", description="A note for the reader of the tables.")
    on_request: bool = Field(default=False, description="Run only if it is named.")


class Defaults(Part):
    """Settings of all experiments."""

    data: DataPart = DataPart()
    parameters: dict[str, Scalar] = Field(default={})


class Theory(Part):
    """Size of the numerical check of the paper's mathematics."""

    rotations: StrictInt = Field(default=9, ge=2, le=72)
    size: StrictInt = Field(default=28, ge=4, le=40)


class Suite(Part):
    """The whole file."""

    format: Literal[1]
    title: str
    paper: Paper | None = None
    literature: list[Literature] = Field(default=[], description="Errors on mnist-rot published elsewhere.")
    assumptions: list[Assumption] = Field(default=[])
    defaults: Defaults = Defaults()
    profiles: dict[Name, Profile] = Field(min_length=1)
    multiverse: Multiverse | None = None
    theory: Theory | None = None
    tables: dict[TableName, OwnTable] = Field(default={}, description="Tables of its own, by name.")
    experiments: list[Experiment] = Field(min_length=1)

    @property
    def choices(self) -> dict[str, Choice]:
        """All choices by name, in the order of the file."""
        return {name: choice for assumption in self.assumptions for name, choice in assumption.choices.items()}

    @property
    def table_kinds(self) -> dict[str, TableKind]:
        """All tables by name: the paper's, and its own."""
        own = self.tables.items()
        return TABLES | {
            name: TableKind(name, each.title, each.layout, tuple(each.measures), note=each.note) for name, each in own
        }

    def profile(self, name: str) -> Profile:
        """A profile by its name."""
        if name not in self.profiles:
            raise InputError(f"the suite has no profile {name!r}: {did_you_mean(name, self.profiles)}")
        return self.profiles[name]

    def cells(self, profile: str = "paper", source: str | None = None, *, in_tables: bool = False) -> list[Cell]:
        """All cells of a profile, or those that tables show, in the order of the file.

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
        cell = Cell(
            name=cell_name(experiment.name, at),
            profile=profile,
            experiment=experiment.name,
            label=experiment.label,
            model=experiment.model,
            at=at,
            measures=tuple(experiment.measures),
            offsets=tuple(experiment.offsets),
            tables=tuple(experiment.tables),
            seeds=min(experiment.seeds or size.seeds, size.seeds),
            most_seeds=experiment.seeds,
            published=published.model_dump(exclude={"at"}, exclude_none=True),
            context=experiment.context,
            on_request=experiment.on_request,
        ).with_settings(
            _settings(self.defaults),
            {"parameters": MODELS[experiment.model].preset(experiment.preset)},
            _settings(size),
            _settings(experiment),
            {"data": {"source": source}} if source else {},
            by_section({RUN_AXES[axis]: value for axis, value in at.items() if axis in RUN_AXES}),
            {"parameters": {axis: value for axis, value in at.items() if axis not in RUN_AXES}},
        )
        options = options_for(experiment.model, self.choices, experiment.readings)
        return with_options(cell, options, {**size.parameters, **at})


def _settings(part: Defaults | Profile | Experiment | Option) -> Sections:
    """The settings that a part of the suite gives, by section."""
    sections: Sections = part.model_dump(include=set(GIVEN), exclude_unset=True)
    return sections


def options_for(model: str, choices: Mapping[str, Choice], taken: Mapping[str, str]) -> list[Option]:
    """The options, named by choice, that concern a model."""
    return [
        choices[name].options[option]
        for name, option in taken.items()
        if not choices[name].models or model in choices[name].models
    ]


def with_options(cell: Cell, options: Sequence[Option], kept: Mapping[str, Any]) -> Cell:
    """The cell with the settings of options, but for values of parameters that are kept."""
    given = lay_over(*map(_settings, options))
    parameters = {name: kept.get(name, value) for name, value in given.pop("parameters", {}).items()}
    if cell.perturbation is None:
        given.pop("perturbation", None)
    return cell.with_settings(given, {"parameters": parameters})
