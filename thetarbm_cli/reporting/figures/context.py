"""What figures are drawn from: the suite, the records of one profile and source, and where weights and data are."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.reporting.frame import Numbers, Source, collect

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.images import RunData
    from thetarbm_cli.experiments.runs.training import Workplace

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class FigureContext:
    """The material of all figures of one call.

    Attributes
    ----------
    source : the source that was asked for, or None for the suite's
    numbers : the records of every cell of the profile, for one source of images
    units : hidden units whose filters are shown; empty for the most active ones
    loaded : images that a figure has asked for, kept for the next one
    """

    suite: Suite
    place: Workplace
    profile: str
    source: str | None
    numbers: Numbers
    units: tuple[int, ...] = ()
    loaded: dict[Any, RunData] = field(default_factory=dict, repr=False, compare=False)

    @property
    def suffix(self) -> str:
        """What tells the files of a profile and a source apart, as for the tables."""
        size = "" if self.profile == "paper" else f"-{self.profile}"
        name = self.numbers.source.name
        return size if name == "generated" else f"{size}-{Path(name).stem}"

    def options(self) -> str:
        """Options of ``thetarbm run`` that make runs of this profile and source."""
        size = "" if self.profile == "paper" else f" --profile {self.profile}"
        name = self.source or self.numbers.source.name
        return size if name == "generated" else f"{size} --source {shlex.quote(name)}"

    def model_cells(self) -> list[Cell]:
        """The first cell of each experiment of Table 1 that has a sparsity target: the models side by side."""
        first: dict[str, Cell] = {}
        for cell in self.numbers.in_table("1"):
            if "sparsity" in cell.at:
                first.setdefault(cell.experiment, cell)
        return list(first.values())


def figure_context(
    suite: Suite, place: Workplace, profile: str = "paper", source: str | None = None, *, units: Sequence[int] = ()
) -> FigureContext:
    """Read all records of a results folder and keep those of a profile and a source.

    Parameters
    ----------
    source : str, optional
        A source of images instead of the suite's; without it, another one is taken if only that has records.
    units : sequence of int
        Hidden units whose filters are shown, instead of the most active ones.

    Raises
    ------
    InputError
        If the suite has no such profile.
    """
    cells = suite.cells(profile, source)
    loaded = (place.store.load(run) for run in place.store.identifiers())
    collected = collect(cells, [record for record in loaded if record is not None])
    wanted = Path(source or cells[0].data.get("source", "generated")).name
    found = [numbers for numbers in collected if numbers.source.name == wanted]
    if not found and source is None:
        found = [numbers for numbers in collected if numbers.source.name == collected[0].source.name]
    chosen = max(found, key=_size, default=Numbers(Source(wanted, ""), cells, {}))
    if len(found) > 1:
        logger.warning(
            "there are records of %d contents of mnist-rot %s; figures show %s, which has the most",
            len(found),
            chosen.source.name,
            chosen.source,
        )
    return FigureContext(suite, place, profile, source, chosen, tuple(units))


def _size(numbers: Numbers) -> int:
    return sum(len(records) for records in numbers.records.values())
