"""The record of a run: what ``run.json`` holds, and the parts of it that others read by name.

A record is checked once, when it is read. A part may hold more than stands here, and may lack what was not measured;
what is there has its type: tables, verdicts and figures can rely on it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
    model_validator,
)

from thetarbm_cli import documents
from thetarbm_cli.experiments.runs.settings import RunSettings
from thetarbm_cli.outcomes import DEFAULT, ERROR, NOT_ALIGNED
from thetarbm_cli.outputs import Check, Checksum, Count, Gamma, GridSearch, Percent, Seconds

FORMAT = 1
# Δ of the γ-score in the tables, and of the other measures.
DEFAULT_OFFSET = 20.0
# Of slim records.
LEFT_OUT = ("per_unit", "confusion", "classes")

logger = logging.getLogger("thetarbm")

Number = Annotated[float, Field(allow_inf_nan=False)]


def _refuse_null(value: Any) -> Any:
    if value is None:
        raise ValueError("it is null; what was not measured is left out")
    return value


# A default is not validated: the field may be missing, but not be null.
NEVER_NULL = AfterValidator(_refuse_null)


class Part(BaseModel):
    """A part of a record; written again, it has what it was made from and nothing else."""

    model_config = ConfigDict(extra="allow", strict=True)

    @model_serializer(mode="wrap")
    def _as_given(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if name in self.model_fields_set}


class ImagesPart(Part):
    """Which images a run learned from, or was tested on."""

    dataset: str
    source: str
    sha256: Checksum


class DataPart(Part):
    """The images of a run by their role, of which there are no others."""

    model_config = ConfigDict(extra="forbid", strict=True)

    train: ImagesPart
    test: ImagesPart

    @property
    def checksums(self) -> dict[str, str]:
        """Checksums of the images by their role, part of a run's id."""
        return {"train": self.train.sha256, "test": self.test.sha256}


class RevisionPart(Part):
    """The revision of the code, where it was known."""

    revision: str
    dirty: bool


class EnvironmentPart(Part):
    """Where a run was made; `backend` is the array library, as each draws random numbers of its own."""

    backend: str = "numpy"
    libraries: dict[str, str] = {}
    git: RevisionPart | None = None


class WeightsPart(Part):
    """Weights by their checksum, and where they were made."""

    sha256: Checksum
    environment: EnvironmentPart


class SuitePart(Part):
    """The suite that a run was made for: what its file is called, and its title."""

    file: str
    title: str


def _complete(history: list[dict[str, float]]) -> list[dict[str, float]]:
    for number, epoch in enumerate(history):
        for name in ("epoch", "reconstruction_error", "mean_activation"):
            if name not in epoch:
                raise ValueError(f"epoch {number} has no {name}")
    return history


# Plain, as a record has many epochs: a model for each would take half the time of reading it.
History = Annotated[
    list[dict[str, Annotated[float, Field(strict=True, allow_inf_nan=False)]]], AfterValidator(_complete)
]


class ClassificationPart(Part):
    """The RBF-SVM's error on the test images."""

    test_error_percent: Percent
    confusion: list[list[Count]] = []
    classes: list[int] = []


class SearchPart(Part, GridSearch):
    """What a grid search chose."""


class ScorePart(Part):
    """A γ-score; γ of dead units is null."""

    mean: Gamma | None = None
    ratio_of_sums: Number | None = None
    bounded: Number | None = None
    dead_units: Count = 0
    per_unit: list[Number | None] = []


class GammaPart(Part):
    """γ-scores for one Δ, by the role of the images."""

    offset: Number
    train: Annotated[ScorePart | None, NEVER_NULL] = None
    test: Annotated[ScorePart | None, NEVER_NULL] = None

    def of(self, role: str) -> ScorePart | None:
        """The score on the images of a role, train or test."""
        return self.train if role == "train" else self.test


