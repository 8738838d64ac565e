"""What the readings are worth: error and γ of the θ-RBM when one setting of it is changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, GAMMA_TRAIN
from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing, nothing_measured
from thetarbm_cli.reporting.figures.style import BLUE, COLUMN, PAGE, PAPERS, SKY, legend_below, new_figure

ESTIMATOR = "orientation_"
# Panel, columns of the records that it shows, and how.
TEST, TRAIN = "ours, test", "ours, train"
ERRORS = ("test error in %", ((ERROR, TEST, "o", BLUE),))
GAMMAS = ("γ-score", ((GAMMA_TEST, TEST, "o", BLUE), (GAMMA_TRAIN, TRAIN, "^", SKY)))


def draw_floor(context: FigureContext) -> Drawing:
    """Error and γ over the standardisation floor; the values stand side by side, not to scale."""
    cells = [cell for cell in context.numbers.in_table("ablation") if set(cell.at) == {"floor"}]
    cells.sort(key=lambda cell: float(cell.at["floor"]))
    shown = _measured(context, cells, "another standardisation floor")
    figure = new_figure(COLUMN, 3.6)
    panels = figure.subplots(2, 1, sharex=True)
    for axes, (name, columns) in zip(panels, (ERRORS, GAMMAS), strict=True):
        for column, label, marker, colour in columns:
            _dots(axes, context, shown, column, fmt=f"{marker}-", color=colour, label=label)
        _published(axes, context, shown[0], columns[0][0], upright=False)
        axes.set_ylabel(name)
    legend_below(figure, panels, first=(TEST, TRAIN))
    panels[1].set_xticks(range(len(shown)), [f"{cell.at['floor']:g}" for cell in shown])
    panels[1].set_xlabel("standardisation floor\n(standard deviation of a pixel; not to scale)")
    return Drawing(figure, cells=_without(context, cells))


def draw_estimators(context: FigureContext) -> Drawing:
    """Error and γ by the estimator of the dominant orientation: a row for each."""
    cells = [
        cell
        for cell in context.numbers.in_table("ablation")
        if cell.at and all(axis.startswith(ESTIMATOR) for axis in cell.at)
    ]
    shown = _measured(context, cells, "another estimator of the orientation")
    figure = new_figure(PAGE, 1.2 + 0.22 * len(shown))
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (name, columns) in zip(panels, (ERRORS, GAMMAS), strict=True):
        for column, label, marker, colour in columns:
            _dots(axes, context, shown, column, upright=True, fmt=marker, color=colour, label=label)
        _published(axes, context, shown[0], columns[0][0], upright=True)
        axes.set_xlabel(name)
        axes.tick_params(axis="y", length=0)
    legend_below(figure, panels, first=(TEST, TRAIN))
    panels[0].set_yticks(range(len(shown)), [_estimator(context, cell) for cell in shown])
    panels[0].set_ylim(len(shown) - 0.5, -0.5)
    panels[0].set_ylabel(", ".join(axis.removeprefix(ESTIMATOR) for axis in shown[0].at))
    return Drawing(figure, cells=_without(context, cells))


def _measured(context: FigureContext, cells: Sequence[Cell], what: str) -> list[Cell]:
    """Cells with a number, at least two: one alone compares nothing."""
    absent = _without(context, cells)
    if len(cells) - len(absent) < 2:
        raise nothing_measured(context, absent, what)
    return [cell for cell in cells if cell not in absent]


def _without(context: FigureContext, cells: Sequence[Cell]) -> tuple[Cell, ...]:
    return tuple(cell for cell in cells if context.numbers.value(cell, ERROR).mean is None)


def _dots(
    axes: Any, context: FigureContext, cells: Sequence[Cell], column: str, *, upright: bool = False, **style: Any
) -> None:
    """One measure of the cells in their order, with the deviation over seeds; upright: the cells downwards."""
    values = [context.numbers.value(cell, column) for cell in cells]
    held = [(place, value) for place, value in enumerate(values) if value.mean is not None]
    if not held:
        return
    places, means = [place for place, _ in held], [value.mean for _, value in held]
    spread = [value.deviation or 0.0 for _, value in held]
    bars = spread if any(spread) else None
    if upright:
        axes.errorbar(means, places, xerr=bars, capsize=2, elinewidth=1, **style)
    else:
        axes.errorbar(places, means, yerr=bars, capsize=2, elinewidth=1, **style)


def _published(axes: Any, context: FigureContext, cell: Cell, column: str, *, upright: bool) -> None:
    """A line at the paper's value of the same model and sparsity target."""
    for other in context.numbers.in_table("1"):
        same = (other.model, other.parameters.get("sparsity")) == (cell.model, cell.parameters.get("sparsity"))
        if same and column in other.published:
            line = axes.axvline if upright else axes.axhline
            line(other.published[column], color=PAPERS, linewidth=1, linestyle=(0, (4, 2)), label="the paper's, test")
            return


def _estimator(context: FigureContext, cell: Cell) -> str:
    """The values of a cell's axes; an arrow marks the reading taken, whose runs are those of a table."""
    runs = {record.run for record in context.numbers.records.get(cell.name, [])}
    taken = any(
        record.run in runs
        for other in context.numbers.in_table("1")
        for record in context.numbers.records.get(other.name, [])
    )
    return ", ".join(str(value) for value in cell.at.values()) + (" (taken)" if taken else "")
