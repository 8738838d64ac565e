"""What every ``--json`` prints: a command builds its model, prints it, and lays its text out from it.

``make schema`` writes the JSON Schemas in ``docs/schema`` from these models. Scripts build on their names: a field may
be added, never taken away. A field without a default is always printed; one with a default only where it was set. The
module stands below data, measures, experiments and reporting, as these fill in what they know.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=100)]
Gamma = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Checksum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Output(BaseModel):
    """A JSON object whose fields are described by the line under them."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class Splits(Output):
    """Images in each part."""

    train: Count
    valid: Count
    test: Count


class PreparedFile(Output):
    """Prepared data that was found."""

    dataset: str
    source: str
    seed: int
    path: str
    sha256: Checksum
    splits: Splits


class ImageSummary(Output):
    """Counts and pixels of a data set."""

    splits: Splits
    classes: dict[str, dict[str, Count]]
    """Images of each class in each part."""
    pixel_mean: float
    """Over all pixels, in [0, 1]."""
    pixel_std: float


class PreparedData(ImageSummary, PreparedFile):
    """A data set."""

    orientations: list[float]
    """Share of the images with each dominant orientation of the support set."""
    preview: str
    """A picture of some images with their orientations."""
    cached: bool


class PreparedSets(Output):
    """With ``--dataset all``."""

    datasets: list[PreparedData]


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
    svm: dict[str, float]


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
    test_error_percent: Percent
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
    """``thetarbm show --json``."""

    run: str
    model: str
    state: Literal["done", "failed"]
    error: str | None
    algorithm: int
    current: bool
    """Whether it was made by this version of the algorithm."""
    seed: int
    settings: dict[str, Any]
    """Settings of the model that differ from the defaults."""
    perturbation: dict[str, Any] | None
    svm: dict[str, float]
    """C and γ of the RBF-SVM where they differ from the paper's."""
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


OUTPUTS: dict[str, type[BaseModel]] = {
    "prepare-data": PrepareData,
    "train": Train,
    "evaluate": Evaluate,
    "perturb": Perturb,
    "run": Run,
    "status": Status,
    "tables": Tables,
    "report": Report,
    "show": Show,
    "figures": Figures,
    "clean": Clean,
    "verify": Verify,
    "info": Info,
}
