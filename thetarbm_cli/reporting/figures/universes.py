"""Figures of the multiverse of readings: specification curves, what moves a number, and clouds of error and γ."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from thetarbm_cli.followup import command_line
from thetarbm_cli.measures import ERROR, GAMMA_TEST, MEASURES
from thetarbm_cli.reporting.figures.context import Drawing, FigureContext, FigureMissing
from thetarbm_cli.reporting.figures.measured import heat_map
from thetarbm_cli.reporting.figures.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    PAGE,
    PAPERS,
    SMALL_TEXT,
    legend_below,
    look_of,
    new_figure,
)
from thetarbm_cli.reporting.multiverse import HIGHEST_ERROR, Analysis, explained, find_universes
from thetarbm_cli.universes import DEFAULT

# Choices below a specification curve: those that move the differences most.
CHOICES = 8


def analysis_of(context: FigureContext) -> Analysis:
    """Analyse the recorded universes of Tables 1 and 2, once for all figures."""
    if "universes" not in context.loaded:
        results = context.store.results
        found = find_universes(context.suite, results, context.results.recorded.trainings)
        if found is None:
            command = command_line("multiverse", "--universes", "48")
            raise FigureMissing(f"no universe is recorded in {results}; {command} makes it")
        context.loaded["universes"] = found
    analysis: Analysis = context.loaded["universes"]
    return analysis


def draw_errors(context: FigureContext) -> Drawing:
    """Draw the θ-RBM's test error minus each rival's over the sampled universes, with the choices that move it."""
    return _specification_curves(analysis_of(context), ERROR, "test error in points,\nθ-RBM minus rival", "below")


def draw_gammas(context: FigureContext) -> Drawing:
    """Draw the θ-RBM's γ minus each rival's over the sampled universes, with the choices that move it."""
    return _specification_curves(analysis_of(context), GAMMA_TEST, "γ on test images,\nθ-RBM minus rival", "above")


def _specification_curves(analysis: Analysis, column: str, name: str, wanted: str) -> Drawing:
    """Draw sorted differences, a panel for each rival, over a dashboard: below a universe, the options that it has.

    Universes are the sampled ones without a broken model; lines show where the default and the nearest one are.
    """
    lines = analysis.differences[analysis.differences["column"] == column]
    rivals = {str(label): own["model"].iloc[0] for label, own in lines.groupby("label", sort=False)}
    marks = {label: _means(own) for label, own in lines.groupby("label", sort=False)}
    lines = lines[lines["kind"] == "sampled"]
    curves = {str(label): _means(own) for label, own in lines.groupby("label", sort=False)}
    curves = {label: means for label, means in curves.items() if len(means)}
    if not curves:
        raise FigureMissing("no sampled universe has the θ-RBM and a rival, neither broken")
    nearest = analysis.nearest("all") or analysis.nearest("common")
    options = lines.drop_duplicates("universe").set_index("universe")[list(analysis.readings.choices)]
    rows = _dashboard_rows(analysis, curves, rivals, options)
    figure = new_figure(PAGE, 2.6 + 0.135 * len(rows))
    heights = [2.0, 0.135 * len(rows)]
    upper, lower = figure.subplots(2, len(curves), sharex="col", squeeze=False, height_ratios=heights)
    marked = {"as the suite reads it": (DEFAULT, "--", BLACK), "nearest to the paper": (nearest, ":", PAPERS)}
    for axes, dashboard, (label, values) in zip(upper, lower, curves.items(), strict=True):
        holds = values < 0 if wanted == "below" else values > 0
        ranks = np.arange(len(values))
        axes.axhline(0, color=GREY, linewidth=0.8)
        for side, colour, words in ((holds, BLUE, "θ-RBM better"), (~holds, ORANGE, "rival better")):
            axes.plot(ranks[side], values[side], ".", color=colour, markersize=4, label=words)
        for words, (universe, dashes, colour) in marked.items():
            if universe is not None and universe in marks[label].index:
                axes.axhline(marks[label][universe], linestyle=dashes, color=colour, linewidth=1, label=words)
        broken = analysis.broken_against(rivals[label])
        left_out = f"\n{broken} broken left out" if broken else "\n"
        axes.set_title(f"against {label}:\n{wanted} in {100 * holds.mean():.0f} % of {len(values)}{left_out}")
        for row, (choice, option) in enumerate(rows):
            has = (options.loc[values.index, choice] == option).to_numpy()
            for side, colour in ((has & holds, BLUE), (has & ~holds, ORANGE)):
                dashboard.plot(ranks[side], np.full(side.sum(), row), "|", color=colour, markersize=3.5, mew=0.6)
        dashboard.grid(False)
        dashboard.tick_params(axis="y", length=0)
        dashboard.set_xlabel("universes, sorted")
    starts = [row for row in range(1, len(rows)) if rows[row][0] != rows[row - 1][0]]
    for dashboard in lower:
        dashboard.set_yticks([])
        dashboard.set_ylim(len(rows) - 0.5, -0.5)
        for row in starts:
            dashboard.axhline(row - 0.5, color="#e5e5e5", linewidth=0.5)
    upper[0].set_ylabel(name)
    lower[0].set_yticks(range(len(rows)), [f"{choice}: {option}" for choice, option in rows])
    legend_below(figure, upper)
    return Drawing(figure)


def _means(lines: pd.DataFrame) -> pd.Series[float]:
    """Average each universe over the sparsity targets; one in which a run of some target diverged has no mean."""
    found = lines.groupby("universe")["difference"].agg(["mean", "count"])
    whole = found["count"] == lines["target"].nunique()
    return found.loc[whole, "mean"].sort_values(kind="stable")


def _dashboard_rows(
    analysis: Analysis, curves: dict[str, pd.Series[float]], rivals: dict[str, str], options: pd.DataFrame
) -> list[tuple[str, str]]:
    """List the options of the choices that explain most of a difference, in the order of the suite."""
    moved = {}
    for name, choice in analysis.readings.choices.items():
        shares = [
            explained(values, options.loc[values.index, name])
            for label, values in curves.items()
            if not choice.models or {"theta", rivals[label]} & set(choice.models)
        ]
        if shares and not np.isnan(shares).all():
            moved[name] = np.nanmax(shares)
    shown = sorted(moved, key=lambda name: -moved[name])[:CHOICES]
    return [
        (name, option)
        for name in shown
        for option in analysis.readings.choices[name].options
        if (options[name] == option).any()
    ]


def draw_influence(context: FigureContext) -> Drawing:
    """Draw the share of each number's variance that each choice explains, the mean over sparsity targets.

    A share is written if it is larger than what the largest one reaches by chance.
    """
    analysis = analysis_of(context)
    influence = analysis.influence
    if influence.empty:
        raise FigureMissing(
            f"too few universes are sampled; {command_line('multiverse', '--universes', '48')} adds some"
        )
    labels = influence.index.get_level_values("cell").map({cell.name: cell.label for cell in analysis.readings.base})
    shares = 100 * influence.groupby([labels, influence.index.get_level_values("column")], sort=False).mean()
    levels = shares.pop("level").to_numpy()
    shares = shares.loc[:, shares.max() > 0].T
    shares = shares.loc[shares.max(axis=1).sort_values(ascending=False, kind="stable").index]
    grid = shares.to_numpy(dtype=float)
    figure = new_figure(PAGE, 1.2 + 0.2 * len(shares))
    axes = figure.subplots()
    texts = [
        [f"{share:.0f}" if share > level else "" for share, level in zip(line, levels, strict=True)] for line in grid
    ]
    shades = heat_map(axes, grid, texts, 0.0, max(float(np.nanmax(grid)), 1.0))
    axes.set_yticks(range(len(shares)), shares.index)
    columns = [MEASURES[column].heading.removesuffix(" in %") for column in shares.columns.get_level_values(1)]
    axes.set_xticks(range(len(columns)), columns, rotation=40, ha="right")
    for label in dict.fromkeys(labels):
        places = np.flatnonzero(shares.columns.get_level_values(0) == label)
        axes.text(np.mean(places), -0.8, label, ha="center", va="bottom", fontsize=SMALL_TEXT)
        axes.axvline(places[0] - 0.5, color="white", linewidth=2)
    figure.colorbar(shades, ax=axes, label="variance explained in %", pad=0.02, aspect=30)
    return Drawing(figure)


def draw_clouds(context: FigureContext) -> Drawing:
    """Draw error and γ of the models in every universe, a panel for each sparsity target, with the paper's points.

    Errors that say that a model is broken are outside, and counted.
    """
    frame = analysis_of(context).frame
    keys = ["universe", "kind", "target", "model", "label"]
    wide = frame[frame["column"].isin([ERROR, GAMMA_TEST])].pivot_table(
        index=keys, columns="column", values=["value", "published"], dropna=False, sort=False
    )
    points = wide.dropna(subset=[("value", ERROR), ("value", GAMMA_TEST)]).reset_index()
    if points.empty:
        raise FigureMissing("no universe has both error and γ")
    targets = list(dict.fromkeys(points["target"]))
    outside = points[points["value", ERROR] > HIGHEST_ERROR].groupby("target").size()
    points = points[points["value", ERROR] <= HIGHEST_ERROR]
    lowest, highest = points["value", ERROR].min(), points["value", ERROR].max()
    ticks = [tick for tick in (1, 2, 5, 7, 10, 15, 20, 25) if lowest / 1.5 <= tick <= highest * 1.5]
    figure = new_figure(PAGE, 3.4)
    panels = figure.subplots(1, len(targets), sharex=True, sharey=True, squeeze=False)[0]
    for axes, target in zip(panels, targets, strict=True):
        beyond = f", {outside[target]} above {HIGHEST_ERROR:g} % not shown" if target in outside else ""
        axes.set_title(f"sparsity {target:g}{beyond}")
        axes.set_xlabel("test error in %")
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axes.set_xticks([], minor=True)
        for label, own in points[points["target"] == target].groupby("label", sort=False):
            look = look_of(own["model"].iloc[0])
            errors, gammas = own["value", ERROR], own["value", GAMMA_TEST]
            style: dict[str, Any] = {"color": look.colour, "markeredgewidth": 0}
            axes.plot(errors, gammas, look.marker, markersize=3.5, alpha=0.6, label=label, **style)
            default = own["kind"] == "default"
            taken = {"mfc": look.colour, "color": BLACK, "markersize": 6, "label": "as the suite reads it"}
            axes.plot(errors[default], gammas[default], look.marker, **taken)
            paper = own["published"].dropna()
            if len(paper):
                hollow = {"mfc": "none", "color": PAPERS, "markersize": 8, "markeredgewidth": 1.4}
                point = paper[ERROR].iloc[0], paper[GAMMA_TEST].iloc[0]
                axes.plot(*point, look.marker, label="the paper's", **hollow)
    panels[0].set_ylabel("γ-score on test images")
    legend_below(figure, panels, first=list(dict.fromkeys(points["label"])))
    return Drawing(figure)
