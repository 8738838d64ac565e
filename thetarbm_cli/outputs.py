"""What every ``--json`` prints: a command builds its model, prints it, and lays its text out from it.

``make schema`` writes the JSON Schemas in ``docs/schema`` from these models. Scripts build on their names: a field may
be added, never taken away. A field without a default is always printed; one with a default only where it was set. The
module stands below data, measures, experiments and reporting, as these fill in what they know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from thetarbm_cli.data.prepared import PreparedData, PreparedFile, PreparedSets

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=100)]
Gamma = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Output(BaseModel):
    """A JSON object whose fields are described by the line under them."""

    # Built when it is first made: a command needs few of them.
    model_config = ConfigDict(use_attribute_docstrings=True, defer_build=True)


class PrepareData(RootModel[PreparedData | PreparedSets]):
    """``thetarbm prepare-data --json``."""


class Info(Output):
    """``thetarbm info --json``."""

    version: str
    backend: Literal["numpy", "cupy"]
    backend_reason: str
    """Why this backend was taken."""
    blas: list[dict[str, Any]]
    """BLAS libraries in the process, as threadpoolctl describes them."""
    threads: int
    data_dir: str
    results_dir: str
    prepared: list[PreparedFile]
    versions: dict[str, str | None]
    """Python and libraries; null if one is not installed."""


class TrainSettings(Output):
    """Settings of a run, complete: given ones and defaults."""

    model: str
    data: dict[str, Any]
    parameters: dict[str, Any]
    perturbation: dict[str, Any] | None
    svm: dict[str, float | bool]
    features: str


class Train(Output):
    """``thetarbm train --json``."""

    run: str
    model: str
    settings: TrainSettings
    seed: int
    cached: bool
    path: str
    """Folder of the run."""
    weights: str
    """File of its weights, a plain .npz."""
    epochs: Count
    seconds: Seconds
    """Of training, over all its parts if it was interrupted."""
    reconstruction_error: float | None
    """After the last epoch; null for a control, which learns nothing."""
    mean_activation: float | None
    """After the last epoch; null for a control."""


class GridPoint(Output):
    """One pair that a grid search tried."""

    C: float
    gamma: float
    validation_error_percent: Percent


class GridSearch(Output):
    """The SVM with C and γ chosen on the validation images."""

    C: float
    gamma: float
    validation_error_percent: Percent
    test_error_percent: Percent
    grid: list[GridPoint]


class EvaluatedRun(Output):
    """Numbers of one run; the O-RBM's also on images that are not aligned."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"properties": {"model": {"const": "orbm"}}},
            "then": {
                "required": ["test_error_percent_unaligned", "gamma_train_unaligned", "gamma_test_unaligned"],
            },
        }
    )

    run: str
    model: str
    sparsity: float | None
    seed: int
    test_error_percent: Percent | None
    """None on images that have no labels."""
    gamma_train: Gamma | None
    gamma_test: Gamma | None
    gamma_offset: float
    """Δ of the γ-score's rotations, in degrees."""
    dead_units: Count | None
    """Hidden units that do not vary on the test images and are left out of γ."""
    cached: bool
    test_error_percent_unaligned: Percent | None = None
    gamma_train_unaligned: Gamma | None = None
    gamma_test_unaligned: Gamma | None = None
    more: dict[str, float] = {}
    """Other measures that were taken, by name."""
    grid_search: GridSearch | None = None


class Evaluate(Output):
    """``thetarbm evaluate --json``."""

    runs: list[EvaluatedRun]


class PerturbedCell(Output):
    """One cell of Table 3."""

    n: int
    p: float
    test_error_percent: Percent
    run: str


class Perturb(Output):
    """``thetarbm perturb --json``."""

    scope: Literal["train", "rbm", "all"]
    seed: int
    """The one seed of these runs; tables have the mean over all."""
    unperturbed_error_percent: Percent
    cells: list[PerturbedCell]


class SuiteRun(Output):
    """A run of the suite and its state at the end."""

    run: str | None
    """Its id; null as long as its data is not prepared."""
    experiment: str
    cell: str
    """The first cell that asks for it."""
    seed: int
    state: Literal["done", "cached", "failed", "pending"]
    reason: str
    """Why it was or is due, or how it failed; empty if it was found."""


class Run(Output):
    """``thetarbm run --json``."""

    done: Count
    cached: Count
    failed: Count
    seconds: Seconds
    runs: list[SuiteRun]


class SuiteCell(Output):
    """A cell of the suite and the worst state of its runs."""

    experiment: str
    cell: str
    seeds: Count
    """Runs that it asks for, one a seed."""
    done: Count
    state: Literal["done", "missing", "failed", "stale", "running"]
    reason: str


class Status(Output):
    """``thetarbm status --json``."""

    due: Count
    """Cells that are not done."""
    cells: list[SuiteCell]


