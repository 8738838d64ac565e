"""The tables: rows, columns and notes, before they become Markdown, LaTeX or CSV.

The suite declares which tables there are, what they measure and how they are laid out. Rows, columns and their order
are the paper's; next to each value is the published one. Controls, which the paper does not have, are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pydantic import BaseModel, Field

from thetarbm_cli.errors import InputError
from thetarbm_cli.followup import command_line
from thetarbm_cli.measures import DEFAULT, ERROR, MEASURES, NOT_ALIGNED
from thetarbm_cli.measures.theory import TheoryRecord
from thetarbm_cli.reporting.claims import Verdict, evaluate_claims
from thetarbm_cli.results import MOST_NAMED, PAPERS_DATASET, Results, Source, Value, collect
from thetarbm_cli.store import Training
from thetarbm_cli.suite import Cell, Suite, TableKind

# Lines on what is missing; more are made one for each source of images.
MOST_MISSING = 8


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

    name: str
    kind: TableKind
    source: Source
    columns: list[str]
    rows: list[Row]
    controls: list[Row] = field(default_factory=list)
    groups: list[tuple[str, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

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
        """What is in the cells, of runs of which size, and on which images."""
        brackets = ", in brackets the paper's value" if self.has_published else ""
        profiles = dict.fromkeys(f"profile {value.cell.profile}" for value in self.values if value.cell.profile)
        # Where rows or columns have images of their own, none are those of the table.
        compared = any(value.cell.compares_data for value in self.values)
        images = self.source.images if compared else self.source.described
        return f"{self.spread}{brackets}; {', '.join([*profiles, images])}."


def build(name: str, kind: TableKind, results: Results, verdicts: Iterable[Verdict] = ()) -> Table:
    """Lay a table out from what was measured on images of one source; of other images, it notes the verdicts."""
    layouts = {
        "sparsity": _over_sparsity,
        "perturbation": _over_perturbation,
        "list": _as_list,
        "axis": _over_axis,
    }
    table = layouts[kind.layout](Table(name, kind, results.source, [], []), results, results.in_table(name))
    notes = [*table.notes]
    if kind.layout == "sparsity" and not results.source.is_papers:
        notes += [
            f"{each.text} {each.verdict.capitalize()}: {each.holds} of {each.comparisons} comparisons hold."
            for each in verdicts
            if each.evidence
        ]
    notes += [kind.note] if kind.note else []
    if older := list(dict.fromkeys(run for value in table.values for run in value.older)):
        notes.append(f"Where several trainings have the same description, the newest counts: not {', '.join(older)}.")
    return replace(table, notes=notes)


def variants_of(model: str) -> list[tuple[str, str]]:
    """Give the evaluations of a model in the order of the tables, each with what they add to the model's label."""
    return [(NOT_ALIGNED, ", not aligned"), (DEFAULT, ", aligned")] if model == "orbm" else [(DEFAULT, "")]


def _over_sparsity(table: Table, results: Results, cells: list[Cell]) -> Table:
    """Lay out a row for each experiment and evaluation, columns for the sparsity targets; controls have no target."""
    measures = table.kind.measures
    targets = list(dict.fromkeys(cell.at["sparsity"] for cell in cells if "sparsity" in cell.at))
    rows = []
    for experiment in dict.fromkeys(cell.experiment for cell in cells if "sparsity" in cell.at):
        own = {cell.at["sparsity"]: cell for cell in cells if cell.experiment == experiment}
        first = next(iter(own.values()))
        for variant, words in variants_of(first.model):
            entries = [
                Entry(results.value(own[target], measure, variant)) if target in own else None
                for target in targets
                for measure in measures
            ]
            rows.append(Row(first.label + words, entries))
    controls = [cell for cell in cells if "sparsity" not in cell.at]
    columns, groups = [f"sparsity {target:g}" for target in targets], []
    if len(measures) > 1:
        groups = [(heading, len(measures)) for heading in columns]
        columns = _headings(measures) * len(targets)
    return replace(
        table,
        columns=columns,
        rows=_mark_best(rows),
        controls=[Row(cell.label, [Entry(results.value(cell, ERROR))]) for cell in controls],
        groups=groups,
        notes=[f"{cell.label}: {cell.context}" for cell in controls if cell.context and not results.source.is_users],
    )


def _is_above(number: float | None, limit: float | None) -> bool:
    """Say whether both are known and the first is the larger one."""
    return number is not None and limit is not None and number > limit


