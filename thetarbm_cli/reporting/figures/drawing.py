"""A drawn figure and what it lacks, or why it cannot be drawn, in words that name the command to fill the gap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.reporting.figures.context import FigureContext

# Cells of one experiment that a command names by themselves.
MOST_NAMED = 2


class FigureMissing(ThetaRBMError):  # noqa: N818  the name says what it is
    """A figure cannot be drawn; the message is the reason and what to do."""


@dataclass(frozen=True)
class Gap:
    """Something that a figure lacks, and the command that makes it."""

    what: str
    command: str

    def __str__(self) -> str:
        return f"missing: {self.what}; {self.command} makes it"


@dataclass(frozen=True)
class Drawing:
    """A figure before it becomes a file.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
    cells : cells of the suite that it lacks the numbers of
    gaps : anything else that it lacks
    """

    figure: Any
    cells: tuple[Cell, ...] = ()
    gaps: tuple[Gap, ...] = ()


def missing_lines(context: FigureContext, drawings: Iterable[Drawing]) -> list[str]:
    """What some figures lack, once each, with the commands that make it."""
    held = list(drawings)
    cells = list({cell.name: cell for drawing in held for cell in drawing.cells}.values())
    gaps = [*cell_gaps(context, cells), *(gap for drawing in held for gap in drawing.gaps)]
    return list(dict.fromkeys(str(gap) for gap in gaps))


def cell_gaps(context: FigureContext, cells: Sequence[Cell]) -> list[Gap]:
    """One gap for each experiment with missing cells."""
    gaps = []
    for experiment in dict.fromkeys(cell.experiment for cell in cells):
        own = [cell for cell in cells if cell.experiment == experiment]
        whole = len(own) == sum(cell.experiment == experiment for cell in context.numbers.cells)
        what = experiment if whole else " ".join(cell.name for cell in own)
        gaps.append(Gap(what, run_command(context, own)))
    return gaps


def nothing_measured(context: FigureContext, cells: Sequence[Cell], what: str) -> FigureMissing:
    """Why a figure has nothing to show: the suite has no such cell, or none of them is measured."""
    if not cells:
        return FigureMissing(f"the suite has no experiment with {what}")
    command = run_command(context, cells)
    return FigureMissing(f"no run with {what} is recorded in {context.place.store.folder}; {command} makes it")


def run_command(context: FigureContext, cells: Sequence[Cell]) -> str:
    """The command that makes cells; many of an experiment are named by it, as it makes only those that are missing."""
    words = []
    for experiment in dict.fromkeys(cell.experiment for cell in cells):
        own = [cell.name for cell in cells if cell.experiment == experiment]
        words += own if len(own) <= MOST_NAMED else [experiment]
    return f"thetarbm run {' '.join(words)}{context.options()}"
