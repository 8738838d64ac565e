from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.exact import turns
from tests.models.placed import placed
from thetarbm_cli.backend import select_backend
from thetarbm_cli.imaging.permutation import cyclic_permutation
from thetarbm_cli.imaging.rotation import rotation_operators
from thetarbm_cli.models import ThetaRBM
from thetarbm_cli.models.groups import Groups
from thetarbm_cli.models.tensor import TensorInteraction

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
    interaction = TensorInteraction(backend, placed(backend, parameters), size, kind)
    groups = Groups.of(backend, index, rotations)
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
