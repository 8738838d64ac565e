"""Figures of what was measured, from records alone: tables as plots, γ by unit and offset, errors over the years."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.measures import ERROR, GAMMA_TRAIN, MEASURES, MISSING, NOT_ALIGNED
from thetarbm_cli.reporting.figures.context import Drawing, Evaluation, FigureContext
from thetarbm_cli.reporting.figures.style import (
    BLUE,
    COLUMN,
    FAINT,
    GREY,
    OURS,
    PAGE,
    PAPERS,
    SEQUENTIAL,
    SMALL_TEXT,
    VERMILION,
    legend_below,
    look_of,
    new_figure,
)
from thetarbm_cli.results import Value
from thetarbm_cli.suite import Cell

# Rotations that γ is measured under by models that have none of their own.
ROTATIONS = 9
ONE_SEED = ", one seed"
CONTROL_LINES = ((0, (4, 2)), (0, (1, 1.5)), (0, (4, 2, 1, 2)))
# How kinds of models are marked among published errors.
FAMILIES = {"RBM": ("D", BLUE), "CNN": ("s", VERMILION), "SVM": ("o", GREY)}


def draw_table_1(context: FigureContext) -> Drawing:
    """Draw test errors as dots: a panel for each sparsity target, a row for each model, the controls as lines."""
    cells = context.results.in_table("1")
    rows = [(each.cell.experiment, each.variant, each.label) for each in context.evaluations()]
    targets = list(dict.fromkeys(cell.at["sparsity"] for cell in cells if "sparsity" in cell.at))
    values = {
        (each.cell.experiment, each.variant, each.cell.at.get("sparsity")): context.results.value(
            each.cell, ERROR, each.variant
        )
        for each in context.evaluations(cells)
    }
    held = [number for value in values.values() for number in (*value.values, value.published) if number is not None]
    if not targets or not any(value.values for value in values.values()):
        raise context.nothing_measured([cell for cell in cells if targets], "errors over sparsity targets in Table 1")
    controls = {value.cell.label: value.mean for (*_, target), value in values.items() if target is None}
    pad = 0.06 * (max(held) - min(held)) or 1.0
    figure = new_figure(PAGE, 1.15 + 0.32 * len(rows))
    panels = list(figure.subplots(1, len(targets), sharex=True, sharey=True, squeeze=False)[0])
    panels[0].set_yticks(range(len(rows)), [label for _, _, label in rows])
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    panels[0].set_xlim(min(held) - pad, max(held) + pad)
    for axes, target in zip(panels, targets, strict=True):
        axes.set_title(f"sparsity {target:g}")
        axes.set_xlabel(MEASURES[ERROR].with_unit)
        axes.tick_params(axis="y", length=0)
        axes.locator_params(axis="x", nbins=5)
        for row, (experiment, variant, _) in enumerate(rows):
            value = values.get((experiment, variant, target))
            if value is not None and value.mean is not None:
                _mark_ours(axes, row - 0.16, value)
            if value is not None and value.published is not None:
                style = {"mfc": "none", "color": PAPERS, "markersize": 4.5, "markeredgewidth": 0.9, "zorder": 2}
                axes.plot(value.published, row + 0.16, "D", label="the paper's", **style)
        for (label, mean), line in zip(controls.items(), itertools.cycle(CONTROL_LINES), strict=False):
            if mean is not None:
                axes.axvline(mean, color=GREY, linestyle=line, linewidth=1, label=f"{label}, {mean:.2f} %")
    legend_below(figure, panels, first=("ours", f"ours{ONE_SEED}", "the paper's"))
    return Drawing(
        figure, tuple({value.cell.name: value.cell for value in values.values() if not value.values}.values())
    )


def _mark_ours(axes: Any, place: float, value: Value) -> None:
    """Draw a mean with the deviation over seeds; one seed is a white mark."""
    style: dict[str, Any] = {"fmt": "o", "color": OURS, "capsize": 2, "elinewidth": 1, "zorder": 3, "label": "ours"}
    if len(value.values) == 1:
        style |= {"mfc": "white", "label": f"ours{ONE_SEED}"}
    axes.errorbar(value.mean, place, xerr=value.deviation, **style)


def draw_table_3(context: FigureContext) -> Drawing:
    """Draw test errors under perturbed orientations, ours and the paper's on one scale; a star as in the table."""
    cells = context.results.in_table("3")
    values = {(cell.at["n"], cell.at["p"]): context.results.value(cell, ERROR) for cell in cells}
    if not any(value.values for value in values.values()):
        raise context.nothing_measured(cells, "the numbers of Table 3")
    errors, chances = (list(dict.fromkeys(axis)) for axis in zip(*values, strict=True))
    base = cells[0].unperturbed(context.results.cells)
    limit = context.results.value(base, ERROR) if base else None
    maps = []
    for title, name, digits in (("ours", "mean", MEASURES[ERROR].digits), ("the paper's", "published", 1)):
        numbers = [[getattr(values.get((n, p)), name, None) for p in chances] for n in errors]
        most = getattr(limit, name, None)
        texts = [
            [MISSING if x is None else f"{x:.{digits}f}{'*' if most is not None and x > most else ''}" for x in row]
            for row in numbers
        ]
        maps.append((title, np.array(numbers, dtype=float), texts))
    low, high = (float(pick([grid for _, grid, _ in maps])) for pick in (np.nanmin, np.nanmax))
    figure = new_figure(PAGE, 2.7)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (title, grid, texts) in zip(panels, maps, strict=True):
        shades = heat_map(axes, grid, texts, low, high)
        axes.set_title(title)
        axes.set_xticks(range(len(chances)), [f"{p:g}" for p in chances])
        axes.set_yticks(range(len(errors)), [str(n) for n in errors])
        axes.set_xlabel("p of the binomial error ε ~ B(n, p)")
    panels[0].set_ylabel("n")
    figure.colorbar(shades, ax=panels, label="test error in %", pad=0.02)
    return Drawing(figure, tuple(value.cell for value in values.values() if not value.values))


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


