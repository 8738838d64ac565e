"""Models and images for the figures that show them: what is there, and the command that makes what is not.

Weights are a cache and prepared data is not in the results folder: nothing is trained or prepared for a picture.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.runs.retraining import retrain_command
from thetarbm_cli.experiments.runs.settings import DataSettings
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import FigureMissing, Gap, nothing_measured

if TYPE_CHECKING:
    from thetarbm_cli.data.prepared import Prepared
    from thetarbm_cli.experiments.runs.images import RunData
    from thetarbm_cli.models.rbm import RBM

# Training images on which units are ranked by their mean activation.
RANKED_ON = 2000


@dataclass(frozen=True)
class Fitted:
    """A trained model with the cell and the record that it belongs to."""

    cell: Cell
    record: RunRecord
    model: RBM


@dataclass(frozen=True)
class FittedModels:
    """The models that are there, and what the others lack."""

    models: list[Fitted]
    cells: tuple[Cell, ...]
    gaps: tuple[Gap, ...]


def fitted_models(context: FigureContext, cells: Sequence[Cell]) -> FittedModels:
    """The model of each cell, of the first seed that has weights here.

    Raises
    ------
    FigureMissing
        If there is none at all.
    """
    models: list[Fitted] = []
    unrecorded: list[Cell] = []
    unweighted: list[RunRecord] = []
    for cell in cells:
        records = context.numbers.records.get(cell.name, [])
        found = next((fitted for record in records if (fitted := _load(context, cell, record))), None)
        if found is not None:
            models.append(found)
        elif records:
            unweighted.append(records[0])
        else:
            unrecorded.append(cell)
    if not models and not unweighted:
        raise nothing_measured(context, cells, "a trained model")
    if not models:
        runs = ", ".join(record.run for record in unweighted)
        commands = " && ".join(retrain_command(record) for record in unweighted)
        raise FigureMissing(f"there are no weights of {runs} in {context.place.store.folder}; {commands} makes them")
    gaps = (Gap(f"the weights of {record.run}", retrain_command(record)) for record in unweighted)
    return FittedModels(models, tuple(unrecorded), tuple(gaps))


def _load(context: FigureContext, cell: Cell, record: RunRecord) -> Fitted | None:
    from thetarbm_cli.experiments.runs.recorded import model_of

    try:
        return Fitted(cell, record, model_of(context.place, record))
    except InputError:
        return None


def data_of(context: FigureContext, record: RunRecord) -> RunData:
    """The images of a run, if they are prepared here.

    Raises
    ------
    FigureMissing
        If they are not, or are not the ones that the run was made from.
    """
    from thetarbm_cli.experiments.runs import recorded

    key = (record.settings.data, *sorted((role, each["sha256"]) for role, each in record.data.items()))
    if key not in context.loaded:
        _check_prepared(context, record.settings.data)
        try:
            context.loaded[key] = recorded.data_of(context.place, record)
        except ThetaRBMError as error:
            raise FigureMissing(str(error)) from error
    return context.loaded[key]


def prepared_images(context: FigureContext) -> Prepared:
    """The images of the suite, whether or not there are runs.

    Raises
    ------
    FigureMissing
        If they are not prepared here.
    """
    from thetarbm_cli.data.prepared import prepare

    source = context.source or context.numbers.source.name
    settings = DataSettings(**{**context.numbers.cells[0].data, "source": source})
    _check_prepared(context, settings)
    return prepare(context.place.data_dir, "mnist-rot", settings.source, seed=settings.seed)


def _check_prepared(context: FigureContext, settings: DataSettings) -> None:
    """Refuse data that would have to be made or downloaded first, or whose file is not there."""
    from thetarbm_cli.data.prepared import prepared_checksum

    folder, source = context.place.data_dir, settings.source
    try:
        checksum = prepared_checksum(folder, "mnist-rot", source, seed=settings.seed)
    except ThetaRBMError as error:
        raise FigureMissing(str(error)) from error
    if checksum is None:
        words = "" if source == "generated" else f" --source {shlex.quote(source)}"
        raise FigureMissing(f"mnist-rot ({source}) is not prepared in {folder}; thetarbm prepare-data{words} makes it")


def chosen_units(context: FigureContext, fitted: Fitted, count: int) -> NDArray[np.int64]:
    """The units that were asked for, or those with the highest mean activation on training images.

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
    images, _ = data_of(context, fitted.record).train()
    activity = fitted.model.transform(images[:RANKED_ON]).mean(axis=0)
    return np.argsort(-activity, kind="stable")[:count]
