"""What is drawn as one line or panel: the measures of a cell over its seeds, each evaluation by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.style import Look, look_of


@dataclass(frozen=True)
class Series:
    """One evaluation of a cell.

    Attributes
    ----------
    label : what tables call it
    filled : False for the O-RBM on images that are not aligned, whose marks are hollow
    metrics : what was measured, by seed, ascending
    """

    cell: Cell
    label: str
    filled: bool
    metrics: tuple[dict[str, Any], ...]

    @property
    def look(self) -> Look:
        """Colour, mark and line of its model."""
        return look_of(self.cell.model)


def series_of(context: FigureContext, cell: Cell) -> list[Series]:
    """The evaluations of a cell: one, or for the O-RBM two, on images as they are and on aligned ones."""
    measured = [record.metrics or {} for record in context.numbers.records.get(cell.name, [])]
    if cell.model != "orbm":
        return [Series(cell, cell.label, True, tuple(measured))]
    unaligned = tuple(metrics["unaligned"] for metrics in measured if "unaligned" in metrics)
    return [
        Series(cell, f"{cell.label}, not aligned", False, unaligned),
        Series(cell, f"{cell.label}, aligned", True, tuple(measured)),
    ]
