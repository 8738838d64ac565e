"""The tables: rows, columns and notes, before they become Markdown, LaTeX or CSV, and all of them as one report.

Which tables there are, what they measure and how they are laid out is declared in `thetarbm_cli.outcomes.TABLES`; a
suite may declare more. Rows, columns and their order are the paper's; next to each value is the published one.
Controls, which the paper does not have, are kept apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.execution.theory import TheoryRecord, load_theory
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.followup import command_line
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, TABLES, TableKind, variants_of
from thetarbm_cli.reporting.claims import Verdict, evaluate_claims
from thetarbm_cli.reporting.frame import MOST_NAMED, PAPERS_DATASET, Numbers, Source, Value, collect, is_above


@dataclass(frozen=True)
class Entry:
    """One cell of a table; `best` of its column, or `starred`, in Table 3, as it is above the unperturbed error."""

    value: Value
    best: bool = False
    starred: bool = False
    published_starred: bool = False


class Row(NamedTuple):
    """A line of a table; an entry may be left out."""

    label: str
    entries: list[Entry | None]


@dataclass(frozen=True)
class Table:
    """A table with our numbers.

    Attributes
    ----------
    rows : those that the paper has, too
    controls : those that it does not have, with one entry each, a test error
    groups : headings over several columns, as (text, number of columns)
    """

    kind: TableKind
    source: Source
    profile: str
    columns: list[str]
    rows: list[Row]
    controls: list[Row]
    groups: list[tuple[str, int]]
    notes: list[str]

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
    def axis(self) -> tuple[str, list[str]]:
        """What the headings over several columns have in common, and the rest of each: sparsity; 0.3, 0.2, 0.1."""
        parts = [text.rpartition(" ") for text, _ in self.groups]
        if len({common for common, _, _ in parts}) == 1:
            return parts[0][0], [rest for _, _, rest in parts]
        return "", [text for text, _ in self.groups]

    @property
    def values(self) -> list[Value]:
        """All its values, row by row."""
        return [entry.value for row in (*self.rows, *self.controls) for entry in row.entries if entry]

    @property
    def lacking(self) -> list[Cell]:
        """Cells that lack one of their values."""
        return list({value.cell.name: value.cell for value in self.values if value.mean is None}.values())

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it was measured yet."""
        return not any(value.values for value in self.values)

    @property
    def has_published(self) -> bool:
        """Whether the paper has any of its values."""
        return any(value.published is not None for value in self.values)

    @property
    def spread(self) -> str:
        """What our numbers are, and of how many seeds."""
        several = any(value.deviation is not None for value in self.values)
        counts = sorted({len(value.values) for value in self.values if value.values})
        number = " to ".join(map(str, dict.fromkeys((counts[0], counts[-1])))) if counts else ""
        seeds = f"{number} seed{'' if counts == [1] else 's'}" if counts else "no runs yet"
        return f"{'Mean ± standard deviation over seeds' if several else 'Mean'} ({seeds})"

    @property
    def caption(self) -> str:
        """What is in the cells, and on which images."""
        brackets = ", in brackets the paper's value" if self.has_published else ""
        # Where rows or columns have images of their own, none are those of the table.
        compared = any(value.cell.compares_data for value in self.values)
        images = self.source.images if compared else self.source.described
        return f"{self.spread}{brackets}; profile {self.profile}, {images}."


class Layout(NamedTuple):
    """What of a table depends on its kind."""

    columns: list[str]
    rows: list[Row]
    controls: Sequence[Row] = ()
    groups: Sequence[tuple[str, int]] = ()
    notes: Sequence[str] = ()


def build(table: str | TableKind, numbers: Numbers) -> Table:
    """Lay a table out from what was measured on images of one source."""
    kind = TABLES[table] if isinstance(table, str) else table
    cells = numbers.in_table(kind.name)
    layouts: dict[str, Callable[[TableKind, Numbers, list[Cell]], Layout]] = {
        "sparsity": _over_sparsity,
        "perturbation": _over_perturbation,
        "list": _as_list,
        "axis": _over_axis,
    }
    columns, rows, controls, groups, notes = layouts[kind.layout](kind, numbers, cells)
    notes = [*notes, *([kind.note] if kind.note else [])]
    profile = cells[0].profile if cells else ""
    return Table(kind, numbers.source, profile, columns, rows, [*controls], [*groups], notes)


