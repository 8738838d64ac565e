"""Filters: the θ-RBM's slices (Fig. 2 of the paper), and one sheet for each model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing
from thetarbm_cli.reporting.figures.style import PAGE, new_figure
from thetarbm_cli.reporting.figures.tiles import FILTERS, scaled, show_tiles
from thetarbm_cli.reporting.figures.weights import Fitted, chosen_units, fitted_models

UNITS = 8
SHEET_ROWS, SHEET_COLUMNS = 5, 5
SHEETS_IN_A_ROW = 4


def draw_theta_filters(context: FigureContext) -> Drawing:
    """Filters W_s of some units: a row for each unit, a column for each rotation φ_s."""
    from thetarbm_cli.models.theta import ThetaRBM

    cells = [cell for cell in context.model_cells() if cell.model == "theta"][:1]
    (fitted,) = fitted_models(context, cells).models
    assert isinstance(fitted.model, ThetaRBM)
    units = chosen_units(context, fitted, UNITS)
    # (units, S, V); a unit has one scale over all its rotations.
    filters = scaled(fitted.model.tensor_[:, units].transpose(1, 0, 2), axis=(1, 2))
    rotations = filters.shape[1]
    figure = new_figure(PAGE, (PAGE - 1.35) / rotations * len(units) + 0.2, pictures=True)
    axes = figure.subplots()
    angles = [f"φ = {360 * s / rotations:g}°" for s in range(rotations)]
    shades = show_tiles(axes, filters, FILTERS, [f"unit {unit}" for unit in units], angles)
    figure.colorbar(shades, ax=axes, label="weight / largest of the unit", ticks=[-1, 0, 1], aspect=40, pad=0.01)
    return Drawing(figure)


def draw_filters(context: FigureContext) -> Drawing:
    """A sheet of filters of each model; of the θ-RBM, those for images of the orientation 0°."""
    fitted = fitted_models(context, context.model_cells())
    lines = -(-len(fitted.models) // SHEETS_IN_A_ROW)
    figure = new_figure(PAGE, (PAGE - 0.6) / SHEETS_IN_A_ROW * lines + 0.2, pictures=True)
    panels = figure.subplots(lines, SHEETS_IN_A_ROW, squeeze=False)
    for axes, each in zip(panels.flat, fitted.models, strict=False):
        shades = show_tiles(axes, _sheet(context, each), FILTERS)
        axes.set_title(each.cell.label)
    for axes in panels.flat[len(fitted.models) :]:
        axes.set_axis_off()
    figure.colorbar(shades, ax=panels, label="weight / largest", ticks=[-1, 0, 1], pad=0.01)
    return Drawing(figure, fitted.cells, fitted.gaps)


def _sheet(context: FigureContext, fitted: Fitted) -> NDArray[np.float32]:
    """Filters of the chosen units in rows, (rows, columns, V), each on a scale of its own; empty places are 0."""
    units = chosen_units(context, fitted, SHEET_ROWS * SHEET_COLUMNS)
    weights = fitted.model.weights_ if fitted.model.weights_.ndim == 2 else fitted.model.weights_[0]
    rows = -(-len(units) // SHEET_COLUMNS)
    sheet = np.zeros((rows * SHEET_COLUMNS, weights.shape[1]), dtype=np.float32)
    sheet[: len(units)] = scaled(weights[units])
    return sheet.reshape(rows, SHEET_COLUMNS, -1)
