"""The TI-RBM: a softmax over turns and off, its field and gradient, and its authors' settings."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.models.exact import turns
from tests.models.naive import NaiveTrainer
from tests.models.placed import placed
from thetarbm_cli.backend import select_backend
from thetarbm_cli.models import TransformInvariantRBM
from thetarbm_cli.models.estimator import host_state
from thetarbm_cli.models.pooling import PooledInteraction
from thetarbm_cli.registry import MODELS

shapes = {
    "size": st.integers(2, 6),
    "rotations": st.integers(1, 9),
    "hidden": st.integers(1, 5),
    "count": st.integers(1, 8),
    "seed": st.integers(0, 1000),
}


def interaction_of(
    size: int, rotations: int, hidden: int, random: np.random.Generator
) -> tuple[PooledInteraction, dict[str, NDArray[np.float32]]]:
    parameters = {
        "weights": random.normal(size=(hidden, size * size)).astype(np.float32),
        "hidden_bias": random.normal(size=(rotations, hidden)).astype(np.float32),
    }
    backend = select_backend()
    return PooledInteraction(backend, placed(backend, parameters), size, "bilinear"), parameters


@settings(max_examples=25, deadline=None, derandomize=True)
@given(**shapes)
def test_softmax_and_pooled_feature(size: int, rotations: int, hidden: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    interaction, parameters = interaction_of(size, rotations, hidden, random)
    images = random.normal(size=(count, size * size)).astype(np.float32)
    operators = turns(size, rotations)
    on_device = interaction.probabilities(interaction.backend.asarray(images), None)
    probabilities, pooled, slopes = (
        interaction.backend.to_host(values)
        for values in (on_device, interaction.pooled(on_device), interaction.sparsity_slope(on_device))
    )
    assert probabilities.shape == interaction.hidden_shape(count) == (rotations, count, hidden)
    for i, image in enumerate(images):
        for j in range(hidden):
            exponentials = [
                np.exp(parameters["hidden_bias"][s, j] + parameters["weights"][j] @ (operators[s] @ image))
                for s in range(rotations)
            ]
            total = 1 + sum(exponentials)
            for s in range(rotations):
                assert probabilities[s, i, j] == pytest.approx(exponentials[s] / total, rel=2e-4, abs=1e-6)
            assert pooled[i, j] == pytest.approx(1 - 1 / total, abs=1e-5)
            # The slope of the pooled activation by one drive, by finite differences.
            for s in range(rotations):
                moved = [value * np.exp(1e-4 * (s == t)) for t, value in enumerate(exponentials)]
                slope = (1 / total - 1 / (1 + sum(moved))) / 1e-4
                assert slopes[s, i, j] == pytest.approx(slope, abs=1e-4)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(**shapes)
def test_field_and_gradient(size: int, rotations: int, hidden: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    interaction, parameters = interaction_of(size, rotations, hidden, random)
    operators = turns(size, rotations)
    states = random.normal(size=(rotations, 2 * count, hidden)).astype(np.float32)
    visible = random.normal(size=(2 * count, size * size)).astype(np.float32)
    field = np.zeros((2 * count, size * size))
    gradient = np.zeros((hidden, size * size))
    for i in range(2 * count):
        for s in range(rotations):
            field[i] += operators[s].T @ parameters["weights"].T @ states[s, i]
            gradient += np.outer(states[s, i], operators[s] @ visible[i])
    backend = interaction.backend
    hidden_states, images = backend.asarray(states), backend.asarray(visible)
    np.testing.assert_allclose(backend.to_host(interaction.field(hidden_states, None)), field, rtol=1e-4, atol=1e-4)
    out = backend.xp.empty_like(images)
    assert interaction.field(hidden_states, None, out=out) is out
    np.testing.assert_allclose(backend.to_host(out), field, rtol=1e-4, atol=1e-4)
    before = random.normal(size=gradient.shape).astype(np.float32)
    increment = backend.asarray(before.copy())
    interaction.accumulate(images, hidden_states, None, increment, scale=0.2, keep=0.7)
    np.testing.assert_allclose(backend.to_host(increment), 0.7 * before + 0.2 * gradient, rtol=1e-4, atol=2e-4)


def test_units_are_drawn_in_one_turn_or_none_as_often_as_they_should() -> None:
    count = 100_000
    interaction, _ = interaction_of(3, 4, 2, np.random.default_rng(0))
    shares = np.array([[0.1, 0.0], [0.2, 0.3], [0.05, 0.7], [0.35, 0.0]], dtype=np.float32)
    probabilities = np.ascontiguousarray(np.broadcast_to(shares[:, None, :], (4, count, 2)))
    uniforms = np.random.default_rng(1).random((count, 2), dtype=np.float32)
    backend = interaction.backend
    shares_of_all, numbers = backend.asarray(probabilities), backend.asarray(uniforms)
    drawn = backend.to_host(interaction.sample(shares_of_all, numbers, out=backend.xp.empty_like(shares_of_all)))
    assert set(np.unique(drawn)) == {0, 1}
    assert drawn.sum(axis=0).max() == 1
    np.testing.assert_allclose(drawn.mean(axis=1), shares, rtol=0, atol=0.006)
    assert drawn[0, :, 1].sum() == drawn[3, :, 1].sum() == 0
    assert 1 - drawn.sum(axis=0)[:, 0].mean() == pytest.approx(0.3, abs=0.006)


@pytest.mark.numpy_draws
def test_the_tracked_sigma_follows_the_reconstruction_error() -> None:
    random = np.random.default_rng(2)
    images = random.random((30, 16), dtype=np.float32)
    model_settings: dict[str, Any] = {
        "hidden": 6,
        "variance": "tracked",
        "batch_size": 8,
        "rotations": 4,
        "random_state": 3,
        "standardise": False,
        "learning_rate": 0.1,
        "sparsity_form": "bias+weights",
    }
    start = TransformInvariantRBM(epochs=0, **model_settings).fit(images)
    # It starts below the deviation of the pixels, as 6 cluster centres explain some of it.
    assert 0 < start.sigma_[0] < images.std()
    states: list[dict[str, np.ndarray]] = []
    backend = select_backend()
    model = TransformInvariantRBM(epochs=3, **model_settings).fit(
        images, monitor=lambda state: states.append(host_state(state, backend).parameters)
    )
    naive = NaiveTrainer("pooled", model.get_params(), turns(4, 4))
    parameters = {name: value.astype(np.float64) for name, value in start.state_.parameters.items()}
    increments = {name: np.zeros_like(value) for name, value in parameters.items()}
    for epoch, state in enumerate(states):
        naive.epoch(parameters, increments, images.astype(np.float64), None, epoch)
        error = model.history_[epoch].reconstruction_error
        parameters["sigma"] = 0.99 * parameters["sigma"] + 0.01 * np.sqrt(error)
        for name, value in state.items():
            np.testing.assert_allclose(value, parameters[name], rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("images", [np.full((5, 16), 0.3), np.zeros((1, 16))], ids=["alike", "one"])
def test_images_without_a_residual_start_sigma_at_one(images: np.ndarray) -> None:
    model = TransformInvariantRBM(hidden=10, epochs=0, variance="tracked", standardise=False).fit(images)
    assert model.sigma_[0] == 1


def test_as_many_units_as_images_leave_a_residual() -> None:
    images = np.random.default_rng(4).random((8, 16), dtype=np.float32)
    model = TransformInvariantRBM(hidden=10, epochs=5, variance="tracked").fit(images)
    assert 0.1 < model.sigma_[0] < 1
    assert np.isfinite(model.transform(images)).all()


@pytest.mark.no_device("settings only")
def test_the_reference_has_its_authors_schedules() -> None:
    learning = TransformInvariantRBM(**MODELS["tirbm"].preset("reference"))._learning()
    assert learning.rate_at(10) == pytest.approx(0.005 / 1.1)
    assert [learning.momentum_at(epoch) for epoch in range(6)] == [0.5, 0.5, 0.5, 0.5, 0.9, 0.9]


def test_the_reference_learns(digits: tuple[np.ndarray, np.ndarray]) -> None:
    model = TransformInvariantRBM(**{**MODELS["tirbm"].preset("reference"), "hidden": 20, "epochs": 3}).fit(
        digits[0][:400]
    )
    features = model.transform(digits[0][:400])
    assert features.shape == (400, 20)
    assert np.isfinite(features).all()
    assert model.history_[-1].reconstruction_error < model.history_[0].reconstruction_error


@pytest.mark.parametrize("rotations", [1, 4, 9])
def test_units_start_on_with_probability_one_half(rotations: int) -> None:
    images = np.random.default_rng(0).random((10, 16), dtype=np.float32)
    model = TransformInvariantRBM(hidden=5, rotations=rotations, epochs=0, initial_scale=0.0)
    np.testing.assert_allclose(model.fit(images).transform(images), 0.5, rtol=1e-6)
