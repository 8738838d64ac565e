"""What ``experiments.yaml`` may say, and its cells: each one value (over seeds) of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from thetarbm_cli.experiments.runs.settings import (
    DataSettings,
    Perturbation,
    Profile,
    RunSettings,
    SVMSettings,
    resolve,
)

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.record import RunRecord
import itertools
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, StrictStr, WithJsonSchema
from pydantic_core import PydanticCustomError

from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.settings import Protocol, Scalar, Scope
from thetarbm_cli.experiments.suite_file import cell_name
from thetarbm_cli.outcomes import MEASURES, TABLES
from thetarbm_cli.registry import DATASETS, MODELS, Registry, preset_names

PERTURBATION_AXES = ("n", "p", "scope")


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
    data: dict[str, Any]
    parameters: dict[str, Any]
    perturbation: dict[str, Any] | None
    svm: dict[str, Any]
    measures: tuple[str, ...]
    offsets: tuple[float, ...]
    tables: tuple[str, ...]
    seeds: int
    most_seeds: int | None
    published: dict[str, float]
    context: str
    on_request: bool

    @property
    def tested_on(self) -> str:
        """The data set of its test images."""
        return DataSettings(**self.data).tested_on

    def settings(self) -> RunSettings:
        """The settings of its runs, checked."""
        return resolve(
            self.model,
            # Its parameters hold the profile's and the suite's defaults, of which a control takes what it has.
            profile=Profile(parameters=self.parameters),
            data=self.data,
            perturbation=self.perturbation,
            svm=self.svm,
        )

    def fits(self, record: RunRecord, *, any_source: bool = False) -> bool:
        """Whether a record was made with the settings of this cell, whatever its seed, data and algorithm.

        A record's settings leave out what is as by default, and its parameters are complete: so this needs no model.

        Parameters
        ----------
        any_source : bool
            Whether images of another source than the cell's will do.
        """
        settings = record.settings
        if settings.model != self.model or settings.perturbation != self._perturbation():
            return False
        if settings.svm != SVMSettings(**self.svm):
            return False
        ignored = {"source"} if any_source else set()
        if settings.data.model_dump(exclude=ignored) != DataSettings(**self.data).model_dump(exclude=ignored):
            return False
        # A control has no settings of learning, whatever the profile says of them.
        learns = "epochs" in record.parameters
        return settings.parameters.keys() <= self.parameters.keys() and all(
            record.parameters[name] == value if name in record.parameters else not learns
            for name, value in self.parameters.items()
        )

    def unperturbed(self, cells: list[Cell]) -> Cell | None:
        """The cell of the same settings with orientations as they are estimated."""
        same = (self.model, self.data, self.parameters, self.svm, None)
        for cell in cells:
            if (cell.model, cell.data, cell.parameters, cell.svm, cell.perturbation) == same:
                return cell
        return None

    def _perturbation(self) -> Perturbation | None:
        return None if self.perturbation is None else Perturbation(**self.perturbation)


Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=60)]
Percent = Annotated[float, Field(ge=0, le=100)]
Share = Annotated[float, Field(ge=0, le=1)]
Offset = Annotated[float, Field(ge=0, lt=360)]
if TYPE_CHECKING:
    Table = str
    Measure = str
else:
    Table = Literal[tuple(TABLES)]
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
Dataset = Annotated[str, _known(DATASETS), WithJsonSchema({"enum": list(DATASETS.own), "type": "string"})]


class Part(BaseModel):
    """Anything in a suite: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Paper(Part):
    """What is reproduced."""

    title: str
    authors: str
    year: int


class Assumption(Part):
    """An open point of the paper, the reading taken, and why."""

    name: Name
    reading: str = Field(min_length=1)
    why: str = Field(min_length=1)


class DataPart(Part):
    """Which images runs see; what is not given is as in `defaults` and the profile."""

    train_on: Dataset | None = None
    source: StrictStr | None = Field(default=None, description="generated, official or the path of a .npz file")
    seed: StrictInt | None = Field(default=None, ge=0)
    train: StrictInt | None = Field(default=None, ge=1)
    valid: StrictInt | None = Field(default=None, ge=1)
    test: StrictInt | None = Field(default=None, ge=1)
    protocol: Protocol | None = Field(
        default=None,
        description="paper: train and test images; choice: train and validation images; final: train and validation "
        "images to learn from, test images.",
    )


