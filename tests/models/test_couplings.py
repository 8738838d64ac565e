"""The θ-RBM's tensor, in full and tied, and the TI-RBM's pooled rotations, against naive products."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from skimage.transform import rotate

from tests.models.exact import turns
from tests.models.small import MODELS as SMALL
from tests.models.small import small
from thetarbm_cli.backend import select_backend
from thetarbm_cli.imaging.permutation import cyclic_permutation
from thetarbm_cli.imaging.rotation import rotation_operators
from thetarbm_cli.models import ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.contrastive_divergence import OrientationGroups
from thetarbm_cli.models.couplings import TensorCoupling

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
@settings(max_examples=15)
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
    parameters = {"weights": backend.xp.zeros((rotations, hidden, pixels)), "hidden_bias": backend.xp.zeros(hidden)}
    interaction = TensorCoupling(backend, parameters, size, kind)
    groups = OrientationGroups.of(backend, index, rotations)
    added = backend.asarray(increment)
    interaction.accumulate(backend.asarray(visible), backend.asarray(states), groups, added, scale=0.3, keep=keep)
    np.testing.assert_allclose(backend.to_host(added), expected, rtol=1e-4, atol=2e-4)


@pytest.mark.parametrize("common", [EVERYTHING, {"visible": "bernoulli"}], ids=["all", "bernoulli"])
def test_full_and_tied_are_one_network_when_the_turns_are_a_group(digits: Digits, common: dict[str, Any]) -> None:
    common = {"hidden": 20, "epochs": 10, "batch_size": 100, "rotation": "permutation", **common}
    full, tied = (ThetaRBM(tensor=tensor, **common).fit(digits[0][:500]) for tensor in ("full", "tied"))
    assert np.abs(full.tensor_).max() > 0.1
    # Lemma 1, to the last bit: slices are turned copies.
    step = cyclic_permutation(28, 9)
    for before, after in pairwise(full.weights_):
        assert np.array_equal(after[:, step], before)
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


def test_initial_slices_are_turned_copies_of_one_matrix_that_all_models_share() -> None:
    images = np.random.default_rng(1).random((20, 25), dtype=np.float32)
    matrices = {name: small(name, epochs=0, random_state=6).fit(images).weights_ for name in SMALL}
    slices = matrices.pop("theta-full")
    for matrix in (slices[0], *matrices.values()):
        assert np.array_equal(matrix, matrices["rbm"])
    for s, operator in enumerate(turns(5, 9)):
        np.testing.assert_allclose(slices[s], slices[0] @ operator.T, rtol=0, atol=1e-7)


@pytest.mark.parametrize("images", [np.full((5, 16), 0.3), np.zeros((1, 16))], ids=["alike", "one"])
def test_images_without_a_residual_start_sigma_at_one(images: np.ndarray) -> None:
    model = TransformInvariantRBM(hidden=10, epochs=0, variance="tracked", standardise=False).fit(images)
    assert model.sigma_[0] == 1


def test_units_start_on_with_probability_one_half_or_as_often_as_any_state() -> None:
    images = np.random.default_rng(0).random((10, 16), dtype=np.float32)
    for initial_bias, expected in (("half", 0.5), ("zero", 4 / 5)):
        model = TransformInvariantRBM(hidden=5, rotations=4, epochs=0, initial_scale=0.0, initial_bias=initial_bias)
        np.testing.assert_allclose(model.fit(images).transform(images), expected, rtol=1e-6)


@pytest.mark.parametrize(("rotations", "angles"), [(9, range(-60, 61, 15)), (2, (-7.5, 7.5))])
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
