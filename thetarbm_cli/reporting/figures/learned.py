"""Figures of what the models learned: filters, reconstructions, samples.

Weights are a cache and prepared data is not in the results folder: nothing is trained or prepared for a picture, but
what is missing is named with the command that makes it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs import loading as recorded
from thetarbm_cli.experiments.runs.loading import retrain_command
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.models.theta import ThetaRBM
from thetarbm_cli.outcomes import DEFAULT, variants_of
from thetarbm_cli.reporting.figures.context import Drawing, FigureContext, FigureMissing, nothing_measured
from thetarbm_cli.reporting.figures.images import FILTERS, IMAGES, check_prepared, first_of_classes, show_tiles
from thetarbm_cli.reporting.figures.style import PAGE, new_figure

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.images import RunData
    from thetarbm_cli.models.rbm import RBM

# Training images on which units are ranked by their mean activation.
RANKED_ON = 2000
UNITS = 8
SHEET_ROWS, SHEET_COLUMNS, SHEETS_IN_A_ROW = 4, 6, 2
CLASSES = 10
CHAINS, STEPS = 10, (10, 1000)
# Inches that the names of the rows take.
NAMES = 0.9


@dataclass(frozen=True)
class Fitted:
    """A trained model with its cell and record, and whether its weights are the recorded ones of the first run."""

    cell: Cell
    record: RunRecord
    model: RBM
    recorded: bool

    @property
    def label(self) -> str:
        """The label of the model; the O-RBM's images are aligned ones."""
        return self.cell.label + dict(variants_of(self.cell.model))[DEFAULT]


def draw_theta_filters(context: FigureContext) -> Drawing:
    """Show filters W_s of some units: a row for each unit, a column for each rotation φ_s."""
    cells = [cell for cell in context.model_cells() if cell.model == "theta"][:1]
    ((fitted,), _) = _fitted_models(context, cells)
    assert isinstance(fitted.model, ThetaRBM)
    units = _chosen_units(context, fitted, UNITS)
    # (units, S, V); a unit has one scale over all its rotations.
    filters = _scaled(fitted.model.tensor_[:, units].transpose(1, 0, 2), axis=(1, 2))
    rotations = filters.shape[1]
    figure = new_figure(PAGE, (PAGE - 1.35) / rotations * len(units) + 0.2, pictures=True)
    axes = figure.subplots()
    angles = [f"φ = {360 * s / rotations:g}°" for s in range(rotations)]
    shades = show_tiles(axes, filters, FILTERS, [f"unit {unit}" for unit in units], angles)
    figure.colorbar(shades, ax=axes, label="weight / largest of the unit", ticks=[-1, 0, 1], aspect=40, pad=0.01)
    return Drawing(figure, recorded=fitted.recorded)


