"""Figures of what the models learned: filters, reconstructions, samples.

Weights are a cache and prepared data is not in the results folder: nothing is trained or prepared for a picture, but
what is missing is named with the command that makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs import loading as recorded
from thetarbm_cli.experiments.runs.loading import retrain_command
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.models.theta import ThetaRBM
from thetarbm_cli.outcomes import DEFAULT, variants_of
from thetarbm_cli.reporting.figures.context import Drawing, FigureContext, FigureMissing, Missing, nothing_measured
from thetarbm_cli.reporting.figures.images import FILTERS, IMAGES, check_prepared, first_of_classes, show_tiles
from thetarbm_cli.reporting.figures.style import PAGE, new_figure

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.images import RunData
    from thetarbm_cli.models.rbm import RBM

# Training images on which units are ranked by their mean activation.
RANKED_ON = 2000
UNITS = 8
SHEET_ROWS, SHEET_COLUMNS, SHEETS_IN_A_ROW = 5, 5, 4
CLASSES = 10
STEPS = (1, 3, 10, 30, 100, 300, 1000)
# Inches that the names of the rows take.
NAMES = 0.9


@dataclass(frozen=True)
class Fitted:
    """A trained model with the cell and the record that it belongs to.

    Attributes
    ----------
    recorded : whether its weights are the recorded ones of the cell's first run
    """

    cell: Cell
    record: RunRecord
    model: RBM
    recorded: bool

    @property
    def label(self) -> str:
        """The label of the model; the O-RBM's images are aligned ones."""
        return self.cell.label + dict(variants_of(self.cell.model))[DEFAULT]


@dataclass(frozen=True)
class FittedModels:
    """The models that are there, and what the others lack."""

    models: list[Fitted]
    cells: tuple[Cell, ...]
    missing: tuple[Missing, ...]

    @property
    def recorded(self) -> bool:
        """Whether all models are there as they were recorded."""
        return not self.missing and all(each.recorded for each in self.models)