class SVMPart(Part):
    """The RBF-SVM that judges the features; what is not given is as in the paper."""

    C: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    gamma: float | None = Field(default=None, gt=0, allow_inf_nan=False)


class PerturbationPart(Part):
    """Table 3: s ← s ± ε, ε ~ Binomial(n, p); what is not given is an axis of the grid."""

    n: StrictInt | None = Field(default=None, ge=1)
    p: float | None = Field(default=None, gt=0, lt=1)
    scope: Scope | None = None


class Published(Part):
    """What the paper prints for one cell."""

    at: dict[str, Scalar] = Field(default={}, description="The cell: a value for every axis of the grid.")
    test_error_percent: Percent | None = None
    gamma_train: Share | None = None
    gamma_test: Share | None = None


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
    svm: SVMPart = SVMPart()
    grid: dict[str, Annotated[list[Scalar], Field(min_length=1)]] = Field(
        default={},
        description="Values of each axis: a setting of the model, train_on, or a perturbation's n, p, scope.",
    )
    measures: list[Measure] = Field(default=["error", "gamma"], min_length=1)
    offsets: list[Offset] = Field(
        default=[], description="Further Δ in degrees for which γ is measured, on the training images."
    )
    seeds: StrictInt | None = Field(default=None, ge=1, description="Fewer seeds than the profile asks for.")
    tables: list[Table] = []
    published: list[Published] = []
    context: str = Field(default="", description="A note for the reader of the tables.")
    on_request: bool = Field(default=False, description="Run only if it is named.")


class Defaults(Part):
    """Settings of all experiments."""

    data: DataPart = DataPart()
    parameters: dict[str, Scalar] = {}


class Theory(Part):
    """Size of the numerical check of the paper's mathematics."""

    rotations: StrictInt = Field(default=9, ge=2, le=72)
    size: StrictInt = Field(default=28, ge=4, le=40)


class Suite(Part):
    """The whole file."""

    format: Literal[1]
    title: str
    paper: Paper | None = None
    assumptions: list[Assumption] = []
    defaults: Defaults = Defaults()
    profiles: dict[Name, Profile] = Field(min_length=1)
    theory: Theory | None = None
    experiments: list[Experiment] = Field(min_length=1)

    def profile(self, name: str) -> Profile:
        """A profile by its name."""
        if name not in self.profiles:
            raise InputError(f"the suite has no profile {name!r}: choose one of {', '.join(self.profiles)}")
        return self.profiles[name]

    def cells(self, profile: str = "paper", source: str | None = None, *, in_tables: bool = False) -> list[Cell]:
        """All cells of a profile, or those that tables show, in the order of the file.

        `source` replaces the source of the images.
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
        data = {
            **self.defaults.data.model_dump(exclude_unset=True),
            **size.data.model_dump(exclude_unset=True),
            **experiment.data.model_dump(exclude_unset=True),
            **({"train_on": at["train_on"]} if "train_on" in at else {}),
            **({"source": source} if source else {}),
        }
        perturbation = None
        if experiment.perturbation is not None:
            given = experiment.perturbation.model_dump(exclude_unset=True)
            perturbation = {**given, **{axis: at[axis] for axis in PERTURBATION_AXES if axis in at}}
        published = next((each for each in experiment.published if each.at == at), Published())
        return Cell(
            name=cell_name(experiment.name, at),
            profile=profile,
            experiment=experiment.name,
            label=experiment.label,
            model=experiment.model,
            at=at,
            data=data,
            parameters={
                **self.defaults.parameters,
                **_preset(experiment),
                **size.parameters,
                **experiment.parameters,
                **{axis: at[axis] for axis in at if axis not in (*PERTURBATION_AXES, "train_on")},
            },
            perturbation=perturbation,
            svm=experiment.svm.model_dump(exclude_none=True),
            measures=tuple(experiment.measures),
            offsets=tuple(experiment.offsets),
            tables=tuple(experiment.tables),
            seeds=min(experiment.seeds or size.seeds, size.seeds),
            most_seeds=experiment.seeds,
            published=published.model_dump(exclude={"at"}, exclude_none=True),
            context=experiment.context,
            on_request=experiment.on_request,
        )


def _preset(experiment: Experiment) -> dict[str, Any]:
    return MODELS[experiment.model].preset(experiment.preset)