def draw_filters(context: FigureContext) -> Drawing:
    """Show a sheet of filters of each model; of the θ-RBM, those for images of the orientation 0°."""
    fitted, lacking = _fitted_models(context, context.model_cells())
    lines = -(-len(fitted) // SHEETS_IN_A_ROW)
    height = (PAGE - 0.6) / SHEETS_IN_A_ROW * SHEET_ROWS / SHEET_COLUMNS + 0.2
    figure = new_figure(PAGE, height * lines, pictures=True)
    panels = figure.subplots(lines, SHEETS_IN_A_ROW, squeeze=False)
    for axes, each in zip(panels.flat, fitted, strict=False):
        shades = show_tiles(axes, _sheet(context, each), FILTERS)
        axes.set_title(each.cell.label)
    for axes in panels.flat[len(fitted) :]:
        axes.set_axis_off()
    figure.colorbar(shades, ax=panels, label="weight / largest", ticks=[-1, 0, 1], pad=0.01)
    return Drawing(figure, **lacking)


def draw_reconstructions(context: FigureContext) -> Drawing:
    """Show the first test image of each class, and under it what each model makes of it in one pass up and down."""
    fitted, lacking = _fitted_models(context, context.model_cells())
    shown, classes = first_of_classes(*_load_data(context, fitted[0].record).test(), CLASSES)
    tiles = np.stack([shown, *(each.model.reconstruct(shown) for each in fitted)])
    figure = new_figure(PAGE, (PAGE - NAMES) / len(shown) * len(tiles) + 0.2, pictures=True)
    names = ["test image", *(each.label for each in fitted)]
    show_tiles(figure.subplots(), tiles, IMAGES, names, classes)
    return Drawing(figure, **lacking)


def draw_samples(context: FigureContext) -> Drawing:
    """Show Gibbs chains of each model from random hidden states, after few steps and after many."""
    fitted, lacking = _fitted_models(context, context.model_cells())
    # Chains are drawn from their seed alone: a longer one passes through the shorter one.
    rows = [(each, steps) for each in fitted for steps in STEPS]
    tiles = np.stack([each.model.sample(CHAINS, gibbs_steps=steps, random_state=0) for each, steps in rows])
    figure = new_figure(PAGE, (PAGE - NAMES) / CHAINS * len(tiles) + 0.2, pictures=True)
    names = [f"{each.label},\n{steps} steps" for each, steps in rows]
    show_tiles(figure.subplots(), tiles, IMAGES, names, [f"chain {number + 1}" for number in range(CHAINS)])
    return Drawing(figure, **lacking)


def _fitted_models(context: FigureContext, cells: Sequence[Cell]) -> tuple[list[Fitted], dict[str, Any]]:
    """Load the model of each cell, of the first seed that has weights here; what a `Drawing` of them lacks."""
    models: list[Fitted] = []
    without_record: list[Cell] = []
    commands: dict[str, str] = {}
    for cell in cells:
        records = context.numbers.records.get(cell.name, [])
        found = next((fitted for record in records if (fitted := _load_model(context, cell, record))), None)
        if found is not None:
            models.append(found)
        elif records:
            commands[records[0].run] = retrain_command(records[0])
        else:
            without_record.append(cell)
    if not models and not commands:
        raise nothing_measured(context, cells, "a trained model")
    if not models:
        folder, makes = context.run_context.store.folder, " && ".join(commands.values())
        raise FigureMissing(f"there are no weights of {', '.join(commands)} in {folder}; {makes} makes them")
    missing = tuple(f"missing: the weights of {run}; {command} makes it" for run, command in commands.items())
    as_recorded = not missing and all(each.recorded for each in models)
    return models, {"cells": tuple(without_record), "missing": missing, "recorded": as_recorded}


def _load_model(context: FigureContext, cell: Cell, record: RunRecord) -> Fitted | None:
    try:
        weights = recorded.load_weights(context.run_context, record)
        first = context.numbers.records[cell.name][0]
        as_recorded = weights.made_here is None and record is first
        return Fitted(cell, record, recorded.fitted(context.run_context, record, weights), as_recorded)
    except InputError:
        return None


def _load_data(context: FigureContext, record: RunRecord) -> RunData:
    """Load the images of a run, if they are prepared here and are the ones that the run was made from."""
    key = (record.settings.data, *sorted(record.checksums.items()))
    if key not in context.loaded:
        check_prepared(context, record.settings.data)
        try:
            context.loaded[key] = recorded.load_run_data(context.run_context, record)
        except ThetaRBMError as error:
            raise FigureMissing(str(error)) from error
    data: RunData = context.loaded[key]
    return data


def _chosen_units(context: FigureContext, fitted: Fitted, count: int) -> NDArray[np.int64]:
    """Take the units that were asked for, or different ones of the third that is most active on training images.

    Filters are compared by their spectra, for which it does not matter where in the image they are. The most active
    unit comes first, then always the one that differs most from all before it.
    """
    hidden = fitted.model.hidden
    if context.units:
        wrong = [unit for unit in context.units if not 0 <= unit < hidden]
        if wrong:
            raise InputError(f"{fitted.record.run} has no hidden unit {wrong[0]}; its units are 0 to {hidden - 1}")
        return np.array(context.units)
    images, _ = _load_data(context, fitted.record).train()
    activity = fitted.model.transform(images[:RANKED_ON]).mean(axis=0)
    active = np.argsort(-activity, kind="stable")[: max(count, hidden // 3)]
    filters = _matrix(fitted)[active]
    side = math.isqrt(filters.shape[1])
    spectra = np.abs(np.fft.rfft2(filters.reshape(-1, side, side))).reshape(len(active), -1)
    spectra /= np.linalg.norm(spectra, axis=1, keepdims=True).clip(min=1e-12)
    chosen, apart = [0], np.full(len(active), np.inf)
    while len(chosen) < min(count, len(active)):
        apart = np.minimum(apart, np.linalg.norm(spectra - spectra[chosen[-1]], axis=1))
        chosen.append(int(apart.argmax()))
    return active[chosen]


def _matrix(fitted: Fitted) -> NDArray[np.float32]:
    """Filters of a model, (H, V); of several slices those for images of the orientation 0°."""
    weights: NDArray[np.float32] = fitted.model.weights_
    return weights if weights.ndim == 2 else np.asarray(weights[0])


def _sheet(context: FigureContext, fitted: Fitted) -> NDArray[np.float32]:
    """Lay the chosen units' filters in rows, (rows, columns, V), each on a scale of its own; empty places are 0."""
    units = _chosen_units(context, fitted, SHEET_ROWS * SHEET_COLUMNS)
    weights = _matrix(fitted)
    rows = -(-len(units) // SHEET_COLUMNS)
    sheet = np.zeros((rows * SHEET_COLUMNS, weights.shape[1]), dtype=np.float32)
    sheet[: len(units)] = _scaled(weights[units])
    return sheet.reshape(rows, SHEET_COLUMNS, -1)


def _scaled(filters: NDArray[np.float32], axis: tuple[int, ...] = (-1,)) -> NDArray[np.float32]:
    """Divide filters by the largest weight of either sign along the axes; what is 0 everywhere stays 0."""
    reach: NDArray[np.float32] = np.abs(filters).max(axis=axis, keepdims=True)
    return np.divide(filters, reach, out=np.zeros_like(filters), where=reach > 0)
