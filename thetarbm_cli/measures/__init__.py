"""What is measured, by name: labels, units and digits for tables, claims, figures and the command line.

Nothing heavy is imported here; the measures themselves are in the modules of this package.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What stands where nothing was measured.
MISSING = "—"
ERROR, GAMMA_TRAIN, GAMMA_TEST = "test_error_percent", "gamma_train", "gamma_test"

# The O-RBM is measured on images aligned by their orientations, as the paper says, and also on images as they are. Each
# variant has an ending of a measure's name in JSON outputs and CSV files.
DEFAULT, NOT_ALIGNED = "default", "not aligned"
VARIANTS = {DEFAULT: "", NOT_ALIGNED: "_unaligned"}


@dataclass(frozen=True)
class Measure:
    """A number that a training or a measurement has.

    Attributes
    ----------
    label : what it is called, without its unit
    best : which end of the scale is better, or None
    digits : after the point, as we print it
    asked_as : the word of a suite's `measures` that asks for it; empty if it comes with the training
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


MEASURES = {
    measure.name: measure
    for measure in (
        Measure(ERROR, "test error", "%", "lowest", 2, asked_as="error", short="error in %"),
        Measure(GAMMA_TRAIN, "γ train", "", "highest", asked_as="gamma"),
        Measure(GAMMA_TEST, "γ test", "", "highest", asked_as="gamma"),
        Measure("gamma_ratio_train", "γ train as a ratio of sums", "", "highest", asked_as="gamma"),
        Measure("gamma_ratio_test", "γ test as a ratio of sums", "", "highest", asked_as="gamma"),
        Measure("gamma_bounded_train", "γ train over all copies", "", "highest", asked_as="gamma"),
        Measure("gamma_bounded_test", "γ test over all copies", "", "highest", asked_as="gamma"),
        Measure("dead_units_train", "dead units, train", "", "lowest", 0, asked_as="gamma"),
        Measure("dead_units_test", "dead units, test", "", "lowest", 0, asked_as="gamma"),
        Measure("goodfellow_test", "Goodfellow's invariance", "", "highest", 2, asked_as="invariance"),
        Measure("zou_test", "Zou's distance", "", "lowest", asked_as="invariance"),
        Measure("dosovitskiy_test", "Dosovitskiy's agreement", "", "highest", asked_as="invariance"),
        Measure("rotated_error_percent", "error on rotated copies", "%", "lowest", 2, asked_as="invariance"),
        Measure("search_error_percent", "test error with C and γ chosen", "%", "lowest", 2, asked_as="search"),
        Measure("search_validation_error_percent", "validation error of it", "%", "lowest", 2, asked_as="search"),
        Measure("search_C", "C chosen", asked_as="search"),
        Measure("search_gamma", "γ of the kernel chosen", asked_as="search"),
        Measure("reconstruction_error", "reconstruction error"),
        Measure("mean_activation", "mean activation", "", None, 3),
        Measure("train_seconds", "training time", "s", "lowest", 1),
        Measure("train_cpu_seconds", "processor time of training", "s", "lowest", 1),
        Measure("train_gigaflops", "operations of training", "10⁹", "lowest", 0),
        Measure("peak_memory_megabytes", "peak memory", "MB", "lowest", 0),
    )
}


def measure_of(name: str) -> Measure:
    """Describe a number by its name, also one that the package does not know."""
    return MEASURES.get(name) or Measure(name, name.replace("_", " "))


def column_name(measure: str, variant: str = DEFAULT) -> str:
    """Name a measure in JSON outputs and CSV files: ``gamma_test_unaligned``."""
    return f"{measure}{VARIANTS[variant]}"


def split_column(column: str) -> tuple[str, str]:
    """Find the measure and the variant that a column is named after."""
    measure = column.removesuffix(VARIANTS[NOT_ALIGNED])
    return measure, DEFAULT if measure == column else NOT_ALIGNED