def _over_sparsity(kind: TableKind, numbers: Numbers, cells: list[Cell]) -> Layout:
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
    headings, groups = [f"sparsity {target:g}" for target in targets], []
    if len(kind.measures) > 1:
        groups = [(heading, len(kind.measures)) for heading in headings]
        headings = _headings(kind.measures) * len(targets)
    notes = [f"{cell.label}: {cell.context}" for cell in controls if cell.context and not numbers.source.is_users]
    if not numbers.source.is_papers:
        notes += [
            f"{each.text} {each.verdict.capitalize()}: {each.holds} of {each.comparisons} comparisons hold."
            for each in evaluate_claims(numbers)
            if each.evidence
        ]
    of_controls = [Row(cell.label, [Entry(numbers.value(cell, ERROR))]) for cell in controls]
    return Layout(headings, _mark_best(rows), of_controls, groups, notes)


def _over_perturbation(kind: TableKind, numbers: Numbers, cells: list[Cell]) -> Layout:
    """Rows n, columns p; starred above the unperturbed error, ours above ours and the paper's above the paper's."""
    base = cells[0].unperturbed(numbers.cells) if cells else None
    limit = numbers.value(base, ERROR) if base else None
    ours, papers = (limit.mean, limit.published) if limit else (None, None)
    chances = list(dict.fromkeys(cell.at["p"] for cell in cells))
    rows = []
    for n in dict.fromkeys(cell.at["n"] for cell in cells):
        by_chance = {cell.at["p"]: numbers.value(cell, ERROR) for cell in cells if cell.at["n"] == n}
        values = [by_chance[p] for p in chances]
        stars = [(is_above(value.mean, ours), is_above(value.published, papers)) for value in values]
        rows.append(Row(f"n = {n}", [Entry(value, False, *star) for value, star in zip(values, stars, strict=True)]))
    controls = [Row("unperturbed", [Entry(limit)])] if limit else []
    return Layout([f"p = {p:g}" for p in chances], rows, controls)


def _over_axis(kind: TableKind, numbers: Numbers, cells: list[Cell]) -> Layout:
    """A row for each model and evaluation; columns the values of the table's axis, with the paper's in the first."""
    values = list(dict.fromkeys(cell.at[kind.axis] for cell in cells))
    groups: dict[tuple[str, ...], dict[object, Cell]] = {}
    for cell in cells:
        further = (f"{axis.replace('_', ' ')} {value}" for axis, value in cell.at.items() if axis != kind.axis)
        groups.setdefault((cell.label, *further), {})[cell.at[kind.axis]] = cell
    rows = []
    for (label, *others), own in groups.items():
        first = next(iter(own.values()))
        published = next(
            (each.published for each in numbers.cells if each.published and _settings(each) == _settings(first)),
            dict[str, float](),
        )
        for variant, words in variants_of(first.model):
            found = [numbers.value(own[value], measure, variant) for measure in kind.measures for value in values]
            entries: list[Entry | None] = [Entry(value) for value in found]
            for column, measure in enumerate(kind.measures):
                place = column * len(values)
                entries[place] = Entry(replace(found[place], published=published.get(measure)))
            rows.append(Row(", ".join([label + words, *others]), entries))
    columns = [f"{kind.axis.replace('_', ' ')} {value}" for value in values] * len(kind.measures)
    return Layout(columns, rows, groups=[(MEASURES[measure].heading, len(values)) for measure in kind.measures])


def _settings(cell: Cell) -> tuple[object, ...]:
    return cell.model, cell.data.get("train_on"), cell.parameters, cell.perturbation, cell.svm


def _as_list(kind: TableKind, numbers: Numbers, cells: list[Cell]) -> Layout:
    """A row for each cell; what it does not ask for is left out."""
    asked = {"", *(word for cell in cells for word in cell.measures)}
    measures = [measure for measure in kind.measures if MEASURES[measure].asked_as in asked]
    rows = []
    for cell in cells:
        entries = [
            Entry(numbers.value(cell, measure)) if MEASURES[measure].asked_as in ("", *cell.measures) else None
            for measure in measures
        ]
        axes = (f"{axis.replace('_', ' ')} {value}" for axis, value in cell.at.items())
        rows.append(Row(", ".join([cell.label, *axes]), entries))
    notes = list(dict.fromkeys(cell.context for cell in cells if cell.context))
    return Layout(_headings(measures), rows, notes=notes)


def _headings(measures: Sequence[str]) -> list[str]:
    """Headings of measures; where all are γ, the title says so."""
    headings = [MEASURES[measure].heading for measure in measures]
    if all(heading.startswith("γ ") for heading in headings):
        return [heading.removeprefix("γ ") for heading in headings]
    return headings


