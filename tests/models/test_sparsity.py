from typing import Any

import numpy as np
import pytest

from thetarbm_cli.data.prepare import Prepared
from thetarbm_cli.models import RBM, ThetaRBM

# Sparsity weight λ, and how near the mean activation of the units comes to its target.
WITHIN = [(0.3, 0.06), (1.0, 0.03)]


def assert_reaches(model: RBM, images: np.ndarray, target: float, within: float) -> None:
    activation = model.fit(images).transform(images).mean()
    assert abs(activation - target) < within
    # What the history says of the last epoch is the same number, taken while the weights still moved.
    assert model.history_[-1].mean_activation == pytest.approx(activation, abs=0.01)


@pytest.mark.parametrize("target", [0.3, 0.2, 0.1])
@pytest.mark.parametrize(("weight", "within"), WITHIN)
@pytest.mark.parametrize("model_class", [RBM, ThetaRBM])
def test_the_mean_activation_reaches_its_target(
    mnist_rot: Prepared, model_class: type[RBM], weight: float, within: float, target: float
) -> None:
    """1,250 updates from small batches at four times the rate, for 3,000 at full size."""
    images, _ = mnist_rot.subset(500, 0, 0).part("train")
    model = model_class(
        hidden=80, epochs=50, batch_size=20, learning_rate=0.04, sparsity=target, sparsity_weight=weight
    )
    assert_reaches(model, images, target, within)


@pytest.mark.slow
@pytest.mark.parametrize("target", [0.3, 0.2, 0.1])
@pytest.mark.parametrize(("weight", "within"), WITHIN)
@pytest.mark.parametrize("model_class", [RBM, ThetaRBM])
def test_the_mean_activation_reaches_its_target_at_full_size(
    mnist_rot: Prepared, model_class: type[RBM], weight: float, within: float, target: float
) -> None:
    images, _ = mnist_rot.part("train")
    assert_reaches(model_class(sparsity=target, sparsity_weight=weight), images, target, within)


def test_without_a_target_nothing_pulls(digits: tuple[np.ndarray, np.ndarray]) -> None:
    images = digits[0][:500]
    free, weightless, pulled = (
        RBM(hidden=20, epochs=3, **settings).fit(images)
        for settings in ({"sparsity": None}, {"sparsity": 0.1, "sparsity_weight": 0.0}, {"sparsity": 0.1})
    )
    assert np.array_equal(free.weights_, weightless.weights_)
    assert np.array_equal(free.hidden_bias_, weightless.hidden_bias_)
    assert pulled.transform(images).mean() < free.transform(images).mean() - 0.01


def test_the_pull_on_the_weights_lowers_the_activation_as_well(digits: tuple[np.ndarray, np.ndarray]) -> None:
    images = digits[0][:500]
    settings: dict[str, Any] = {"hidden": 20, "epochs": 20, "batch_size": 10, "sparsity_form": "bias+weights"}
    activations = [
        RBM(sparsity=0.05, sparsity_weight=weight, **settings).fit(images).transform(images).mean()
        for weight in (0.0, 3.0, 10.0)
    ]
    assert activations[0] > activations[1] + 0.02 > activations[2] + 0.04
