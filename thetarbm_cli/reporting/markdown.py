"""Tables in Markdown."""

from __future__ import annotations

from tabulate import tabulate

from thetarbm_cli.reporting.entries import MISSING, Marks, caption, row_texts
from thetarbm_cli.reporting.layout import Row, Table

MARKS = Marks(plus_minus=" ± ", bold="**{}**", missing=MISSING)


def to_markdown(table: Table) -> str:
    """A table under its title; controls follow in a table of their own."""
    headings = table.columns
    if table.groups:
        groups = [text for text, width in table.groups for _ in range(width)]
        headings = [f"{group}, {column}" for group, column in zip(groups, table.columns, strict=True)]
    parts = [f"## {table.title}", caption(table)[0].upper() + caption(table)[1:] + "."]
    parts.append(_grid(["", *headings], [_line(row, table) for row in table.rows if not row.control]))
    beside = [_line(row, table) for row in table.rows if row.control]
    if beside:
        parts.append(_grid(["beside it", "error in %"], beside))
    return "\n\n".join([*parts, *(f"{note}" for note in table.notes)]) + "\n"


def _line(row: Row, table: Table) -> list[str]:
    return [_plain(row.label), *row_texts(row, table, MARKS)]


def _grid(headings: list[str], lines: list[list[str]]) -> str:
    right = ("left", *("right" for _ in headings[1:]))
    return tabulate(lines, headings, tablefmt="pipe", colalign=right if lines else None, disable_numparse=True)


def _plain(text: str) -> str:
    """Text of a suite as it is, not as Markdown."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("*", "\\*").replace("<", "&lt;")
