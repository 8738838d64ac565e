"""Figures of what was measured, from records alone: curves, dot plots, heat maps, histograms, ablations."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from thetarbm_cli.experiments.runs.record import MeasuredPart
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, MISSING, NOT_ALIGNED
from thetarbm_cli.reporting.figures.context import (
    Drawing,
    Evaluation,
    FigureContext,
    FigureMissing,
    evaluations,
    nothing_measured,
)
from thetarbm_cli.reporting.figures.style import (
    BLUE,
    COLUMN,
    FAINT,
    GREY,
    LOOKS,
    OURS,
    PAGE,
    PAPERS,
    SEQUENTIAL,
    SKY,
    SMALL_TEXT,
    VERMILION,
    legend_below,
    look_of,
    new_figure,
)
from thetarbm_cli.reporting.frame import Value
from thetarbm_cli.reporting.render import published_text
from thetarbm_cli.reporting.tables import Table, build

HISTORY = {
    "reconstruction_error": "reconstruction error\n(squared, log scale)",
    "mean_activation": "mean activation",
}
# Standard deviations over seeds that the bands of learning curves show.
BAND = 10
ONE_SEED = ", one seed"
CONTROL_LINES = ((0, (4, 2)), (0, (1, 1.5)), (0, (4, 2, 1, 2)))
# Panels of the ablations: a name, and the measures that it shows with their labels, marks and colours.
TEST, TRAIN = "ours, test", "ours, train"
ABLATION_PANELS = (
    ("test error in %", ((ERROR, TEST, "o", BLUE),)),
    ("γ-score", ((GAMMA_TEST, TEST, "o", BLUE), (GAMMA_TRAIN, TRAIN, "^", SKY))),
)
ESTIMATOR = "orientation_"
# How kinds of models are marked among published errors.
FAMILIES = {"RBM": ("D", BLUE), "CNN": ("s", VERMILION), "SVM": ("o", GREY)}


def draw_learning_curves(context: FigureContext) -> Drawing:
    """Draw reconstruction error and mean activation over the epochs: a column for each sparsity target."""
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    cells = [cell for cell in context.numbers.in_table("1") if "sparsity" in cell.at]
    histories = {cell.name: history for cell in cells if (history := _history(context, cell)) is not None}
    if not histories:
        raise nothing_measured(context, cells, "a history of its epochs")
    targets = list(dict.fromkeys(cell.at["sparsity"] for cell in cells if cell.name in histories))
    figure = new_figure(PAGE, 3.9)
    panels = figure.subplots(2, len(targets), sharex=True, sharey="row", squeeze=False)
    for column, target in enumerate(targets):
        panels[0, column].set_title(f"sparsity target {target:g}")
        panels[1, column].set_xlabel("epoch")
        panels[1, column].locator_params(axis="x", integer=True)
        if any(history["std"].notna().all() for each in histories.values() for history in each.values()):
            label = f"± {BAND} standard deviations over seeds"
            panels[0, column].fill_between([], [], color=GREY, alpha=0.25, label=label)
        panels[1, column].axhline(target, color=GREY, linewidth=1, linestyle=(0, (1, 1.5)), label="sparsity target")
        for cell in cells:
            if cell.at["sparsity"] == target and cell.name in histories:
                for axes, measure in zip(panels[:, column], HISTORY, strict=True):
                    _curve(axes, cell, histories[cell.name][measure])
    for axes, name in zip(panels[:, 0], HISTORY.values(), strict=True):
        axes.set_ylabel(name)
    panels[0, 0].set_yscale("log")
    panels[0, 0].yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    panels[0, 0].yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panels[0, 0].yaxis.set_minor_formatter(NullFormatter())
    panels[1, 0].set_ylim(bottom=0)
    legend_below(figure, [*panels[1], *panels[0]])
    return Drawing(figure, tuple(cell for cell in cells if cell.name not in histories))


def _history(context: FigureContext, cell: Cell) -> dict[str, pd.DataFrame] | None:
    """Give mean and standard deviation over the seeds by epoch, for epochs that all seeds have; by measure."""
    held = [record.history for record in context.numbers.records.get(cell.name, []) if record.history]
    if not held:
        return None
    epochs = pd.concat([pd.DataFrame(history) for history in held]).groupby("epoch")
    complete = epochs.size() == len(held)
    return {measure: epochs[measure].agg(["mean", "std"])[complete] for measure in HISTORY}


def _curve(axes: Any, cell: Cell, values: pd.DataFrame) -> None:
    """Draw the mean over seeds, and a band of several standard deviations: one alone is thinner than the line."""
    look = look_of(cell.model)
    mean, reach = values["mean"], BAND * values["std"]
    every = max(len(values) // 5, 1)
    # Marks of several models lie apart along the curve, and a solid line is wide enough to be seen under another.
    first = list(LOOKS).index(cell.model) if cell.model in LOOKS else 0
    line = {"linewidth": 2.6, "alpha": 0.5} if look.line == "-" else {"linewidth": 1.1}
    axes.plot(mean.index, mean, color=look.colour, ls=look.line, **line)
    axes.plot(mean.index, mean, look.marker, color=look.colour, markevery=(first, every), label=cell.label)
    if reach.notna().all():
        band = axes.fill_between(mean.index, mean - reach, mean + reach, color=look.colour, alpha=0.25, linewidth=0)
        band.set_gid(f"band-{cell.model}")


def draw_gamma_offset(context: FigureContext) -> Drawing:
    """Draw γ on the training images over the offset Δ of the rotations; after a step of S it starts again."""
    cells = [cell for cell in context.numbers.cells if cell.offsets]
    frame = context.numbers.frame
    further = frame.loc[frame["measure"] == "gamma_offset_train", "run"]
    gammas = frame[frame["measure"].isin([GAMMA_TRAIN, "gamma_offset_train"]) & frame["run"].isin(further)]
    means = gammas.groupby(["cell", "variant", "offset"])["value"].mean()
    shown = [each for each in evaluations(cells) if (each.cell.name, each.variant) in means.index]
    if not shown:
        raise nothing_measured(context, cells, "γ for several offsets Δ")
    curves = [means[each.cell.name, each.variant] for each in shown]
    parts = _without_gap(np.concatenate(curves))[::-1]
    figure = new_figure(COLUMN, 1.2 + 1.6 * len(parts))
    heights = [high - low for low, high in parts]
    panels = list(figure.subplots(len(parts), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    for each, values in zip(shown, curves, strict=True):
        if 0.0 in values.index:
            step = 360 / each.cell.parameters.get("rotations", 9)
            values = pd.concat([values, pd.Series({step: values[0.0]})])
        look = look_of(each.cell.model)
        fill = "white" if each.variant == NOT_ALIGNED else look.colour
        for axes in panels:
            axes.plot(values.index, values, look.marker, color=look.colour, ls=look.line, mfc=fill, label=each.label)
    for axes, ends, height in zip(panels, parts, heights, strict=True):
        axes.set_ylim(*ends)
        axes.locator_params(axis="y", nbins=max(2, round(8 * height / sum(heights))))
    panels[-1].set_xlabel("offset Δ of the rotations in degrees")
    figure.supylabel("γ-score on training images", fontsize=8)
    legend_below(figure, panels)
    return Drawing(figure, _unseen(cells, shown))


def _without_gap(values: NDArray[np.float64]) -> list[tuple[float, float]]:
    """Find the ends of a scale for values; it has two parts where more than 40 % of it would be a gap."""
    held = np.sort(values[np.isfinite(values)])
    low, high = held[0], held[-1]
    gaps = np.diff(held)
    if len(gaps) and gaps.max() > 0.4 * (high - low) > 0:
        place = int(gaps.argmax())
        pad = 0.1 * (high - low - gaps.max()) or 0.02
        return [(low - pad, held[place] + pad), (held[place + 1] - pad, high + pad)]
    pad = 0.06 * (high - low) or 0.02
    return [(low - pad, high + pad)]


def draw_gamma_units(context: FigureContext) -> Drawing:
    """Draw γ on the test images of each unit that is alive, of all seeds together; a row for each model."""
    cells = context.model_cells()
    shown = []
    for each in evaluations(cells):
        scores = [part.gamma.test for part in _measured(context, each) if part.gamma and part.gamma.test]
        if gammas := [gamma for score in scores for gamma in score.per_unit if gamma is not None]:
            shown.append((each, gammas))
    if not shown:
        raise nothing_measured(context, cells, "γ of each unit")
    highest = max(1.0, *(max(gammas) for _, gammas in shown))
    edges = np.linspace(0, highest, 45)
    figure = new_figure(COLUMN, 0.75 + 0.72 * len(shown))
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (each, gammas) in zip(panels, shown, strict=True):
        shares = 100 * np.histogram(gammas, edges)[0] / len(gammas)
        faint = each.variant == NOT_ALIGNED
        axes.stairs(shares, edges, fill=True, color=look_of(each.cell.model).colour, alpha=0.4 if faint else 0.85)
        mean = float(np.mean(gammas))
        axes.axvline(mean, color=VERMILION, linewidth=1, linestyle=(0, (3, 1.5)))
        axes.set_title(f"{each.label}, mean {mean:.3f}", loc="left", fontsize=SMALL_TEXT, pad=2)
        axes.set_ylim(0, 1.08 * shares.max())
        axes.locator_params(axis="y", nbins=3)
    panels[-1].set_xlabel("γ of a unit on test images")
    panels[-1].set_xlim(0, highest)
    figure.supylabel("units in %", fontsize=8)
    return Drawing(figure, _unseen(cells, (each for each, _ in shown)))


def _measured(context: FigureContext, each: Evaluation) -> list[MeasuredPart]:
    """List what was measured in one evaluation of a cell's runs, seeds ascending."""
    records = context.numbers.records.get(each.cell.name, [])
    parts = [record.metrics for record in records if record.metrics is not None]
    if each.variant == NOT_ALIGNED:
        return [part.unaligned for part in parts if part.unaligned is not None]
    return [*parts]


