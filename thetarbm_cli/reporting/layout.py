"""What a table is: its rows, columns and cells, its title, and how many digits its numbers have."""

from __future__ import annotations

from dataclasses import dataclass, field

from thetarbm_cli.reporting.values import ERROR, GAMMA_TEST, GAMMA_TRAIN, Source, Value

TABLES = ("1", "2", "3", "mnist", "ablation", "fashion", "choice", "beyond")
TITLES = {
    "1": "Table 1: test error of an RBF-SVM on mnist-rot, in %",
    "2": "Table 2: γ-score on mnist-rot",
    "3": "Table 3: test error under perturbed orientations, in %",
    "mnist": "Training on mnist: γ-score on mnist (train) and mnist-rot (test)",
    "ablation": "Ablations: what each reading of the paper is worth",
    "fashion": "Tables 1 and 2 on rotated Fashion-MNIST: test error of an RBF-SVM, and γ-score",
    "choice": "Choices: error on the validation images, in %",
    "beyond": "Beyond the paper: test error of an RBF-SVM on mnist-rot, and γ-score",
}
DIGITS = {ERROR: 2, GAMMA_TRAIN: 4, GAMMA_TEST: 4}
# Where the paper prints fewer digits than we do.
PUBLISHED_DIGITS = {"3": 1, "mnist": 2}


@dataclass(frozen=True)
class Entry:
    """One cell of a table."""

    value: Value
    best: bool = False
    starred: bool = False
    published_starred: bool = False


@dataclass(frozen=True)
class Row:
    """A line of a table; a control has one entry for all columns, and an entry may be left out."""

    label: str
    entries: list[Entry | None]
    control: bool = False


@dataclass(frozen=True)
class Table:
    """A table of the paper with our numbers.

    Attributes
    ----------
    groups : headings over several columns, as (text, number of columns); empty if there are none
    columns : heading of each column
    """

    name: str
    source: Source
    profile: str
    columns: list[str]
    rows: list[Row]
    groups: list[tuple[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """What it shows."""
        return TITLES[self.name].replace("mnist-rot", self.source.images)

    @property
    def values(self) -> list[Value]:
        """All its values, row by row."""
        return [entry.value for row in self.rows for entry in row.entries if entry]