def _over_perturbation(table: Table, results: Results, cells: list[Cell]) -> Table:
    """Lay out rows n, columns p; stars are above the unperturbed error, ours above ours, the paper's above its own."""
    base = cells[0].unperturbed(results.cells) if cells else None
    limit = results.value(base, ERROR) if base else None
    ours, papers = (limit.mean, limit.published) if limit else (None, None)
    chances = list(dict.fromkeys(cell.at["p"] for cell in cells))
    rows = []
    for n in dict.fromkeys(cell.at["n"] for cell in cells):
        by_chance = {cell.at["p"]: results.value(cell, ERROR) for cell in cells if cell.at["n"] == n}
        entries: list[Entry | None] = [
            Entry(value, False, _is_above(value.mean, ours), _is_above(value.published, papers))
            for value in (by_chance[p] for p in chances)
        ]
        rows.append(Row(f"n = {n}", entries))
    controls = [Row("unperturbed", [Entry(limit)])] if limit else []
    return replace(table, columns=[f"p = {p:g}" for p in chances], rows=rows, controls=controls)


def _over_axis(table: Table, results: Results, cells: list[Cell]) -> Table:
    """Lay out a row for each model and evaluation; columns are values of an axis, with the paper's in the first."""

    def settings(cell: Cell) -> object:
        return cell.model, {name: cell.given[name] for name in cell.given if name not in ("data.source", "data.seed")}

    axis, measures = table.kind.axis, table.kind.measures
    places = list(dict.fromkeys(cell.at[axis] for cell in cells))
    by_row: dict[tuple[str, ...], dict[object, Cell]] = {}
    for cell in cells:
        by_row.setdefault((cell.label, *_axes(cell, axis)), {})[cell.at[axis]] = cell
    rows = []
    for (label, *others), own in by_row.items():
        first = next(iter(own.values()))
        published = next(
            (cell.published for cell in results.cells if cell.published and settings(cell) == settings(first)),
            dict[str, float](),
        )
        for variant, words in variants_of(first.model):
            entries: list[Entry | None] = []
            for measure in measures:
                values = [results.value(own[place], measure, variant) for place in places]
                values[0] = replace(values[0], published=published.get(measure))
                entries += map(Entry, values)
            rows.append(Row(", ".join([label + words, *others]), entries))
    columns = [f"{axis.replace('_', ' ')} {place}" for place in places] * len(measures)
    groups = [(MEASURES[measure].heading, len(places)) for measure in measures]
    return replace(table, columns=columns, rows=rows, groups=groups)


def _as_list(table: Table, results: Results, cells: list[Cell]) -> Table:
    """Lay out a row for each cell; what it does not ask for is left out."""

    def asks(cell: Cell, measure: str) -> bool:
        return MEASURES[measure].asked_as in ("", *cell.measures)

    measures = [measure for measure in table.kind.measures if any(asks(cell, measure) for cell in cells)]
    rows = [
        Row(
            ", ".join([cell.label, *_axes(cell)]),
            [Entry(results.value(cell, measure)) if asks(cell, measure) else None for measure in measures],
        )
        for cell in cells
    ]
    notes = list(dict.fromkeys(cell.context for cell in cells if cell.context))
    return replace(table, columns=_headings(measures), rows=rows, notes=notes)


def _axes(cell: Cell, but: str = "") -> list[str]:
    """Write the values of a cell's axes, but one."""
    return [f"{axis.replace('_', ' ')} {value}" for axis, value in cell.at.items() if axis != but]


def _headings(measures: Sequence[str]) -> list[str]:
    """Give the headings of measures; where all are γ, the title says so."""
    headings = [MEASURES[measure].heading for measure in measures]
    if all(heading.startswith("γ ") for heading in headings):
        return [heading.removeprefix("γ ") for heading in headings]
    return headings


def _mark_best(rows: list[Row]) -> list[Row]:
    """Mark the best of several means of a column: the lowest error, the highest γ."""
    columns = []
    for column in zip(*(row.entries for row in rows), strict=True):
        means = [entry.value.mean for entry in column if entry and entry.value.mean is not None]
        if len(means) > 1:
            measure = next(entry.value.measure for entry in column if entry)
            best = min(means) if MEASURES[measure].best == "lowest" else max(means)
            column = tuple(replace(entry, best=entry.value.mean == best) if entry else None for entry in column)
        columns.append(column)
    return [Row(row.label, [column[number] for column in columns]) for number, row in enumerate(rows)]


@dataclass(frozen=True)
class Section:
    """What is reported of images of one source: the tables, and the verdicts on the paper's claims, if it has any."""

    results: Results
    tables: list[Table]
    verdicts: list[Verdict]

    @property
    def source(self) -> Source:
        """The source of the images."""
        return self.results.source

    @property
    def lacking(self) -> list[Cell]:
        """Cells that lack a number of one of the tables."""
        values = (value for table in self.tables for value in table.values if value.mean is None)
        return list({value.cell.name: value.cell for value in values}.values())


