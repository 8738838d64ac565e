"""The tables: rows, columns and notes, before they become Markdown, LaTeX or CSV, and all of them as one report.

Which tables there are, what they measure and how they are laid out is declared in `thetarbm_cli.outcomes.TABLES`. Rows,
columns and their order are the paper's; next to each value is the published one. Controls, which the paper does not
have, are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from thetarbm_cli.experiments.execution.theory import TheoryRecord, load_theory
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.outcomes import ERROR, MEASURES, TABLES, TableKind, variants_of
from thetarbm_cli.reporting.claims import Verdict, evaluate_claims
from thetarbm_cli.reporting.frame import PAPERS_DATASET, Numbers, Source, Value, collect


@dataclass(frozen=True)
class Entry:
    """One cell of a table.

    Attributes
    ----------
    best : whether its mean is the best of its column
    starred, published_starred : in Table 3, whether it is above the unperturbed error, ours and the paper's
    """

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
    """A table with our numbers.

    Attributes
    ----------
    groups : headings over several columns, as (text, number of columns); empty if there are none
    columns : heading of each column
    """

    kind: TableKind
    source: Source
    profile: str
    columns: list[str]
    rows: list[Row]
    groups: list[tuple[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What the command line and the suite call it."""
        return self.kind.name

    @property
    def title(self) -> str:
        """What it shows."""
        return self.kind.title.replace(PAPERS_DATASET, self.source.images)

    @property
    def headings(self) -> list[tuple[str, str]]:
        """Of each column the heading above it, or an empty text, and its own."""
        groups = [text for text, width in self.groups for _ in range(width)] or [""] * len(self.columns)
        return list(zip(groups, self.columns, strict=True))

    @property
    def values(self) -> list[Value]:
        """All its values, row by row."""
        return [entry.value for row in self.rows for entry in row.entries if entry]

    @property
    def seeds(self) -> str:
        """How many seeds are behind the means: a number, or the smallest and the largest."""
        counts = sorted({len(value.values) for value in self.values if value.values})
        if not counts:
            return "no runs yet"
        number = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
        return f"{number} seed{'' if counts == [1] else 's'}"

    @property
    def caption(self) -> str:
        """What is in the cells, and on which images."""
        several = any(value.deviation is not None for value in self.values)
        spread = "Mean ± standard deviation over seeds" if several else "Mean"
        published = any(value.published is not None for value in self.values)
        brackets = ", in brackets the paper's value" if published else ""
        return f"{spread} ({self.seeds}){brackets}; profile {self.profile}, {self.source.described}."


def build(name: str, numbers: Numbers) -> Table:
    """Lay a table out from what was measured on images of one source."""
    kind = TABLES[name]
    cells = numbers.in_table(name)
    layouts: dict[str, Callable[[TableKind, Numbers, list[Cell]], Table]] = {
        "sparsity": _over_sparsity,
        "perturbation": _over_perturbation,
        "list": _as_list,
    }
    table = layouts[kind.layout](kind, numbers, cells)
    return replace(table, notes=[*table.notes, *([kind.note] if kind.note else [])])


def _over_sparsity(kind: TableKind, numbers: Numbers, cells: list[Cell]) -> Table:
    """A row for each experiment and evaluation, columns for the sparsity targets; controls have no target."""
    targets = list(dict.fromkeys(cell.at["sparsity"] for cell in cells if "sparsity" in cell.at))
    rows = []
    for experiment in dict.fromkeys(cell.experiment for cell in cells if "sparsity" in cell.at):
        own = {cell.at["sparsity"]: cell for cell in cells if cell.experiment == experiment}
        first = next(iter(own.values()))
        for variant, words in variants_of(first.model):
            entries = [
                Entry(numbers.value(own[target], measure, variant)) if target in own else None
                for target in targets
                for measure in kind.measures
            ]
            rows.append(Row(first.label + words, entries))
    controls = [cell for cell in cells if "sparsity" not in cell.at]
    rows = _mark_best(rows)
    rows += [Row(cell.label, [Entry(numbers.value(cell, ERROR))], control=True) for cell in controls]
    headings, groups = [f"sparsity {target:g}" for target in targets], []
    if len(kind.measures) > 1:
        groups = [(heading, len(kind.measures)) for heading in headings]
        headings = _headings(kind.measures) * len(targets)
    notes = [f"{cell.label}: {cell.context}" for cell in controls if cell.context and not numbers.source.is_users]
    if numbers.source.dataset != PAPERS_DATASET:
        notes += [
            f"{each.claim.text} {each.verdict.capitalize()}: {sum(part.holds for part in each.parts)} of "
            f"{len(each.parts)} comparisons hold."
            for each in evaluate_claims(numbers)
            if each.parts
        ]
    return Table(kind, numbers.source, _profile(cells), headings, rows, groups, notes)


def _over_perturbation(kind: TableKind, numbers: Numbers, cells: list[Cell]) -> Table:
    """Rows n, columns p; starred above the unperturbed error, ours above ours and the paper's above the paper's."""
    base = cells[0].unperturbed(numbers.cells) if cells else None
    unperturbed = numbers.value(base, ERROR) if base else None
    chances = list(dict.fromkeys(cell.at["p"] for cell in cells))
    rows = []
    for n in dict.fromkeys(cell.at["n"] for cell in cells):
        found = {cell.at["p"]: numbers.value(cell, ERROR) for cell in cells if cell.at["n"] == n}
        rows.append(Row(f"n = {n}", [_starred(found[p], unperturbed) for p in chances]))
    if unperturbed is not None:
        rows.append(Row("unperturbed", [Entry(unperturbed)], control=True))
    return Table(kind, numbers.source, _profile(cells), [f"p = {p:g}" for p in chances], rows)


