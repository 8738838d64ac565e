"""The local θ-RBM against loops over images, fields and cells."""

from __future__ import annotations

import tracemalloc
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import rotation_matrix
from thetarbm_cli.models import RBM, LocalThetaRBM
from thetarbm_cli.models.local_theta import FieldGrid

SMALL: dict[str, Any] = {"hidden": 5, "field": 4, "pooling": 2, "fields": 300, "epochs": 3, "rotations": 12}


def pictures(count: int = 30, side: int = 9) -> NDArray[np.float32]:
    return np.random.default_rng(side).random((count, side * side), dtype=np.float32)


def turned_back(model: LocalThetaRBM, image: NDArray[np.float32], orientation: int) -> NDArray[np.float64]:
    operator = rotation_matrix(model.size_, -360.0 * orientation / model.rotations)
    return np.asarray(operator @ image, dtype=np.float64).reshape(model.size_, model.size_)


def feature_by_loops(model: LocalThetaRBM, image: NDArray[np.float32], orientation: int) -> NDArray[np.float64]:
    """The mean of σ(b + w·(x - m)/s) over the fields of each cell, one field and one unit after the other."""
    picture = turned_back(model, image, orientation)
    standard = model._standardiser
    corners = list(range(0, model.size_ - model.field + 1, model.stride))
    edges = np.round(np.linspace(0, len(corners), model.pooling + 1)).astype(int)
    side = len(corners) / model.pooling
    cells = [(row, column) for row in range(model.pooling) for column in range(model.pooling)]
    sums = np.zeros((model.pooling, model.pooling, model.hidden))
    weights = np.zeros((model.pooling, model.pooling, 1))
    for i, top in enumerate(corners):
        for j, left in enumerate(corners):
            field = picture[top : top + model.field, left : left + model.field].ravel()
            if model.contrast:
                field = (field - field.mean()) / np.sqrt(field.var() + model.contrast)
            if standard is not None:
                field = (field - standard.mean_[0]) / standard.scale_[0]
            active = 1 / (1 + np.exp(-(model.hidden_bias_ + model.weights_ @ field).astype(np.float64)))
            for row, column in cells:
                if model.pooling_width:
                    off = np.hypot((i + 0.5) / side - (row + 0.5), (j + 0.5) / side - (column + 0.5))
                    weight = np.exp(-(off**2) / (2 * model.pooling_width**2))
                else:
                    weight = edges[row] <= i < edges[row + 1] and edges[column] <= j < edges[column + 1]
                sums[row, column] += weight * active
                weights[row, column] += weight
    features = ((sums / weights) ** model.power).reshape(-1)
    return np.asarray(features / np.linalg.norm(features) if model.unit_length else features)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"visible": "bernoulli", "pooling": 1},
        {"floor": 0.2, "field": 5, "contrast": 0.05},
        {"stride": 1, "pooling": 3, "pooling_width": 0.5, "power": 0.5},
        {"pooling_width": 2.0, "power": 0.3, "unit_length": True},
    ],
    ids=str,
)
def test_features_equal_loops_over_fields_and_cells(settings: dict[str, Any]) -> None:
    images = pictures()
    model = LocalThetaRBM(**{**SMALL, **settings}).fit(images)
    orientations = model.orientation_estimator()(images)
    expected = [feature_by_loops(model, image, s) for image, s in zip(images, orientations, strict=True)]
    features = model.transform(images)
    assert features.dtype == np.float32
    np.testing.assert_allclose(features, expected, rtol=0, atol=2e-6)
    assert len(model.get_feature_names_out()) == features.shape[1]


def test_learning_is_that_of_an_rbm_on_the_drawn_fields() -> None:
    images = pictures()
    model = LocalThetaRBM(**SMALL).fit(images)
    fields = model._drawn_fields(model.aligned(images))
    assert fields.shape == (300, 16)
    plain = RBM(hidden=5, epochs=3).fit(fields)
    np.testing.assert_allclose(model.weights_, plain.weights_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.hidden_bias_, plain.hidden_bias_, rtol=1e-5, atol=1e-6)


def test_fields_that_are_learned_from_have_contrast_and_are_parts_of_images() -> None:
    images = np.zeros((4, 100), dtype=np.float32)
    images[:, 45] = [1, 0.5, 0.2, 1]
    model = LocalThetaRBM(**{**SMALL, "rotations": 1, "epochs": 1}).fit(images)
    fields = model._drawn_fields(images)
    assert 0 < len(fields) <= 300
    assert set(np.unique(fields.max(axis=1)).round(3)) == {0.5, 1.0}
    assert (np.count_nonzero(fields, axis=1) == 1).all()
    # Where none has, some are taken all the same, without a warning.
    blank = np.zeros((3, 81), dtype=np.float32)
    for contrast in (0.0, 0.01):
        assert np.isfinite(LocalThetaRBM(**SMALL, contrast=contrast).fit(blank).transform(blank)).all()


