"""Trainings of the whole shipped suite with numbers of the test's choice, and what is collected from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tests.records import training_for
from thetarbm_cli.reporting.tables import Table, build
from thetarbm_cli.results import Results, collect
from thetarbm_cli.store import Training
from thetarbm_cli.suite import Cell, load_suite, shipped_path

SUITE = load_suite(shipped_path(), check_settings=False)
ALL = SUITE.cells(in_tables=True)
CELLS = [cell for cell in ALL if cell.tested_on == "mnist-rot" and not cell.on_request]
FASHION = [cell for cell in ALL if "fashion" in cell.tables]
COLUMNS = ("test_error_percent", "gamma_train", "gamma_test", "goodfellow_test", "zou_test", "dosovitskiy_test")

# What the numbers of a cell are, by the cell and the column.
Choose = Callable[[Cell, str], float | None]


def as_published(cell: Cell, column: str) -> float | None:
    """The paper's own numbers; cells that it does not have get some of their own."""
    published = cell.published.get(column.removesuffix("_unaligned"))
    return published or (None if cell.published else 11.8 if column.startswith("test_error") else 0.5)


def trainings(
    choose: Choose = as_published, seeds: int = 3, source: str | None = None, cells: Sequence[Cell] = CELLS
) -> list[Training]:
    """For every cell and seed a training, one for cells that share it; seeds lie 0.1 % apart around the number."""
    made: dict[str, Training] = {}
    elsewhere = {cell.name: cell for cell in SUITE.cells("paper", source)} if source else {}
    for cell in cells:
        cell = elsewhere.get(cell.name, cell)
        columns = [*COLUMNS, *(f"{column}_unaligned" for column in COLUMNS if cell.model == "orbm")]
        chosen = {column: choose(cell, column) for column in columns}
        for seed in range(seeds):
            shift = 1 + 0.001 * (seed - (seeds - 1) / 2)
            found = {column: number * shift for column, number in chosen.items() if number is not None}
            new = training_for(cell, seed, images="", **found)
            known = made.setdefault(new.run, new)
            keys = {each.spec.key for each in known.measurements}
            known.measurements += [each for each in new.measurements if each.spec.key not in keys]
    return list(made.values())


def results_on(dataset: str = "mnist-rot", made: Iterable[Training] = ()) -> Results:
    """What is collected on a data set."""
    return next(results for results in collect(SUITE, "paper", made) if results.source.dataset == dataset)


def table_of(name: str, results: Results | None = None) -> Table:
    """A table of the shipped suite; without results, with numbers for all of its cells."""
    if results is None:
        cells = [cell for cell in ALL if name in cell.tables]
        results = results_on(cells[0].tested_on, trainings(cells=[*CELLS, *cells]))
    return build(name, SUITE.tables[name], results)
