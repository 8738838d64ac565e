"""What a table is: its rows, columns and cells, its title, and how many digits its numbers have."""

from __future__ import annotations

from dataclasses import dataclass, field

from thetarbm_cli.outcomes import TABLES as KINDS
from thetarbm_cli.reporting.frame import Source, Value

TABLES = tuple(KINDS)
# Where the paper prints fewer digits than we do.
PUBLISHED_DIGITS = {kind.name: kind.published_digits for kind in KINDS.values() if kind.published_digits}


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
        return KINDS[self.name].title.replace("mnist-rot", self.source.images)

    @property
    def values(self) -> list[Value]:
        """All its values, row by row."""
        return [entry.value for row in self.rows for entry in row.entries if entry]