def draw_gamma_units(context: FigureContext) -> Drawing:
    """Draw γ on the test images of each unit that is alive, of all seeds together; a row for each model."""
    every = context.evaluations()
    units = [
        [
            gamma
            for each in context.measurements(evaluation, "gamma", "test")
            for gamma in each.details.get("per_unit", [])
            if gamma is not None
        ]
        for evaluation in every
    ]
    shown = [(evaluation, gammas) for evaluation, gammas in zip(every, units, strict=True) if gammas]
    if not shown:
        raise context.nothing_measured([each.cell for each in every], "γ of each unit")
    highest = max(1.0, *(max(gammas) for _, gammas in shown))
    edges = np.linspace(0, highest, 45)
    figure = new_figure(COLUMN, 0.75 + 0.72 * len(shown))
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (each, gammas) in zip(panels, shown, strict=True):
        shares = 100 * np.histogram(gammas, edges)[0] / len(gammas)
        faint = each.variant == NOT_ALIGNED
        axes.stairs(shares, edges, fill=True, color=look_of(each.cell.model).colour, alpha=0.4 if faint else 0.85)
        mean = fmean(gammas)
        axes.axvline(mean, color=VERMILION, linewidth=1, linestyle=(0, (3, 1.5)))
        axes.set_title(f"{each.label}, mean {mean:.3f}", loc="left", fontsize=SMALL_TEXT, pad=2)
        axes.set_ylim(0, 1.08 * shares.max())
        axes.locator_params(axis="y", nbins=3)
    panels[-1].set_xlabel("γ of a unit on test images")
    panels[-1].set_xlim(0, highest)
    figure.supylabel("units in %", fontsize=8)
    return Drawing(figure, _unseen(every, [each for each, _ in shown]))


def draw_gamma_offset(context: FigureContext) -> Drawing:
    """Draw γ on the training images over the offset Δ of the rotations; after a step of S it starts again."""
    every = context.evaluations(cell for cell in context.results.cells if cell.offsets)
    curves = [(each, curve) for each in every if (curve := _over_offsets(context, each))]
    if not curves:
        raise context.nothing_measured([each.cell for each in every], "γ for several offsets Δ")
    parts = _without_gap(np.concatenate([list(curve.values()) for _, curve in curves]))[::-1]
    figure = new_figure(COLUMN, 1.2 + 1.6 * len(parts))
    heights = [high - low for low, high in parts]
    panels = list(figure.subplots(len(parts), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0])
    for each, curve in curves:
        look = look_of(each.cell.model)
        fill = "white" if each.variant == NOT_ALIGNED else look.colour
        style = {"color": look.colour, "ls": look.line, "mfc": fill, "label": each.label}
        for axes in panels:
            axes.plot(list(curve), list(curve.values()), look.marker, **style)
    for axes, ends, height in zip(panels, parts, heights, strict=True):
        axes.set_ylim(*ends)
        axes.locator_params(axis="y", nbins=max(2, round(8 * height / sum(heights))))
    panels[-1].set_xlabel("offset Δ of the rotations in degrees")
    figure.supylabel("γ-score on training images", fontsize=8)
    legend_below(figure, panels)
    return Drawing(figure, _unseen(every, [each for each, _ in curves]))


def _over_offsets(context: FigureContext, evaluation: Evaluation) -> dict[float, float]:
    """Give the mean γ at each offset, of runs that have several; 0° comes again after a step of the rotations."""
    runs: dict[str, dict[float, float]] = {}
    for each in context.measurements(evaluation, "gamma", "train"):
        if each.spec.offset is not None and (gamma := each.values.get(GAMMA_TRAIN)) is not None:
            runs.setdefault(each.run, {})[each.spec.offset] = gamma
    several = [run for run in runs.values() if len(run) > 1]
    offsets = sorted({offset for run in several for offset in run})
    found = {offset: fmean(run[offset] for run in several if offset in run) for offset in offsets}
    step = 360 / evaluation.cell.train_spec().parameters.get("rotations", ROTATIONS)
    return {**found, step: found[0.0]} if 0.0 in found else found


def _unseen(every: Sequence[Evaluation], shown: Sequence[Evaluation]) -> tuple[Cell, ...]:
    """List cells of which no evaluation is shown."""
    seen = {each.cell.name for each in shown}
    return tuple({each.cell.name: each.cell for each in every if each.cell.name not in seen}.values())


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


def draw_years(context: FigureContext) -> Drawing:
    """Draw published errors over the years, and the best model's as a line."""
    from matplotlib.ticker import MaxNLocator, NullFormatter, StrMethodFormatter

    cells = [cell for cell in context.results.in_table("beyond") if cell.experiment == "best"]
    best = next((mean for cell in cells if (mean := context.results.value(cell, ERROR).mean) is not None), None)
    if best is None or not context.suite.literature:
        raise context.nothing_measured(cells, "the best θ-RBM of the table beyond")
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
    return Drawing(figure)
