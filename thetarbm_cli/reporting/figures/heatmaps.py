"""Table 3 beside the paper's, and confusion matrices: numbers as shades, with the numbers written in."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing, nothing_measured
from thetarbm_cli.reporting.figures.series import Series, series_of
from thetarbm_cli.reporting.figures.style import FAINT, PAGE, SEQUENTIAL, SMALL_TEXT, new_figure
from thetarbm_cli.reporting.tables import build

Grid = NDArray[np.float64]
# Digits after the point in the fields of Table 3; the paper prints one.
OUR_DIGITS, PAPERS_DIGITS = 2, 1
# Confusions rarer than this share of a class, in %, are shaded but not written.
LEAST_WRITTEN = 0.5
# At this luminance black and white text have the same contrast.
EVEN_CONTRAST = 0.179


def draw_table_3(context: FigureContext) -> Drawing:
    """Test errors under perturbed orientations, ours and the paper's on one scale; a star as in the table."""
    table = build("3", context.numbers)
    rows = [row for row in table.rows if not row.control]
    entries = [[entry for entry in row.entries if entry is not None] for row in rows]
    ours, papers = (
        np.array([[np.nan if number is None else number for number in line] for line in lines], dtype=float)
        for lines in (
            [[entry.value.mean for entry in line] for line in entries],
            [[entry.value.published for entry in line] for line in entries],
        )
    )
    if not np.isfinite(ours).any():
        raise nothing_measured(context, context.numbers.in_table("3"), "the numbers of Table 3")
    figure = new_figure(PAGE, 2.7)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    low, high = np.nanmin([ours, papers]), np.nanmax([ours, papers])
    shown = (
        ("ours", ours, [[entry.starred for entry in line] for line in entries], OUR_DIGITS),
        ("the paper's", papers, [[entry.published_starred for entry in line] for line in entries], PAPERS_DIGITS),
    )
    for axes, (title, grid, stars, digits) in zip(panels, shown, strict=True):
        shades = _shade(axes, grid, low, high)
        texts = [
            [
                "–" if np.isnan(number) else f"{number:.{digits}f}{'*' if star else ''}"
                for number, star in zip(line, marks, strict=True)
            ]
            for line, marks in zip(grid, stars, strict=True)
        ]
        _write(axes, grid, texts, shades)
        axes.set_title(title)
        axes.set_xticks(range(len(table.columns)), [column.removeprefix("p = ") for column in table.columns])
        axes.set_yticks(range(len(rows)), [row.label.removeprefix("n = ") for row in rows])
        axes.set_xlabel("p of the binomial error ε ~ B(n, p)")
    panels[0].set_ylabel("n")
    figure.colorbar(shades, ax=panels, label="test error in %", pad=0.02)
    return Drawing(
        figure, cells=tuple(entry.value.cell for line in entries for entry in line if entry.value.mean is None)
    )


def draw_confusion(context: FigureContext) -> Drawing:
    """How often each class is taken for each other, in % of the class, over all seeds; a panel for each model."""
    cells = context.model_cells()
    shown = [(series, grid) for cell in cells for series in series_of(context, cell) for grid in _confusions(series)]
    if not shown:
        raise nothing_measured(context, cells, "a confusion matrix")
    high = max(float(np.nan_to_num(_errors(grid)).max()) for _, grid in shown) or 1.0
    columns = 2 if len(shown) in (2, 4) else 3
    lines = -(-len(shown) // columns)
    figure = new_figure(PAGE, (PAGE - 0.9) / columns * lines + 0.3 * lines)
    panels = figure.subplots(lines, columns, squeeze=False)
    for axes, (series, grid) in zip(panels.flat, shown, strict=False):
        shades = _shade(axes, _errors(grid), 0.0, high)
        texts = [[f"{number:.0f}" if number >= LEAST_WRITTEN else "" for number in line] for line in grid]
        _write(axes, _errors(grid), texts, shades)
        classes = series.metrics[0]["svm"]["classes"]
        axes.set_title(series.label)
        axes.set_xticks(range(len(classes)), classes)
        axes.set_yticks(range(len(classes)), classes)
        axes.set_xlabel("class given")
    for axes in panels[:, 0]:
        axes.set_ylabel("true class")
    for axes in panels.flat[len(shown) :]:
        axes.set_visible(False)
    figure.colorbar(shades, ax=panels, label="% of the true class (errors only)", shrink=0.7, pad=0.02)
    return Drawing(
        figure, cells=tuple(cell for cell in cells if cell.name not in {each.cell.name for each, _ in shown})
    )


def _confusions(series: Series) -> list[Grid]:
    """The one matrix of a series in % of the true class, summed over seeds; none if none was measured."""
    counts = [metrics["svm"]["confusion"] for metrics in series.metrics if "confusion" in metrics.get("svm", {})]
    if not counts:
        return []
    total = np.sum(counts, axis=0, dtype=float)
    return [100 * total / np.maximum(total.sum(axis=1, keepdims=True), 1)]


def _errors(grid: Grid) -> Grid:
    """The matrix without its diagonal, which would drown the rest: it is written, not shaded."""
    return np.where(np.eye(len(grid), dtype=bool), np.nan, grid)


def _shade(axes: Any, grid: Grid, low: float, high: float) -> Any:
    """Shade a grid; where it has no number it stays grey."""
    axes.grid(False)
    axes.set_facecolor(FAINT)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes.imshow(grid, cmap=SEQUENTIAL, vmin=low, vmax=high, aspect="auto")


def _write(axes: Any, grid: Grid, texts: list[list[str]], shades: Any) -> None:
    """Write texts into their fields, white on dark and black on light."""
    style = {"ha": "center", "va": "center", "fontsize": SMALL_TEXT}
    for (row, column), number in np.ndenumerate(grid):
        if texts[row][column]:
            dark = bool(np.isfinite(number)) and _luminance(shades.to_rgba(number)[:3]) < EVEN_CONTRAST
            text = axes.text(column, row, texts[row][column], color="white" if dark else "black", **style)
            # It lies inside of its axes, so the layout need not measure it.
            text.set_in_layout(False)


def _luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance of an sRGB colour, as the Web Content Accessibility Guidelines define it."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
