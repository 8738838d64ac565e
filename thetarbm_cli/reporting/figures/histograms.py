"""γ of every hidden unit, as histograms under one another."""

from __future__ import annotations

import numpy as np

from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing, nothing_measured
from thetarbm_cli.reporting.figures.series import Series, series_of
from thetarbm_cli.reporting.figures.style import COLUMN, SMALL_TEXT, VERMILION, new_figure

BINS = 44


def draw_gamma_units(context: FigureContext) -> Drawing:
    """γ on the test images of each unit that is alive, of all seeds together; a row for each model."""
    cells = context.model_cells()
    drawn = [(series, units) for cell in cells for series in series_of(context, cell) if (units := _units(series))]
    if not drawn:
        raise nothing_measured(context, cells, "γ of each unit")
    highest = max(1.0, *(max(units) for _, units in drawn))
    edges = np.linspace(0, highest, BINS + 1)
    figure = new_figure(COLUMN, 0.75 + 0.72 * len(drawn))
    panels = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (series, units) in zip(panels, drawn, strict=True):
        shares = 100 * np.histogram(units, edges)[0] / len(units)
        axes.stairs(shares, edges, fill=True, color=series.look.colour, alpha=0.85 if series.filled else 0.4)
        mean = float(np.mean(units))
        axes.axvline(mean, color=VERMILION, linewidth=1, linestyle=(0, (3, 1.5)))
        axes.set_title(f"{series.label}, mean {mean:.3f}", loc="left", fontsize=SMALL_TEXT, pad=2)
        axes.set_ylim(0, 1.08 * shares.max())
        axes.locator_params(axis="y", nbins=3)
    panels[-1].set_xlabel("γ of a unit on test images")
    panels[-1].set_xlim(0, highest)
    figure.supylabel("units in %", fontsize=8)
    held = {series.cell.name for series, _ in drawn}
    return Drawing(figure, cells=tuple(cell for cell in cells if cell.name not in held))


def _units(series: Series) -> list[float]:
    """γ of all live units of all seeds."""
    found = [metrics.get("gamma", {}).get("test", {}).get("per_unit", []) for metrics in series.metrics]
    return [gamma for units in found for gamma in units if gamma is not None]
