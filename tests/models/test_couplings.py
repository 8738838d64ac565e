"""The θ-RBM's tensor, in full and tied, and the TI-RBM's pooled rotations, against naive products."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from skimage.transform import rotate

from tests.models.exact import turns
from tests.models.naive import NaiveTrainer
from tests.models.placed import placed
from thetarbm_cli.backend import select_backend
from thetarbm_cli.imaging.permutation import cyclic_permutation
from thetarbm_cli.imaging.rotation import rotation_operators
from thetarbm_cli.models import ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.contrastive_divergence import OrientationGroups
from thetarbm_cli.models.couplings import PooledCoupling, TensorCoupling
from thetarbm_cli.registry import MODELS

Digits = tuple[np.ndarray, np.ndarray]

EVERYTHING: dict[str, Any] = {
    "momentum": 0.9,
    "weight_decay": 1e-3,
    "sparsity": 0.2,
    "sparsity_weight": 1.0,
    "variance": "learned",
    "learning_rate": 0.003,
}


def dense(size: int, rotations: int, kind: str) -> list[np.ndarray]:
    if kind == "bilinear":
        return turns(size, rotations)
    return [operator.toarray().astype(np.float64) for operator in rotation_operators(size, rotations, kind)]


@pytest.mark.parametrize("kind", ["bilinear", "nearest", "permutation"])
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    size=st.integers(2, 7),
    rotations=st.integers(1, 9),
    hidden=st.integers(1, 6),
    count=st.integers(1, 12),
    keep=st.sampled_from([0.0, 0.9]),
    seed=st.integers(0, 1000),
)
def test_every_gradient_is_rotated_into_every_slice(
    kind: str, size: int, rotations: int, hidden: int, count: int, keep: float, seed: int
) -> None:
    random = np.random.default_rng(seed)
    pixels = size * size
    index = np.sort(random.integers(0, rotations, count))
    visible = random.normal(size=(2 * count, pixels)).astype(np.float32)
    states = random.normal(size=(2 * count, hidden)).astype(np.float32)
    increment = random.normal(size=(rotations, hidden, pixels)).astype(np.float32)
    before = increment.astype(np.float64)

    operators = dense(size, rotations, kind)
    slices = [np.zeros((hidden, pixels)) for _ in range(rotations)]
    for i, s in enumerate(np.concatenate([index, index])):
        slices[s] += np.outer(states[i], visible[i])
    expected = keep * before
    for s in range(rotations):
        for k in range(rotations):
            expected[k] += 0.3 * slices[s] @ operators[(k - s) % rotations].T

    backend = select_backend()
    parameters = {
        "weights": np.zeros((rotations, hidden, pixels), dtype=np.float32),
        "hidden_bias": np.zeros(hidden, dtype=np.float32),
    }
    interaction = TensorCoupling(backend, placed(backend, parameters), size, kind)
    groups = OrientationGroups.of(backend, index, rotations)
    added = backend.asarray(increment)
    interaction.accumulate(backend.asarray(visible), backend.asarray(states), groups, added, scale=0.3, keep=keep)
    np.testing.assert_allclose(backend.to_host(added), expected, rtol=1e-4, atol=2e-4)


def fit_pair(digits: Digits, **common: Any) -> tuple[ThetaRBM, ThetaRBM]:
    images = digits[0][:500]
    common = {"hidden": 20, "epochs": 10, "rotation": "permutation", **common}
    full, tied = (ThetaRBM(tensor=tensor, **common).fit(images) for tensor in ("full", "tied"))
    return full, tied


@pytest.mark.parametrize("common", [{}, EVERYTHING, {"visible": "bernoulli"}], ids=["paper", "all", "bernoulli"])
def test_full_and_tied_are_one_machine_when_the_turns_are_a_group(digits: Digits, common: dict[str, Any]) -> None:
    # 500 images in batches of 100 for 10 epochs: 50 updates.
    full, tied = fit_pair(digits, **common)
    untrained = ThetaRBM(hidden=20, epochs=0, tensor="full", rotation="permutation").fit(digits[0][:500])
    assert np.abs(full.tensor_ - untrained.tensor_).max() > 0.01
    np.testing.assert_allclose(tied.tensor_, full.tensor_, rtol=0, atol=2e-6)
    np.testing.assert_allclose(tied.hidden_bias_, full.hidden_bias_, rtol=0, atol=2e-6)
    operators = dense(28, 9, "permutation")
    for name in ("visible_bias_", "log_variance_") if "variance" in common else ("visible_bias_",):
        for s, row in enumerate(getattr(tied, name)):
            np.testing.assert_allclose(operators[s] @ row, getattr(full, name)[s], rtol=0, atol=2e-6)
    images = digits[0][500:700]
    np.testing.assert_allclose(tied.transform(images), full.transform(images), rtol=0, atol=1e-5)
    np.testing.assert_allclose(tied.reconstruct(images), full.reconstruct(images), rtol=0, atol=1e-5)
    # Energies are sums over 784 pixels, some of them at many standard deviations.
    np.testing.assert_allclose(tied.free_energy(images), full.free_energy(images), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("common", [{}, EVERYTHING], ids=["paper", "all"])
@pytest.mark.parametrize("rotations", [4, 9])
def test_slices_are_turned_copies_to_the_last_bit_after_training(
    digits: Digits, rotations: int, common: dict[str, Any]
) -> None:
    """Lemma 1."""
    model = ThetaRBM(hidden=15, epochs=4, tensor="full", rotation="permutation", rotations=rotations, **common).fit(
        digits[0][:300]
    )
    step = cyclic_permutation(28, rotations)
    turned = model.weights_[0]
    for s in range(1, rotations):
        image = turned
        turned = np.empty_like(image)
        turned[:, step] = image
        assert np.array_equal(model.weights_[s], turned)
    assert not np.array_equal(model.weights_[0], model.weights_[1])


def test_interpolated_slices_are_nearly_turned_copies(digits: Digits) -> None:
    model = ThetaRBM(hidden=15, epochs=4, tensor="full").fit(digits[0][:300])
    slices, operators = model.weights_.astype(np.float64), dense(28, 9, "bilinear")
    for s in range(1, 9):
        turned = slices[0] @ operators[s].T
        similarity = (slices[s] * turned).sum() / np.linalg.norm(slices[s]) / np.linalg.norm(turned)
        assert 0.99 < similarity < 1 - 1e-6


def test_independent_slices_still_get_turned_copies_of_each_update(digits: Digits) -> None:
    model = ThetaRBM(hidden=10, epochs=2, tensor="full", initial="independent", rotations=4).fit(digits[0][:200])
    first = model.state_.increments["weights"][0].reshape(-1, 28, 28)
    for s in range(4):
        turned = np.rot90(first, s, axes=(1, 2)).reshape(10, -1)
        np.testing.assert_allclose(model.state_.increments["weights"][s], turned, rtol=0, atol=1e-6)
    assert abs(np.corrcoef(model.weights_[0].ravel(), model.weights_[1].ravel())[0, 1]) < 0.1


def test_initial_slices_are_turned_copies_of_one_matrix_that_all_models_share() -> None:
    images = np.random.default_rng(1).random((20, 25), dtype=np.float32)
    tied, full = (ThetaRBM(hidden=3, epochs=0, tensor=tensor).fit(images) for tensor in ("tied", "full"))
    assert np.array_equal(full.weights_[0], tied.weights_)
    for s, operator in enumerate(turns(5, 9)):
        np.testing.assert_allclose(full.weights_[s], tied.weights_ @ operator.T, rtol=0, atol=1e-7)


def test_the_tied_tensor_gives_the_drives_of_its_slices() -> None:
    images = np.random.default_rng(2).random((40, 25), dtype=np.float32)
    model = ThetaRBM(hidden=3, epochs=3, visible="bernoulli").fit(images)
    index = model.orientation_estimator()(images)
    drives = np.einsum("nhv,nv->nh", model.tensor_[index], images) + model.hidden_bias_
    np.testing.assert_allclose(model.transform(images), 1 / (1 + np.exp(-drives)), rtol=0, atol=1e-6)


shapes = {
    "size": st.integers(2, 6),
    "rotations": st.integers(1, 9),
    "hidden": st.integers(1, 5),
    "count": st.integers(1, 8),
    "seed": st.integers(0, 1000),
}


def interaction_of(
    size: int, rotations: int, hidden: int, random: np.random.Generator
) -> tuple[PooledCoupling, dict[str, NDArray[np.float32]]]:
    parameters = {
        "weights": random.normal(size=(hidden, size * size)).astype(np.float32),
        "hidden_bias": random.normal(size=(rotations, hidden)).astype(np.float32),
    }
    backend = select_backend()
    return PooledCoupling(backend, placed(backend, parameters), rotation_operators(size, rotations)), parameters


@settings(max_examples=25, deadline=None, derandomize=True)
@given(**shapes)
def test_softmax_and_pooled_feature(size: int, rotations: int, hidden: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    interaction, parameters = interaction_of(size, rotations, hidden, random)
    images = random.normal(size=(count, size * size)).astype(np.float32)
    operators = turns(size, rotations)
    on_device = interaction.probabilities(
        interaction.backend.asarray(images), OrientationGroups.single(interaction.backend, count)
    )
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
    groups = OrientationGroups.single(backend, count)
    hidden_states, images = backend.asarray(states), backend.asarray(visible)
    np.testing.assert_allclose(
        backend.to_host(interaction.top_down(hidden_states, groups)), field, rtol=1e-4, atol=1e-4
    )
    out = backend.xp.empty_like(images)
    assert interaction.top_down(hidden_states, groups, out=out) is out
    np.testing.assert_allclose(backend.to_host(out), field, rtol=1e-4, atol=1e-4)
    before = random.normal(size=gradient.shape).astype(np.float32)
    increment = backend.asarray(before.copy())
    interaction.accumulate(images, hidden_states, groups, increment, scale=0.2, keep=0.7)
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
@pytest.mark.parametrize("preset", ["paper", "reference"])
def test_the_tracked_sigma_and_its_authors_update_are_the_naive_loops(preset: str) -> None:
    random = np.random.default_rng(2)
    images = random.random((30, 16), dtype=np.float32)
    model_settings: dict[str, Any] = {
        **MODELS["tirbm"].preset(preset),
        "epochs": 3,
        "hidden": 6,
        "variance": "tracked",
        "rotation": "bilinear",
        "batch_size": 8,
        "rotations": 4,
        "random_state": 3,
        "standardise": False,
        "learning_rate": 0.1,
        "sparsity_form": "bias+weights",
    }
    start = TransformInvariantRBM(**{**model_settings, "epochs": 0}).fit(images)
    # It starts below the deviation of the pixels, as 6 cluster centres explain some of it.
    assert 0 < start.sigma_[0] < images.std()
    states: list[dict[str, np.ndarray]] = []
    backend = select_backend()
    model = TransformInvariantRBM(**model_settings).fit(
        images, monitor=lambda state: states.append(state.to_host(backend).parameters)
    )
    naive = NaiveTrainer("pooled", model.get_params(), turns(4, 4))
    parameters = {name: value.astype(np.float64) for name, value in start.state_.parameters.items()}
    increments = {name: np.zeros_like(value) for name, value in parameters.items()}
    for epoch, state in enumerate(states):
        naive.epoch(parameters, increments, images.astype(np.float64), None, epoch)
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
    learning = TransformInvariantRBM(**MODELS["tirbm"].preset("reference"))
    assert learning.rate_at(10) == pytest.approx(0.005 / 1.1)
    assert [learning.momentum_at(epoch) for epoch in range(6)] == [0.5, 0.5, 0.5, 0.5, 0.9, 0.9]


@pytest.mark.parametrize("rotations", [1, 4, 9])
def test_units_start_on_with_probability_one_half_or_as_often_as_any_state(rotations: int) -> None:
    images = np.random.default_rng(0).random((10, 16), dtype=np.float32)
    for initial_bias, expected in (("half", 0.5), ("zero", rotations / (rotations + 1))):
        model = TransformInvariantRBM(
            hidden=5, rotations=rotations, epochs=0, initial_scale=0.0, initial_bias=initial_bias
        )
        np.testing.assert_allclose(model.fit(images).transform(images), expected, rtol=1e-6)


@pytest.mark.parametrize(("rotations", "angles"), [(9, range(-60, 61, 15)), (2, (-7.5, 7.5)), (1, (0,))])
def test_a_wedge_of_angles(rotations: int, angles: Any) -> None:
    images = np.random.default_rng(0).random((10, 49), dtype=np.float32)
    model = TransformInvariantRBM(
        hidden=5, rotations=rotations, angles="wedge", epochs=2, initial_scale=1.0, standardise=False
    ).fit(images)
    for image, features in zip(images, model.transform(images), strict=True):
        turned = [
            rotate(image.reshape(7, 7).astype(np.float64), angle, order=1, clip=False).ravel() for angle in angles
        ]
        odds = [np.exp(b + model.weights_ @ x) for b, x in zip(model.hidden_bias_, turned, strict=True)]
        np.testing.assert_allclose(features, sum(odds) / (1 + sum(odds)), rtol=0, atol=1e-5)
