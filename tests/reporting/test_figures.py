"""What figures show is what the records, weights and images have: the data of the axes, not their pixels."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import matplotlib
import numpy as np
import pytest

from tests.records import save, training_for
from tests.reporting.figured import SEEDS, context_of, draw, error_of, gamma_of, units_of
from tests.reporting.numbers import SUITE
from tests.runs import PATIENCE_SECONDS, parts_of, run_of, store_of
from thetarbm_cli.data.sources.mnist import load_mnist
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import rotation_matrix
from thetarbm_cli.pipeline import fitted
from thetarbm_cli.reporting.figures import FIGURES, make
from thetarbm_cli.reporting.figures.context import FigureContext, FigureMissing, figure_context
from thetarbm_cli.reporting.figures.images import follows_rotations
from thetarbm_cli.reporting.figures.measured import _without_gap
from thetarbm_cli.store import Store
from thetarbm_cli.suite import Cell, load_suite

OF_NUMBERS = tuple(figure.name for figure in FIGURES if figure.needs == "records")
TARGETS = (0.3, 0.2, 0.1)
ROWS = ["RBM", "O-RBM, not aligned", "O-RBM, aligned", "TI-RBM", "θ-RBM"]
EXPERIMENTS = {"RBM": "rbm", "O-RBM": "orbm", "TI-RBM": "tirbm", "θ-RBM": "theta"}
SIDE, GAP = 28, 2


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> FigureContext:
    return context_of(tmp_path_factory.mktemp("made-up"))


@pytest.fixture(scope="module")
def learned(small_data: Path, trained: Path) -> FigureContext:
    return figure_context(SUITE, store_of(small_data, trained), "tiny")


def cell_of(context: FigureContext, name: str) -> Cell:
    return next(cell for cell in context.results.cells if cell.name == name)


def row_of(context: FigureContext, row: str, target: float) -> tuple[Cell, bool]:
    """The cell of a row of Table 1, and whether images are aligned."""
    model, _, evaluation = row.partition(", ")
    return cell_of(context, f"{EXPERIMENTS[model]}/sparsity={target:g}"), evaluation != "not aligned"


def labels_of(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels()]


def lines(axes: Any, label: str) -> list[tuple[list[float], list[float]]]:
    return [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines if line.get_label() == label]


def tile(axes: Any, row: int, column: int) -> np.ndarray:
    """One picture of a lattice, as a row of pixels."""
    top, left = row * (SIDE + GAP), column * (SIDE + GAP)
    return np.ma.getdata(axes.images[0].get_array())[top : top + SIDE, left : left + SIDE].ravel()


# All figures


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_text_is_readable_in_print_and_axes_have_names(context: FigureContext, name: str) -> None:
    figure = make(name, context).figure
    # A column or a page of a paper, in inches.
    assert figure.get_figwidth() in (3.5, 7.16)
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= 7
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert all(axes.get_ylabel() for axes in bars)
    assert any(axes.get_xlabel() for axes in figure.axes if axes not in bars)


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_same_records_give_the_same_bytes_whatever_a_user_set(
    context: FigureContext, form: str, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = draw("years", context, form)
    assert content.startswith(start)
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 20)
    assert draw("years", context, form) == content
    assert matplotlib.rcParams["font.size"] == 20


def test_another_process_gives_the_same_bytes_and_imports_matplotlib_only_to_draw(context: FigureContext) -> None:
    script = f"""
