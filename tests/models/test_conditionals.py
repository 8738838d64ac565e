from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad

from tests.models.exact import TinyMachine, all_states
from tests.models.placed import placed
from tests.models.tiny import HIDDEN, PIXELS, Tiny, tiny
from thetarbm_cli.backend import select_backend
from thetarbm_cli.models import RBM, ThetaRBM
from thetarbm_cli.models.contrastive_divergence import OrientationGroups
from thetarbm_cli.models.couplings import SharedCoupling
from thetarbm_cli.models.visible import VisibleUnits

# Exact turns by 90° and interpolated ones by 72°.
CASES = [
    (name, rotations)
    for name in ("rbm", "tirbm", "theta-full", "theta-tied")
    for rotations in ((4, 5) if name != "rbm" else (1,))
]


def by_orientation(case: Tiny, images: np.ndarray, what: Any) -> np.ndarray:
    """what(exact machine, images), stacked over the orientations: (S, ...)."""
    return np.stack([what(case.exact(case.parameters, s), images) for s in range(case.orientations)])


def given(case: Tiny, s: int, count: int) -> dict[str, Any]:
    return {"orientations": np.full(count, s)} if case.orientations > 1 else {}


@pytest.mark.parametrize(("name", "rotations"), CASES)
def test_free_energy_and_features_are_sums_over_all_hidden_states(name: str, rotations: int) -> None:
    case = tiny(name, rotations=rotations)
    model = case.fitted()
    images = all_states(2, PIXELS).astype(np.float64)
    energies = by_orientation(case, images, TinyMachine.free_energy)
    features = by_orientation(case, images, lambda machine, x: machine.hidden_probabilities(x).sum(axis=0))
    for s in range(case.orientations):
        keywords = given(case, s, len(images))
        np.testing.assert_allclose(model.free_energy(images, **keywords), energies[s], rtol=0, atol=2e-5)
        np.testing.assert_allclose(model.transform(images, **keywords), features[s], rtol=0, atol=2e-6)


@pytest.mark.parametrize(("name", "rotations"), [case for case in CASES if case[1] != 5])
def test_gaussian_free_energy_and_features_with_a_learned_variance(name: str, rotations: int) -> None:
    case = tiny(name, "gaussian", rotations=rotations)
    model = case.fitted()
    images = np.random.default_rng(1).normal(0, 2, (40, PIXELS)).astype(np.float32)
    for s in range(case.orientations):
        machine = case.exact(case.parameters, s)
        keywords = given(case, s, len(images))
        exact = images.astype(np.float64)
        np.testing.assert_allclose(
            model.free_energy(images, **keywords), machine.free_energy(exact), rtol=1e-5, atol=1e-4
        )
        np.testing.assert_allclose(
            model.transform(images, **keywords),
            machine.hidden_probabilities(exact).sum(axis=0),
            rtol=0,
            atol=1e-5,
        )


def test_the_mixed_orientations_of_a_batch_come_back_in_order() -> None:
    case = tiny("theta-full")
    model = case.fitted()
    images = all_states(2, PIXELS).astype(np.float64)
    orientations = np.random.default_rng(2).integers(0, 4, len(images))
    energies = by_orientation(case, images, TinyMachine.free_energy)[orientations, np.arange(len(images))]
    np.testing.assert_allclose(model.free_energy(images, orientations=orientations), energies, atol=2e-5)


@pytest.mark.parametrize("name", ["rbm", "tirbm", "theta-full", "theta-tied"])
def test_the_mean_of_bernoulli_images_given_hidden_states_is_a_sum_over_all_images(name: str) -> None:
    case = tiny(name)
    machine_of = case.fitted()._fitted_model
    for s in range(case.orientations):
        exact = case.exact(case.parameters, s)
        machine = machine_of()
        hidden = machine.backend.asarray(hidden_states(exact))
        groups = OrientationGroups.of(machine.backend, np.full(len(exact.states), s), machine.groups)
        means = machine.backend.to_host(machine.visible.mean(machine.coupling.top_down(hidden, groups), groups))
        if name == "theta-tied":
            # From the frame of M to that of the image.
            means = means.reshape(-1, 3, 3)
            means = np.rot90(means, s, axes=(1, 2)).reshape(len(means), -1)
        np.testing.assert_allclose(means, exact.visible_means(), rtol=0, atol=1e-6)


def hidden_states(exact: TinyMachine) -> np.ndarray:
    """All hidden states as the interactions take them: (C, H) of 0 and 1, or one-hot (K, C, H)."""
    count = len(exact.hidden_bias)
    one_hot = np.stack([exact.states == k for k in range(1, count + 1)]).astype(np.float32)
    return one_hot[0] if count == 1 else one_hot


def gaussian_rbm(pixels: int) -> tuple[RBM, TinyMachine]:
    random = np.random.default_rng(3)
    parameters = {
        "weights": random.normal(0, 1, (HIDDEN, pixels)).astype(np.float32),
        "hidden_bias": random.normal(0, 1, HIDDEN).astype(np.float32),
        "visible_bias": random.normal(0, 1, (1, pixels)).astype(np.float32),
        "log_variance": random.normal(0, 0.5, (1, pixels)).astype(np.float32),
    }
    model = RBM(hidden=HIDDEN, variance="learned", standardise=False).load_arrays(parameters)
    double = {name: value.astype(np.float64) for name, value in parameters.items()}
    return model, TinyMachine(
        double["weights"][None],
        double["hidden_bias"][None],
        double["visible_bias"][0],
        double["log_variance"][0],
    )