def _as_list(kind: TableKind, numbers: Numbers, cells: list[Cell]) -> Table:
    """A row for each cell; what it does not ask for is left out."""
    asked = {word for cell in cells for word in cell.measures}
    measures = [measure for measure in kind.measures if MEASURES[measure].asked_as in asked]
    rows = []
    for cell in cells:
        entries = [
            Entry(numbers.value(cell, measure)) if MEASURES[measure].asked_as in cell.measures else None
            for measure in measures
        ]
        axes = (f"{axis.replace('_', ' ')} {value}" for axis, value in cell.at.items())
        rows.append(Row(", ".join([cell.label, *axes]), entries))
    notes = list(dict.fromkeys(cell.context for cell in cells if cell.context))
    return Table(kind, numbers.source, _profile(cells), _headings(measures), rows, notes=notes)


def _headings(measures: Sequence[str]) -> list[str]:
    """Headings of measures; where all are γ, the title says so."""
    headings = [MEASURES[measure].heading for measure in measures]
    if all(heading.startswith("γ ") for heading in headings):
        return [heading.removeprefix("γ ") for heading in headings]
    return headings


def _mark_best(rows: list[Row]) -> list[Row]:
    """Mark the best mean of each column: the lowest error, the highest γ."""
    marked = [list(row.entries) for row in rows]
    for column in range(len(marked[0]) if marked else 0):
        held = [entry.value for entries in marked if (entry := entries[column]) and entry.value.mean is not None]
        if held:
            pick = min if MEASURES[held[0].measure].best == "lowest" else max
            best = pick(value.mean for value in held if value.mean is not None)
            for entries in marked:
                entry = entries[column]
                entries[column] = replace(entry, best=entry.value.mean == best) if entry else None
    return [replace(row, entries=entries) for row, entries in zip(rows, marked, strict=True)]


def _starred(value: Value, unperturbed: Value | None) -> Entry:
    if unperturbed is None:
        return Entry(value)
    return Entry(
        value,
        starred=_above(value.mean, unperturbed.mean),
        published_starred=_above(value.published, unperturbed.published),
    )


def _above(number: float | None, limit: float | None) -> bool:
    return number is not None and limit is not None and number > limit


def _profile(cells: list[Cell]) -> str:
    return cells[0].profile if cells else ""


@dataclass(frozen=True)
class Report:
    """All tables of one profile, for each source of images, and the verdicts.

    Attributes
    ----------
    numbers : of every data set and source
    verdicts : on the paper's claims, on its own data set
    carried : the same on other data sets
    """

    profile: str
    numbers: list[Numbers]
    tables: dict[Source, list[Table]]
    verdicts: list[tuple[Numbers, list[Verdict]]]
    carried: list[tuple[Numbers, list[Verdict]]] = field(default_factory=list)

    def missing(self) -> list[str]:
        """For each experiment with missing cells, what is missing and the command that makes it."""
        lines = []
        for numbers in self.numbers:
            values = [value for table in self.tables[numbers.source] for value in table.values]
            absent = {value.cell.name: value.cell for value in values if value.mean is None}
            lines += numbers.missing_lines(list(absent.values()))
        return lines


def make_report(results: Path, suite: Suite, profile: str, names: Sequence[str] = tuple(TABLES)) -> Report:
    """Build tables and verdicts from the records in a results folder.

    What is run on request is shown if there are records, or if nothing else is asked for.
    """
    return assemble(
        profile, suite.cells(profile, in_tables=True), RunStore(results).load_all(), load_theory(results), names
    )


def assemble(
    profile: str,
    cells: Sequence[Cell],
    records: Sequence[RunRecord],
    theory: TheoryRecord | None,
    names: Sequence[str] = tuple(TABLES),
) -> Report:
    """Build tables and verdicts of each data set of the suite, for each source of its images."""
    papers = collect(cells, records)
    others = [
        numbers
        for dataset in dict.fromkeys(cell.tested_on for cell in cells)
        if dataset != PAPERS_DATASET
        for numbers in collect(cells, records, dataset)
        if numbers.records or (len(names) == 1 and numbers.in_table(names[0]))
    ]
    return Report(
        profile,
        [*papers, *others],
        {each.source: [build(name, each) for name in _shown(each, names)] for each in [*papers, *others]},
        [(numbers, evaluate_claims(numbers, theory)) for numbers in papers],
        [(numbers, evaluate_claims(numbers)) for numbers in others if numbers.records],
    )


def _shown(numbers: Numbers, names: Sequence[str]) -> list[str]:
    """The tables with something to show: what is run on request needs records of its own, or to be asked for alone."""
    usual = {
        record.run for cell in numbers.cells if not cell.on_request for record in numbers.records.get(cell.name, [])
    }

    def has(name: str) -> bool:
        cells = numbers.in_table(name)
        if any(not cell.on_request for cell in cells) or list(names) == [name]:
            return bool(cells)
        return any(record.run not in usual for cell in cells for record in numbers.records.get(cell.name, []))

    return [name for name in names if has(name)]
