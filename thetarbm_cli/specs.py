"""What a training and a measurement are: complete descriptions, from which each is made once and by which it is found.

A `TrainSpec` holds all that learning depends on: model, parameters, images, perturbed orientations, seed, and the code
of a plug-in. A `MeasureSpec` holds all that one measurement of trained weights depends on. Settings have names, which
``--set`` takes and suites use: those of the model as they are, all others with a dot. `train_settings` and
`measure_settings` list them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from pathlib import Path, PurePath
from typing import Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from thetarbm_cli import parameters
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.registry import DATASETS, MODELS, source_names

# Raise by hand whenever the same description would give other numbers: older trainings are then stale.
ALGORITHM = 1
# The data set of a user's own images.
OWN_IMAGES = "images"
# Δ of the γ-score in the tables, in degrees.
OFFSET = 20.0

Scope = Literal["train", "rbm", "all"]
Draws = Literal["two", "one"]
Part = Literal["train", "valid", "test"]
Features = Literal["probabilities", "states"]
Statistics = Literal["train", "set"]
Copies = Literal["as-images", "own"]
Order = Literal["rotated-first", "standardised-first"]
Weights = Literal["learned", "normal", "kmeans", "images"]
# What sampling draws: NumPy's Philox, on every processor. Records that do not say had NumPy's PCG64, on a CPU.
RandomNumbers = Literal["philox", "pcg64"]


class Spec(BaseModel):
    """A frozen description; unknown names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    @cached_property
    def key(self) -> str:
        """The description as one line of text, by which equal ones are found."""
        return json.dumps(self._identity(), sort_keys=True, separators=(",", ":"), allow_nan=False)

    def _identity(self) -> dict[str, Any]:
        return self.model_dump(mode="json")

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy it with other values, and without the text of the original, which pydantic would copy, too."""
        copied = super().model_copy(update=update, deep=deep)
        for name in ("key", "cell_key"):
            copied.__dict__.pop(name, None)
        return copied


class TrainData(Spec):
    """The images that a model learns from; a count of None means all.

    The source of a user's file is the file's name: its checksum, in the record, says which file it is.
    """

    dataset: str = Field(default="mnist-rot", description="The data set.")
    source: str = Field(default="generated", description="Where its images come from.")
    seed: int = Field(default=0, ge=0, description="Seed of choice and angles.")
    learn_from: Literal["train", "train+valid"] = Field(
        default="train", description="Whether it learns from the validation images, too."
    )
    train: int | None = Field(default=None, ge=1, description="Training images; null: all.")
    valid: int | None = Field(default=None, ge=1, description="Validation images, where it learns from them.")

    @model_validator(mode="before")
    @classmethod
    def _forget_unseen_images(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("learn_from", "train") == "train":
            return {**given, "valid": None}
        return given


class Perturbation(Spec):
    """Perturb orientations as in Table 3: s ← s ± ε, ε ~ Binomial(n, p)."""

    n: int = Field(ge=1, description="Largest error of the orientation index.")
    p: float = Field(gt=0, lt=1, description="Probability of the Binomial distribution.")
    overflow: Literal["modulo", "clip"] = Field(
        default="modulo", description="What an index below 0 or above S - 1 becomes."
    )
    statistics: Literal["after", "before"] = Field(
        default="after",
        description="What images are standardised by: orientations after they are perturbed, or before.",
    )
    redrawn: Literal["never", "epoch"] = Field(
        default="never",
        description="How often errors are drawn anew in the training of the RBM; an SVM's images have one draw.",
    )


class Code(Spec):
    """The code of a plug-in that a result depends on."""

    distribution: str
    version: str
    sha256: str


class TrainSpec(Spec):
    """Everything that a training depends on, but for the content of its images, whose checksum its record has."""

    model: str
    parameters: dict[str, Any]
    data: TrainData = TrainData()
    perturbation: Perturbation | None = None
    seed: int = Field(default=0, ge=0)
    algorithm: int = ALGORITHM
    random: RandomNumbers = "pcg64"
    code: Code | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete_parameters(cls, given: Any) -> Any:
        """Complete an older record by what was done before a parameter existed; a plug-in's code is another one."""
        if isinstance(given, dict) and given.get("model") in MODELS.own and isinstance(given.get("parameters"), dict):
            return {**given, "parameters": parameters.completed(given["model"], given["parameters"])}
        return given

    @cached_property
    def cell_key(self) -> str:
        """The description without its seed and random numbers: trainings of one cell have it in common."""
        identity = {**self._identity(), "seed": None, "random": None}
        return json.dumps(identity, sort_keys=True, separators=(",", ":"))

    @property
    def tested_on(self) -> str:
        """The data set of the usual test images."""
        known = DATASETS.own.get(self.data.dataset)
        return (known.tested_on if known else None) or self.data.dataset

    def named(self) -> dict[str, Any]:
        """Give all settings by the names that ``--set`` takes."""
        data = {f"data.{name}": value for name, value in self.data}
        perturbed = {f"perturbation.{name}": value for name, value in self.perturbation or ()}
        return {**self.parameters, **data, **perturbed}

    def differing(self) -> dict[str, Any]:
        """Give the settings that differ from their defaults, by name."""
        usual = {**parameters.defaults(self.model), **{f"data.{name}": value for name, value in TrainData()}}
        optional = {name: field for name, field in Perturbation.model_fields.items() if not field.is_required()}
        usual |= {f"perturbation.{name}": field.default for name, field in optional.items()}
        return {name: value for name, value in self.named().items() if name not in usual or value != usual[name]}

    def words(self) -> list[str]:
        """Give the options of ``thetarbm train`` that describe the same training."""
        words, settings = ["--model", self.model], self.differing()
        if self.seed:
            words += ["--seed", str(self.seed)]
        if settings.pop("data.dataset", OWN_IMAGES) != OWN_IMAGES:
            words += ["--train-on", self.data.dataset]
        if self.tested_on == self.data.dataset and settings.get("data.source"):
            words += ["--source", settings["data.source"]]
        settings.pop("data.source", None)
        for name, value in settings.items():
            words += ["--set", f"{name}={_word(value)}"]
        return words

    def run_id(self, images_sha256: str) -> str:
        """Name a training of this description on images of this checksum."""
        text = json.dumps([self._identity(), images_sha256], sort_keys=True, separators=(",", ":"), allow_nan=False)
        return f"{self.model}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