def test_gaussian_conditionals_by_numerical_integration() -> None:
    model, exact = gaussian_rbm(1)
    machine = model._fitted_model()
    hidden = machine.backend.asarray(exact.states.astype(np.float32))
    means = machine.backend.to_host(
        machine.reconstruction(hidden, OrientationGroups.single(machine.backend, len(hidden)))
    )
    for row, mean in enumerate(means[:, 0]):
        mass, centre, square = (
            quad(lambda x, row=row, p=power: x**p * np.exp(exact.minus_energy(np.array([[x]]))[row, 0]), -20, 20)[0]
            for power in (0, 1, 2)
        )
        assert mean == pytest.approx(centre / mass, abs=1e-5)
        variance = square / mass - (centre / mass) ** 2
        assert np.exp(model.log_variance_[0, 0]) == pytest.approx(variance, rel=1e-5)


def test_gaussian_partition_and_free_energy_by_numerical_integration() -> None:
    model, exact = gaussian_rbm(2)
    # The trapezoid rule is as good as exact for smooth functions that vanish at the ends.
    axis = np.linspace(-15, 15, 301)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    assert np.exp(exact.log_likelihood(grid)).sum() * 0.1**2 == pytest.approx(1, abs=1e-6)
    images = np.random.default_rng(4).normal(0, 2, (50, 2))
    np.testing.assert_allclose(model.free_energy(images), exact.free_energy(images), rtol=1e-5, atol=1e-4)


def test_gaussian_units_are_drawn_with_their_variance() -> None:
    backend = select_backend()
    parameters = {
        "visible_bias": np.zeros((2, 2), dtype=np.float32),
        "log_variance": np.log(np.array([[0.25, 1], [4, 9]], dtype=np.float32)),
    }
    units = VisibleUnits(backend, placed(backend, parameters), "gaussian")
    index = np.repeat([0, 1], 40_000)
    groups = OrientationGroups.of(backend, index, 2)
    means = backend.asarray(np.full((80_000, 2), 3, dtype=np.float32))
    drawn = backend.to_host(units.sample(means, groups, backend.random(np.random.SeedSequence(1))))
    for s in range(2):
        np.testing.assert_allclose(drawn[index == s].mean(axis=0), 3, atol=0.06)
        np.testing.assert_allclose(drawn[index == s].std(axis=0), np.exp(parameters["log_variance"][s] / 2), rtol=0.02)


def test_a_tracked_sigma_scales_what_units_see_and_what_they_say() -> None:
    random = np.random.default_rng(5)
    sigma = np.float32(1.7)
    parameters = {
        "weights": random.normal(0, 1, (HIDDEN, 4)).astype(np.float32),
        "hidden_bias": random.normal(0, 1, HIDDEN).astype(np.float32),
        "visible_bias": random.normal(0, 1, (1, 4)).astype(np.float32),
        "sigma": np.array([sigma]),
    }
    backend = select_backend()
    units = VisibleUnits(backend, placed(backend, parameters), "gaussian")
    interaction = SharedCoupling(backend, units.parameters)
    one = OrientationGroups.single(backend, 1)
    image = random.normal(0, 1, (1, 4)).astype(np.float32)
    drive = backend.to_host(interaction.pre_activation(units.scaled(backend.asarray(image), one), one))
    np.testing.assert_allclose(
        drive[0], parameters["weights"] @ image[0] / sigma + parameters["hidden_bias"], rtol=1e-5
    )
    hidden = np.array([[1, 0, 1]], dtype=np.float32)
    mean = backend.to_host(units.mean(interaction.top_down(backend.asarray(hidden), one), one))
    expected = parameters["visible_bias"] + sigma * hidden @ parameters["weights"]
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
    # The mean is where the energy of the image with these hidden states is lowest.
    pixels = backend.to_host(units.scaled(backend.asarray(np.eye(4, dtype=np.float32)), one))
    seen = pixels @ parameters["weights"].T @ hidden[0]

    def energy(x: np.ndarray) -> float:
        own = backend.to_host(units.energy(backend.asarray(x.astype(np.float32)), one))
        return float(own[0] - x[0] @ seen)

    for step in np.concatenate([np.eye(4), -np.eye(4)]):
        assert energy(mean) < energy(mean + 0.1 * step)


def test_theta_without_given_orientations_uses_the_estimated_ones() -> None:
    images = np.random.default_rng(6).random((60, 64), dtype=np.float32)
    model = ThetaRBM(hidden=5, epochs=1).fit(images)
    estimated = model.orientation_estimator()(images)
    assert len(set(estimated)) > 3
    assert np.array_equal(model.transform(images), model.transform(images, orientations=estimated))
    assert np.array_equal(model.free_energy(images), model.free_energy(images, orientations=estimated))
    shifted = (estimated + 1) % 9
    assert not np.allclose(model.transform(images), model.transform(images, orientations=shifted))
