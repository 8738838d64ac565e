"""Figures and the section of the report on universes show what the analysis of made-up records says."""

from __future__ import annotations

from copy import copy
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.runs import call
from tests.experiments.suites import write_suite
from tests.reporting.pages import few_figures, page_of, read
from tests.reporting.test_multiverse import SUITE, records_of, usual
from thetarbm_cli.experiments.multiverse import Readings, multiverse_store
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.reporting.figures import make
from thetarbm_cli.reporting.figures.context import FigureContext, FigureMissing, figure_context
from thetarbm_cli.reporting.html.content import gather
from thetarbm_cli.reporting.multiverse import Analysis, find_universes

RIVALS = ["rbm", "orbm", "tirbm"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with the runs of universes, and their suite."""
    folder = tmp_path_factory.mktemp("universes")
    readings = Readings(load_suite(write_suite(folder, SUITE)))
    store = multiverse_store(folder)
    for record in records_of(readings, usual):
        store.save(record)
    return folder


@pytest.fixture(scope="module")
def context(folder: Path) -> FigureContext:
    suite = load_suite(folder / "suite.yaml")
    return figure_context(suite, RunContext(folder, RunStore(folder), "numpy"))


@pytest.fixture(scope="module")
def analysis(folder: Path) -> Analysis:
    found = find_universes(load_suite(folder / "suite.yaml"), folder)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "column", "sign"), [("error", "test_error_percent", -1), ("gamma", "gamma_test", 1)])
def test_a_specification_curve_is_sorted_and_its_dashboard_has_the_options(
    context: FigureContext, analysis: Analysis, name: str, column: str, sign: int
) -> None:
    axes = make(f"universes-{name}", context).figure.axes
    upper, lower = axes[: len(RIVALS)], axes[len(RIVALS) :]
    lines = analysis.differences[analysis.differences["column"] == column]
    for curve, dashboard, rival in zip(upper, lower, RIVALS, strict=True):
        means = lines[lines["model"] == rival].groupby("universe")["difference"].mean()
        shown = {line.get_label(): line for line in curve.lines}
        better, worse = shown["θ-RBM better"], shown["rival better"]
        values = dict(zip([*better.get_xdata(), *worse.get_xdata()], [*better.get_ydata(), *worse.get_ydata()],
                          strict=True))  # fmt: skip
        assert [values[rank] for rank in range(len(means))] == pytest.approx(sorted(means))
        assert (sign * np.array(better.get_ydata()) > 0).all()
        assert list(shown["as the suite reads it"].get_ydata()) == [means["default"]]
        assert f"{100 * (sign * means > 0).mean():.0f} % of {len(means)}" in curve.get_title()
        # A choice of two options: each universe has one of them, so that its strokes are as many as the universes.
        rows = [text.get_text() for text in lower[0].get_yticklabels()]
        strokes = [line for line in dashboard.lines if line.get_marker() == "|"]
        for choice in ("batch", "floor"):
            wanted = {row for row, text in enumerate(rows) if text.startswith(f"{choice}: ")}
            assert sum(len(line.get_xdata()) for line in strokes if set(line.get_ydata()) & wanted) == len(means)


def test_influence_is_a_heat_map_of_the_mean_over_targets(context: FigureContext, analysis: Analysis) -> None:
    axes = make("universes-influence", context).figure.axes[0]
    choices = [text.get_text() for text in axes.get_yticklabels()]
    grid = np.ma.getdata(axes.images[0].get_array())
    own = analysis.influence.loc[
        [("theta/sparsity=0.3", "test_error_percent"), ("theta/sparsity=0.1", "test_error_percent")]
    ]
    models = [text.get_text() for text in axes.texts if text.get_text() in (*RIVALS, "theta")]
    column = 3 * models.index("theta")
    assert grid[choices.index("floor"), column] == pytest.approx(100 * own["floor"].mean())
    assert grid[choices.index("floor")].max() == grid.max(where=~np.isnan(grid), initial=0)


def test_clouds_have_a_mark_for_each_universe_and_the_papers(context: FigureContext, analysis: Analysis) -> None:
    panels = make("universes-clouds", context).figure.axes
    assert [axes.get_title() for axes in panels] == ["sparsity 0.3", "sparsity 0.1"]
    for axes in panels:
        clouds = {line.get_label(): line for line in axes.lines}
        for model in (*RIVALS, "theta"):
            assert len(clouds[model].get_xdata()) == len(analysis.recorded)
        papers = [line for line in axes.lines if line.get_label() == "the paper's"]
        assert [(line.get_xdata()[0], line.get_ydata()[0]) for line in papers] == [(12.0, 0.5)] * 4


def test_files_are_named_by_no_size_and_no_source(folder: Path, tmp_path: Path) -> None:
    wanted = ["figures", "universes-clouds", "--profile", "survey", "--suite", str(folder / "suite.yaml")]
    assert call(tmp_path, folder, *wanted, "--out", str(tmp_path / "out")).code == 0
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["universes-clouds.png"]


def test_without_universes_the_command_is_named(tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path, SUITE))
    empty = figure_context(suite, RunContext(tmp_path, RunStore(tmp_path), "numpy"))
    with pytest.raises(FigureMissing, match="thetarbm multiverse --universes"):
        make("universes-error", empty)


def test_the_report_has_the_share_of_each_claim_and_every_universe(folder: Path, analysis: Analysis) -> None:
    with few_figures():
        page = read(page_of(gather(folder, folder / "suite.yaml", "paper"), folder))
    shares = {each.claim: each for each in analysis.claims()}
    rows = page.one("table", id="readings-claims").one("tbody").all("tr")
    assert [float(row.all("td")[0].attributes["data-value"]) for row in rows] == [
        each.share for each in shares.values()
    ]
    listed = page.one("table", id="readings-universes").one("tbody").all("tr")
    assert [row.one("button").text for row in listed] == [each.universe.name for each in analysis.recorded]
    for row, each in zip(listed, analysis.recorded, strict=True):
        assert row.attributes["data-options"].split() == [f"{k}={v}" for k, v in each.universe.options.items()]
    first = page.one("section", id="verdicts").all("summary")[0]
    assert f"{100 * shares['lowest-error'].share:.0f} % of {shares['lowest-error'].of} universes" in first.words


def test_a_universe_that_lacks_a_target_is_in_no_mean(context: FigureContext, analysis: Analysis) -> None:
    lines = analysis.differences
    assert lines["target"].nunique() > 1
    lost = lines[lines["model"] == "tirbm"].iloc[0]
    known = lines[~((lines["universe"] == lost["universe"]) & (lines["target"] == lost["target"]))]
    fewer = copy(analysis)
    vars(fewer)["differences"] = known
    others = {**vars(context), "loaded": {"universes": fewer}}
    titles = [
        [axes.get_title() for axes in make("universes-error", each).figure.axes]
        for each in (context, FigureContext(**others))
    ]
    before, after = ([int(title.split()[-1]) for title in own if title] for own in titles)
    assert after == [count - 1 for count in before]
