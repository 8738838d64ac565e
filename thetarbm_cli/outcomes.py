"""What is measured, in which evaluations, and in which tables it is shown: each declared once, by name.

Tables, claims, figures and the report take labels, digits and directions from here; the suite's schema and the command
line take the names. Nothing heavy is imported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# Steps of a run before it is measured, as its progress names them.
PREPARING, TRAINING = "preparing the data", "epoch"

# What stands where nothing was measured.
MISSING = "—"
ERROR, GAMMA_TRAIN, GAMMA_TEST = "test_error_percent", "gamma_train", "gamma_test"


@dataclass(frozen=True)
class Measure:
    """A number that a run may have.

    Attributes
    ----------
    label : what it is called, without its unit
    best : which end of the scale is better, or None
    digits : after the point, as we print it
    asked_as : the word of a suite's `measures` that asks for it; empty if it comes by itself
    short : what stands over a column of a table instead of label and unit
    """

    name: str
    label: str
    unit: str = ""
    best: Literal["lowest", "highest"] | None = None
    digits: int = 4
    asked_as: str = ""
    short: str = ""

    @property
    def with_unit(self) -> str:
        """The label with its unit, as "test error in %"."""
        return f"{self.label} in {self.unit}" if self.unit else self.label

    @property
    def heading(self) -> str:
        """What stands over a column of a table."""
        return self.short or self.with_unit

    def text(self, value: float | None) -> str:
        """Write a value with the digits of the tables; a dash where there is none."""
        return MISSING if value is None else f"{value:.{self.digits}f}"


@dataclass(frozen=True)
class TableKind:
    """A table: its title, and how `reporting.tables` lays it out.

    Attributes
    ----------
    layout : rows are models and columns sparsity targets; rows n and columns p; a line for each cell; or columns the
        values of an axis
    measures : the columns, or the columns of each sparsity target
    published_digits : digits that the paper prints, where they are fewer than ours
    note : a sentence below it
    axis : the axis whose values are columns, of the layout that has one
    """

    name: str
    title: str
    layout: Literal["sparsity", "perturbation", "list", "axis"]
    measures: tuple[str, ...] = (ERROR, GAMMA_TRAIN, GAMMA_TEST)
    published_digits: int | None = None
    note: str = ""
    axis: str = ""


MEASURES = {
    measure.name: measure
    for measure in (
        Measure(ERROR, "test error", "%", "lowest", 2, asked_as="error", short="error in %"),
        Measure(GAMMA_TRAIN, "γ train", "", "highest", asked_as="gamma"),
        Measure(GAMMA_TEST, "γ test", "", "highest", asked_as="gamma"),
        Measure("gamma_ratio_train", "γ train as a ratio of sums", "", "highest"),
        Measure("gamma_ratio_test", "γ test as a ratio of sums", "", "highest"),
        Measure("gamma_offset_train", "γ train for another Δ", "", "highest"),
        Measure("goodfellow_test", "Goodfellow's invariance", "", "highest", 2, asked_as="invariance"),
        Measure("zou_test", "Zou's distance", "", "lowest", asked_as="invariance"),
        Measure("dosovitskiy_test", "Dosovitskiy's agreement", "", "highest", asked_as="invariance"),
        Measure("rotated_error_percent", "error on rotated copies", "%", "lowest", 2, asked_as="invariance"),
        Measure("dead_units_train", "dead units, train", "", "lowest", 0),
        Measure("dead_units_test", "dead units, test", "", "lowest", 0),
        Measure("search_error_percent", "test error with C and γ chosen", "%", "lowest", 2),
        Measure("search_C", "C chosen"),
        Measure("search_gamma", "γ of the kernel chosen"),
        Measure("reconstruction_error", "reconstruction error"),
        Measure("mean_activation", "mean activation", "", None, 3),
        Measure("train_seconds", "training time", "s", "lowest", 1),
        Measure("train_gigaflops", "operations of training", "10⁹", "lowest", 0),
        Measure("peak_memory_megabytes", "peak memory", "MB", "lowest", 0),
    )
}

DEFAULT, NOT_ALIGNED = "default", "not aligned"
# The O-RBM is evaluated on images aligned by their orientations, as the paper says, and also on images as they are.
# Each variant has an ending of a measure's name in JSON outputs and CSV files.
VARIANTS = {DEFAULT: "", NOT_ALIGNED: "_unaligned"}

TABLES = {
    table.name: table
    for table in (
        TableKind("1", "Table 1: test error of an RBF-SVM on mnist-rot, in %", "sparsity", (ERROR,)),
        TableKind("2", "Table 2: γ-score on mnist-rot", "sparsity", (GAMMA_TRAIN, GAMMA_TEST)),
        TableKind(
            "3",
            "Table 3: test error under perturbed orientations, in %",
            "perturbation",
            (ERROR,),
            1,
            "* above the unperturbed error.",
        ),
        TableKind(
            "mnist",
            "Training on mnist: γ-score on mnist (train) and mnist-rot (test)",
            "list",
            (GAMMA_TRAIN, GAMMA_TEST),
            2,
            "The paper gives these values in its text, as approximate.",
        ),
        TableKind("ablation", "Ablations: what each reading of the paper is worth", "list"),
        TableKind(
            "making",
            "What the making of the data is worth: the models of Tables 1 and 2 in the universe plain, by source",
            "axis",
            (ERROR, GAMMA_TEST),
            axis="source",
            note="generated: digits drawn with replacement, Gaussian kernel of 0.3 px, as in the official set; "
            "bilinear: distinct digits, bilinear. The paper's values are on the official set.",
        ),
        TableKind(
            "draws",
            "What the draw of the data is worth: Tables 1 and 2 on mnist-rot by its data seed",
            "axis",
            (ERROR, GAMMA_TEST),
            axis="data_seed",
            note="Each data seed draws other digits, angles and an order of its own, as the official set is a draw of "
            "its own.",
        ),
        TableKind(
            "fashion", "Tables 1 and 2 on rotated Fashion-MNIST: test error of an RBF-SVM, and γ-score", "sparsity"
        ),
        TableKind("choice", "Choices: error on the validation images, in %", "list", (ERROR,)),
        TableKind("beyond", "Beyond the paper: test error of an RBF-SVM on mnist-rot, and γ-score", "list"),
    )
}


def column_name(measure: str, variant: str = DEFAULT) -> str:
    """Name of a measure of a variant in JSON outputs and CSV files, as ``gamma_test_unaligned``."""
    return measure + VARIANTS[variant]


def variants_of(model: str) -> tuple[tuple[str, str], ...]:
    """The evaluations of a model in the order of the tables, each with what they add to the model's label."""
    if model == "orbm":
        return ((NOT_ALIGNED, ", not aligned"), (DEFAULT, ", aligned"))
    return ((DEFAULT, ""),)


def split_column(column: str) -> tuple[str, str]:
    """The measure and the variant that `column_name` made a name of."""
    measure = column.removesuffix(VARIANTS[NOT_ALIGNED])
    return measure, DEFAULT if measure == column else NOT_ALIGNED
