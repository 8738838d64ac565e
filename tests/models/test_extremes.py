"""Rare pixels at many standard deviations, images without contrast, and training that diverges."""

import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.models.small import MODELS, small
from thetarbm_cli.backend import select_backend
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.contrastive_divergence import DivergenceError, TrainingState


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def assert_all_finite(model: RBM, images: np.ndarray) -> None:
    features = model.transform(images)
    assert np.isfinite(features).all()
    assert features.min() >= 0
    assert features.max() <= 1 + 1e-6
    assert np.isfinite(model.free_energy(images)).all()
    assert np.isfinite(model.reconstruct(images)).all()


@pytest.mark.parametrize(
    "settings",
    [{"variance": "learned"}, {"gibbs_steps": 2, "visible_sampling": "sample"}],
    ids=["learned", "drawn"],
)
@pytest.mark.parametrize("name", MODELS)
def test_rare_pixels_of_training_images_at_many_deviations(name: str, settings: dict[str, Any]) -> None:
    images = np.random.default_rng(0).normal(0, 1, (300, 36)).astype(np.float32)
    images[::100, 5] = 1e4
    images[50::100, 20] = -1e4
    model = small(name, standardise=False, **settings).fit(images)
    assert np.isfinite([record.reconstruction_error for record in model.history_]).all()
    assert_all_finite(model, images)


@pytest.mark.parametrize("name", MODELS)
def test_images_that_are_all_alike(name: str) -> None:
    for visible, images in product(("gaussian", "bernoulli"), (np.zeros((20, 16)), np.full((1, 16), 0.25))):
        assert_all_finite(small(name, visible=visible).fit(images), images)


@pytest.mark.parametrize("model_class", [RBM, TransformInvariantRBM, ThetaRBM])
def test_the_monitor_has_the_last_good_state_when_training_diverges(model_class: type[RBM]) -> None:
    images = np.random.default_rng(0).random((200, 36), dtype=np.float32)
    settings: dict[str, Any] = {"hidden": 20, "learning_rate": 1.0, "sparsity": None, "weight_decay": 0}
    states: list[TrainingState] = []
    message = r"^training diverged in epoch \d+ \(mean squared .* error .*\); try a lower learning_rate than 1$"
    with pytest.raises(DivergenceError, match=message) as caught:
        model_class(epochs=20, **settings).fit(
            images, monitor=lambda state: states.append(state.to_host(select_backend()))
        )
    assert f"in epoch {len(states) + 1} " in str(caught.value)
    # It is what an equal fit of so many epochs leaves.
    stopped = model_class(epochs=len(states), **settings).fit(images)
    for name, value in states[-1].parameters.items():
        assert np.isfinite(value).all()
        assert np.array_equal(value, stopped.state_.parameters[name])


def test_an_update_that_overflows_at_the_very_end_of_an_epoch_is_divergence() -> None:
    images = np.full((30, 16), 100)
    epochs: list[int] = []
    with pytest.raises(DivergenceError, match="in epoch 1 "):
        # One batch: its error is that of the parameters before the update.
        RBM(hidden=5, epochs=1, batch_size=30, learning_rate=1e38, standardise=False).fit(
            images, monitor=lambda state: epochs.append(state.epoch)
        )
    assert epochs == []