def test_free_energy_is_the_sum_over_fields() -> None:
    images = pictures(5)
    model = LocalThetaRBM(**SMALL).fit(images)
    index = model.orientation_estimator()(images)
    standard = model._standardiser
    assert standard is not None
    for image, s, energy in zip(images, index, model.free_energy(images), strict=True):
        picture = turned_back(model, image, s)
        expected = 0.0
        for top in range(0, 6, 2):
            for left in range(0, 6, 2):
                x = (picture[top : top + 4, left : left + 4].ravel() - standard.mean_[0]) / standard.scale_[0]
                drive = model.hidden_bias_ + model.weights_ @ x
                expected += 0.5 * ((x - model.visible_bias_[0]) ** 2).sum() - np.logaddexp(0, drive).sum()
        assert energy == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("method", ["free_energy", "reconstruct"])
@pytest.mark.parametrize("given", [False, True])
def test_images_taken_a_few_at_a_time_give_what_all_at_once_give(
    method: str, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = pictures(23)
    model = LocalThetaRBM(**SMALL, contrast=0.01).fit(images)
    orientations = np.arange(23) % 12 if given else None
    monkeypatch.setattr(LocalThetaRBM, "_images_at_once", lambda self: 23)
    whole = getattr(model, method)(images, orientations=orientations)
    monkeypatch.setattr(LocalThetaRBM, "_images_at_once", lambda self: 4)
    np.testing.assert_allclose(getattr(model, method)(images, orientations=orientations), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", ["free_energy", "reconstruct"])
def test_memory_does_not_grow_with_the_fields_of_all_images(method: str) -> None:
    images = pictures(1500, side=16)
    model = LocalThetaRBM(**{**SMALL, "hidden": 100, "epochs": 1, "stride": 1}, backend="numpy").fit(images[:50])
    tracemalloc.start()
    getattr(model, method)(images)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The hidden states of all fields of all images are 169 × 1500 × 100 numbers of four bytes.
    assert peak < 20e6


@pytest.mark.parametrize("contrast", [0.0, 0.01])
def test_reconstruction_is_the_mean_of_the_fields_rotated_to_the_image(contrast: float) -> None:
    images = pictures(3, side=8)
    model = LocalThetaRBM(**{**SMALL, "rotations": 4, "contrast": contrast}).fit(images)
    standard = model._standardiser
    assert standard is not None
    index = model.orientation_estimator()(images)
    for image, s, result in zip(images, index, model.reconstruct(images), strict=True):
        picture, total, count = turned_back(model, image, s), np.zeros((8, 8)), np.zeros((8, 8))
        for top, left in product((0, 2, 4), repeat=2):
            place = slice(top, top + 4), slice(left, left + 4)
            field = picture[place].ravel()
            mean, spread = (field.mean(), np.sqrt(field.var() + contrast)) if contrast else (0, 1)
            x = ((field - mean) / spread - standard.mean_[0]) / standard.scale_[0]
            hidden = 1 / (1 + np.exp(-(model.hidden_bias_ + model.weights_ @ x)))
            guess = (model.visible_bias_[0] + hidden @ model.weights_) * standard.scale_[0] + standard.mean_[0]
            total[place] += (guess * spread + mean).reshape(4, 4)
            count[place] += 1
        np.testing.assert_allclose(result.reshape(8, 8), np.rot90(total / count, s), rtol=1e-4, atol=1e-5)


@given(size=st.integers(5, 12), field=st.integers(2, 5), stride=st.integers(1, 3), data=st.data())
def test_cells_share_all_fields_and_folding_undoes_taking(
    size: int, field: int, stride: int, data: st.DataObject
) -> None:
    grid = FieldGrid(size, field, stride, data.draw(st.integers(1, (size - field) // stride + 1)))
    np.testing.assert_allclose(grid.pool.sum(axis=1), 1, rtol=1e-6)
    assert (np.count_nonzero(grid.pool, axis=0) == 1).all()
    images = np.random.default_rng(size).random((2, size * size), dtype=np.float32)
    covered = np.isin(np.arange(size * size), grid.places)
    np.testing.assert_allclose(grid.folded(images[:, grid.places]), images * covered, rtol=1e-5)


def test_everything_a_model_does_and_its_storage() -> None:
    images, settings = pictures(), {**SMALL, "hypotheses": 0.7}
    model = LocalThetaRBM(**settings).fit(images)
    assert model.sample(2, gibbs_steps=2).shape == (2, 16)
    first = LocalThetaRBM(**{**settings, "epochs": 1}).fit(images)
    resumed = LocalThetaRBM(**settings).fit(images, resume=first.state_)
    np.testing.assert_array_equal(model.weights_, resumed.weights_)
    copy = LocalThetaRBM(**settings).load_arrays(model.to_arrays())
    assert copy.size_ == 9
    np.testing.assert_array_equal(copy.transform(images), model.transform(images))
    before = model.weights_.copy()
    model.partial_fit(images)
    assert len(model.history_) == 4
    assert not np.array_equal(before, model.weights_)


@pytest.mark.parametrize("settings", [{"field": 10}, {"pooling": 4}])
def test_images_that_are_too_small_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="images of 9×9 pixels are too small for fields"):
        LocalThetaRBM(**{**SMALL, **settings}).fit(pictures())
