"""Lines over epochs and over the offset Δ: how the models learn, and how γ depends on where it is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.reporting.figures.context import FigureContext
from thetarbm_cli.reporting.figures.drawing import Drawing, nothing_measured
from thetarbm_cli.reporting.figures.series import Series, series_of
from thetarbm_cli.reporting.figures.style import COLUMN, GREY, PAGE, legend_below, look_of, new_figure

HISTORY = (
    ("reconstruction_error", "reconstruction error\n(squared, per pixel)"),
    ("mean_activation", "mean activation"),
)
# Size of the support set unless a cell says otherwise.
ROTATIONS = 9


def draw_learning_curves(context: FigureContext) -> Drawing:
    """Reconstruction error and mean activation over the epochs: a column for each sparsity target."""
    cells = [cell for cell in context.numbers.in_table("1") if "sparsity" in cell.at]
    curves = {cell.name: _histories(context, cell) for cell in cells}
    if not any(curves.values()):
        raise nothing_measured(context, cells, "a history of its epochs")
    targets = list(dict.fromkeys(cell.at["sparsity"] for cell in cells if curves[cell.name]))
    figure = new_figure(PAGE, 3.9)
    panels = figure.subplots(2, len(targets), sharex=True, sharey="row", squeeze=False)
    for column, target in enumerate(targets):
        panels[0, column].set_title(f"sparsity target {target:g}")
        panels[1, column].set_xlabel("epoch")
        panels[1, column].locator_params(axis="x", integer=True)
        panels[1, column].axhline(target, color=GREY, linewidth=1, linestyle=(0, (1, 1.5)), label="sparsity target")
        for cell in cells:
            if cell.at["sparsity"] == target and curves[cell.name]:
                for axes, (measure, _) in zip(panels[:, column], HISTORY, strict=True):
                    _curve(axes, cell, curves[cell.name], measure)
    for axes, (_, name) in zip(panels[:, 0], HISTORY, strict=True):
        axes.set_ylabel(name)
    # A TI-RBM starts a hundred times above where it ends.
    _logarithmic(panels[0, 0])
    panels[1, 0].set_ylim(bottom=0)
    legend_below(figure, panels.flat)
    return Drawing(figure, cells=tuple(cell for cell in cells if not curves[cell.name]))


def draw_gamma_offset(context: FigureContext) -> Drawing:
    """γ on the training images over the offset Δ of the rotations; after a step of the support set it starts again."""
    cells = [cell for cell in context.numbers.cells if cell.offsets]
    drawn = [(series, points) for cell in cells for series in series_of(context, cell) if (points := _gammas(series))]
    if not drawn:
        raise nothing_measured(context, cells, "γ for several offsets Δ")
    figure = new_figure(COLUMN, 2.9)
    axes = figure.subplots()
    for series, points in drawn:
        step = 360 / series.cell.parameters.get("rotations", ROTATIONS)
        offsets = [*points, step] if 0.0 in points else list(points)
        values = [*points.values(), points[0.0]] if 0.0 in points else list(points.values())
        look = series.look
        fill = look.colour if series.filled else "white"
        axes.plot(offsets, values, look.marker, color=look.colour, ls=look.line, mfc=fill, label=series.label)
    axes.set_xlabel("offset Δ of the rotations in degrees")
    axes.set_ylabel("γ-score on training images")
    axes.margins(y=0.1)
    axes.set_ylim(bottom=0)
    legend_below(figure, [axes])
    held = {series.cell.name for series, _ in drawn}
    return Drawing(figure, cells=tuple(cell for cell in cells if cell.name not in held))


def _histories(context: FigureContext, cell: Cell) -> list[list[dict[str, float]]]:
    """The epochs of each seed; runs cut to the shortest, so that every mean is over all."""
    histories = [record.history for record in context.numbers.records.get(cell.name, []) if record.history]
    shortest = min((len(history) for history in histories), default=0)
    return [history[:shortest] for history in histories]


def _curve(axes: Any, cell: Cell, histories: list[list[dict[str, float]]], measure: str) -> None:
    """The mean over seeds, and a band from the lowest to the highest."""
    epochs = [epoch["epoch"] for epoch in histories[0]]
    values: NDArray[np.float64] = np.array([[epoch[measure] for epoch in history] for history in histories])
    look = look_of(cell.model)
    every = max(len(epochs) // 6, 1)
    axes.plot(
        epochs, values.mean(axis=0), look.marker, color=look.colour, ls=look.line, markevery=every, label=cell.label
    )
    if len(values) > 1:
        axes.fill_between(epochs, values.min(axis=0), values.max(axis=0), color=look.colour, alpha=0.2, linewidth=0)


def _logarithmic(axes: Any) -> None:
    """A logarithmic axis with ticks at 1, 2, 5, 10, …, written as plain numbers."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _gammas(series: Series) -> dict[float, float]:
    """Mean γ on training images by Δ, over the seeds that were measured for several; ascending."""
    found: dict[float, list[float]] = {}
    for metrics in series.metrics:
        if "gamma_offsets" in metrics:
            for score in (metrics.get("gamma", {}), *metrics["gamma_offsets"]):
                if score.get("train", {}).get("mean") is not None:
                    found.setdefault(float(score["offset"]), []).append(score["train"]["mean"])
    return {offset: float(np.mean(found[offset])) for offset in sorted(found)}