def _unseen(cells: Iterable[Cell], shown: Iterable[Evaluation]) -> tuple[Cell, ...]:
    """List cells of which no evaluation is shown."""
    seen = {each.cell.name for each in shown}
    return tuple(cell for cell in cells if cell.name not in seen)


def draw_table_1(context: FigureContext) -> Drawing:
    """Draw test errors as dots: a panel for each sparsity target, a row for each model, the controls as lines."""
    table = _built(context, "1")
    controls = {row.label: entry.value.mean for row in table.controls for entry in row.entries if entry}
    means = {label: mean for label, mean in controls.items() if mean is not None}
    figure, panels = _dot_plot(table, ((ERROR, "", "o", "D"),), also=means.values())
    for axes in panels:
        for (label, mean), line in zip(means.items(), itertools.cycle(CONTROL_LINES), strict=False):
            if axes.get_xlim()[0] <= mean <= axes.get_xlim()[1]:
                axes.axvline(mean, color=GREY, linestyle=line, linewidth=1, label=f"{label}, {mean:.2f} %")
    legend_below(figure, panels, first=("ours", f"ours{ONE_SEED}", "the paper's"))
    return Drawing(figure, tuple(table.lacking))


def draw_table_2(context: FigureContext) -> Drawing:
    """Draw γ-scores as dots: as Table 1, with a mark for training images and one for test images."""
    table = _built(context, "2")
    marks = ((GAMMA_TRAIN, ", train", "o", "o"), (GAMMA_TEST, ", test", "s", "s"))
    figure, panels = _dot_plot(table, marks)
    legend_below(figure, panels, first=("ours, train", "ours, test"))
    return Drawing(figure, tuple(table.lacking))


