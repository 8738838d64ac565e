"""Figures of models and images, on runs of the tiny profile."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import context_of, parts_of, run_of
from tests.reporting.figured import draw
from tests.reporting.numbers import SUITE
from thetarbm_cli.data.sources.mnist import load_mnist
from thetarbm_cli.experiments.runs.loading import load_model
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import rotation_matrix
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.reporting.figures import learned, make
from thetarbm_cli.reporting.figures.context import FigureContext, FigureMissing, figure_context, missing_lines
from thetarbm_cli.reporting.figures.images import follows_rotations

SIDE, GAP = 28, 2
MODELS = ("rbm", "orbm", "tirbm", "theta")


@pytest.fixture(scope="module")
def context(small_data: Path, trained: Path) -> FigureContext:
    return figure_context(SUITE, context_of(small_data, trained), "tiny")


def with_units(context: FigureContext, *units: int) -> FigureContext:
    return figure_context(SUITE, context.run_context, "tiny", units=units)


def model(context: FigureContext, name: str) -> RBM:
    record = context.run_context.store.load(run_of(context.run_context.store.folder.parent, name))
    assert record is not None
    return load_model(context.run_context, record)


def tile(sheet: np.ndarray, row: int, column: int) -> np.ndarray:
    """One picture of a lattice, as a row of pixels."""
    top, left = row * (SIDE + GAP), column * (SIDE + GAP)
    return np.ma.getdata(sheet)[top : top + SIDE, left : left + SIDE].ravel()


def assert_tiles(axes: Any, row: int, expected: Iterable[np.ndarray], atol: float = 1e-6) -> None:
    for column, picture in enumerate(expected):
        np.testing.assert_allclose(tile(axes.images[0].get_array(), row, column), picture, atol=atol)


def test_theta_filters_are_the_slices_of_the_chosen_units(context: FigureContext) -> None:
    axes = make("filters-theta", with_units(context, 7, 3)).figure.axes[0]
    matrix = model(context, "theta").weights_
    assert [label.get_text() for label in axes.get_yticklabels()] == ["unit 7", "unit 3"]
    assert [label.get_text() for label in axes.get_xticklabels()][:3] == ["φ = 0°", "φ = 40°", "φ = 80°"]
    for row, unit in enumerate((7, 3)):
        slices = [rotation_matrix(SIDE, 40 * s) @ matrix[unit] for s in range(9)]
        assert_tiles(axes, row, slices / np.abs(slices).max())


def test_active_units_that_differ_most_are_chosen(context: FigureContext, small_data: Path) -> None:
    axes = make("filters-theta", context).figure.axes[0]
    theta = model(context, "theta")
    activity = theta.transform(parts_of(small_data)["train"][0]).mean(axis=0)
    ranked = sorted(range(len(activity)), key=lambda unit: -activity[unit])
    chosen = [int(label.get_text().removeprefix("unit ")) for label in axes.get_yticklabels()]
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


def test_filters_show_each_model_on_the_scale_of_each_filter(context: FigureContext) -> None:
    figure = make("filters", with_units(context, 5, 0, 11)).figure
    assert [axes.get_title() for axes in figure.axes[:4]] == ["RBM", "O-RBM", "TI-RBM", "θ-RBM"]
    for axes, name in zip(figure.axes, MODELS, strict=False):
        weights = model(context, name).weights_
        assert_tiles(axes, 0, [weights[unit] / np.abs(weights[unit]).max() for unit in (5, 0, 11)])


def test_reconstructions_are_those_of_the_models(context: FigureContext, small_data: Path) -> None:
    (axes,) = make("reconstructions", context).figure.axes
    images, labels = parts_of(small_data)["test"]
    shown = np.stack([images[list(labels).index(label)] for label in range(10)])
    names = ["test image", "RBM", "O-RBM, aligned", "TI-RBM", "θ-RBM"]
    assert [label.get_text() for label in axes.get_yticklabels()] == names
    for row, pictures in enumerate([shown, *(model(context, name).reconstruct(shown) for name in MODELS)]):
        assert_tiles(axes, row, pictures, atol=1e-5)


def test_samples_are_states_of_chains(context: FigureContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned, "STEPS", (10, 30))  # instead of a thousand
    (axes,) = make("samples", context).figure.axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert [name.split()[-2:] for name in names] == [["10", "steps"], ["30", "steps"]] * len(MODELS)
    for row, name in enumerate(MODELS):
        assert_tiles(axes, 2 * row, model(context, name).sample(10, gibbs_steps=10, random_state=0), atol=1e-5)


def test_arrows_point_where_the_estimator_says(context: FigureContext, small_data: Path) -> None:
    (axes,) = make("orientations", context).figure.axes
    images, labels = parts_of(small_data)["test"]
    arrows = iter(axes.texts)
    for row in range(6):
        image = images[list(labels).index(row)]
        for column in range(9):
            turned = rotation_matrix(SIDE, 40 * column) @ image
            np.testing.assert_allclose(tile(axes.images[0].get_array(), row, column), turned, atol=1e-6)
            (orientation,) = OrientationEstimator()(turned[None])
            arrow = next(arrows)
            right, down = np.subtract(arrow.xy, arrow.xyann)
            degrees = np.degrees(np.arctan2(-down, right)) % 360
            assert degrees == pytest.approx(40 * orientation, abs=1e-6)
    assert next(arrows, None) is None


def test_an_estimate_follows_the_turns_if_it_agrees_with_most_of_its_row() -> None:
    found = np.array([[0, 1, 2, 3], [3, 0, 1, 2], [1, 1, 2, 3], [0, 3, 2, 3]])
    expected = [[True] * 4, [True] * 4, [False, True, True, True], [True, False, True, True]]
    assert follows_rotations(found).tolist() == expected


def test_models_without_weights_are_left_out_and_named(
    context: FigureContext, small_data: Path, trained: Path, tmp_path: Path
) -> None:
    results = shutil.copytree(trained, tmp_path / "results")
    held = figure_context(SUITE, context_of(small_data, results), "tiny")
    run = run_of(results, "rbm")
    (results / "runs" / run / "weights.npz").unlink()
    shutil.rmtree(results / "runs" / run_of(results, "orbm"))
    again = figure_context(SUITE, held.run_context, "tiny")
    drawing = make("filters", again)
    assert [axes.get_title() for axes in drawing.figure.axes if axes.get_title()] == ["TI-RBM", "θ-RBM"]
    lines = missing_lines(again, [drawing])
    assert lines[0] == "missing: orbm/sparsity=0.3; thetarbm run orbm/sparsity=0.3 --profile tiny makes it"
    assert lines[1].startswith(f"missing: the weights of {run}; thetarbm train --model rbm --seed 0 --profile tiny ")


def test_other_images_than_the_run_was_made_from_are_not_shown(context: FigureContext, data_dir: Path) -> None:
    other = figure_context(SUITE, context_of(data_dir, context.run_context.store.folder.parent), "tiny")
    with pytest.raises(FigureMissing, match="prepare the same data or train again"):
        draw("reconstructions", other)


def test_the_making_of_the_data_needs_nothing_but_the_package(context: FigureContext) -> None:
    (axes,) = make("making", context).figure.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["MNIST", "as official", "bilinear"]
    source, official, bilinear = (tile(axes.images[0].get_array(), row, 0) * 255 for row in range(3))
    np.testing.assert_array_equal(np.rint(source), load_mnist()[0][26641].ravel())
    # The sum of squares of row 0 of the official test images; bilinear interpolation smooths.
    assert np.square(official).sum() == pytest.approx(4145066, rel=0.002)
    assert np.square(bilinear).sum() < 0.95 * 4145066
