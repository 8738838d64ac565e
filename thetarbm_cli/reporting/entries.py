"""Text of one table cell, the same in every format but for its marks."""

from __future__ import annotations

from dataclasses import dataclass

from thetarbm_cli.outcomes import MEASURES
from thetarbm_cli.reporting.layout import PUBLISHED_DIGITS, Entry, Row, Table

MISSING = "—"


@dataclass(frozen=True)
class Marks:
    """How a format writes what is not a digit."""

    plus_minus: str
    bold: str
    missing: str


def row_texts(row: Row, table: Table, marks: Marks) -> list[str]:
    """Texts of a line; what stands beside a table has the digits that the paper prints in Table 1."""
    name = "1" if row.control else table.name
    return ["" if entry is None else entry_text(entry, name, marks) for entry in row.entries]


def entry_text(entry: Entry, table: str, marks: Marks) -> str:
    """Mean ± standard deviation, bold or starred, and the published value in brackets."""
    value = entry.value
    digits = MEASURES[value.measure].digits
    if value.mean is None:
        text = marks.missing
    else:
        text = f"{value.mean:.{digits}f}"
        if value.deviation is not None:
            text += f"{marks.plus_minus}{value.deviation:.{digits}f}"
        text += "*" if entry.starred else ""
        text = marks.bold.format(text) if entry.best else text
    if value.published is None:
        return text
    star = "*" if entry.published_starred else ""
    return f"{text} ({value.published:.{PUBLISHED_DIGITS.get(table, digits)}f}{star})"


def seeds_text(table: Table) -> str:
    """How many seeds are behind the means: a number, or the smallest and the largest."""
    counts = sorted({len(value.values) for value in table.values if value.values})
    if not counts:
        return "no runs yet"
    number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{number} seed{'' if counts == [1] else 's'}"


def caption(table: Table) -> str:
    """What is in the cells, and on which images."""
    several = any(value.deviation is not None for value in table.values)
    spread = "mean ± standard deviation over seeds" if several else "mean"
    beside = ", in brackets the paper's value" if any(value.published is not None for value in table.values) else ""
    return f"{spread} ({seeds_text(table)}){beside}; profile {table.profile}, {table.source.described}"
