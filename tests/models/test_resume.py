"""Seeds, and training that stops after any epoch and goes on: always the same bits."""

import pickle
from typing import Any

import numpy as np
import pytest

from tests.models.small import AUTHORS_SETTINGS, MODELS, small
from thetarbm_cli.backend import select_backend
from thetarbm_cli.models import RBM
from thetarbm_cli.models.contrastive_divergence import TrainingState
from thetarbm_cli.models.seeds import AXES, seed_of

# All that could carry something from epoch to epoch.
ALL: dict[str, Any] = {
    "variance": "learned", "visible_sampling": "sample", "gibbs_steps": 2, "rate_decay": 0.3, "initial_momentum": 0.5,
    "momentum_epochs": 2, "weight_decay": 1e-3, "batch_size": 32, "drop_last": True, "whiten": True,
}  # fmt: skip
BERNOULLI: dict[str, Any] = {"visible": "bernoulli", "visible_sampling": "sample", "batch_size": 17}


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


AUTHORS: dict[str, Any] = {**AUTHORS_SETTINGS, "hidden": 8, "batch_size": 32}


@pytest.mark.parametrize(
    ("name", "settings"),
    [("tirbm", AUTHORS), *((name, settings) for name in MODELS for settings in ({}, ALL, BERNOULLI))],
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


@pytest.mark.parametrize("name", ["theta-tied", "theta-full", "orbm"])
def test_orientations_that_are_redrawn_resume_too(name: str, images: np.ndarray) -> None:
    estimated = np.arange(len(images)) % 9

    def of_epoch(epoch: int) -> np.ndarray:
        return (estimated + np.random.default_rng(epoch).integers(0, 2, len(images))) % 9

    given: dict[str, Any] = {"orientations": of_epoch, "standardise_by": estimated}
    settings: dict[str, Any] = {"epochs": 4, "batch_size": 32}
    states: list[TrainingState] = []
    whole = small(name, **settings)
    whole.fit(images, **given, monitor=lambda state: states.append(state.to_host(select_backend())))
    for state in states:
        assert_same(small(name, **settings).fit(images, **given, resume=state), whole)
    once = small(name, **settings).fit(images, orientations=of_epoch(0), standardise_by=estimated)
    assert not np.array_equal(once.weights_, whole.weights_)


@pytest.mark.parametrize("name", MODELS)
def test_partial_fit_for_every_epoch_is_fit(name: str, images: np.ndarray) -> None:
    stepwise = small(name, epochs=4, **ALL)
    for _ in range(4):
        assert stepwise.partial_fit(images) is stepwise
    assert_same(stepwise, small(name, epochs=4, **ALL).fit(images))


@pytest.mark.parametrize("name", MODELS)
def test_partial_fit_goes_on_from_loaded_arrays(name: str, images: np.ndarray) -> None:
    arrays = small(name).fit(images).to_arrays()
    # What an estimator learned before it loaded others' parameters is forgotten.
    other = small(name, random_state=5).fit(images).set_params(random_state=0)
    for model in (fresh := small(name), other):
        # The standardisation stays that of the first images.
        model.load_arrays(arrays).partial_fit(images[:40])
        assert np.array_equal(model.to_arrays()["standard_mean"], arrays["standard_mean"])
    assert_same(fresh, other)
    assert len(fresh.history_) == 1
    assert np.abs(fresh.weights_ - arrays["weights"]).max() < 0.1


def test_axes_of_a_seed_are_independent_and_stay_as_they_are() -> None:
    states = {tuple(seed_of(0, axis, *keys).generate_state(2)) for axis in AXES for keys in ((), (0,), (1,), (0, 1))}
    assert len(states) == 4 * len(AXES)
    # Stored results depend on the positions of the axes.
    axes = ("data", "initial", "order", "sampling", "perturbation", "fields", "states", "controls", "distances")
    assert axes == AXES


def test_other_random_states_of_scikit_learn_are_accepted(images: np.ndarray) -> None:
    for state in (None, np.random.RandomState(3)):
        assert len(RBM(hidden=4, epochs=2, random_state=state).fit(images).partial_fit(images).history_) == 3