class Measured(NamedTuple):
    """A number of a record: which measure, in which evaluation, and for γ at which Δ in degrees."""

    measure: str
    variant: str
    value: float
    offset: float | None = None


class MorePart(Part):
    """Other numbers by the names in `outcomes.MEASURES`, null where they are undefined; on how many test images."""

    values: dict[str, Number | None]
    images: Count
    offset: Number | None = None


class MeasuredPart(Part):
    """What was measured on features; `more` by the word of a suite's `measures` that asks for it."""

    svm: Annotated[ClassificationPart | None, NEVER_NULL] = None
    gamma: Annotated[GammaPart | None, NEVER_NULL] = None
    gamma_offsets: list[GammaPart] = []
    more: dict[str, MorePart] = {}

    def scores(self) -> list[GammaPart]:
        """The γ-scores of every Δ that was measured."""
        return [*([self.gamma] if self.gamma else []), *self.gamma_offsets]

    def score(self, offset: float, role: str) -> ScorePart | None:
        """The γ-score for one Δ on the images of a role."""
        return next((gamma.of(role) for gamma in self.scores() if gamma.offset == offset), None)

    def numbers(self, variant: str = DEFAULT) -> Iterator[Measured]:
        """Give each number that was measured, by the names in `outcomes.MEASURES`."""
        if self.svm is not None:
            yield Measured(ERROR, variant, self.svm.test_error_percent)
        for role in ("train", "test"):
            score = self.gamma.of(role) if self.gamma else None
            if self.gamma is None or score is None or score.mean is None:
                continue
            yield Measured(f"gamma_{role}", variant, score.mean, self.gamma.offset)
            yield Measured(f"dead_units_{role}", variant, score.dead_units)
            if score.ratio_of_sums is not None:
                yield Measured(f"gamma_ratio_{role}", variant, score.ratio_of_sums, self.gamma.offset)
        for other in self.gamma_offsets:
            if other.train is not None and other.train.mean is not None:
                yield Measured("gamma_offset_train", variant, other.train.mean, other.offset)
        for part in self.more.values():
            for name, value in part.values.items():
                if value is not None:
                    yield Measured(name, variant, value, part.offset)


@dataclass(frozen=True)
class MissingMeasures:
    """The measures that a record lacks; γ as pairs of the offset and the role of the images, others by name."""

    svm: bool
    gamma: tuple[tuple[float, str], ...]
    search: bool
    more: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.svm or bool(self.gamma) or self.search or bool(self.more)

    def with_all_of(self, metrics: MetricsPart) -> MissingMeasures:
        """These measures, and all that the metrics have."""
        pairs = [(score.offset, role) for score in metrics.scores() for role in ("train", "test") if score.of(role)]
        search = self.search or metrics.grid_search is not None
        more = tuple(dict.fromkeys((*self.more, *metrics.more)))
        return MissingMeasures(True, tuple(dict.fromkeys((*self.gamma, *pairs))), search, more)


class MetricsPart(MeasuredPart):
    """All that was measured on a run; the O-RBM's features also on images that are not aligned."""

    grid_search: Annotated[SearchPart | None, NEVER_NULL] = None
    unaligned: Annotated[MeasuredPart | None, NEVER_NULL] = None

    def numbers(self, variant: str = DEFAULT) -> Iterator[Measured]:
        """Give each number that was measured, those of the O-RBM on images that are not aligned after the others."""
        yield from super().numbers(variant)
        if self.grid_search is not None:
            yield Measured("search_error_percent", variant, self.grid_search.test_error_percent)
            yield Measured("search_C", variant, self.grid_search.C)
            yield Measured("search_gamma", variant, self.grid_search.gamma)
        if self.unaligned is not None:
            yield from self.unaligned.numbers(NOT_ALIGNED)

    def value(self, measure: str, variant: str = DEFAULT) -> float | None:
        """One number by its name; None if it was not measured."""
        wanted = (measure, variant)
        return next((each.value for each in self.numbers() if (each.measure, each.variant) == wanted), None)

    def missing(
        self,
        measures: Collection[str],
        more_offsets: Sequence[float] = (),
        offset: float = DEFAULT_OFFSET,
        search: bool = False,
    ) -> MissingMeasures:
        """Find what they lack of what is asked for."""
        wanted = [(offset, "train"), (offset, "test")] if "gamma" in measures else []
        wanted += [(more, "train") for more in more_offsets if more != offset]
        return MissingMeasures(
            # The error is measured with the first numbers: who has others and none has images without labels.
            svm=self.svm is None and not self.scores(),
            gamma=tuple((delta, role) for delta, role in wanted if self.score(delta, role) is None),
            search=search and self.grid_search is None,
            more=tuple(word for word in measures if word not in ("error", "gamma", *self.more)),
        )