import sys
from pathlib import Path
from thetarbm_cli.reporting.figures import encode, make
from thetarbm_cli.reporting.figures.context import figure_context
from thetarbm_cli.store import Store
from thetarbm_cli.suite import load_suite, shipped_path
store = Store(Path({str(context.store.results)!r}), shipped=False)
context = figure_context(load_suite(shipped_path(), check_settings=False), store)
assert "matplotlib" not in sys.modules
sys.stdout.buffer.write(encode("gamma-offset", make("gamma-offset", context), "svg"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    assert done.stdout == draw("gamma-offset", context, "svg")


def test_cells_without_numbers_are_left_out_and_named(tmp_path: Path) -> None:
    absent = ["rbm/sparsity=0.3", "perturbation/n=4,p=0.4"]
    context = context_of(tmp_path, without=lambda cell: cell.name in absent, seeds=1)
    first, third, units = (make(name, context) for name in ("table-1", "table-3", "gamma-units"))
    assert [cell.name for drawing in (first, third, units) for cell in drawing.cells] == [*absent, absent[0]]
    assert len(first.figure.axes[0].containers) == 4
    assert third.figure.axes[0].texts[-1].get_text() == "—"
    assert len(units.figure.axes) == 4


@pytest.mark.parametrize(
    ("name", "experiments"),
    [
        *((name, ".*") for name in OF_NUMBERS),
        ("table-3", "perturbation"),
        ("gamma-offset", "offset-rbm offset-orbm offset-tirbm offset-theta"),
    ],
)
def test_without_records_the_reason_names_the_command(tmp_path: Path, name: str, experiments: str) -> None:
    empty = figure_context(SUITE, Store(tmp_path, shipped=False))
    with pytest.raises(FigureMissing, match=f"^no run with .* in .*; thetarbm run {experiments} makes it$"):
        draw(name, empty)


def test_a_suite_without_the_experiments(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "format: 2\ntitle: t\nprofiles: {paper: {}}\nexperiments:\n"
        "  - {name: x, label: '$\\alpha <b> \\', model: rbm, grid: {sparsity: [0.3]}, tables: ['1']}\n"
    )
    suite = load_suite(path)
    save(tmp_path, training_for(suite.cells()[0], test_error_percent=5.0))
    context = figure_context(suite, Store(tmp_path, shipped=False))
    for name in ("table-3", "filters-theta", "orientations", "gamma-offset", "years"):
        with pytest.raises(FigureMissing, match="the suite has no experiment with "):
            draw(name, context)
    assert draw("table-1", context)


def test_one_source_is_shown_and_the_others_are_known(tmp_path: Path) -> None:
    store = Store(tmp_path, tmp_path, shipped=False)
    save(tmp_path, training_for(SUITE.cells("paper", "official")[0], test_error_percent=5.0))
    assert figure_context(SUITE, store).results.source.name == "official"
    save(tmp_path, training_for(SUITE.cells()[0], test_error_percent=5.0))
    usual, official, own = (figure_context(SUITE, store, "paper", each) for each in (None, "official", "own.npz"))
    assert [each.results.source.name for each in (usual, official, own)] == ["generated", "official", "own.npz"]
    assert [each.suffix for each in (usual, official, own)] == ["", "-official", "-own"]
    assert [[other.name for other in each.others] for each in (usual, official)] == [["official"], ["generated"]]
    with pytest.raises(FigureMissing, match=r"thetarbm run .* --source own\.npz makes it"):
        draw("table-1", own)
    with pytest.raises(FigureMissing, match=r"official.* thetarbm prepare-data --source official makes it"):
        draw("orientations", official)


def test_of_two_contents_the_one_with_more_trainings_is_shown(tmp_path: Path) -> None:
    first, second = SUITE.cells()[:2]
    save(tmp_path, training_for(first, images="c" * 64, test_error_percent=50.0))
    save(tmp_path, *(training_for(cell, images="a" * 64, test_error_percent=5.0) for cell in (first, second)))
    context = figure_context(SUITE, Store(tmp_path, shipped=False))
    assert context.results.source.sha256 == "a" * 64
    assert [other.sha256 for other in context.others] == ["c" * 64]


# Figures of numbers


def test_table_1_has_means_deviations_published_values_and_controls(context: FigureContext) -> None:
    figure = make("table-1", context).figure
    assert len(figure.axes) == len(TARGETS)
    assert labels_of(figure.axes[0].yaxis) == ROWS
    for axes, target in zip(figure.axes, TARGETS, strict=True):
        assert axes.get_title() == f"sparsity {target:g}"
        assert axes.get_xlabel() == "test error in %"
        ours, papers = [each for each in axes.containers if each.get_label() == "ours"], lines(axes, "the paper's")
        for position, row in enumerate(ROWS):
            cell, aligned = row_of(context, row, target)
            errors = [error_of(cell, seed, aligned=aligned) for seed in range(SEEDS)]
            (x,), (y,) = ours[position][0].get_data()
            (low, _), (high, _) = ours[position][2][0].get_segments()[0]
            assert (x, (high - low) / 2) == pytest.approx((fmean(errors), stdev(errors)))
            assert papers[position][0] == [cell.published["test_error_percent"]]
            assert round(y) == round(papers[position][1][0]) == position
    controls = [cell for cell in context.results.in_table("1") if "sparsity" not in cell.at]
    assert len(controls) == 3
    for cell in controls:
        mean = context.results.value(cell, "test_error_percent").mean
        assert lines(figure.axes[0], f"{cell.label}, {mean:.2f} %")[0][0] == [mean] * 2


def test_one_seed_is_a_hollow_mark_without_a_bar(tmp_path: Path) -> None:
    axes = make("table-1", context_of(tmp_path, seeds=1)).figure.axes[0]
    marks = [each for each in axes.containers if each.get_label() == "ours, one seed"]
    assert len(marks) == len(ROWS)
    assert all(not each[2] and each[0].get_markerfacecolor() == "white" for each in marks)


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


def test_gamma_units_are_histograms_of_live_units(context: FigureContext) -> None:
    figure = make("gamma-units", context).figure
    assert [axes.get_title(loc="left").rsplit(", ", 1)[0] for axes in figure.axes] == ROWS
    for axes, row in zip(figure.axes, ROWS, strict=True):
        cell, aligned = row_of(context, row, 0.3)
        means = [gamma_of(cell, seed, aligned=aligned) for seed in range(SEEDS)]
        units = [unit for mean in means for unit in units_of(mean) if unit is not None]
        shares, edges, _ = axes.patches[0].get_data()
        counts = [sum(low <= unit < high for unit in units) for low, high in itertools.pairwise(edges)]
        assert shares.tolist() == pytest.approx([100 * count / len(units) for count in counts])
        assert sum(shares) == pytest.approx(100)
        assert axes.get_title(loc="left").endswith(f"mean {fmean(means):.3f}")


def test_gamma_against_the_offset_is_of_one_training_and_closes_at_a_step_of_the_rotations(
    context: FigureContext,
) -> None:
    panels = make("gamma-offset", context).figure.axes
    assert all([line.get_label() for line in each.lines] == ROWS for each in panels)
    for row in ROWS:
        model, _, evaluation = row.partition(", ")
        cell = cell_of(context, f"offset-{EXPERIMENTS[model]}")
        ((offsets, values),) = lines(panels[0], row)
        assert offsets == [*cell.offsets, 40]
        # Seeds 1 and 2 have γ at 20° alone.
        expected = [gamma_of(cell, 0, each, "train", aligned=evaluation != "not aligned") for each in cell.offsets]
        assert values == pytest.approx([*expected, expected[0]])


def test_a_scale_is_broken_where_most_of_it_is_empty() -> None:
    assert len(_without_gap(np.array([0.1, 0.3, 0.5, 0.6]))) == 1
    assert len(_without_gap(np.array([0.5]))) == len(_without_gap(np.array([0.5, 0.5]))) == 1
    values = np.array([0.16, 0.95, 0.18, np.nan, 0.8])
    low, high = _without_gap(values)
    assert low[0] < 0.16 < 0.18 < low[1] < high[0] < 0.8 < 0.95 < high[1]


def test_years_show_published_errors_and_the_best_of_ours(context: FigureContext) -> None:
    (axes,) = make("years", context).figure.axes
    best = context.results.value(cell_of(context, "best"), "test_error_percent")
    shown = {line.get_label(): line for line in axes.lines}
    assert set(shown["ours"].get_ydata()) == {best.mean}
    for family in ("RBM", "CNN", "SVM"):
        published = [(each.year, each.test_error_percent) for each in context.suite.literature if each.family == family]
        assert list(zip(*shown[family].get_data(), strict=True)) == published
    named = " ".join(text.get_text() for text in axes.texts)
    assert all(each.label in named for each in context.suite.literature)


# Figures of weights and images


def theta_of(context: FigureContext) -> Any:
    training = context.store.load(run_of(context.store.results, "theta"))
    assert training is not None
    return fitted(context.store, training)[0]


def test_theta_filters_are_the_slices_of_the_chosen_units(learned: FigureContext) -> None:
    drawing = make("filters-theta", figure_context(SUITE, learned.store, "tiny", units=(7, 3)))
    axes, matrix = drawing.figure.axes[0], theta_of(learned).weights_
    assert drawing.recorded
    assert labels_of(axes.yaxis) == ["unit 7", "unit 3"]
    assert labels_of(axes.xaxis)[:3] == ["φ = 0°", "φ = 40°", "φ = 80°"]
    for row, unit in enumerate((7, 3)):
        slices = [rotation_matrix(SIDE, 40 * s) @ matrix[unit] for s in range(9)]
        for column, expected in enumerate(slices / np.abs(slices).max()):
            np.testing.assert_allclose(tile(axes, row, column), expected, atol=1e-6)


def test_active_units_that_differ_most_are_chosen(learned: FigureContext, small_data: Path) -> None:
    axes = make("filters-theta", learned).figure.axes[0]
    theta = theta_of(learned)
    activity = theta.transform(parts_of(small_data)["train"][0]).mean(axis=0)
    ranked = sorted(range(len(activity)), key=lambda unit: -activity[unit])
    chosen = [int(label.removeprefix("unit ")) for label in labels_of(axes.yaxis)]
    assert chosen[0] == ranked[0]
    active = ranked[: max(8, len(ranked) // 3)]
    assert set(chosen) <= set(active)
    half = [
        np.abs(np.fft.fft2(theta.weights_[unit].reshape(SIDE, SIDE)))[:, : SIDE // 2 + 1].ravel() for unit in active
    ]
    spectra = {unit: each / np.linalg.norm(each) for unit, each in zip(active, half, strict=True)}
    for number in range(1, len(chosen)):
        apart = {unit: min(np.linalg.norm(spectra[unit] - spectra[old]) for old in chosen[:number]) for unit in active}
        assert apart[chosen[number]] == pytest.approx(max(apart.values()), rel=1e-4)


def test_missing_weights_and_other_images_are_told_with_what_helps(learned: FigureContext, data_dir: Path) -> None:
    other = figure_context(SUITE, store_of(data_dir, learned.store.results), "tiny")
    with pytest.raises(FigureMissing, match="prepare the same data or train again"):
        draw("filters-theta", other)
    run = run_of(learned.store.results, "theta")
    weights = learned.store.path(run, "weights.npz")
    moved = weights.rename(weights.with_name("moved"))
    try:
        with pytest.raises(FigureMissing, match=f"the weights of {run} .*: thetarbm train --model theta "):
            draw("filters-theta", learned)
    finally:
        moved.rename(weights)


def test_arrows_point_where_the_estimator_says(learned: FigureContext, small_data: Path) -> None:
    (axes,) = make("orientations", learned).figure.axes
    images, labels = parts_of(small_data)["test"]
    arrows = iter(axes.texts)
    for row in range(6):
        image = images[list(labels).index(row)]
        for column in range(9):
            rotated = rotation_matrix(SIDE, 40 * column) @ image
            np.testing.assert_allclose(tile(axes, row, column), rotated, atol=1e-6)
            (orientation,) = OrientationEstimator()(rotated[None])
            arrow = next(arrows)
            right, down = np.subtract(arrow.xy, arrow.xyann)
            assert np.degrees(np.arctan2(-down, right)) % 360 == pytest.approx(40 * orientation, abs=1e-6)
    assert next(arrows, None) is None


def test_an_estimate_follows_rotations_if_it_agrees_with_most_of_its_row() -> None:
    found = np.array([[0, 1, 2, 3], [3, 0, 1, 2], [1, 1, 2, 3], [0, 3, 2, 3]])
    expected = [[True] * 4, [True] * 4, [False, True, True, True], [True, False, True, True]]
    assert follows_rotations(found).tolist() == expected


def test_the_making_of_the_data_needs_nothing_but_the_package(context: FigureContext) -> None:
    (axes,) = make("making", context).figure.axes
    assert labels_of(axes.yaxis) == ["MNIST", "as official", "bilinear"]
    source, official, bilinear = (tile(axes, row, 0) * 255 for row in range(3))
    np.testing.assert_array_equal(np.rint(source), load_mnist()[0][26641].ravel())
    # The sum of squares of row 0 of the official test images; bilinear interpolation smooths.
    assert np.square(official).sum() == pytest.approx(4145066, rel=0.002)
    assert np.square(bilinear).sum() < 0.95 * 4145066
