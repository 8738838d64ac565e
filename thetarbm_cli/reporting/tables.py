"""The paper's tables as rows and columns, before they become Markdown, LaTeX or CSV.

Rows, columns and their order are the paper's. Beside each cell is the published value; the controls, which the paper
does not have, stand below a rule.
"""

from __future__ import annotations

from collections.abc import Callable

from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, GAMMA_TRAIN, variants_of
from thetarbm_cli.reporting.carried import judge_carried
from thetarbm_cli.reporting.frame import Numbers, Value
from thetarbm_cli.reporting.layout import Entry, Row, Table


def build(name: str, numbers: Numbers) -> Table:
    """One table of the paper from what was measured."""
    builders: dict[str, Callable[[Numbers], Table]] = {
        "1": _table1,
        "2": _table2,
        "3": _table3,
        "mnist": _mnist,
        "fashion": _fashion,
    }
    return builders[name](numbers) if name in builders else _lines(numbers, name)


def _table1(numbers: Numbers) -> Table:
    cells = numbers.in_table("1")
    targets = _targets(cells)
    rows = _best(_rows(numbers, cells, targets, (ERROR,)))
    controls = [cell for cell in cells if "sparsity" not in cell.at]
    rows += [Row(cell.label, [Entry(numbers.value(cell, ERROR))], control=True) for cell in controls]
    notes = [f"{cell.label}: {cell.context}" for cell in controls if cell.context]
    columns = [f"sparsity {target:g}" for target in targets]
    return Table("1", numbers.source, _profile(cells), columns, rows, notes=notes)


def _table2(numbers: Numbers) -> Table:
    cells = numbers.in_table("2")
    targets = _targets(cells)
    rows = _best(_rows(numbers, cells, targets, (GAMMA_TRAIN, GAMMA_TEST)))
    groups = [(f"sparsity {target:g}", 2) for target in targets]
    return Table("2", numbers.source, _profile(cells), ["train", "test"] * len(targets), rows, groups)


def _table3(numbers: Numbers) -> Table:
    """Rows n, columns p; * above the unperturbed error, ours above ours and the paper's above the paper's."""
    cells = numbers.in_table("3")
    unperturbed = cells[0].unperturbed(numbers.cells) if cells else None
    below = numbers.value(unperturbed, ERROR) if unperturbed else None
    counts = list(dict.fromkeys(cell.at["n"] for cell in cells))
    chances = list(dict.fromkeys(cell.at["p"] for cell in cells))
    rows = []
    for n in counts:
        found = {cell.at["p"]: numbers.value(cell, ERROR) for cell in cells if cell.at["n"] == n}
        rows.append(Row(f"n = {n}", [_starred(found[p], below) for p in chances]))
    if below is not None:
        rows.append(Row("unperturbed", [Entry(below)], control=True))
    notes = ["* above the unperturbed error."]
    return Table("3", numbers.source, _profile(cells), [f"p = {p:g}" for p in chances], rows, notes=notes)


def _mnist(numbers: Numbers) -> Table:
    cells = numbers.in_table("mnist")
    rows = [
        Row(cell.label, [Entry(numbers.value(cell, column)) for column in (GAMMA_TRAIN, GAMMA_TEST)]) for cell in cells
    ]
    notes = ["The paper gives these in its text, as about values."]
    return Table("mnist", numbers.source, _profile(cells), ["train", "test"], rows, notes=notes)


def _lines(numbers: Numbers, name: str) -> Table:
    """A line for each cell, what is not measured left out."""
    cells = numbers.in_table(name)
    with_gamma = any("gamma" in cell.measures for cell in cells)
    columns = (ERROR, GAMMA_TRAIN, GAMMA_TEST) if with_gamma else (ERROR,)
    rows = []
    for cell in cells:
        wanted = [("error" if column == ERROR else "gamma") in cell.measures for column in columns]
        entries = [
            Entry(numbers.value(cell, column)) if shown else None for column, shown in zip(columns, wanted, strict=True)
        ]
        axes = (f"{axis.replace('_', ' ')} {value}" for axis, value in cell.at.items())
        rows.append(Row(", ".join([cell.label, *axes]), entries))
    notes = list(dict.fromkeys(cell.context for cell in cells if cell.context))
    headings = ["error in %", "γ train", "γ test"][: len(columns)]
    return Table(name, numbers.source, _profile(cells), headings, rows, notes=notes)


def _fashion(numbers: Numbers) -> Table:
    """Both tables side by side, with the controls, and what became of the paper's claims."""
    cells = numbers.in_table("fashion")
    targets = _targets(cells)
    rows = _best(_rows(numbers, cells, targets, (ERROR, GAMMA_TRAIN, GAMMA_TEST)))
    rows += [
        Row(cell.label, [Entry(numbers.value(cell, ERROR))], control=True)
        for cell in cells
        if "sparsity" not in cell.at
    ]
    groups = [(f"sparsity {target:g}", 3) for target in targets]
    columns = ["error in %", "γ train", "γ test"] * len(targets)
    notes = [
        f"{each.claim.text} {each.verdict.capitalize()}: {sum(part.holds for part in each.parts)} of {len(each.parts)} "
        "comparisons hold."
        for each in judge_carried(numbers)
        if each.parts
    ]
    return Table("fashion", numbers.source, _profile(cells), columns, rows, groups, notes)


def _rows(numbers: Numbers, cells: list[Cell], targets: list[float], columns: tuple[str, ...]) -> list[Row]:
    """A line for each experiment over the sparsity targets; the O-RBM has one for each of its evaluations."""
    rows = []
    for experiment in dict.fromkeys(cell.experiment for cell in cells if "sparsity" in cell.at):
        own = {cell.at["sparsity"]: cell for cell in cells if cell.experiment == experiment}
        first = next(iter(own.values()))
        for variant, words in variants_of(first.model):
            entries = [
                Entry(numbers.value(own[target], column, variant)) if target in own else None
                for target in targets
                for column in columns
            ]
            rows.append(Row(first.label + words, entries))
    return rows


def _best(rows: list[Row]) -> list[Row]:
    """Mark the best mean of each column: the lowest error, the highest γ."""
    marked = [list(row.entries) for row in rows]
    for column in range(len(marked[0]) if marked else 0):
        values = [(entries, entry.value) for entries in marked if (entry := entries[column])]
        means = [value.mean for _, value in values if value.mean is not None]
        lowest = any(value.measure == ERROR for _, value in values)
        best = (min(means) if lowest else max(means)) if means else None
        for entries, value in values:
            entries[column] = Entry(value, best=best is not None and value.mean == best)
    return [Row(row.label, entries, row.control) for row, entries in zip(rows, marked, strict=True)]


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


def _targets(cells: list[Cell]) -> list[float]:
    return list(dict.fromkeys(cell.at["sparsity"] for cell in cells if "sparsity" in cell.at))


def _profile(cells: list[Cell]) -> str:
    return cells[0].profile if cells else ""
