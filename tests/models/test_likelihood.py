"""The update is the gradient of the log-likelihood, when the chains are long and many."""

import numpy as np
import pytest

from tests.models.tiny import PIXELS, Parameters, Tiny, single, tiny
from thetarbm_cli.models.contrastive_divergence import TrainingState

RATE = 1e-3
COPIES = 5000
MODELS = ["rbm", "tirbm", "theta-full", "theta-tied", "theta-full-one-bias", "theta-tied-one-bias"]


def exact_gradient(case: Tiny, images: np.ndarray, orientations: np.ndarray) -> Parameters:
    """Gradient of the mean log-likelihood of images given their orientations, by central differences in float64."""

    def mean_log_likelihood(parameters: Parameters) -> float:
        total = 0.0
        for s in np.unique(orientations):
            total += case.exact(parameters, int(s)).log_likelihood(images[orientations == s]).sum()
        return total / len(images)

    gradient = {name: np.empty_like(value) for name, value in case.parameters.items()}
    for name, value in case.parameters.items():
        for place in np.ndindex(value.shape):
            ends = []
            for step in (1e-4, -1e-4):
                moved = {**case.parameters, name: value.copy()}
                moved[name][place] += step
                ends.append(mean_log_likelihood(moved))
            gradient[name][place] = (ends[0] - ends[1]) / 2e-4
    return gradient


def estimated_gradient(case: Tiny, images: np.ndarray, orientations: np.ndarray) -> Parameters:
    """One update of contrastive divergence from many chains that start at each image, divided by its rate."""
    model = case.build(
        epochs=1,
        batch_size=COPIES * len(images),
        learning_rate=RATE,
        momentum=0,
        sparsity=None,
        visible_sampling="sample",
        random_state=3,
        gibbs_steps=25,
    )
    parameters = single(case.parameters)
    start = TrainingState(parameters, {name: np.zeros_like(value) for name, value in parameters.items()})
    keywords = {"orientations": np.repeat(orientations, COPIES)} if case.orientations > 1 else {}
    model.fit(np.repeat(images, COPIES, axis=0), resume=start, **keywords)
    return {name: value / RATE for name, value in model.state_.increments.items()}


def data(case: Tiny, visible: str) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(11)
    orientations = np.arange(12) % case.orientations
    if visible == "gaussian":
        return random.normal(0, 1.5, (12, PIXELS)), orientations
    return (random.random((12, PIXELS)) < 0.35).astype(np.float64), orientations


def turned_into_every_slice(name: str, gradient: Parameters) -> Parameters:
    """The paper's update of full slices: the gradient of one W_s = M T_s' turned into all (Eq. 5)."""
    if not name.startswith("theta-full"):
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
    estimated = estimated_gradient(case, images, orientations)
    assert estimated.keys() == exact.keys()
    for key, gradient in exact.items():
        error = estimated[key] - gradient
        # Each entry is a mean over 60,000 chains of terms whose deviation is about 1, for Bernoulli units 0.5.
        assert np.abs(error).max() < (0.02 if visible == "gaussian" else 0.01), key
        assert np.linalg.norm(error) < 0.03 * np.linalg.norm(gradient), key