def _mark_best(rows: list[Row]) -> list[Row]:
    """Mark the best of several means of a column: the lowest error, the highest γ."""
    marked = [list(row.entries) for row in rows]
    for column in range(len(marked[0]) if marked else 0):
        held = [entry.value for entries in marked if (entry := entries[column]) and entry.value.mean is not None]
        if len(held) > 1:
            pick = min if MEASURES[held[0].measure].best == "lowest" else max
            best = pick(value.mean for value in held if value.mean is not None)
            for entries in marked:
                entry = entries[column]
                entries[column] = replace(entry, best=entry.value.mean == best) if entry else None
    return [Row(row.label, entries) for row, entries in zip(rows, marked, strict=True)]


@dataclass(frozen=True)
class Part:
    """What a report has of images of one source: the tables, and the verdicts on the paper's claims, if it has any."""

    numbers: Numbers
    tables: list[Table]
    verdicts: list[Verdict]

    @property
    def source(self) -> Source:
        """The source of the images."""
        return self.numbers.source

    @property
    def lacking(self) -> list[Cell]:
        """Cells that lack a number of one of the tables."""
        return list({cell.name: cell for table in self.tables for cell in table.lacking}.values())


@dataclass(frozen=True)
class Report:
    """All tables and verdicts of one profile, for each source of images; those of the paper's data set come first."""

    profile: str
    parts: list[Part]

    @property
    def tables(self) -> list[Table]:
        """All tables, those of one source after those of another."""
        return [table for part in self.parts for table in part.tables]

    def missing(self) -> list[str]:
        """For each experiment with missing cells, what is missing and the command that makes it."""
        return [line for part in self.parts for line in part.numbers.missing_lines(part.lacking)]

    def missing_at_once(self) -> list[str]:
        """For each source of images how many cells are missing, and the command that makes them all."""
        lines = []
        for part in self.parts:
            absent, numbers = part.lacking, part.numbers
            if absent:
                few = len({cell.experiment for cell in absent}) <= MOST_NAMED
                named = few or any(cell.on_request for cell in absent)
                every = command_line("run", profile=self.profile, source=numbers.source_option())
                makes = numbers.run_command(absent) if named else every
                lines.append(f"missing: {len(absent)} cells on {part.source.images}; {makes} makes them")
        return lines


def make_report(results: Path, suite: Suite, profile: str, names: Sequence[str] = ()) -> Report:
    """Build tables and verdicts from the records in a results folder: all tables, or those of these names.

    What is run on request is shown if there are records, or if nothing else is asked for.
    """
    known = suite.table_kinds
    for name in names:
        if name not in known:
            raise InputError(f"there is no table {name!r}; choose from {', '.join(known)}")
    kinds = [known[name] for name in names or known]
    cells = suite.cells(profile, in_tables=True)
    return assemble(profile, cells, RunStore(results).load_all(), load_theory(results), kinds)


def assemble(
    profile: str,
    cells: Sequence[Cell],
    records: Sequence[RunRecord],
    theory: TheoryRecord | None,
    kinds: Sequence[TableKind] = tuple(TABLES.values()),
) -> Report:
    """Build tables and verdicts of each data set of the suite, for each source of its images."""
    parts = []
    for dataset in dict.fromkeys([PAPERS_DATASET, *(cell.tested_on for cell in cells)]):
        is_papers = dataset == PAPERS_DATASET
        for number, numbers in enumerate(collect(cells, records, dataset)):
            asked_for = len(kinds) == 1 and numbers.in_table(kinds[0].name)
            if is_papers or numbers.records or asked_for:
                tables = [build(kind, numbers) for kind in kinds if _is_shown(kind, kinds, numbers, beside=number > 0)]
                # The claims are on the θ-RBM: a suite may have another data set without it.
                claimed = is_papers or (numbers.records and any(cell.model == "theta" for cell in numbers.cells))
                parts.append(Part(numbers, tables, evaluate_claims(numbers, theory) if claimed else []))
    return Report(profile, parts)


def _is_shown(kind: TableKind, kinds: Sequence[TableKind], numbers: Numbers, *, beside: bool) -> bool:
    """Whether a table has something to show: what is run on request needs numbers of its own, or to be asked for.

    Images of a source `beside` the first need records in any case.
    """
    cells = numbers.in_table(kind.name)
    if beside and not any(cell.name in numbers.records for cell in cells):
        return False
    if any(not cell.on_request for cell in cells) or len(kinds) == 1:
        return bool(cells)
    own = set(kind.measures) - {ERROR, GAMMA_TRAIN, GAMMA_TEST}
    if any(numbers.value(cell, measure).mean is not None for cell in cells for measure in own):
        return True
    others = [cell for cell in numbers.cells if not cell.on_request or kind.name not in cell.tables]
    shared = {record.run for cell in others for record in numbers.records.get(cell.name, [])}
    return any(record.run not in shared for cell in cells for record in numbers.records.get(cell.name, []))
