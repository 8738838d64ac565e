"""Records with all that figures show, made by rules from which a test can compute every number again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.experiments.suites import metrics_of, record_for, save
from tests.reporting.numbers import SUITE
from thetarbm_cli.experiments.runs.record import MetricsPart, RunRecord
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.reporting.figures import encode, make
from thetarbm_cli.reporting.figures.context import FigureContext, figure_context

SEEDS = 3
EPOCHS, UNITS, CLASSES = 12, 40, 10


def error_of(cell: Cell, seed: int) -> float:
    """A test error that differs between cells and seeds."""
    return 8.0 + _number(cell) % 17 + 0.25 * seed


def gamma_of(cell: Cell, seed: int, *, aligned: bool = True) -> float:
    """A γ-score, far lower for the O-RBM on images that are not aligned."""
    return (0.2 if not aligned else 0.5 + (_number(cell) % 7) / 20) + 0.01 * seed


def history_of(cell: Cell, seed: int) -> list[dict[str, float]]:
    start = 0.5 + _number(cell) % 5 / 10
    return [
        {
            "epoch": float(epoch),
            "reconstruction_error": start / epoch + 0.01 * seed,
            "mean_activation": cell.parameters["sparsity"] + 0.2 / epoch - 0.01 * seed,
        }
        for epoch in range(1, EPOCHS + 1)
    ]


def records(cells: list[Cell], seeds: int = SEEDS) -> list[RunRecord]:
    """A record for each cell and seed; cells that share runs share records."""
    made: dict[str, RunRecord] = {}
    for cell in cells:
        for seed in range(seeds if cell.most_seeds is None else min(seeds, cell.most_seeds)):
            record = record_for(cell, seed)
            known = made.get(record.run)
            metrics = {**_metrics(cell, seed), **(metrics_of(known) if known else {})}
            if cell.model == "orbm":
                metrics.setdefault("unaligned", _metrics(cell, seed, aligned=False))
            if cell.offsets:
                metrics["gamma_offsets"] = _offsets(cell, seed)
                if cell.model == "orbm":
                    metrics["unaligned"]["gamma_offsets"] = _offsets(cell, seed, aligned=False)
            history = known.history if known else history_of(cell, seed)
            made[record.run] = record.model_copy(
                update={"metrics": MetricsPart.model_validate(metrics), "history": history}
            )
    return list(made.values())


def context_of(
    results: Path,
    *,
    suite: Suite = SUITE,
    without: Callable[[Cell], bool] = lambda cell: False,
    seeds: int = SEEDS,
    profile: str = "paper",
    data_dir: Path = Path("no-data"),
) -> FigureContext:
    """What figures are drawn from: made-up records of all cells but some, and those that share their runs."""
    absent = [cell.settings() for cell in suite.cells(profile) if without(cell)]
    save(results, *records([cell for cell in suite.cells(profile) if cell.settings() not in absent], seeds))
    return figure_context(suite, RunContext(data_dir, RunStore(results), "numpy"), profile)


def draw(name: str, context: FigureContext, form: str = "png") -> bytes:
    return encode(name, make(name, context), form)


def _metrics(cell: Cell, seed: int, *, aligned: bool = True) -> dict[str, Any]:
    confusion = np.random.default_rng(_number(cell) + seed).integers(0, 30, (CLASSES, CLASSES))
    mean = gamma_of(cell, seed, aligned=aligned)
    per_unit: list[float | None] = [mean + 0.002 * (unit - (UNITS - 1) / 2) for unit in range(UNITS)]
    gamma: dict[str, Any] = {"mean": mean, "per_unit": [*per_unit, None], "dead_units": 1}
    error = error_of(cell, seed) + (0 if aligned else 5)
    svm = {"test_error_percent": error, "confusion": confusion.tolist(), "classes": list(range(CLASSES))}
    return {
        "svm": svm,
        "gamma": {
            "offset": 20.0,
            "train": {**gamma, "mean": offset_gamma(cell, seed, 20, aligned=aligned)},
            "test": gamma,
        },
    }


def offset_gamma(cell: Cell, seed: int, offset: float, *, aligned: bool = True) -> float:
    """γ on training images; at 20° it is the one beside the γ of test images."""
    return gamma_of(cell, seed, aligned=aligned) - 0.05 - (0 if offset == 20 else offset / 1000)


def _offsets(cell: Cell, seed: int, *, aligned: bool = True) -> list[dict[str, Any]]:
    return [
        {"offset": float(offset), "train": {"mean": offset_gamma(cell, seed, offset, aligned=aligned)}}
        for offset in cell.offsets
        if offset != 20
    ]


def _number(cell: Cell) -> int:
    """A number that follows from the settings of a cell."""
    return sum(cell.settings().model_dump_json().encode())
