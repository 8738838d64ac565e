"""Trainings with all that figures show, made by rules from which a test can compute every number again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tests.records import save, training_for
from tests.reporting.numbers import SUITE
from thetarbm_cli.reporting.figures import encode, make
from thetarbm_cli.reporting.figures.context import FigureContext, figure_context
from thetarbm_cli.specs import MeasureSpec
from thetarbm_cli.store import Measurement, Store, Training
from thetarbm_cli.suite import Cell, Suite

SEEDS, UNITS = 3, 40


def error_of(cell: Cell, seed: int, *, aligned: bool = True) -> float:
    """A test error that differs between trainings and seeds."""
    return 8.0 + _number(cell) % 17 + 0.25 * seed + (0 if aligned else 5)


def gamma_of(cell: Cell, seed: int, offset: float = 20, part: str = "test", *, aligned: bool = True) -> float:
    """A γ-score, far lower for the O-RBM on images that are not aligned."""
    gamma = (0.5 + (_number(cell) % 7) / 20 if aligned else 0.2) + 0.01 * seed
    return gamma if part == "test" else gamma - 0.05 - offset / 1000


def units_of(mean: float) -> list[float | None]:
    """γ of units around a mean; the last one is dead."""
    return [*(mean + 0.002 * (unit - (UNITS - 1) / 2) for unit in range(UNITS)), None]


def trainings(cells: Sequence[Cell], seeds: int = SEEDS) -> list[Training]:
    """A training for each cell and seed, one for cells that share it, with all that they measure."""
    made: dict[str, Training] = {}
    for cell in cells:
        for seed in range(seeds if cell.most_seeds is None else min(seeds, cell.most_seeds)):
            new = training_for(cell, seed)
            known = made.setdefault(new.run, new)
            for spec in cell.measure_specs:
                if spec.measure in ("error", "gamma") and known.lacking([spec]):
                    known.measurements.append(_measured(known, cell, spec))
                    known.__dict__.pop("by_key", None)
    return list(made.values())


def _measured(training: Training, cell: Cell, spec: MeasureSpec) -> Measurement:
    seed, aligned = training.spec.seed, spec.aligned is not False
    gamma = gamma_of(cell, seed, spec.offset or 0, spec.part, aligned=aligned)
    return Measurement(
        run=training.run,
        spec=spec,
        weights_sha256=training.weights_sha256 or "",
        images_sha256=training.images_sha256,
        values={"test_error_percent": error_of(cell, seed, aligned=aligned)}
        if spec.measure == "error"
        else {f"gamma_{spec.part}": gamma},
        details={"per_unit": units_of(gamma)} if spec.measure == "gamma" else {},
    )


def context_of(
    results: Path, *, suite: Suite = SUITE, without: Callable[[Cell], bool] = lambda cell: False, seeds: int = SEEDS
) -> FigureContext:
    """What figures are drawn from: made-up trainings of all cells on mnist-rot but some, and those that share them."""
    cells = [cell for cell in suite.cells() if cell.tested_on == "mnist-rot" and not cell.compares_data]
    absent = {cell.train_spec().key for cell in cells if without(cell)}
    save(results, *trainings([cell for cell in cells if cell.train_spec().key not in absent], seeds))
    return figure_context(suite, Store(results, Path("no-data"), shipped=False))


def draw(name: str, context: FigureContext, form: str = "png") -> bytes:
    return encode(name, make(name, context), form)


def _number(cell: Cell) -> int:
    """A number that follows from the training of a cell."""
    return sum(cell.train_spec().key.encode())
