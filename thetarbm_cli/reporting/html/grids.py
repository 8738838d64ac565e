"""The tables of the page: the paper's tables as grids, and every number of the suite as one list."""

from __future__ import annotations

from dataclasses import dataclass

from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import MEASURES, column_name, variants_of
from thetarbm_cli.reporting.entries import seeds_text
from thetarbm_cli.reporting.frame import Numbers
from thetarbm_cli.reporting.html.numerals import Numeral, numeral
from thetarbm_cli.reporting.layout import PUBLISHED_DIGITS, Entry, Table


@dataclass(frozen=True)
class GridCell:
    """One cell of a grid: our number with its marks, and the paper's as it prints it."""

    numeral: Numeral
    best: bool
    starred: bool
    published: str


@dataclass(frozen=True)
class GridRow:
    """A line; a control has one cell for all columns."""

    label: str
    cells: list[GridCell | None]


@dataclass(frozen=True)
class Grid:
    """A table of the paper.

    Attributes
    ----------
    name : unique in the page
    headings : of each column, with the heading above it
    controls : lines that the paper does not have, kept below the others
    """

    name: str
    table: Table
    about: str
    headings: list[str]
    rows: list[GridRow]
    controls: list[GridRow]


def grid(numbers: Numbers, table: Table, name: str) -> Grid:
    """A table of the paper, with the runs behind each number."""
    groups = [f"{text}, " for text, width in table.groups for _ in range(width)] or [""] * len(table.columns)
    rows: list[GridRow] = []
    controls: list[GridRow] = []
    for line, row in enumerate(table.rows):
        cells = [
            None if entry is None else _cell(numbers, table, entry, f"{name}-{line}-{column}", row.control)
            for column, entry in enumerate(row.entries)
        ]
        (controls if row.control else rows).append(GridRow(row.label, cells))
    headings = [f"{group}{column}" for group, column in zip(groups, table.columns, strict=True)]
    return Grid(name, table, _about(table), headings, rows, controls)


def _cell(numbers: Numbers, table: Table, entry: Entry, name: str, control: bool) -> GridCell:
    shown = numeral(numbers, entry.value, name)
    published = ""
    if entry.value.published is not None:
        digits = MEASURES[entry.value.measure].digits
        digits = digits if control else PUBLISHED_DIGITS.get(table.name, digits)
        published = f"{entry.value.published:.{digits}f}{'*' if entry.published_starred else ''}"
    return GridCell(shown, entry.best, entry.starred, published)


def _about(table: Table) -> str:
    """What is in the cells."""
    several = any(value.deviation is not None for value in table.values)
    words = ["Mean ± standard deviation over seeds" if several else "Mean", f" ({seeds_text(table)})"]
    if any(value.published is not None for value in table.values):
        words.append("; below it the paper's value and the difference, ours minus the paper's")
    if any(entry.best for row in table.rows for entry in row.entries if entry):
        words.append("; bold is the best of a column")
    return "".join(words) + "."


def every_number(numbers: Numbers, name: str) -> list[Numeral]:
    """All that was or should be measured, cell by cell in the order of the suite."""
    return [
        numeral(numbers, numbers.value(cell, measure, variant), f"{name}-{line}-{column_name(measure, variant)}")
        for line, cell in enumerate(numbers.cells)
        for variant in sorted(variant for variant, _ in variants_of(cell.model))
        for measure in measures_of(cell)
    ]


def measures_of(cell: Cell) -> list[str]:
    """The measures that a cell asks for."""
    return [measure.name for measure in MEASURES.values() if measure.asked_as in cell.measures]
