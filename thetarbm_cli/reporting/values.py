"""The numbers behind the tables: values of each cell over the seeds, from records alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.experiments.suite.schema import Cell

ERROR, GAMMA_TRAIN, GAMMA_TEST = "test_error_percent", "gamma_train", "gamma_test"
# The O-RBM is measured twice: this ending means images that are not aligned.
UNALIGNED = "_unaligned"


@dataclass(frozen=True)
class Source:
    """The images that runs were tested on: a name and the checksum that says what they really are."""

    name: str
    sha256: str
    dataset: str = "mnist-rot"

    @property
    def images(self) -> str:
        """What is seen: the data set, or the user's own file."""
        return self.name if self.name.endswith(".npz") else self.dataset

    @property
    def described(self) -> str:
        """The images, where they come from, and their checksum."""
        return str(self) if self.images == self.name else f"{self.dataset} {self}"

    def __str__(self) -> str:
        return f"{self.name} (sha256 {self.sha256[:12]}…)" if self.sha256 else self.name


@dataclass(frozen=True)
class Value:
    """One measure of one cell over the seeds, beside the paper's.

    Attributes
    ----------
    values : by seed, ascending
    published : the paper's number, or None
    """

    cell: Cell
    column: str
    values: tuple[float, ...]
    published: float | None

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None without one."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Standard deviation over the seeds; None with fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    def as_json(self) -> dict[str, Any]:
        """As ``tables --json`` tells it."""
        return {
            "model": self.cell.model,
            "sparsity": self.cell.parameters.get("sparsity"),
            "column": self.column,
            "mean": self.mean,
            "std": self.deviation,
            "seeds": len(self.values),
            "published": self.published,
            "cell": self.cell.name,
            "values": list(self.values),
        }


@dataclass(frozen=True)
class Numbers:
    """All that was measured on images of one source for the cells of one profile."""

    source: Source
    cells: list[Cell]
    records: dict[str, list[RunRecord]]

    def value(self, cell: Cell, column: str) -> Value:
        """One measure of one cell."""
        found = (measure(record, column) for record in self.records.get(cell.name, []))
        published = cell.published.get(column.removesuffix(UNALIGNED))
        return Value(cell, column, tuple(number for number in found if number is not None), published)

    def of(self, experiment: str, column: str, **at: Any) -> Value | None:
        """One measure of the cell of an experiment at these values of its axes; None if the suite has none."""
        for cell in self.cells:
            if cell.experiment == experiment and cell.at == at:
                return self.value(cell, column)
        return None

    def in_table(self, table: str) -> list[Cell]:
        """The cells of a table, in the order of the suite."""
        return [cell for cell in self.cells if table in cell.tables]


def collect(cells: Sequence[Cell], records: Iterable[RunRecord], dataset: str = "mnist-rot") -> list[Numbers]:
    """Sort records to the cells that are tested on a data set, for each source of its images by itself.

    Only runs that are done and of this version of the algorithm count. Without any, there is one empty collection.
    """
    own = [cell for cell in cells if cell.tested_on == dataset]
    sources: dict[Source, dict[str, list[RunRecord]]] = {}
    usable = [record for record in records if record.state == "done" and record.algorithm == ALGORITHM]
    for record in sorted(usable, key=lambda record: record.seed):
        for cell in own:
            if cell.fits(record, any_source=True):
                source = Source(record.data["test"]["source"], record.data["test"]["sha256"], dataset)
                sources.setdefault(source, {}).setdefault(cell.name, []).append(record)
    if not sources:
        name = own[0].data.get("source", "generated") if own else "generated"
        sources[Source(name, "", dataset)] = {}
    order = sorted(sources, key=lambda source: (source.name != "generated", source.name, source.sha256))
    return [Numbers(source, own, sources[source]) for source in order]


def measure(record: RunRecord, column: str) -> float | None:
    """One number of a record, None if it was not measured."""
    metrics: dict[str, Any] = record.metrics or {}
    if column.endswith(UNALIGNED):
        metrics = metrics.get("unaligned", {})
        column = column.removesuffix(UNALIGNED)
    if column == ERROR:
        number = metrics.get("svm", {}).get(ERROR)
    else:
        number = metrics.get("gamma", {}).get(column.removeprefix("gamma_"), {}).get("mean")
    return None if number is None else float(number)
