"""What figures are drawn from, what a figure lacks, and why one cannot be drawn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.measures import NOT_ALIGNED
from thetarbm_cli.reporting.tables import variants_of
from thetarbm_cli.results import Recorded, Results, Source, collect
from thetarbm_cli.store import Measurement, Store
from thetarbm_cli.suite import Cell, Suite


class Evaluation(NamedTuple):
    """One evaluation of a cell's trainings: a row or a line of a figure; the O-RBM has two."""

    cell: Cell
    variant: str
    label: str


@dataclass(frozen=True)
class FigureContext:
    """What all figures of one call are drawn from.

    Attributes
    ----------
    results : what was measured on images of one source
    others : further sources that have records
    units : hidden units whose filters are shown; empty for the most active ones
    loaded : universes that a figure has asked for, kept for the next one
    """

    suite: Suite
    store: Store
    profile: str
    results: Results
    others: tuple[Source, ...] = ()
    units: tuple[int, ...] = ()
    loaded: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def suffix(self) -> str:
        """Ending of the files of a profile and a source, as for the tables."""
        size = "" if self.profile == "paper" else f"-{self.profile}"
        name = self.results.source.name
        return size if name == "generated" else f"{size}-{Path(name).stem}"

    def evaluations(self, cells: Iterable[Cell] | None = None) -> list[Evaluation]:
        """List the evaluations of cells, by default of one cell for each model of Table 1, as the tables name them."""
        if cells is None:
            first: dict[str, Cell] = {}
            for cell in self.results.in_table("1"):
                if "sparsity" in cell.at:
                    first.setdefault(cell.experiment, cell)
            cells = first.values()
        return [
            Evaluation(cell, variant, cell.label + words)
            for cell in cells
            for variant, words in variants_of(cell.model)
        ]

    def measurements(self, evaluation: Evaluation, measure: str, part: str) -> list[Measurement]:
        """Give the measurements of an evaluation on a part of the images, by seed; of each seed the newest."""
        specs = [
            spec
            for spec in evaluation.cell.measure_specs
            if (spec.measure, spec.part) == (measure, part)
            and (spec.aligned is False) == (evaluation.variant == NOT_ALIGNED)
        ]
        found: dict[tuple[int, str], Measurement] = {}
        for training in self.results.trainings(evaluation.cell):
            for spec in specs:
                if spec.key in training.by_key:
                    found.setdefault((training.spec.seed, spec.key), training.by_key[spec.key])
        return list(found.values())

    def nothing_measured(self, cells: Iterable[Cell], what: str) -> FigureMissing:
        """Explain why a figure has nothing to show: the suite has no such cell, or none of them is measured."""
        named = {cell.name: cell for cell in cells}
        if not named:
            return FigureMissing(f"the suite has no experiment with {what}")
        command = self.results.run_command(list(named.values()))
        return FigureMissing(f"no run with {what} is recorded in {self.store.folder}; {command} makes it")


def figure_context(
    suite: Suite, store: Store, profile: str = "paper", source: str | None = None, *, units: Sequence[int] = ()
) -> FigureContext:
    """Read all records of a results folder, and keep those on one source of the paper's data set or the user's images.

    Without a source it is the suite's, or another if only that has records; of several contents, the one with the most.
    """
    trainings = store.trainings()
    every = collect(suite, profile, trainings, in_tables=False)
    collected = [each for each in every if each.source.is_papers or each.source.is_users]
    wanted = Path(source).name if source else collected[0].source.name
    results = max(
        (each for each in collected if each.source.name == wanted),
        key=lambda each: sum(len(each.trainings(cell)) for cell in each.cells),
        default=Results(Source(wanted, ""), suite.cells(profile, source), Recorded(trainings)),
    )
    others = tuple(each.source for each in collected if each is not results and not each.is_empty)
    return FigureContext(suite, store, profile, results, others, tuple(units))


class FigureMissing(ThetaRBMError):  # noqa: N818  the name says what it is
    """A figure cannot be drawn; the message is the reason and what to do."""


@dataclass(frozen=True)
class Drawing:
    """A figure before it becomes a file.

    Attributes
    ----------
    figure : matplotlib.figure.Figure
    cells : cells of the suite that it lacks the numbers of
    recorded : whether the weights that it shows, if any, are the recorded ones
    """

    figure: Any
    cells: tuple[Cell, ...] = ()
    recorded: bool = True