class TableValue(Output):
    """One measure of one cell over the seeds."""

    model: str
    sparsity: float | None
    column: str
    """test_error_percent, gamma_train or gamma_test, for the O-RBM also with the ending _unaligned."""
    mean: float | None
    std: float | None
    """Standard deviation over the seeds; null with fewer than two."""
    seeds: Count
    published: float | None
    """The paper's number."""
    cell: str
    values: list[float]
    """One a seed."""
    n: int | None = None
    """Table 3 alone."""
    p: float | None = None
    """Table 3 alone."""
    source: str
    """Where the images come from."""
    sha256: str
    """Checksum of the test images; empty without any run."""


class Comparison(Output):
    """One comparison behind a verdict."""

    holds: bool
    words: str
    contradicted: bool
    """Whether it comes out the other way; else, if it does not hold, it is too close to tell."""

    @property
    def outcome(self) -> str:
        """How it came out, in words."""
        return "holds" if self.holds else "does not hold" if self.contradicted else "too close to tell"


class Verdict(Output):
    """The verdict on a claim of the paper."""

    source: str
    claim: str
    text: str
    rule: str
    verdict: str
    holds: Count
    """Comparisons that hold."""
    comparisons: Count
    evidence: list[Comparison]
    missing: str
    """What it needs and what makes it; empty if all is there."""


class Tables(Output):
    """``thetarbm tables --json``."""

    tables: dict[str, list[TableValue]]
    """By name: 1, 2, 3, mnist, and others of the suite."""
    verdicts: list[Verdict]
    carried: list[Verdict]
    """Verdicts on the claims on other data sets than the paper's; empty without records."""


class DecidingChoice(Output):
    """A choice of readings, and how a claim fares with each of its options in sampled universes."""

    axis: str
    difference: float
    """Largest difference between the shares."""
    chance: float
    """Of shares that differ as much where the choice does not matter (χ² test)."""
    shares: dict[str, float]
    """Share of the universes with each option in which the claim holds."""


class ClaimShare(Output):
    """A claim of the paper over universes of readings."""

    claim: str
    text: str
    holds: Count
    of: Count
    """Universes in which all its numbers were measured."""
    share: float
    low: float
    """Wilson interval of 95 %."""
    high: float
    default: bool | None
    """Whether it holds at the readings that the suite takes."""
    flipped_by: list[str]
    """Changes of one option that turn the default's outcome."""
    decided_by: list[DecidingChoice]
    """The choices that matter most, the least by chance first."""


class ChoiceInfluence(Output):
    """How much of a number's variance over sampled universes one choice explains."""

    measure: str
    """Cell and column, as "theta/sparsity=0.3 test_error_percent"."""
    axis: str
    share: float
    """Main effect, η² adjusted for chance."""


class NumberSpread(Output):
    """Standard deviations of a number."""

    measure: str
    universes: float
    """Over sampled universes."""
    seeds: float | None
    """Over seeds of the default at the paper's size, where recorded."""
    data_seeds: float | None


class NearestCell(Output):
    """A number of a universe, and the paper's."""

    cell: str
    column: str
    value: float
    published: float


class NearestUniverse(Output):
    """The universe that is nearest to the published numbers."""

    universe: str
    options: dict[str, str]
    distance: float
    """Root mean square of the differences, in units of 1 point of error and 0.02 of γ."""
    cells: list[NearestCell]


class NearestRow(Output):
    """The universe that is nearest to one row of the paper's tables."""

    row: str
    """A model; "common" are all that every universe has, "all" all rows."""
    universe: str
    distance: float
    default: float | None
    """Distance of the default."""


class UniverseDistance(Output):
    """How far a universe is from the paper."""

    distance: float | None


class Multiverse(Output):
    """The paper's claims over universes of readings."""

    design: str
    universes: Count
    """Universes whose runs are recorded."""
    sampled: Count
    named: Count
    diverged: Count
    """Universes of which a run failed."""
    diverged_cells: list[str]
    axes: dict[str, list[str]]
    """The options of each choice."""
    claims: list[ClaimShare]
    influence: list[ChoiceInfluence]
    spread: list[NumberSpread]
    nearest: NearestUniverse | None
    rows: list[NearestRow]
    default: UniverseDistance


class ShownNumber(Output):
    """A measured number beside the paper's."""

    column: str
    value: float
    digits: Count
    published: float | None
    published_digits: Count | None
    difference: float | None
    cell: str | None


class ShownFile(Output):
    """A file in the folder of a run."""

    name: str
    bytes: Count


