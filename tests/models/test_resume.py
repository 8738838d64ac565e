"""Seeds, and training that stops after any epoch and goes on: always the same bits."""

import pickle
from typing import Any

import numpy as np
import pytest

from tests.models.small import MODELS, small
from thetarbm_cli.backend import select_backend
from thetarbm_cli.models import RBM
from thetarbm_cli.models.contrastive_divergence import TrainingState
from thetarbm_cli.models.seeds import AXES, seed_of
from thetarbm_cli.registry import MODELS as REGISTERED

# All that could carry something from epoch to epoch.
SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "all": {
        "variance": "learned",
        "visible_sampling": "sample",
        "gibbs_steps": 2,
        "rate_decay": 0.3,
        "initial_momentum": 0.5,
        "momentum_epochs": 2,
        "weight_decay": 1e-3,
        "batch_size": 32,
        "drop_last": True,
        "whiten": True,
    },
    "bernoulli": {"visible": "bernoulli", "visible_sampling": "sample", "batch_size": 17},
}


def assert_same(first: RBM, second: RBM) -> None:
    ours, theirs = first.to_arrays(), second.to_arrays()
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        assert np.array_equal(value, theirs[name]), name
    for name, value in first.state_.increments.items():
        assert np.array_equal(value, second.state_.increments[name]), name
    assert first.history_ == second.history_


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    return np.random.default_rng(4).random((110, 36), dtype=np.float32)


AUTHORS: dict[str, Any] = {**REGISTERED["tirbm"].preset("reference"), "hidden": 8, "batch_size": 32}


@pytest.mark.parametrize(
    ("name", "settings"), [("tirbm", AUTHORS), *((name, settings) for name in MODELS for settings in SETTINGS.values())]
)
def test_a_resumed_fit_is_the_uninterrupted_one_to_the_last_bit(
    name: str, settings: dict[str, Any], images: np.ndarray
) -> None:
    settings = {**settings, "epochs": 4}
    whole = small(name, **settings)
    states: list[TrainingState] = []
    whole.fit(images, monitor=lambda state: states.append(state.to_host(select_backend())))
    assert [state.epoch for state in states] == [1, 2, 3, 4]
    for state in states:
        written = pickle.loads(pickle.dumps(state))
        assert_same(small(name, **settings).fit(images, resume=written), whole)
        # The state that was given is left as it was.
        for key, value in state.parameters.items():
            assert np.array_equal(value, written.parameters[key])


@pytest.mark.parametrize("name", MODELS)
def test_partial_fit_for_every_epoch_is_fit(name: str, images: np.ndarray) -> None:
    stepwise = small(name, epochs=4, **SETTINGS["all"])
    for _ in range(4):
        assert stepwise.partial_fit(images) is stepwise
    assert_same(stepwise, small(name, epochs=4, **SETTINGS["all"]).fit(images))


@pytest.mark.parametrize("name", MODELS)
def test_partial_fit_goes_on_from_loaded_arrays(name: str, images: np.ndarray) -> None:
    arrays = small(name).fit(images).to_arrays()
    fresh = small(name).load_arrays(arrays).partial_fit(images)
    # The standardisation stays that of the first images.
    assert np.array_equal(fresh.partial_fit(images[:40]).to_arrays()["standard_mean"], arrays["standard_mean"])
    fresh = small(name).load_arrays(arrays).partial_fit(images)
    # What an estimator learned before it loaded others' parameters is forgotten.
    other = small(name, random_state=5).fit(images)
    other.set_params(random_state=0).load_arrays(arrays).partial_fit(images)
    assert len(fresh.history_) == 1
    assert np.array_equal(fresh.hidden_bias_, other.hidden_bias_)
    assert np.array_equal(fresh.weights_, other.weights_)
    assert np.abs(fresh.weights_ - arrays["weights"]).max() < 0.1


def test_models_of_a_seed_share_orders_and_initial_weights(images: np.ndarray) -> None:
    matrices = [small(name, epochs=0, random_state=6).fit(images).weights_ for name in MODELS]
    for matrix in matrices:
        assert np.array_equal(matrix if matrix.ndim == 2 else matrix[0], matrices[0])


@pytest.mark.no_device("seeds only")
def test_axes_of_a_seed_are_independent_and_stay_as_they_are() -> None:
    states = {tuple(seed_of(0, axis, *keys).generate_state(2)) for axis in AXES for keys in ((), (0,), (1,), (0, 1))}
    assert len(states) == 4 * len(AXES)
    # Stored results depend on the positions of the axes.
    assert AXES == ("data", "initial", "order", "sampling", "perturbation", "fields", "states")


@pytest.mark.parametrize("state", [None, np.random.RandomState(3)], ids=["none", "object"])
def test_other_random_states_of_scikit_learn_are_accepted(state: Any, images: np.ndarray) -> None:
    model = RBM(hidden=4, epochs=2, random_state=state).fit(images)
    assert np.isfinite(model.weights_).all()
    model.partial_fit(images)
    assert len(model.history_) == 3