def make_sections(
    suite: Suite, profile: str, trainings: Iterable[Training], theory: TheoryRecord | None, only: str | None = None
) -> list[Section]:
    """Build tables, all or one, and verdicts for each source of images; those of the paper's data set come first.

    What is run on request is shown if it has measurements of its own, or if it is asked for.
    """
    if only is not None and only not in suite.tables:
        raise InputError(f"there is no table {only!r}; choose from {', '.join(suite.tables)}")
    names = list(suite.tables) if only is None else [only]
    sections: list[Section] = []
    for results in collect(suite, profile, trainings):
        source, is_first = results.source, not any(each.source.dataset == results.source.dataset for each in sections)
        if not source.is_papers and results.is_empty and not (only and results.in_table(only)):
            continue
        # The claims are on the θ-RBM: a suite may have another data set without it.
        claimed = source.is_papers or (not results.is_empty and any(cell.model == "theta" for cell in results.cells))
        verdicts = evaluate_claims(results, suite.interest, theory) if claimed else []
        shown = [name for name in names if _is_shown(name, results, asked=only is not None, is_first=is_first)]
        tables = [build(name, suite.tables[name], results, verdicts) for name in shown]
        sections.append(Section(results, tables, verdicts))
    return sections


def _is_shown(name: str, results: Results, *, asked: bool, is_first: bool) -> bool:
    """Whether a table has something to show; of a source that is not the first of its data set, numbers."""

    def measured(cells: Iterable[Cell]) -> set[tuple[str, str]]:
        return {
            (training.run, spec.key)
            for cell in cells
            for training in results.trainings(cell)
            for spec in cell.measure_specs
            if spec.key in training.by_key
        }

    cells = results.in_table(name)
    if not is_first and not any(map(results.trainings, cells)):
        return False
    if asked or any(not cell.on_request for cell in cells):
        return bool(cells)
    others = (cell for cell in results.cells if not cell.on_request or name not in cell.tables)
    return bool(measured(cells) - measured(others))


def missing_lines(sections: Sequence[Section]) -> list[str]:
    """Say what is missing, and the command that makes it: for each experiment or, if that is long, each source."""
    lines = [line for section in sections for line in section.results.missing_lines(section.lacking)]
    if len(lines) <= MOST_MISSING:
        return lines
    lines = []
    for section in sections:
        absent, results = section.lacking, section.results
        if absent:
            few = len({cell.experiment for cell in absent}) <= MOST_NAMED
            named = few or any(cell.on_request for cell in absent)
            every = command_line("run", profile=absent[0].profile, source=results.source_option())
            makes = results.run_command(absent) if named else every
            lines.append(f"missing: {len(absent)} cells on {section.source.images}; {makes} makes them")
    return lines


class TableValue(BaseModel):
    """One measure of one cell over the seeds."""

    model: str
    sparsity: float | None
    column: str = Field(description="The measure; of the O-RBM also with the ending _unaligned.")
    mean: float | None
    std: float | None = Field(description="Standard deviation over the seeds; null with fewer than two.")
    seeds: int
    published: float | None = Field(description="The paper's number.")
    cell: str
    values: list[float] = Field(description="One a seed.")
    runs: list[str] = Field(description="The training of each.")
    n: int | None = Field(default=None, description="Where orientations are perturbed.")
    p: float | None = Field(default=None, description="Where orientations are perturbed.")
    source: str = Field(description="Where the images come from.")
    sha256: str = Field(description="Content of the images; empty without a run.")


class Tables(BaseModel):
    """``thetarbm tables --json``."""

    tables: dict[str, list[TableValue]] = Field(description="By name: 1, 2, 3, mnist, and others of the suite.")
    verdicts: list[Verdict] = Field(description="On the paper's data set, then on others that have runs.")


def tables_output(sections: Sequence[Section]) -> Tables:
    """Gather every value of every table, and the verdicts."""
    found: dict[str, list[TableValue]] = {}
    for table in (table for section in sections for table in section.tables):
        found.setdefault(table.name, []).extend(
            TableValue(
                model=value.cell.model,
                sparsity=value.cell.train_spec().parameters.get("sparsity"),
                column=value.column,
                mean=value.mean,
                std=value.deviation,
                seeds=len(value.values),
                published=value.published,
                cell=value.cell.name,
                values=list(value.values),
                runs=list(value.runs),
                n=value.cell.at.get("n"),
                p=value.cell.at.get("p"),
                source=table.source.name,
                sha256=table.source.sha256,
            )
            for value in table.values
        )
    return Tables(tables=found, verdicts=[verdict for section in sections for verdict in section.verdicts])
