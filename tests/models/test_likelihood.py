"""The update is the gradient of the log-likelihood, when the chains are long and many."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.models.tiny import PIXELS, Parameters, Tiny, single, tiny
from thetarbm_cli.models.contrastive_divergence import OrientationGroups, TrainingState

RATE = 1e-3
COPIES = 5000
MODELS = ["rbm", "tirbm", "theta-full", "theta-tied"]


def slope(function: Callable[[Parameters], Any], parameters: Parameters, name: str, place: Any) -> Any:
    """∂ function / ∂ one parameter by central differences, in float64."""
    ends = []
    for step in (1e-4, -1e-4):
        moved = {**parameters, name: parameters[name].copy()}
        moved[name][place] += step
        ends.append(function(moved))
    return (ends[0] - ends[1]) / 2e-4


def exact_gradient(case: Tiny, images: np.ndarray, orientations: np.ndarray) -> Parameters:
    """Gradient of the mean log-likelihood of images given their orientations."""

    def mean_log_likelihood(parameters: Parameters) -> float:
        total = 0.0
        for s in np.unique(orientations):
            total += case.exact(parameters, int(s)).log_likelihood(images[orientations == s]).sum()
        return total / len(images)

    return {
        name: np.array(
            [slope(mean_log_likelihood, case.parameters, name, place) for place in np.ndindex(value.shape)]
        ).reshape(value.shape)
        for name, value in case.parameters.items()
    }


def estimated_gradient(
    case: Tiny, images: np.ndarray, orientations: np.ndarray, copies: int = COPIES, **settings: Any
) -> Parameters:
    """One update of contrastive divergence from many chains that start at each image, divided by its rate."""
    model = case.build(
        epochs=1,
        batch_size=copies * len(images),
        learning_rate=RATE,
        momentum=0,
        sparsity=None,
        visible_sampling="sample",
        random_state=3,
        **settings,
    )
    parameters = single(case.parameters)
    start = TrainingState(parameters, {name: np.zeros_like(value) for name, value in parameters.items()})
    keywords = {"orientations": np.repeat(orientations, copies)} if case.orientations > 1 else {}
    model.fit(np.repeat(images, copies, axis=0), resume=start, **keywords)
    return {name: value / RATE for name, value in model.state_.increments.items()}


def data(case: Tiny, visible: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(11)
    orientations = np.arange(12) % case.orientations
    if visible == "gaussian":
        return random.normal(0, 1.5, (12, PIXELS)), orientations
    return (random.random((12, PIXELS)) < 0.35).astype(np.float64), orientations


def turned_into_every_slice(name: str, gradient: Parameters) -> Parameters:
    """The paper's update of full slices: the gradient of one W_s = M T_s' turned into all (Eq. 5)."""
    if name != "theta-full":
        return gradient
    slices = gradient["weights"].reshape(4, -1, 3, 3)
    total = sum(np.rot90(slices[s], -s, axes=(1, 2)) for s in range(4))
    turned = np.stack([np.rot90(total, k, axes=(1, 2)) for k in range(4)])
    return {**gradient, "weights": turned.reshape(gradient["weights"].shape)}


@pytest.mark.parametrize("visible", ["bernoulli", "gaussian"])
@pytest.mark.parametrize("name", MODELS)
def test_many_long_chains_give_the_exact_gradient(name: str, visible: str) -> None:
    case = tiny(name, visible)
    images, orientations = data(case, visible)
    exact = turned_into_every_slice(name, exact_gradient(case, images, orientations))
    estimated = estimated_gradient(case, images, orientations, gibbs_steps=25)
    assert estimated.keys() == exact.keys()
    for key, gradient in exact.items():
        error = estimated[key] - gradient
        # Each entry is a mean over 60,000 chains of terms whose deviation is about 1, for Bernoulli units 0.5.
        assert np.abs(error).max() < (0.02 if visible == "gaussian" else 0.01), key
        assert np.linalg.norm(error) < 0.03 * np.linalg.norm(gradient), key


def test_longer_chains_are_nearer_to_the_exact_gradient() -> None:
    case = tiny("rbm")
    # Large weights, so that a chain is slow to forget where it began.
    case = replace(case, parameters={**case.parameters, "weights": 2.5 * case.parameters["weights"]})
    images, orientations = data(case, "bernoulli")
    exact = exact_gradient(case, images, orientations)["weights"]
    distances = [
        np.linalg.norm(estimated_gradient(case, images, orientations, gibbs_steps=k)["weights"] - exact)
        for k in (1, 2, 25)
    ]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 0.1 * distances[0]


@pytest.mark.parametrize("name", MODELS)
def test_the_positive_phase_of_the_variance_is_the_slope_of_minus_the_free_energy(name: str) -> None:
    case = tiny(name, "gaussian")
    images = np.random.default_rng(12).normal(0, 1.5, (5, PIXELS))
    machine = case.fitted()._fitted_model()
    for s in range(case.orientations):

        def minus_free_energy(given: Parameters, s: int = s) -> np.ndarray:
            return -case.exact(given, s).free_energy(images)

        exact = np.stack(
            [slope(minus_free_energy, case.parameters, "log_variance", (s, v)) for v in range(PIXELS)], axis=1
        )
        groups = OrientationGroups.of(machine.backend, np.full(len(images), s), machine.groups)
        own = images
        if name == "theta-tied":
            own = np.rot90(images.reshape(-1, 3, 3), -s, axes=(1, 2)).reshape(images.shape)
        inputs = machine.backend.asarray(np.ascontiguousarray(own, dtype=np.float32))
        hidden = machine.coupling.probabilities(machine.visible.scaled(inputs, groups), groups)
        slopes = machine.visible.variance_slope(inputs, machine.coupling.top_down(hidden, groups), groups)
        np.testing.assert_allclose(machine.backend.to_host(slopes), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", MODELS)
def test_learning_raises_the_exact_likelihood(name: str) -> None:
    case = tiny(name)
    random = np.random.default_rng(13)
    # Two patterns with a little noise, in all orientations.
    patterns = np.array([[1, 1, 0, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 0, 1, 1]])
    images = patterns[random.integers(0, 2, 400)] ^ (random.random((400, PIXELS)) < 0.05)
    orientations = np.arange(400) % case.orientations
    model = case.build(epochs=30, batch_size=20, learning_rate=0.05, sparsity=None, visible_sampling="sample")
    model.fit(images, **({"orientations": orientations} if case.orientations > 1 else {}))

    def mean_log_likelihood(parameters: Parameters) -> float:
        return float(
            np.mean(
                [
                    case.exact(parameters, s).log_likelihood(images[orientations == s].astype(float)).mean()
                    for s in range(case.orientations)
                ]
            )
        )

    learned = {key: value.astype(np.float64) for key, value in model.to_arrays().items()}
    blank = {key: np.zeros_like(value) for key, value in learned.items()}
    uniform = mean_log_likelihood(blank)
    assert uniform == pytest.approx(-PIXELS * np.log(2))
    # Two equally likely patterns with 5 % noise in 9 pixels have an entropy of about 2.48 nats.
    assert mean_log_likelihood(learned) > -4
