"""Outputs of the commands that prepare data and make, measure or remove runs."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, RootModel

from thetarbm_cli.commands.outputs.base import Checksum, Count, Gamma, GridSearch, Output, Percent, Seconds, Splits


class PreparedFile(Output):
    """Prepared data that was found."""

    dataset: str
    source: str
    seed: int
    path: str
    sha256: Checksum
    splits: Splits


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


class PreparedData(PreparedFile):
    """A data set."""

    pixel_mean: float
    """Over all pixels, in [0, 1]."""
    pixel_std: float
    orientations: list[float]
    """Share of the images with each dominant orientation of the support set."""
    preview: str
    """A picture of some images with their orientations."""
    cached: bool
    classes: dict[str, dict[str, Count]]
    """Images of each class in each part."""


class PreparedSets(Output):
    """With ``--dataset all``."""

    datasets: list[PreparedData]


class PrepareData(RootModel[PreparedData | PreparedSets]):
    """``thetarbm prepare-data --json``."""


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
    unperturbed_error_percent: Percent
    cells: list[PerturbedCell]


class SuiteRun(Output):
    """A run of the suite and how it stands at the end."""

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


class Removal(Output):
    """What was removed."""

    run: str
    path: str
    reason: str


class Clean(Output):
    """``thetarbm clean --json``."""

    removed: list[Removal]
    bytes: Count
    would_remove: list[Removal] | None = None
    """With --dry-run alone: what would go."""
    would_free_bytes: Count | None = None
    """With --dry-run alone: how much room it takes."""