class CheckPart(Part, Check):
    """One numerical check of the paper's mathematics."""


Kind = TypeVar("Kind", bound=BaseModel)


def validated(kind: type[Kind], content: dict[str, Any]) -> Kind:
    """A model of the content; a `ValueError` has the first place that is wrong, in one line."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(str(key) for key in problem["loc"])
        raise ValueError(f"{place}: {problem['msg']}") from error


def load_document(kind: type[Kind], path: Path, known: int) -> Kind | None:
    """Read a document of ours; None if there is none or, with a warning, if it is damaged or of another format."""
    try:
        content = documents.read(path)
        documents.check_format(content, known)
        return validated(kind, content)
    except FileNotFoundError:
        return None
    except ValueError as error:
        logger.warning("%s is not used: %s", path, error)
        return None


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
    data: DataPart
    environment: EnvironmentPart
    history: History
    timings: dict[str, Seconds]
    peak_memory_megabytes: Number
    weights_sha256: str | None = None
    metrics: MetricsPart | None = None
    cells: list[str] = []
    # Since then; left out where there is nothing to say, as in older records.
    suite: SuitePart | None = None
    measured_with: WeightsPart | None = None
    # The run whose training this is, where they differ only in what is measured: weights and times are its own.
    trained_as: str | None = None
    # Multiply-adds, counted and not measured.
    training_products: Count | None = None

    def __repr__(self) -> str:
        # In whole it would fill a screen.
        numbers = ", ".join(f"{each.measure} {each.value:g}" for each in (self.metrics or MetricsPart()).numbers())
        return f"<record of {self.run}, {self.state}, seed {self.seed}: {numbers or 'not measured'}>"

    @property
    def is_measured(self) -> bool:
        """Whether it has numbers: from then on it is not written again, but by force."""
        return self.state == "done" and self.metrics is not None

    def has(self, measures: Collection[str], more_offsets: Sequence[float] = ()) -> bool:
        """Whether it has the numbers that are asked for."""
        return not (self.metrics or MetricsPart()).missing(measures, more_offsets)

    @property
    def weights(self) -> WeightsPart:
        """The recorded weights, and where they were made."""
        return WeightsPart(sha256=str(self.weights_sha256), environment=self.environment)

    @property
    def checksums(self) -> dict[str, str]:
        """Checksums of its images by their role, part of its id."""
        return self.data.checksums

    @property
    def backend(self) -> str:
        """The array library that it was trained with."""
        return self.environment.backend

    def measurement(self) -> Measurement | None:
        """Give its own numbers as a later measurement is kept; None if it has none."""
        if self.metrics is None:
            return None
        seconds = self.timings.get("evaluate_seconds", 0.0)
        return Measurement(metrics=self.metrics, weights=self.measured_with or self.weights, seconds=seconds)

    def document(self) -> dict[str, Any]:
        """Lay it out as it is written."""
        content = self.model_dump(mode="json")
        return {name: value for name, value in content.items() if value is not None or name not in OPTIONAL_FIELDS}

    @model_validator(mode="after")
    def _check_what_is_shown(self) -> RunRecord:
        for name in ("sparsity", "epochs"):
            if not isinstance(self.parameters.get(name, 0), int | float | None):
                raise ValueError(f"the parameter {name} is not a number")
        if self.state == "done" and "train_seconds" not in self.timings:
            raise ValueError("a run that is done needs its train_seconds")
        return self


# Fields that only some records have.
OPTIONAL_FIELDS = ("suite", "measured_with", "trained_as", "training_products")


class Measurement(BaseModel):
    """Numbers that were measured after the record had its own, and the weights that they come from."""

    model_config = ConfigDict(extra="forbid")

    metrics: MetricsPart
    weights: WeightsPart
    seconds: Number


class StoredRun(BaseModel):
    """A run as it is kept: its own record, and what was measured after that had its numbers.

    Slim, it is without values per unit and confusion matrices.
    """

    model_config = ConfigDict(extra="forbid")

    record: RunRecord
    measurements: list[Measurement] = []

    def document(self, *, slim: bool = False) -> dict[str, Any]:
        """Lay it out as it is written."""
        later = [each.model_dump(mode="json") for each in self.measurements]
        content = {"record": self.record.document(), **({"measurements": later} if later else {})}
        return _slim(content) if slim else content

    def whole(self) -> RunRecord:
        """Give the record with all its numbers, its own first."""
        if not self.record.is_measured or not self.measurements:
            return self.record
        return self.record.model_copy(update={"metrics": self._metrics()})

    def _metrics(self) -> MetricsPart:
        metrics = self.record.metrics or MetricsPart()
        for later in self.measurements:
            metrics = joined(metrics, later.metrics)
        return metrics

    def with_measures_of(self, other: StoredRun) -> StoredRun:
        """Add what only another copy of the run has, if it was measured on a training with the same weights."""
        first, known = other.record.measurement(), self._metrics()
        if first is None or other.record.weights_sha256 != self.record.weights_sha256:
            return self
        added = []
        for measurement in (first, *other.measurements):
            together = joined(known, measurement.metrics)
            # What one copy has in full and another slim is the same measurement.
            if _slim(together.model_dump()) != _slim(known.model_dump()):
                added.append(measurement)
                known = together
        return self.model_copy(update={"measurements": [*self.measurements, *added]}) if added else self


def _slim(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _slim(each) for name, each in value.items() if name not in LEFT_OUT}
    return [_slim(each) for each in value] if isinstance(value, list) else value


class LaterMeasures(BaseModel):
    """What ``measures.json`` holds; it belongs to the record of these weights."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    run: str
    recorded_weights_sha256: str | None
    measurements: list[Measurement]


class WeightsNote(BaseModel):
    """What ``weights.json`` holds: where weights were made that are not the recorded ones."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    run: str
    weights: WeightsPart


@dataclass(frozen=True)
class Weights:
    """Weights of a run by name, and what is known of them if they are not the recorded ones."""

    arrays: dict[str, NDArray[Any]]
    made_here: WeightsPart | None


def joined(own: MetricsPart, later: MetricsPart) -> MetricsPart:
    """Metrics of a record together with those of a later measurement; its own numbers come first."""
    return MetricsPart.model_validate(_joined(own.model_dump(), later.model_dump()))


def _joined(own: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    metrics = {**later, **own}
    for name in ("gamma", "unaligned", "more"):
        if name in own and name in later:
            metrics[name] = _joined(own[name], later[name])
    by_offset: dict[float, dict[str, Any]] = {}
    for entry in (*own.get("gamma_offsets", []), *later.get("gamma_offsets", [])):
        by_offset[entry["offset"]] = {**entry, **by_offset.get(entry["offset"], {})}
    if by_offset:
        metrics["gamma_offsets"] = [by_offset[offset] for offset in sorted(by_offset)]
    return metrics
