"""What figures are drawn from, what a figure lacks, and why one cannot be drawn."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.outcomes import variants_of
from thetarbm_cli.reporting.frame import Numbers, Source, collect

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.store import RunContext

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class FigureContext:
    """What all figures of one call are drawn from.

    Attributes
    ----------
    numbers : the records of every cell of the profile, for one source of images
    units : hidden units whose filters are shown; empty for the most active ones
    loaded : images and universes that a figure has asked for, kept for the next one
    """

    suite: Suite
    run_context: RunContext
    profile: str
    numbers: Numbers
    units: tuple[int, ...] = ()
    loaded: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def suffix(self) -> str:
        """Ending of the files of a profile and a source, as for the tables."""
        size = "" if self.profile == "paper" else f"-{self.profile}"
        name = self.numbers.source.name
        return size if name == "generated" else f"{size}-{Path(name).stem}"

    def model_cells(self) -> list[Cell]:
        """List the first cell of each experiment of Table 1 that has a sparsity target: one cell a model."""
        first: dict[str, Cell] = {}
        for cell in self.numbers.in_table("1"):
            if "sparsity" in cell.at:
                first.setdefault(cell.experiment, cell)
        return list(first.values())


def figure_context(
    suite: Suite,
    run_context: RunContext,
    profile: str = "paper",
    source: str | None = None,
    *,
    units: Sequence[int] = (),
) -> FigureContext:
    """Read all records of a results folder and keep those of a profile and a source.

    Without a source it is the suite's, or another one if only that has records.
    """
    cells = suite.cells(profile, source)
    collected = collect(cells, run_context.store.load_all())
    wanted = Path(source or cells[0].data.get("source", "generated")).name
    found = [numbers for numbers in collected if numbers.source.name == wanted]
    if not found and source is None:
        found = [numbers for numbers in collected if numbers.source.name == collected[0].source.name]
    chosen = max(
        found,
        key=lambda numbers: sum(map(len, numbers.records.values())),
        default=Numbers(Source(wanted, ""), cells, {}),
    )
    if len(found) > 1:
        message = "there are records of %d contents of mnist-rot %s; figures show %s, which has the most"
        logger.warning(message, len(found), chosen.source.name, chosen.source)
    return FigureContext(suite, run_context, profile, chosen, tuple(units))


class Evaluation(NamedTuple):
    """One evaluation of a cell's runs: a row or a line of a figure; the O-RBM has two."""

    cell: Cell
    variant: str
    label: str


def evaluations(cells: Iterable[Cell]) -> list[Evaluation]:
    """List the evaluations of cells, named and ordered as in the tables."""
    return [
        Evaluation(cell, variant, cell.label + ending) for cell in cells for variant, ending in variants_of(cell.model)
    ]


class FigureMissing(ThetaRBMError):  # noqa: N818  the name says what it is
    """A figure cannot be drawn; the message is the reason and what to do."""


@dataclass(frozen=True)
class Drawing:
    """A figure before it becomes a file.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
    cells : cells of the suite that it lacks the numbers of
    missing : anything else that it lacks, with the commands that make it
    recorded : whether it shows what the records were measured with: all weights, and none that were made again here
    """

    figure: Any
    cells: tuple[Cell, ...] = ()
    missing: tuple[str, ...] = ()
    recorded: bool = True


def missing_lines(context: FigureContext, drawings: Iterable[Drawing]) -> list[str]:
    """Say what some figures lack, once each, with the commands that make it: cells by experiment, then the rest."""
    held = list(drawings)
    cells = list({cell.name: cell for drawing in held for cell in drawing.cells}.values())
    others = [line for drawing in held for line in drawing.missing]
    return list(dict.fromkeys([*context.numbers.missing_lines(cells), *others]))


def nothing_measured(context: FigureContext, cells: Sequence[Cell], what: str) -> FigureMissing:
    """Explain why a figure has nothing to show: the suite has no such cell, or none of them is measured."""
    if not cells:
        return FigureMissing(f"the suite has no experiment with {what}")
    command = context.numbers.run_command(cells)
    return FigureMissing(f"no run with {what} is recorded in {context.run_context.store.folder}; {command} makes it")
