"""Records of the whole shipped suite with numbers of the test's choice, and what is collected from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.experiments.suites import record_for
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.experiments.suite_file import shipped_path
from thetarbm_cli.reporting.frame import Numbers, collect

SUITE = load_suite(shipped_path(), check_settings=False)
ALL = SUITE.cells(in_tables=True)
COMPARED = [cell for cell in ALL if {"making", "draws"} & set(cell.tables)]
CELLS = [cell for cell in ALL if cell.tested_on == "mnist-rot" and not cell.on_request]
BEYOND = [cell for cell in ALL if {"choice", "beyond"} & set(cell.tables)]
FASHION = [cell for cell in ALL if "fashion" in cell.tables]
MEASURES = ("test_error_percent", "gamma_train", "gamma_test")

# What the numbers of a cell are, by the cell and the column.
Choose = Callable[[Cell, str], float | None]


def as_published(cell: Cell, column: str) -> float | None:
    """The paper's own numbers; controls and ablations have some of their own."""
    if cell.published:
        return cell.published.get(column.removesuffix("_unaligned"))
    return 11.8 if column == "test_error_percent" else 0.5 if "gamma" in cell.measures else None


def records(
    choose: Choose = as_published, seeds: int = 3, source: str = "generated", cells: Sequence[Cell] = CELLS
) -> list[RunRecord]:
    """For every cell and seed a record; seeds lie 0.1 % apart around the chosen number."""
    made: list[RunRecord] = []
    for cell in cells:
        if any(cell.fits(record, any_source=True) for record in made):
            continue  # An earlier cell has the same runs.
        columns = [*MEASURES, *(f"{measure}_unaligned" for measure in MEASURES if cell.model == "orbm")]
        chosen = {column: choose(cell, column) for column in columns}
        for seed in range(seeds):
            shift = 1 + 0.001 * (seed - (seeds - 1) / 2)
            found = {column: number * shift for column, number in chosen.items() if number is not None}
            made.append(record_for(cell, seed, source=source, **found))
    return made


def numbers(choose: Choose = as_published, seeds: int = 3) -> Numbers:
    (only,) = collect(CELLS, records(choose, seeds))
    return only


def fashion_numbers(choose: Choose = as_published, seeds: int = 1) -> Numbers:
    """The same on the other data set."""
    (only,) = collect(FASHION, records(choose, seeds, cells=FASHION), "fashion-rot")
    return only


def numbers_of(table: str) -> Numbers:
    """Numbers for a table by its name."""
    on_request = {"choice": BEYOND, "beyond": BEYOND, "making": COMPARED, "draws": COMPARED}
    if table in on_request:
        (only,) = collect(on_request[table], records(cells=on_request[table]))
        return only
    return fashion_numbers() if table == "fashion" else numbers()