def draw_theta_filters(context: FigureContext) -> Drawing:
    """Show filters W_s of some units: a row for each unit, a column for each rotation φ_s."""
    cells = [cell for cell in context.model_cells() if cell.model == "theta"][:1]
    (fitted,) = _fitted_models(context, cells).models
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
    fitted = _fitted_models(context, context.model_cells())
    lines = -(-len(fitted.models) // SHEETS_IN_A_ROW)
    figure = new_figure(PAGE, (PAGE - 0.6) / SHEETS_IN_A_ROW * lines + 0.2, pictures=True)
    panels = figure.subplots(lines, SHEETS_IN_A_ROW, squeeze=False)
    for axes, each in zip(panels.flat, fitted.models, strict=False):
        shades = show_tiles(axes, _sheet(context, each), FILTERS)
        axes.set_title(each.cell.label)
    for axes in panels.flat[len(fitted.models) :]:
        axes.set_axis_off()
    figure.colorbar(shades, ax=panels, label="weight / largest", ticks=[-1, 0, 1], pad=0.01)
    return Drawing(figure, fitted.cells, fitted.missing, fitted.recorded)


def draw_reconstructions(context: FigureContext) -> Drawing:
    """Show the first test image of each class, and under it what each model makes of it in one pass up and down."""
    fitted = _fitted_models(context, context.model_cells())
    shown, classes = first_of_classes(*_load_data(context, fitted.models[0].record).test(), CLASSES)
    tiles = np.stack([shown, *(each.model.reconstruct(shown) for each in fitted.models)])
    figure = new_figure(PAGE, (PAGE - NAMES) / len(shown) * len(tiles) + 0.2, pictures=True)
    names = ["test image", *(each.label for each in fitted.models)]
    show_tiles(figure.subplots(), tiles, IMAGES, names, classes)
    return Drawing(figure, fitted.cells, fitted.missing, fitted.recorded)


def draw_samples(context: FigureContext) -> Drawing:
    """Show one Gibbs chain of each model after 1, 3, … steps, from random hidden states."""
    fitted = _fitted_models(context, context.model_cells())
    # A chain is drawn from its seed alone: a longer one passes through the shorter ones.
    tiles = np.stack(
        [
            np.concatenate([each.model.sample(1, gibbs_steps=steps, random_state=0) for steps in STEPS])
            for each in fitted.models
        ]
    )
    figure = new_figure(PAGE, (PAGE - NAMES) / len(STEPS) * len(tiles) + 0.2, pictures=True)
    names = [f"{steps} step{'' if steps == 1 else 's'}" for steps in STEPS]
    show_tiles(figure.subplots(), tiles, IMAGES, [each.label for each in fitted.models], names)
    return Drawing(figure, fitted.cells, fitted.missing, fitted.recorded)


def _fitted_models(context: FigureContext, cells: Sequence[Cell]) -> FittedModels:
    """Load the model of each cell, of the first seed that has weights here.

    Raises
    ------
    FigureMissing
        If there is none at all.
    """
    models: list[Fitted] = []
    without_record: list[Cell] = []
    without_weights: list[RunRecord] = []
    for cell in cells:
        records = context.numbers.records.get(cell.name, [])
        found = next((fitted for record in records if (fitted := _load_model(context, cell, record))), None)
        if found is not None:
            models.append(found)
        elif records:
            without_weights.append(records[0])
        else:
            without_record.append(cell)
    if not models and not without_weights:
        raise nothing_measured(context, cells, "a trained model")
    if not models:
        runs = ", ".join(record.run for record in without_weights)
        commands = " && ".join(retrain_command(record) for record in without_weights)
        raise FigureMissing(
            f"there are no weights of {runs} in {context.run_context.store.folder}; {commands} makes them"
        )
    missing = (Missing(f"the weights of {record.run}", retrain_command(record)) for record in without_weights)
    return FittedModels(models, tuple(without_record), tuple(missing))


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
    key = (record.settings.data, *sorted((role, each["sha256"]) for role, each in record.data.items()))
    if key not in context.loaded:
        check_prepared(context, record.settings.data)
        try:
            context.loaded[key] = recorded.load_run_data(context.run_context, record)
        except ThetaRBMError as error:
            raise FigureMissing(str(error)) from error
    return context.loaded[key]


def _chosen_units(context: FigureContext, fitted: Fitted, count: int) -> NDArray[np.int64]:
    """Take the units that were asked for, or those with the highest mean activation on training images.

    Raises
    ------
    InputError
        If a unit that was asked for does not exist.
    """
    hidden = fitted.model.hidden
    if context.units:
        wrong = [unit for unit in context.units if not 0 <= unit < hidden]
        if wrong:
            raise InputError(f"{fitted.record.run} has no hidden unit {wrong[0]}; its units are 0 to {hidden - 1}")
        return np.array(context.units)
    images, _ = _load_data(context, fitted.record).train()
    activity = fitted.model.transform(images[:RANKED_ON]).mean(axis=0)
    return np.argsort(-activity, kind="stable")[:count]


def _sheet(context: FigureContext, fitted: Fitted) -> NDArray[np.float32]:
    """Lay the chosen units' filters in rows, (rows, columns, V), each on a scale of its own; empty places are 0."""
    units = _chosen_units(context, fitted, SHEET_ROWS * SHEET_COLUMNS)
    weights = fitted.model.weights_ if fitted.model.weights_.ndim == 2 else fitted.model.weights_[0]
    rows = -(-len(units) // SHEET_COLUMNS)
    sheet = np.zeros((rows * SHEET_COLUMNS, weights.shape[1]), dtype=np.float32)
    sheet[: len(units)] = _scaled(weights[units])
    return sheet.reshape(rows, SHEET_COLUMNS, -1)


def _scaled(filters: NDArray[np.float32], axis: tuple[int, ...] = (-1,)) -> NDArray[np.float32]:
    """Divide filters by the largest weight of either sign along the axes; what is 0 everywhere stays 0."""
    reach: NDArray[np.float32] = np.abs(filters).max(axis=axis, keepdims=True)
    return np.divide(filters, reach, out=np.zeros_like(filters), where=reach > 0)