def _built(context: FigureContext, name: str) -> Table:
    """Lay a table of the paper out, if any cell of it is measured."""
    table, cells = build(name, context.numbers), context.numbers.in_table(name)
    lacking = table.lacking
    if all(cell in lacking for cell in cells):
        raise nothing_measured(context, cells, f"the numbers of Table {name}")
    return table


def _dot_plot(
    table: Table, marks: Sequence[tuple[str, str, str, str]], also: Iterable[float] = ()
) -> tuple[Any, list[Any]]:
    """Draw dots over models (rows) and sparsity targets (panels): ours with the deviation over seeds, and the paper's.

    Where the scale would be mostly empty it is broken, and each target has two panels of the same scale.

    Parameters
    ----------
    marks : a measure, what its labels end with, and the marks of ours and of the paper's
    also : further values that have to be on the scale
    """
    rows = table.rows
    targets = [text for text, _ in table.groups] or table.columns
    if not targets:
        raise FigureMissing(f"no experiment in Table {table.name} has a grid of sparsity targets, which are its panels")
    values = [entry.value for row in rows for entry in row.entries if entry]
    ends = [number for value in values for number in (*value.values, value.published) if number is not None]
    parts = _without_gap(np.array([*ends, *also]))
    figure = new_figure(PAGE, 1.15 + 0.32 * len(rows))
    widths = [high - low for low, high in parts] * len(targets)
    panels = list(figure.subplots(1, len(widths), sharey=True, squeeze=False, width_ratios=widths)[0])
    for number, axes in enumerate(panels):
        axes.set_xlim(*parts[number % len(parts)])
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.tick_params(axis="y", length=0)
        ticks = round(5 * len(targets) * widths[number] / sum(widths))
        # A narrow panel has room for one number.
        axes.locator_params(axis="x", nbins=max(1, ticks), min_n_ticks=min(2, max(1, ticks)))
        if number % len(parts) == len(parts) - 1:
            axes.set_title(targets[number // len(parts)])
            axes.set_xlabel(MEASURES[marks[0][0]].with_unit if len(marks) == 1 else "γ-score")
        else:
            _break(axes, panels[number + 1])
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    places = 0.16 * np.linspace(-1, 1, 2 if len(marks) == 1 else len(marks))
    for row, column in np.ndindex(len(rows), len(table.columns)):
        if (entry := rows[row].entries[column]) is None:
            continue
        value = entry.value
        target, number = divmod(column, len(marks))
        _, ending, marker, papers_marker = marks[number]
        for axes, (low, high) in zip(panels[target * len(parts) :], parts, strict=False):
            if value.mean is not None and low <= value.mean <= high:
                _ours(axes, row + places[number], value, marker, OURS, f"ours{ending}")
            if value.published is not None and low <= value.published <= high:
                style = {"mfc": "none", "color": PAPERS, "markersize": 4.5, "markeredgewidth": 0.9}
                place = row + places[-1 if len(marks) == 1 else number]
                axes.plot(value.published, place, papers_marker, label=f"the paper's{ending}", zorder=2, **style)
    return figure, panels


def _ours(axes: Any, place: float, value: Value, marker: str, colour: str, label: str, *, upright: bool = True) -> None:
    """Draw a mean with the deviation over seeds, to the right or `upright` in a row; one seed is a white mark."""
    style: dict[str, Any] = {"fmt": marker, "color": colour, "capsize": 2, "elinewidth": 1, "zorder": 3, "label": label}
    if len(value.values) == 1:
        style |= {"mfc": "white", "label": f"{label}{ONE_SEED}"}
    if upright:
        axes.errorbar(value.mean, place, xerr=value.deviation, **style)
    else:
        axes.errorbar(place, value.mean, yerr=value.deviation, **style)


def _break(left: Any, right: Any) -> None:
    """Show that a scale goes on in the next panel: no line between them, and a slanted stroke at each end."""
    style = {"marker": [(-0.6, -1), (0.6, 1)], "markersize": 6, "linestyle": "none", "color": "black", "clip_on": False}
    left.plot(1, 0, transform=left.transAxes, **style)
    right.plot(0, 0, transform=right.transAxes, **style)
    right.spines.left.set_visible(False)


def draw_table_3(context: FigureContext) -> Drawing:
    """Draw test errors under perturbed orientations, ours and the paper's on one scale; a star as in the table."""
    table = _built(context, "3")
    entries = [[entry for entry in row.entries if entry] for row in table.rows]
    ours = np.array([[entry.value.mean for entry in row] for row in entries], dtype=float)
    papers = np.array([[entry.value.published for entry in row] for row in entries], dtype=float)
    show, star = MEASURES[ERROR].text, {True: "*", False: ""}
    our_texts = [[show(entry.value.mean) + star[entry.starred] for entry in row] for row in entries]
    papers_texts = [[published_text(entry, 1) or MISSING for entry in row] for row in entries]
    low, high = np.nanmin([ours, papers]), np.nanmax([ours, papers])
    figure = new_figure(PAGE, 2.7)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    maps = (("ours", ours, our_texts), ("the paper's", papers, papers_texts))
    for axes, (title, grid, texts) in zip(panels, maps, strict=True):
        shades = heat_map(axes, grid, texts, low, high)
        axes.set_title(title)
        axes.set_xticks(range(len(table.columns)), [text.removeprefix("p = ") for text in table.columns])
        axes.set_yticks(range(len(entries)), [row.label.removeprefix("n = ") for row in table.rows])
        axes.set_xlabel("p of the binomial error ε ~ B(n, p)")
    panels[0].set_ylabel("n")
    figure.colorbar(shades, ax=panels, label="test error in %", pad=0.02)
    return Drawing(figure, tuple(table.lacking))


def draw_confusion(context: FigureContext) -> Drawing:
    """Draw how often each class is taken for each other, in % of the class, over all seeds; a panel for each model."""
    cells = context.model_cells()
    shares = []
    for each in evaluations(cells):
        if measured := [part.svm for part in _measured(context, each) if part.svm and part.svm.confusion]:
            total = np.sum([svm.confusion for svm in measured], axis=0, dtype=float)
            total *= 100 / np.maximum(total.sum(axis=1, keepdims=True), 1)
            shares.append((each, pd.DataFrame(total, index=measured[0].classes, columns=measured[0].classes)))
    if not shares:
        raise nothing_measured(context, cells, "a confusion matrix")
    # The diagonal would drown the rest: it is written, not shaded.
    errors = [share.mask(np.eye(len(share), dtype=bool)).to_numpy() for _, share in shares]
    high = float(np.nan_to_num(errors).max()) or 1.0
    columns = 2 if len(shares) in (2, 4) else 3
    lines = -(-len(shares) // columns)
    figure = new_figure(PAGE, (PAGE - 0.9) / columns * lines + 0.3 * lines)
    panels = figure.subplots(lines, columns, squeeze=False)
    for axes, (each, share), error in zip(panels.flat, shares, errors, strict=False):
        texts = [[f"{number:.0f}" if number >= 0.5 else "" for number in line] for line in share.to_numpy()]
        shades = heat_map(axes, error, texts, 0.0, high)
        axes.set_title(each.label)
        axes.set_xticks(range(len(share)), share.columns)
        axes.set_yticks(range(len(share)), share.index)
        axes.set_xlabel("class given")
    for axes in panels[:, 0]:
        axes.set_ylabel("true class")
    for axes in panels.flat[len(shares) :]:
        axes.set_visible(False)
    figure.colorbar(shades, ax=panels, label="% of the true class (errors only)", shrink=0.7, pad=0.02)
    return Drawing(figure, _unseen(cells, (each for each, _ in shares)))


def heat_map(axes: Any, grid: NDArray[np.float64], texts: list[list[str]], low: float, high: float) -> Any:
    """Shade a grid, grey where it has no number, and write texts into it, white on dark and black on light."""
    axes.grid(False)
    axes.set_facecolor(FAINT)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    shades = axes.imshow(grid, cmap=SEQUENTIAL, vmin=low, vmax=high, aspect="auto")
    for (row, column), number in np.ndenumerate(grid):
        if texts[row][column]:
            # At this luminance black and white text have the same contrast.
            dark = bool(np.isfinite(number)) and _luminance(shades.to_rgba(number)[:3]) < 0.179
            style = {"color": "white" if dark else "black", "ha": "center", "va": "center", "fontsize": SMALL_TEXT}
            # It lies inside of its axes, so the layout need not measure it.
            axes.text(column, row, texts[row][column], **style).set_in_layout(False)
    return shades


def _luminance(colour: tuple[float, float, float]) -> float:
    """Compute the relative luminance of an sRGB colour, as the Web Content Accessibility Guidelines define it."""
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def draw_years(context: FigureContext) -> Drawing:
    """Draw published errors over the years, and the best model's as a line."""
    from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

    cells = [cell for cell in context.numbers.in_table("beyond") if cell.experiment == "best"]
    best = next((mean for cell in cells if (mean := context.numbers.value(cell, ERROR).mean) is not None), None)
    if best is None or not context.suite.literature:
        raise nothing_measured(context, cells, "the best θ-RBM of the table beyond")
    years = [each.year for each in context.suite.literature]
    first, last = min(years), max(years)
    figure = new_figure(PAGE, 2.7)
    axes = figure.subplots()
    for family, (marker, colour) in FAMILIES.items():
        published = [each for each in context.suite.literature if each.family == family]
        errors = [each.test_error_percent for each in published]
        axes.plot([each.year for each in published], errors, marker, color=colour, markersize=6, label=family)
        for each in published:
            # Away from what lies close below or above, the line too, and from the border.
            near = [other.test_error_percent for other in context.suite.literature if other.year == each.year]
            close = [error for error in (*near, best) if 0 < abs(np.log(error / each.test_error_percent)) < 0.2]
            above = np.sign(each.test_error_percent - close[0]) if close else 0
            late = 2 * each.year > first + last
            style = {"ha": "right" if late else "left", "va": "center", "fontsize": SMALL_TEXT}
            point, away = (each.year, each.test_error_percent), (-6 if late else 6, 4 * above)
            axes.annotate(f"{each.label} {point[1]:g}", point, away, textcoords="offset points", **style)
    axes.axhline(best, color=OURS, label="ours")
    ours = {"color": OURS, "fontsize": SMALL_TEXT}
    axes.annotate(f"local θ-RBM, this project {best:.2f}", (first, best), (0, 4), textcoords="offset points", **ours)
    axes.set_yscale("log")
    axes.set_yticks([1, 2, 5, 10])
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.05)
    axes.set_ylim(1, 15)
    axes.set_xlabel("year of publication")
    axes.set_ylabel("test error in % (log scale)")
    legend_below(figure, [axes], list(FAMILIES))
    return Drawing(figure, _unmeasured(context, cells))


def draw_floor(context: FigureContext) -> Drawing:
    """Draw error and γ over the standardisation floor; the values stand side by side, not to scale."""
    cells = [cell for cell in context.numbers.in_table("ablation") if set(cell.at) == {"floor"}]
    cells.sort(key=lambda cell: float(cell.at["floor"]))
    shown = _at_least_two(context, cells, "another standardisation floor")
    figure = new_figure(COLUMN, 3.6)
    panels = figure.subplots(2, 1, sharex=True)
    _ablation(figure, panels, context, shown, upright=False)
    panels[1].set_xticks(range(len(shown)), [f"{cell.at['floor']:g}" for cell in shown])
    panels[1].set_xlabel("standardisation floor\n(standard deviation of a pixel; not to scale)")
    return Drawing(figure, _unmeasured(context, cells))


def draw_estimators(context: FigureContext) -> Drawing:
    """Draw error and γ by the estimator of the dominant orientation: a row for each."""
    cells = [
        cell
        for cell in context.numbers.in_table("ablation")
        if cell.at and all(axis.startswith(ESTIMATOR) for axis in cell.at)
    ]
    shown = _at_least_two(context, cells, "another estimator of the orientation")
    figure = new_figure(PAGE, 1.2 + 0.22 * len(shown))
    panels = figure.subplots(1, 2, sharey=True)
    _ablation(figure, panels, context, shown, upright=True)
    # The runs of the reading taken are those of a table.
    records = context.numbers.records
    taken = {record.run for cell in context.numbers.in_table("1") for record in records.get(cell.name, [])}
    endings = [" (taken)" if any(record.run in taken for record in records[cell.name]) else "" for cell in shown]
    names = [", ".join(map(str, cell.at.values())) + ending for cell, ending in zip(shown, endings, strict=True)]
    panels[0].set_yticks(range(len(shown)), names)
    panels[0].set_ylim(len(shown) - 0.5, -0.5)
    panels[0].set_ylabel(", ".join(axis.removeprefix(ESTIMATOR) for axis in shown[0].at))
    return Drawing(figure, _unmeasured(context, cells))


def _unmeasured(context: FigureContext, cells: Iterable[Cell]) -> tuple[Cell, ...]:
    """List cells that have no test error."""
    return tuple(cell for cell in cells if context.numbers.value(cell, ERROR).mean is None)


def _at_least_two(context: FigureContext, cells: Sequence[Cell], what: str) -> list[Cell]:
    """Keep cells with a number, at least two: one alone compares nothing."""
    absent = _unmeasured(context, cells)
    if len(cells) - len(absent) < 2:
        raise nothing_measured(context, absent, what)
    return [cell for cell in cells if cell not in absent]


def _ablation(figure: Any, panels: Any, context: FigureContext, cells: Sequence[Cell], *, upright: bool) -> None:
    """Draw measures of cells, downwards if `upright`, else to the right, and a line at the paper's value."""
    first = cells[0]
    same = [
        cell
        for cell in context.numbers.in_table("1")
        if (cell.model, cell.parameters.get("sparsity")) == (first.model, first.parameters.get("sparsity"))
    ]
    for axes, (name, measures) in zip(panels, ABLATION_PANELS, strict=True):
        (axes.set_xlabel if upright else axes.set_ylabel)(name)
        if upright:
            axes.tick_params(axis="y", length=0)
        for measure, label, marker, colour in measures:
            values = {place: context.numbers.value(cell, measure) for place, cell in enumerate(cells)}
            held = {place: value for place, value in values.items() if value.mean is not None}
            if not upright:
                axes.plot(list(held), [value.mean for value in held.values()], color=colour)
            for place, value in held.items():
                _ours(axes, place, value, marker, colour, label, upright=upright)
        published = next((cell.published[measures[0][0]] for cell in same if measures[0][0] in cell.published), None)
        if published is not None:
            line = axes.axvline if upright else axes.axhline
            line(published, color=PAPERS, linewidth=1, linestyle=(0, (4, 2)), label="the paper's, test")
    legend_below(figure, panels, first=(TEST, f"{TEST}{ONE_SEED}", TRAIN, f"{TRAIN}{ONE_SEED}"))
