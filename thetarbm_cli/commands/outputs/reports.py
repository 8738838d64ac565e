"""Outputs of the commands that report: tables, one run, figures, the page, the checks."""

from __future__ import annotations

from typing import Any, Literal

from thetarbm_cli.commands.outputs.base import Count, GridSearch, Output, Seconds


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


class Gap(Output):
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
    missing: list[Gap]


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
