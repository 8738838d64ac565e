"""Tables 1 and 2 as dots: ours with the deviation over seeds, and the paper's beside them."""

from __future__ import annotations

from typing import Any

from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing, nothing_measured
from thetarbm_cli.reporting.figures.style import GREY, OURS, PAGE, PAPERS, legend_below, new_figure
from thetarbm_cli.reporting.frame import Value
from thetarbm_cli.reporting.layout import Row, Table
from thetarbm_cli.reporting.tables import build

# How far from the middle of a row its marks lie.
APART = 0.16
CONTROL_LINES = ((0, (4, 2)), (0, (1, 1.5)), (0, (4, 2, 1, 2)))


def draw_table_1(context: FigureContext) -> Drawing:
    """Test errors: a panel for each sparsity target, a row for each model, the controls as lines."""
    table = _table(context, "1")
    rows = [row for row in table.rows if not row.control]
    figure, panels = _panels(rows, table.columns)
    for column, axes in enumerate(panels):
        for place, row in enumerate(rows):
            entry = row.entries[column]
            if entry is not None:
                _ours(axes, entry.value, place - APART, "o", "ours")
                _papers(axes, entry.value, place + APART, "D", "the paper's")
        _controls(axes, table)
        axes.set_xlabel("test error in %")
    legend_below(figure, panels, first=("ours",))
    return Drawing(figure, cells=_missing(table))


def draw_table_2(context: FigureContext) -> Drawing:
    """γ-scores: as Table 1, with a mark for training images and one for test images."""
    table = _table(context, "2")
    rows = table.rows
    figure, panels = _panels(rows, [text for text, _ in table.groups])
    for panel, axes in enumerate(panels):
        for place, row in enumerate(rows):
            for number, (part, marker) in enumerate((("train", "o"), ("test", "s"))):
                entry = row.entries[2 * panel + number]
                if entry is not None:
                    height = place + (2 * number - 1) * APART
                    _ours(axes, entry.value, height, marker, f"ours, {part}")
                    _papers(axes, entry.value, height, marker, f"the paper's, {part}")
        axes.set_xlabel("γ-score")
    panels[0].set_xlim(left=0)
    legend_below(figure, panels, first=("ours, train", "ours, test"))
    return Drawing(figure, cells=_missing(table))


def _table(context: FigureContext, name: str) -> Table:
    table = build(name, context.numbers)
    if all(value.mean is None for value in table.values):
        raise nothing_measured(context, context.numbers.in_table(name), f"the numbers of Table {name}")
    return table


def _missing(table: Table) -> tuple[Any, ...]:
    return tuple({value.cell.name: value.cell for value in table.values if value.mean is None}.values())


def _panels(rows: list[Row], titles: list[str]) -> tuple[Any, list[Any]]:
    figure = new_figure(PAGE, 1.15 + 0.32 * len(rows))
    panels = figure.subplots(1, len(titles), sharex=True, sharey=True, squeeze=False)[0]
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title)
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.tick_params(axis="y", length=0)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    return figure, list(panels)


def _ours(axes: Any, value: Value, height: float, marker: str, label: str) -> None:
    if value.mean is not None:
        axes.errorbar(
            value.mean, height, xerr=value.deviation, fmt=marker, color=OURS, capsize=2, elinewidth=1, label=label
        )


def _papers(axes: Any, value: Value, height: float, marker: str, label: str) -> None:
    if value.published is not None:
        axes.plot(value.published, height, marker, mfc="none", color=PAPERS, markersize=6, label=label)


def _controls(axes: Any, table: Table) -> None:
    """A line for each control, across all rows."""
    controls = [(row.label, entry.value) for row in table.rows if row.control and (entry := row.entries[0])]
    for number, (label, value) in enumerate(controls):
        if value.mean is not None:
            line = CONTROL_LINES[number % len(CONTROL_LINES)]
            axes.axvline(value.mean, color=GREY, linestyle=line, linewidth=1, label=f"{label}, {value.mean:.2f} %")