class Show(Output):
    """``thetarbm show --json``; of a run without a record, `UnfinishedRun`."""

    run: str
    model: str
    state: Literal["done", "failed"]
    running: bool
    """Whether a process works on it at this moment."""
    error: str | None
    algorithm: int
    current: bool
    """Whether it was made by this version of the algorithm."""
    seed: int
    sparsity: float | None
    settings: dict[str, Any]
    """Settings of the model that differ from the defaults."""
    perturbation: dict[str, Any] | None
    svm: dict[str, float | bool]
    """Settings of the RBF-SVM where they differ from the paper's."""
    features: str
    """What is measured of hidden units: probabilities or states."""
    data: dict[str, Any]
    cells: list[str]
    metrics: list[ShownNumber]
    dead_units: Count | None
    grid_search: GridSearch | None
    epochs: Count
    history: dict[str, list[float]]
    timings: dict[str, Seconds]
    peak_memory_megabytes: float
    environment: dict[str, Any]
    path: str
    files: list[ShownFile]
    weights: Literal["there", "missing", "damaged"]
    train_command: str
    evaluate_command: str


class UnfinishedRun(Output):
    """A run that is being trained, or was cut off and will be resumed."""

    run: str
    model: str
    state: Literal["running", "interrupted"]
    seed: int | None = None
    """This and other settings are not known before the first epoch is saved."""
    sparsity: float | None = None
    settings: dict[str, Any] | None = None
    perturbation: dict[str, Any] | None = None
    svm: dict[str, float | bool] | None = None
    features: str | None = None
    data: dict[str, Any] | None = None
    epochs: Count
    """Epochs that are saved."""
    epochs_in_all: Count | None
    history: dict[str, list[float]]
    seconds: Seconds
    """Of training so far."""
    path: str
    train_command: str | None = None
    """Goes on with it."""


class ShowRun(RootModel[Show | UnfinishedRun]):
    """``thetarbm show --json``."""


class Figure(Output):
    """A figure that was drawn."""

    name: str
    title: str
    file: str


class FigureLeftOut(Output):
    """A figure that was not drawn."""

    name: str
    reason: str


class Figures(Output):
    """``thetarbm figures --json``."""

    files: list[str]
    figures: list[Figure]
    left_out: list[FigureLeftOut]


class MissingPart(Output):
    """What the page does not have, and the command that makes it."""

    kind: Literal["cell", "figure"]
    name: str
    source: str
    reason: str
    command: str


class Report(Output):
    """``thetarbm report --json``."""

    path: str
    bytes: Count
    figures: list[str]
    missing: list[MissingPart]


class Check(Output):
    """One claim of the paper's mathematics under one kind of rotation."""

    name: str
    rotation: str
    value: float
    """Largest deviation."""
    tolerance: float | None
    """null where the rotation is not exact and the deviation is only measured."""
    exact: bool
    passed: bool


class Verify(Output):
    """``thetarbm verify --json``."""

    passed: bool
    checks: list[Check]


class Removal(Output):
    """A folder or file that was or may be removed."""

    run: str
    path: str
    reason: str
    bytes: Count


class Clean(Output):
    """``thetarbm clean --json``."""

    removed: list[Removal]
    bytes: Count
    would_remove: list[Removal] | None = None
    """With --dry-run alone: what would go."""
    would_free_bytes: Count | None = None
    """With --dry-run alone: how much room it takes."""


class ListedRun(Output):
    """A record with its main numbers, which are null where they were not measured."""

    run: str
    model: str
    seed: int
    state: Literal["done", "failed"]
    differs: dict[str, Any]
    """Settings that differ from the defaults, by the names that --set takes."""
    dataset: str
    """Of the test images."""
    source: str
    """Where the test images come from."""
    test_error_percent: Percent | None
    gamma_train: Gamma | None
    gamma_test: Gamma | None
    cells: list[str]
    """Cells of a suite that it was made for."""
    test_error_percent_unaligned: Percent | None = None
    """Of the O-RBM alone, as the next two."""
    gamma_train_unaligned: Gamma | None = None
    gamma_test_unaligned: Gamma | None = None


class List(Output):
    """``thetarbm list --json``."""

    runs: list[ListedRun]


class Compare(Output):
    """``thetarbm compare --json``: only what differs, a value for each run, null where one has none."""

    runs: list[str]
    settings: dict[str, list[Any]]
    measures: dict[str, list[float | None]]


class Pack(Output):
    """``thetarbm pack --json``."""

    path: str
    bytes: Count
    records: Count
    """All that the file has now."""
    runs: list[str]
    """Those that were asked for."""
    slim: bool
    """Whether values per unit and confusion matrices are left out."""
    removed: list[str]
    """Runs whose own files were removed."""


OUTPUTS: dict[str, type[BaseModel]] = {
    "prepare-data": PrepareData,
    "train": Train,
    "evaluate": Evaluate,
    "perturb": Perturb,
    "run": Run,
    "status": Status,
    "tables": Tables,
    "multiverse": Multiverse,
    "report": Report,
    "show": ShowRun,
    "list": List,
    "compare": Compare,
    "figures": Figures,
    "pack": Pack,
    "clean": Clean,
    "verify": Verify,
    "info": Info,
}
