"""Tables as CSV: one line a value, with full precision."""

from __future__ import annotations

import csv
import io

from thetarbm_cli.reporting.layout import Table

FIELDS = ("table", "source", "row", "column", "cell", "measure", "mean", "std", "seeds", "published")


def to_csv(table: Table) -> str:
    """A heading and one line for each cell; what is missing is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(FIELDS)
    groups = [f"{group}, " for group, width in table.groups for _ in range(width)] or [""] * len(table.columns)
    headings = [f"{group}{column}" for group, column in zip(groups, table.columns, strict=True)]
    for row in table.rows:
        for heading, entry in zip([""] if row.control else headings, row.entries, strict=True):
            if entry is None:
                continue
            value = entry.value
            writer.writerow(
                (
                    *(table.name, table.source.name, row.label, heading, value.cell.name, value.column),
                    *(value.mean, value.deviation, len(value.values), value.published),
                )
            )
    return text.getvalue()
