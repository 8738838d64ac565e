"""Free energies, features and means against sums over all states of networks that are small enough."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from tests.models.exact import TinyNetwork, all_states, turns
from tests.models.tiny import PIXELS, tiny
from thetarbm_cli.models import TransformInvariantRBM
from thetarbm_cli.models.contrastive_divergence import OrientationGroups

BINARY = all_states(2, PIXELS).astype(np.float32)
REAL = np.random.default_rng(1).normal(0, 2, (40, PIXELS)).astype(np.float32)
MODELS = ["rbm", "tirbm", "theta-full", "theta-tied", "theta-full-one-bias", "theta-tied-one-bias"]


# Exact turns by 90°, and interpolated ones by 72°.
@pytest.mark.parametrize(("visible", "rotations"), [("bernoulli", 4), ("bernoulli", 5), ("gaussian", 4)])
@pytest.mark.parametrize("name", MODELS)
def test_free_energy_and_features_are_sums_over_all_hidden_states(name: str, visible: str, rotations: int) -> None:
    case = tiny(name, visible, rotations)
    model = case.fitted()
    images = BINARY if visible == "bernoulli" else REAL
    networks = [case.exact(case.parameters, s) for s in range(case.orientations)]
    energies = np.stack([network.free_energy(images.astype(np.float64)) for network in networks])
    features = np.stack([network.hidden_probabilities(images.astype(np.float64)).sum(axis=0) for network in networks])
    # Mixed in a batch, orientations come back in order.
    index = np.random.default_rng(2).integers(0, case.orientations, len(images))
    given: dict[str, Any] = {"orientations": index} if case.orientations > 1 else {}
    rows = np.arange(len(images))
    np.testing.assert_allclose(model.free_energy(images, **given), energies[index, rows], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(model.transform(images, **given), features[index, rows], rtol=0, atol=1e-5)


def hidden_states(exact: TinyNetwork) -> np.ndarray:
    """All hidden states as the couplings take them: (C, H) of 0 and 1, or one-hot (K, C, H)."""
    count = len(exact.hidden_bias)
    one_hot = np.stack([exact.states == k for k in range(1, count + 1)]).astype(np.float32)
    return one_hot[0] if count == 1 else one_hot


@pytest.mark.parametrize("name", MODELS)
def test_the_mean_of_bernoulli_images_given_hidden_states_is_a_sum_over_all_images(name: str) -> None:
    case = tiny(name)
    network = case.fitted()._fitted_model()
    for s in range(case.orientations):
        exact = case.exact(case.parameters, s)
        hidden = network.backend.asarray(hidden_states(exact))
        groups = OrientationGroups.of(network.backend, np.full(len(exact.states), s), network.orientations)
        means = network.backend.to_host(network.reconstruction(hidden, groups))
        if name.startswith("theta-tied"):
            # From the frame of M to that of the image.
            means = np.rot90(means.reshape(-1, 3, 3), s, axes=(1, 2)).reshape(means.shape)
        np.testing.assert_allclose(means, exact.visible_means(), rtol=0, atol=1e-6)


def test_a_tracked_sigma_scales_what_units_see_and_what_they_say() -> None:
    settings: dict[str, Any] = {"hidden": 3, "epochs": 2, "variance": "tracked", "rotations": 4, "standardise": False}
    model = TransformInvariantRBM(**settings, initial_scale=0.5).fit(REAL)
    sigma, weights, bias = model.sigma_[0], model.weights_.astype(np.float64), model.visible_bias_[0]
    rotated = np.stack([REAL @ turn.T for turn in turns(3, 4)])
    seen = model.hidden_bias_[:, None] + rotated / sigma @ weights.T
    on = np.concatenate([np.zeros_like(seen[:1]), seen])
    energies = ((REAL - bias) ** 2).sum(axis=1) / (2 * sigma**2) - logsumexp(on, axis=0).sum(axis=1)
    np.testing.assert_allclose(model.free_energy(REAL), energies, rtol=1e-4)
    np.testing.assert_allclose(model.transform(REAL), expit(logsumexp(seen, axis=0)), rtol=0, atol=1e-5)
    chosen = np.exp(seen - logsumexp(on, axis=0))
    means = bias + sigma * sum(chosen[s] @ weights @ turn for s, turn in enumerate(turns(3, 4)))
    np.testing.assert_allclose(model.reconstruct(REAL), means, rtol=0, atol=1e-4)
