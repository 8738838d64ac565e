"""What figures of numbers show is what the records have: the data of the axes, not their pixels."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest

from tests.experiments.suites import metrics_of
from tests.reporting.figured import (
    SEEDS,
    UNITS,
    context_of,
    error_of,
    gamma_of,
    history_of,
    offset_gamma,
)
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.reporting.figures import make
from thetarbm_cli.reporting.figures.context import FigureContext, FigureMissing
from thetarbm_cli.reporting.figures.measured import _without_gap

TARGETS = (0.3, 0.2, 0.1)
ROWS = ["RBM", "O-RBM, not aligned", "O-RBM, aligned", "TI-RBM", "θ-RBM"]
EXPERIMENTS = {"RBM": "rbm", "O-RBM": "orbm", "TI-RBM": "tirbm", "θ-RBM": "theta"}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> FigureContext:
    return context_of(tmp_path_factory.mktemp("made-up"))


def cell_of(context: FigureContext, name: str) -> Cell:
    return next(cell for cell in context.numbers.cells if cell.name == name)


def labels_of(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def bars(axes: Any, label: str) -> list[tuple[float, float, float]]:
    """(x, y, half width) of the marks under a label; one seed has no error bar."""
    found = []
    for container in axes.containers:
        if container.get_label() in (label, f"{label}, one seed"):
            (x,), (y,) = container[0].get_data()
            assert bool(container[2]) == (container.get_label() == label)
            segment = container[2][0].get_segments()[0] if container[2] else np.zeros((2, 2))
            found.append((x, y, (segment[1][0] - segment[0][0]) / 2))
    return found


def lines(axes: Any, label: str) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_label() == label]


def numbers_of(context: FigureContext, row: str, target: float) -> tuple[Cell, list[float]]:
    """The cell of a row of Table 1 and its errors over the seeds."""
    model, _, evaluation = row.partition(", ")
    cell = cell_of(context, f"{EXPERIMENTS[model]}/sparsity={target:g}")
    return cell, [error_of(cell, seed) + 5 * (evaluation == "not aligned") for seed in range(SEEDS)]


def test_table_1_has_means_deviations_and_published_values(context: FigureContext) -> None:
    figure = make("table-1", context).figure
    assert len(figure.axes) == len(TARGETS)
    assert labels_of(figure.axes[0].yaxis) == ROWS
    for axes, target in zip(figure.axes, TARGETS, strict=True):
        assert axes.get_title() == f"sparsity {target:g}"
        assert axes.get_xlabel() == "test error in %"
        ours, papers = bars(axes, "ours"), lines(axes, "the paper's")
        for position, row in enumerate(ROWS):
            cell, errors = numbers_of(context, row, target)
            x, y, half = ours[position]
            assert (x, half) == pytest.approx((fmean(errors), stdev(errors)))
            assert round(y) == position
            assert papers[position][0] == [cell.published["test_error_percent"]]
            assert round(papers[position][1][0]) == position
    for cell in (cell for cell in context.numbers.in_table("1") if "sparsity" not in cell.at):
        assert lines(figure.axes[0], f"{cell.label}, {error_of(cell, 0):.2f} %")[0][0] == [error_of(cell, 0)] * 2


def test_table_2_has_train_and_test(context: FigureContext) -> None:
    figure = make("table-2", context).figure
    for axes, target in zip(figure.axes, TARGETS, strict=True):
        for part in ("train", "test"):
            ours, papers = bars(axes, f"ours, {part}"), lines(axes, f"the paper's, {part}")
            for position, row in enumerate(ROWS):
                cell, _ = numbers_of(context, row, target)
                aligned = not row.endswith("not aligned")
                gammas = [gamma_of(cell, seed, aligned=aligned) - 0.05 * (part == "train") for seed in range(SEEDS)]
                assert (ours[position][0], ours[position][2]) == pytest.approx((fmean(gammas), stdev(gammas)))
                assert papers[position][0] == [cell.published[f"gamma_{part}"]]


def test_a_scale_is_broken_where_most_of_it_is_empty() -> None:
    assert len(_without_gap(np.array([0.1, 0.3, 0.5, 0.6]))) == 1
    assert len(_without_gap(np.array([0.5]))) == len(_without_gap(np.array([0.5, 0.5]))) == 1
    values = np.array([0.16, 0.95, 0.18, np.nan, 0.8])
    low, high = _without_gap(values)
    assert low[0] < 0.16 < 0.18 < low[1] < high[0] < 0.8 < 0.95 < high[1]


def test_table_3_is_two_maps_on_one_scale_with_values_and_stars(context: FigureContext) -> None:
    ours, papers = make("table-3", context).figure.axes[:2]
    grid = list(itertools.product((1, 2, 3, 4), (0.1, 0.2, 0.3, 0.4)))
    cells = [cell_of(context, f"perturbation/n={n},p={p:g}") for n, p in grid]
    errors = np.array([fmean(error_of(cell, seed) for seed in range(SEEDS)) for cell in cells])
    published = np.array([cell.published["test_error_percent"] for cell in cells])
    np.testing.assert_allclose(ours.images[0].get_array().ravel(), errors)
    np.testing.assert_allclose(papers.images[0].get_array().ravel(), published)
    assert ours.images[0].get_clim() == papers.images[0].get_clim()
    unperturbed = fmean(error_of(cell_of(context, "theta/sparsity=0.3"), seed) for seed in range(SEEDS))
    assert [text.get_text() for text in ours.texts] == [
        f"{error:.2f}{'*' if error > unperturbed else ''}" for error in errors
    ]
    assert [text.get_text() for text in papers.texts] == [
        f"{error:.1f}{'*' if error > 10.31 else ''}" for error in published
    ]


def test_confusion_matrices_are_shares_of_the_true_class(context: FigureContext) -> None:
    figure = make("confusion", context).figure
    panels = [axes for axes in figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ROWS
    assert len({axes.images[0].get_clim() for axes in panels}) == 1
    for axes, row in zip(panels, ROWS, strict=True):
        model, _, evaluation = row.partition(", ")
        records = context.numbers.records[f"{EXPERIMENTS[model]}/sparsity=0.3"]
        metrics = [metrics_of(record) for record in records]
        if evaluation == "not aligned":
            metrics = [each["unaligned"] for each in metrics]
        total = sum(np.array(each["svm"]["confusion"]) for each in metrics)
        shares = np.array([[100 * count / sum(line) for count in line] for line in total.tolist()])
        shown = axes.images[0].get_array()
        off = ~np.eye(10, dtype=bool)
        np.testing.assert_allclose(np.ma.getdata(shown)[off], shares[off])
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        expected = {(column, row): f"{share:.0f}" for (row, column), share in np.ndenumerate(shares) if share >= 0.5}
        assert texts == expected


def test_learning_curves_are_means_over_seeds_with_a_band(context: FigureContext) -> None:
    figure = make("learning-curves", context).figure
    panels = np.array(figure.axes).reshape(2, len(TARGETS))
    for (row, measure), column in itertools.product(enumerate(("reconstruction_error", "mean_activation")), range(3)):
        axes = panels[row, column]
        for label, experiment in EXPERIMENTS.items():
            cell = cell_of(context, f"{experiment}/sparsity={TARGETS[column]:g}")
            histories = [[epoch[measure] for epoch in history_of(cell, seed)] for seed in range(SEEDS)]
            ((epochs, values),) = lines(axes, label)
            assert epochs == [epoch["epoch"] for epoch in history_of(cell, 0)]
            means = np.mean(histories, axis=0)
            assert values == pytest.approx(means)
            band = next(each for each in axes.collections if each.get_gid() == f"band-{experiment}")
            heights, reach = band.get_paths()[0].vertices[:, 1], 10 * np.std(histories, axis=0, ddof=1)
            assert (heights.min(), heights.max()) == pytest.approx(((means - reach).min(), (means + reach).max()))
    assert lines(panels[1, 1], "sparsity target")[0][1] == [0.2, 0.2]


def test_gamma_units_are_histograms_of_live_units(context: FigureContext) -> None:
    figure = make("gamma-units", context).figure
    assert [axes.get_title(loc="left").rsplit(", ", 1)[0] for axes in figure.axes] == ROWS
    for axes, row in zip(figure.axes, ROWS, strict=True):
        cell, _ = numbers_of(context, row, 0.3)
        means = [gamma_of(cell, seed, aligned=not row.endswith("not aligned")) for seed in range(SEEDS)]
        units = [mean + 0.002 * (unit - (UNITS - 1) / 2) for mean in means for unit in range(UNITS)]
        shares, edges, _ = axes.patches[0].get_data()
        counts = [sum(low <= unit < high for unit in units) for low, high in itertools.pairwise(edges)]
        assert shares.tolist() == pytest.approx([100 * count / len(units) for count in counts])
        assert sum(shares) == pytest.approx(100)
        assert axes.get_title(loc="left").endswith(f"mean {fmean(means):.3f}")


def test_gamma_against_the_offset_closes_at_a_step_of_the_support_set(context: FigureContext) -> None:
    panels = make("gamma-offset", context).figure.axes
    axes = panels[0]
    assert all([line.get_label() for line in each.lines] == ROWS for each in panels)
    for row in ROWS:
        model, _, evaluation = row.partition(", ")
        cell = cell_of(context, f"offset-{EXPERIMENTS[model]}")
        aligned = evaluation != "not aligned"
        ((offsets, values),) = lines(axes, row)
        assert offsets == [*cell.offsets, 40]
        expected = [offset_gamma(cell, 0, offset, aligned=aligned) for offset in cell.offsets]
        assert values == pytest.approx([*expected, expected[0]])


def test_years_show_published_errors_and_the_best_of_ours(context: FigureContext) -> None:
    (axes,) = make("years", context).figure.axes
    best = context.numbers.value(cell_of(context, "best"), "test_error_percent")
    shown = {line.get_label(): line for line in axes.lines}
    assert set(shown["ours"].get_ydata()) == {best.mean}
    for family in ("RBM", "CNN", "SVM"):
        published = [(each.year, each.test_error_percent) for each in context.suite.literature if each.family == family]
        assert list(zip(*shown[family].get_data(), strict=True)) == published
    named = " ".join(text.get_text() for text in axes.texts)
    assert all(each.label in named for each in context.suite.literature)


def test_floor_shows_error_and_gamma_of_every_value(context: FigureContext) -> None:
    errors, gammas = make("floor", context).figure.axes
    floors = [cell for cell in context.numbers.cells if cell.experiment == "ablation-floor"]
    assert labels_of(gammas.xaxis) == [f"{cell.at['floor']:g}" for cell in floors]
    recorded = [context.numbers.value(cell, "test_error_percent") for cell in floors]
    assert [y for _, y, _ in bars(errors, "ours, test")] == pytest.approx([value.mean for value in recorded])
    endings = ["" if len(value.values) > 1 else ", one seed" for value in recorded]
    assert set(endings) == {"", ", one seed"}
    for label in ("ours, test", "ours, train"):
        shown = [each.get_label() for each in gammas.containers if each.get_label().startswith(label)]
        assert shown == [f"{label}{ending}" for ending in endings]
    (paper,) = lines(gammas, "the paper's, test")
    assert paper[1] == [0.9062, 0.9062]


def test_estimators_are_rows_and_the_reading_taken_is_marked(context: FigureContext) -> None:
    errors, gammas = make("orientation-estimators", context).figure.axes
    cells = [cell for cell in context.numbers.cells if cell.experiment == "ablation-orientation"]
    names = labels_of(errors.yaxis)
    assert [name.removesuffix(" (taken)") for name in names] == [", ".join(cell.at.values()) for cell in cells]
    assert [name for name in names if name.endswith("(taken)")] == ["gaussian, shared (taken)"]
    for axes, column in ((errors, "test_error_percent"), (gammas, "gamma_test")):
        shown = [x for x, _, _ in bars(axes, "ours, test")]
        assert shown == pytest.approx([context.numbers.value(cell, column).mean for cell in cells])


def test_a_table_without_sparsity_targets_has_no_panels_and_says_so(context: FigureContext) -> None:
    cells = [cell for cell in context.numbers.cells if "sparsity" not in cell.at]
    with pytest.raises(FigureMissing, match="sparsity"):
        make("table-1", replace(context, numbers=replace(context.numbers, cells=cells)))