class SVM(Spec):
    """The RBF-SVM that judges features; by default the paper's C = 10 and "σ = 0.02", read as exp(-0.02 d²)."""

    C: float = Field(default=10.0, gt=0, allow_inf_nan=False, description="Penalty of the SVM.", strict=False)
    gamma: float | None = Field(
        default=0.02,
        gt=0,
        allow_inf_nan=False,
        description="γ of its kernel exp(-γ d²); null: 1 / the median d² between training images.",
        strict=False,
    )
    scaled: bool = Field(default=False, description="Whether each feature is scaled to unit variance first.")


class MeasureSpec(Spec):
    """Everything that a measurement depends on besides the weights; what its measure does not see is None.

    A record that is older than a field is read with what was done before.

    Attributes
    ----------
    measure : a word of `SEES`
    dataset, source, data_seed, part, count : the images that are measured; part train are those it learned from
    first : only the first so many of these
    statistics : whose mean and deviation standardise them: the training images', or those of all images of that part
    aligned : of the O-RBM, whether images are aligned
    offset : Δ of the rotated copies, in degrees
    copies : of γ, whether rotated copies are standardised as the images, or each set of copies by its own statistics
    order : of γ, whether images are rotated and then standardised, or the other way round
    weights : whether they are the learned ones, or which other ones take their place
    scope, draws : which images of the SVM have perturbed orientations, where the training's had; and their draw
    grid : of the search, the points that it tries
    """

    measure: str
    dataset: str
    source: str
    data_seed: int
    part: Part
    count: int | None
    first: int | None = None
    statistics: Statistics = "train"
    features: Features = "probabilities"
    aligned: bool | None = None
    offset: float | None = None
    svm: SVM | None = None
    scope: Scope | None = None
    draws: Draws | None = None
    copies: Copies | None = None
    order: Order | None = None
    weights: Weights = "learned"
    grid: Literal["small", "large"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        """Complete an older record by what was done before a field existed."""
        before = _BEFORE.get(str(given.get("measure")), {}) if isinstance(given, dict) else {}
        return {**before, **given} if before else given

    @property
    def unusual(self) -> dict[str, Any]:
        """The settings that are not the usual ones, by field; those of the SVM as ``svm.C``."""
        found = {name: getattr(self, name) for name in self._unusual_fields()}
        svm = found.pop("svm", None) or SVM()
        return found | {f"svm.{name}": value for name, value in svm.model_dump(exclude_defaults=True).items()}

    @property
    def distance(self) -> int:
        """Count the settings that are not the usual ones, those of the SVM as one."""
        return len(self._unusual_fields())

    def _unusual_fields(self) -> list[str]:
        return [name for name, usual in _USUAL.items() if getattr(self, name) not in usual]


class MeasureSettings(Spec):
    """What a user may choose of a measurement; `measure_specs` turns it into descriptions."""

    features: Features = Field(
        default="probabilities", description="What is measured of hidden units; states: drawn once, by the run's seed."
    )
    aligned: bool | None = Field(default=None, description="O-RBM: images aligned, or as they are; null: both.")
    offset: float = Field(default=OFFSET, ge=0, lt=360, description="Δ of the γ-score, in degrees.", strict=False)
    svm: SVM = SVM()
    part: Literal["test", "valid"] = Field(default="test", description="The images that it is tested on.")
    test: int | None = Field(default=None, ge=1, description="Test images; null: all.")
    gamma: int | None = Field(default=None, ge=1, description="The first of each part, for the γ-score; null: all.")
    source: str | None = Field(default=None, description="Source of the test images; null: the training images'.")
    scope: Scope = Field(default="train", description="Which images have perturbed orientations, as perturb --scope.")
    draws: Draws = Field(
        default="two", description="two: the SVM's training images err on their own; one: as in the RBM's training."
    )
    statistics: Statistics = Field(
        default="train",
        description="By whose mean and deviation images are standardised: the training images', or each set by its "
        "own, over all images of the part.",
    )
    copies: Copies = Field(
        default="as-images",
        description="Rotated copies of the γ-score are standardised as the images are, or each set of copies by its "
        "own statistics.",
    )
    order: Order = Field(
        default="rotated-first",
        description="For the γ-score, images are rotated and then standardised, or the other way round.",
    )
    weights: Weights = Field(
        default="learned",
        description="Weights of the hidden units; as a control, others of their lengths and mean activations: normal "
        "random numbers, centres of k-means, training images picked at random.",
    )


# The names of what a user may choose of a measurement, by the field of `MeasureSettings`.
MEASURE_NAMES = {
    "features": "features",
    "aligned": "aligned",
    "offset": "offset",
    "part": "data.part",
    "test": "data.test",
    "gamma": "data.gamma",
    "scope": "perturbation.scope",
    "draws": "perturbation.draws",
    "statistics": "statistics",
    "copies": "copies",
    "order": "order",
    "weights": "weights",
    **{f"svm.{name}": f"svm.{name}" for name in SVM.model_fields},
}
# What each measure, by the word that asks for it, sees besides images and features; `measure_specs` says of which.
SEES: dict[str, tuple[str, ...]] = {
    "error": ("labels", "svm", "perturbation"),
    "gamma": (),
    "invariance": ("labels", "svm", "perturbation"),
    "search": ("labels", "svm", "perturbation"),
}
# Test images for the other measures of invariance: more would cost more than the γ-score itself.
KEPT_IMAGES = 1000
# What was done before fields existed that a measure sees.
_BEFORE: dict[str, dict[str, str]] = {
    "gamma": {"copies": "as-images", "order": "rotated-first"},
    "search": {"grid": "large"},
}
# The usual settings of a measurement, by the field of `MeasureSpec`.
_USUAL: dict[str, tuple[Any, ...]] = {
    "part": ("train", "test"),
    "count": (None,),
    "first": (None, KEPT_IMAGES),
    "features": ("probabilities",),
    "offset": (None, OFFSET),
    "svm": (None, SVM()),
    "scope": (None, "train"),
    "draws": (None, "two"),
    "statistics": ("train",),
    "copies": (None, "as-images"),
    "order": (None, "rotated-first"),
    "weights": ("learned",),
    "grid": (None, "small"),
}


@cache
def train_settings() -> Mapping[str, str]:
    """Give the settings of a training that are none of its model, each with what it means."""
    return {
        f"{section}.{name}": field.description or ""
        for section, kind in (("data", TrainData), ("perturbation", Perturbation))
        for name, field in kind.model_fields.items()
    }


@cache
def measure_settings() -> Mapping[str, str]:
    """Give the settings of a measurement, each with what it means."""
    described = {}
    for path, name in MEASURE_NAMES.items():
        kind, field = (SVM, path.removeprefix("svm.")) if path.startswith("svm.") else (MeasureSettings, path)
        described[name] = kind.model_fields[field].description or ""
    return described


Kind = TypeVar("Kind", bound=BaseModel)


def checked(kind: type[Kind], given: Mapping[str, Any], section: str = "", known: Iterable[str] = ()) -> Kind:
    """Make settings of a kind; what is wrong is an `InputError` that names it."""
    try:
        return kind.model_validate(dict(given))
    except ValidationError as error:
        problem = error.errors()[0]
        place = section + ".".join(str(part) for part in problem["loc"] if not str(part).startswith("function-"))
        if problem["type"] == "extra_forbidden":
            raise InputError(f"there is no setting {place}; {did_you_mean(place, [*known])}") from error
        raise InputError(f"setting {place}: {problem['msg'].lower()} (given: {problem['input']!r})") from error


def train_spec(model: str, named: Mapping[str, Any], *, seed: int = 0) -> TrainSpec:
    """Describe a training by settings under their names; all others have their defaults.

    Raises
    ------
    InputError
        If a name or value is wrong, or a setting is one that learning does not see.
    """
    own: dict[str, Any] = {}
    sections: dict[str, dict[str, Any]] = {"data": {}, "perturbation": {}}
    known = train_settings()
    for name, value in named.items():
        section, dot, key = name.partition(".")
        if name in measure_settings():
            raise InputError(
                f"{name} is no setting of a training, which does not see it: "
                f"thetarbm evaluate RUN --set {name}={_word(value)} measures with it"
            )
        if name in known:
            sections[section][key] = value
        elif dot:
            raise InputError(f"there is no setting {name}; {did_you_mean(name, [*known, *measure_settings()])}")
        else:
            own[name] = value
    entry = MODELS[model]
    learned = {**parameters.defaults(model), **parameters.checked(model, own)}
    perturbation = sections["perturbation"]
    if perturbation and not parameters.parameters_of(model).uses_orientations:
        others = [name for name in MODELS.own if parameters.parameters_of(name).uses_orientations]
        raise InputError(f"model {model} sees no orientations to perturb; {', '.join(others)} do")
    data = checked(TrainData, sections["data"], "data.", known)
    if data.source not in source_names():
        # The images of a user's file are a data set of their own.
        data = data.model_copy(update={"dataset": OWN_IMAGES, "source": PurePath(data.source).name})
    elif data.dataset in DATASETS.own:
        # Where the test images are another data set's, the source is theirs.
        usual = DATASETS[data.dataset].tested_on is not None
        source = next(iter(DATASETS[data.dataset].sources)) if usual else DATASETS[data.dataset].recipe(data.source)[0]
        data = data.model_copy(update={"source": source})
    errors = checked(Perturbation, perturbation, "perturbation.", known) if perturbation else None
    if errors is not None and (errors.redrawn, errors.statistics) == ("epoch", "after"):
        raise InputError(
            "perturbation.redrawn=epoch gives each epoch other orientations, which the statistics of images cannot "
            "follow: add perturbation.statistics=before"
        )
    return TrainSpec(
        model=entry.name,
        parameters=dict(sorted(learned.items())),
        data=data,
        perturbation=errors,
        seed=seed,
        random="philox",
        code=None if model in MODELS.own else plugin_code(model),
    )


def measuring(named: Mapping[str, Any], source: str | None = None) -> MeasureSettings:
    """Make settings of measuring from their names; all others have their defaults."""
    fields = {name: path for path, name in MEASURE_NAMES.items()}
    content: dict[str, Any] = {"source": source}
    for name, value in named.items():
        if name not in fields:
            if name in train_settings() or "." not in name:
                raise InputError(f"{name} is no setting of a measurement; {did_you_mean(name, [*fields], 'it has {}')}")
            raise InputError(f"there is no setting {name}; {did_you_mean(name, [*fields])}")
        section, dot, key = fields[name].partition(".")
        if dot:
            content.setdefault(section, {})[key] = value
        else:
            content[section] = value
    return checked(MeasureSettings, content, known=fields)


def measure_specs(train: TrainSpec, measures: Iterable[str], settings: MeasureSettings) -> list[MeasureSpec]:
    """Describe the measurements that words such as ``error`` and ``gamma`` ask for of a training."""
    facts, found = parameters.parameters_of(train.model), []
    if settings.features == "states" and not facts.has_states:
        raise InputError(f"features of model {train.model} are no probabilities of states: leave features=states out")
    if settings.aligned is not None and not facts.aligns_optionally:
        raise InputError(f"model {train.model} has no alignment to leave out: leave aligned out")
    if settings.part == "valid" and train.data.learn_from == "train+valid":
        raise InputError("data.part=valid is of images that it learned from: leave data.learn_from=train+valid out")
    settings = _that_it_sees(train, settings)
    alignments: tuple[bool | None, ...] = (None,)
    if facts.aligns_optionally:
        alignments = (True, False) if settings.aligned is None else (settings.aligned,)
    data = train.data
    learned: dict[str, Any] = {"dataset": data.dataset, "source": data.source, "data_seed": data.seed}
    tested = {**learned}
    if train.tested_on != data.dataset:
        tested = {**learned, "dataset": train.tested_on, "source": settings.source or "generated"}
    for word in measures:
        sees = SEES[word]
        common: dict[str, Any] = {"measure": word, "features": settings.features, "weights": settings.weights}
        if "svm" in sees:
            common["svm"] = settings.svm
        if "perturbation" in sees and train.perturbation is not None:
            common |= {"scope": settings.scope, "draws": settings.draws}
        if word == "gamma":
            common |= {"offset": settings.offset, "first": settings.gamma}
            common |= {"copies": settings.copies, "order": settings.order}
        if word == "search":
            common["grid"] = "small"
        if word == "invariance":
            common |= {"offset": OFFSET, "first": min(settings.gamma or KEPT_IMAGES, KEPT_IMAGES)}
        for aligned in alignments:
            if word == "gamma":
                # The training's statistics are the training images' own, of images as they were learned from.
                own = settings.statistics if aligned is False else "train"
                found.append(
                    MeasureSpec(**learned, part="train", count=None, aligned=aligned, statistics=own, **common)
                )
            # C and γ are chosen for the evaluation that the paper describes.
            if word != "search" or aligned is not False:
                count = settings.test
                own = settings.statistics
                found.append(
                    MeasureSpec(**tested, part=settings.part, count=count, aligned=aligned, statistics=own, **common)
                )
    return found


def _that_it_sees(train: TrainSpec, settings: MeasureSettings) -> MeasureSettings:
    """Check the settings of weights and standardisation, and leave out those that a training's model does not see."""
    facts, own = parameters.parameters_of(train.model), train.model in MODELS.own
    if settings.weights != "learned" and not (own and facts.has_weights):
        raise InputError(f"model {train.model} has no learned weights to replace: leave weights={settings.weights} out")
    usual = MeasureSettings()
    names = ("statistics", "copies", "order")
    given = [name for name in names if getattr(settings, name) != getattr(usual, name)]
    if not given:
        return settings
    if settings.copies == "own" and settings.order == "standardised-first":
        raise InputError(
            "copies=own and order=standardised-first exclude each other: copies of images that are standardised have "
            "no statistics of their own to be standardised by"
        )
    if not own:
        named = " and ".join(f"{name}={getattr(settings, name)}" for name in given)
        raise InputError(f"what the plug-in's model {train.model} does to images is its own: leave {named} out")
    if not facts(**train.parameters).prepares_inputs:
        return settings.model_copy(update={name: getattr(usual, name) for name in names})
    if settings.order == "standardised-first" and not facts.standardises_images:
        raise InputError(
            f"model {train.model} standardises fields, not images that could be rotated: leave order={settings.order} "
            "out"
        )
    return settings


@cache
def plugin_code(model: str) -> Code:
    """Describe the code of a plug-in's model: its distribution, version, and a hash of its files.

    Of an installed distribution every file of its RECORD counts, of an editable one every ``.py`` of its package.
    """
    import importlib.util
    from importlib.metadata import entry_points

    point = next(each for each in entry_points(group=MODELS.group or "") if each.name == model)
    package = point.module.partition(".")[0]
    digest, files = hashlib.sha256(), []
    dist = point.dist
    recorded = [each for each in (dist.files or [] if dist else []) if each.suffix == ".py"]
    if dist is not None and any(each.parts[0].removesuffix(".py") == package for each in recorded):
        files = [(str(each), Path(str(dist.locate_file(each)))) for each in (dist.files or [])]
        files = [
            (name, path) for name, path in files if not name.endswith((".pyc", "RECORD", "INSTALLER", "REQUESTED"))
        ]
    else:
        found = importlib.util.find_spec(package)
        origin = Path(found.origin) if found and found.origin else None
        if origin is not None:
            inside = origin.parent.rglob("*.py") if origin.name == "__init__.py" else [origin]
            files = [(str(path.relative_to(origin.parent)), path) for path in inside]
    for name, path in sorted(files):
        if path.is_file():
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return Code(
        distribution=dist.name if dist else package,
        version=dist.version if dist else "unknown",
        sha256=digest.hexdigest(),
    )


def parse_assignments(pairs: Iterable[str]) -> dict[str, Any]:
    """Read settings by name from ``key=value`` words; a name that is given twice with two values is refused."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InputError(f"--set takes key=value, not {pair!r}")
        value = _value(name, text)
        if name in settings and settings[name] != value:
            raise InputError(f"--set {name} is given twice, as {_word(settings[name])} and {_word(value)}: give one")
        settings[name] = value
    return settings


def _value(name: str, text: str) -> Any:
    """Read a value: JSON where it can be, a plain word else."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return None if text.lower() == "none" else text
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"setting {name} must be a finite number, not {text}")
    return value


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
