"""What a fitted model says of images: features, energies, reconstructions and samples."""

from typing import Any

import numpy as np
import pytest

from tests.models.exact import all_states
from tests.models.small import MODELS, small
from tests.models.tiny import PIXELS, tiny
from thetarbm_cli.errors import InputError
from thetarbm_cli.models import RBM, OrientedRBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.rbm import CHUNK

Digits = tuple[np.ndarray, np.ndarray]


@pytest.mark.parametrize("name", MODELS)
def test_an_image_alone_is_as_in_a_batch(name: str, digits: Digits) -> None:
    images = digits[0][:60]
    model = small(name).fit(images)
    features, energies, means = model.transform(images), model.free_energy(images), model.reconstruct(images)
    assert energies.shape == (60,)
    assert means.shape == (60, 784)
    for i in range(0, 60, 7):
        alone = images[i : i + 1]
        np.testing.assert_allclose(model.transform(alone)[0], features[i], rtol=0, atol=2e-6)
        np.testing.assert_allclose(model.free_energy(alone)[0], energies[i], rtol=1e-5)
        np.testing.assert_allclose(model.reconstruct(alone)[0], means[i], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_more_images_than_a_chunk(name: str) -> None:
    images = np.random.default_rng(1).random((CHUNK + 50, 16), dtype=np.float32)
    model = small(name, epochs=1).fit(images[:200])
    order = np.random.default_rng(2).permutation(len(images))
    for method in (model.transform, model.free_energy, model.reconstruct):
        np.testing.assert_allclose(method(images[order]), method(images)[order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", [{}, {"variance": "learned"}, {"visible": "bernoulli"}])
@pytest.mark.parametrize("name", MODELS)
def test_arrays_hold_all_that_was_learned(name: str, settings: dict[str, Any], digits: Digits) -> None:
    images = digits[0][:80]
    model = small(name, **settings).fit(images)
    arrays = model.to_arrays()
    assert all(isinstance(value, np.ndarray) and value.dtype == np.float32 for value in arrays.values())
    assert ("standard_mean" in arrays) is (settings.get("visible") != "bernoulli")
    copy = small(name, **settings).load_arrays(arrays)
    assert copy.n_features_in_ == 784
    assert np.array_equal(copy.transform(images), model.transform(images))
    assert np.array_equal(copy.free_energy(images), model.free_energy(images))
    assert np.array_equal(copy.reconstruct(images), model.reconstruct(images))
    assert np.array_equal(copy.sample(2, gibbs_steps=3), model.sample(2, gibbs_steps=3))
    again = copy.to_arrays()
    assert again.keys() == arrays.keys()
    assert all(np.array_equal(again[key], value) for key, value in arrays.items())


def test_arrays_of_a_tracked_sigma(digits: Digits) -> None:
    images = digits[0][:80]
    settings: dict[str, Any] = {"hidden": 8, "epochs": 2, "variance": "tracked"}
    model = TransformInvariantRBM(**settings).fit(images)
    copy = TransformInvariantRBM(**settings).load_arrays(model.to_arrays())
    assert copy.sigma_ == model.sigma_ != 1
    assert np.array_equal(copy.transform(images), model.transform(images))


def correlations(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(first, second, strict=True)])


@pytest.mark.no_device("the same numbers as here: test_device.py")
@pytest.mark.parametrize("visible", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("name", MODELS)
def test_reconstructions_look_like_the_images(name: str, visible: str, digits: Digits) -> None:
    images = digits[0][:400]
    settings: dict[str, Any] = {"rotations": 3} if name in ("tirbm", "theta-full") else {}
    model = small(name, hidden=50, epochs=15, batch_size=20, visible=visible, **settings).fit(images)
    model_images = model.aligned(images) if isinstance(model, OrientedRBM) else images
    similar = correlations(model.reconstruct(images), model_images).mean()
    other = correlations(model.reconstruct(images), np.roll(model_images, 1, axis=0)).mean()
    assert similar > 0.75
    assert similar > other + 0.3
    # In the scale of pixels, whatever the machine works in.
    assert abs(model.reconstruct(images).mean() - model_images.mean()) < 0.05


@pytest.mark.no_device("the same numbers as here: test_device.py")
@pytest.mark.parametrize("name", MODELS)
def test_energies_are_lower_for_digits_than_for_noise(name: str, digits: Digits) -> None:
    images = digits[0][:400]
    settings: dict[str, Any] = {"rotations": 3} if name in ("tirbm", "theta-full") else {}
    model = small(name, hidden=40, epochs=10, batch_size=20, visible="bernoulli", **settings).fit(images)
    shuffled = np.random.default_rng(3).permuted(images, axis=1)
    assert model.free_energy(images).mean() < model.free_energy(shuffled).mean() - 20


@pytest.mark.parametrize("name", ["rbm", "tirbm", "theta-full", "theta-tied"])
def test_samples_have_the_distribution_of_the_exact_machine(name: str) -> None:
    case = tiny(name)
    model = case.fitted()
    images = all_states(2, PIXELS).astype(np.float64)
    for s in range(case.orientations):
        probabilities = np.exp(case.exact(case.parameters, s).log_likelihood(images))
        expected = probabilities @ images
        drawn = model.sample(20_000, gibbs_steps=20, **({"orientation": s} if case.orientations > 1 else {}))
        # Means of the last step: E over h of E[x | h] is E[x].
        np.testing.assert_allclose(drawn.mean(axis=0), expected, rtol=0, atol=0.01)
        # And as the mean of a product is not the product of means, second moments see the dependence.
        assert drawn.std(axis=0).max() > 0.05


@pytest.mark.parametrize("name", MODELS)
def test_samples_are_images_of_a_seed(name: str, digits: Digits) -> None:
    model = small(name).fit(digits[0][:100])
    first, again, other = (model.sample(3, gibbs_steps=5, random_state=seed) for seed in (1, 1, 2))
    assert first.shape == (3, 784)
    assert first.dtype == np.float32
    assert np.isfinite(first).all()
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert model.sample(gibbs_steps=1).shape == (1, 784)


def test_samples_of_an_orientation_are_turned(digits: Digits) -> None:
    model = ThetaRBM(hidden=30, epochs=5, rotations=4, standardise=False, batch_size=20).fit(digits[0][:500])
    # One machine seen from four sides, but for the visible biases: take these away.
    model.visible_bias_[...] = 0
    upright = model.sample(5, gibbs_steps=50).reshape(5, 28, 28)
    for s in range(4):
        drawn = model.sample(5, gibbs_steps=50, orientation=s).reshape(5, 28, 28)
        np.testing.assert_allclose(drawn, np.rot90(upright, s, axes=(1, 2)), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"orientation": 9}, r"orientation must be in 0\.\.8, not 9"),
        ({"orientation": -1}, r"orientation must be in 0\.\.8, not -1"),
        ({"n_samples": 0}, "n_samples and gibbs_steps must be 1 or above, not 0 and 1000"),
        ({"gibbs_steps": 0}, "n_samples and gibbs_steps must be 1 or above, not 1 and 0"),
    ],
)
def test_samples_that_cannot_be_drawn(keywords: dict[str, int], message: str) -> None:
    model = ThetaRBM(hidden=3, epochs=1).fit(np.random.default_rng(0).random((20, 16)))
    with pytest.raises(InputError, match=message):
        model.sample(**keywords)


def test_a_model_without_slices_has_one_orientation() -> None:
    model = RBM(hidden=3, epochs=1).fit(np.random.default_rng(0).random((20, 16)))
    with pytest.raises(InputError, match=r"orientation must be in 0\.\.0, not 1"):
        model.sample(orientation=1)


@pytest.mark.parametrize("name", MODELS)
def test_histories_tell_of_each_epoch(name: str, digits: Digits) -> None:
    images = digits[0][:200]
    model = small(name, epochs=4).fit(images)
    assert [record.epoch for record in model.history_] == [1, 2, 3, 4]
    errors = [record.reconstruction_error for record in model.history_]
    assert errors[-1] < errors[0]
    assert all(0 < record.mean_activation < 1 for record in model.history_)


def test_the_error_of_an_epoch_by_hand() -> None:
    # No weights to speak of and one batch: the reconstruction is the visible bias, still 0, of every pixel.
    images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    model = RBM(hidden=3, epochs=1, initial_scale=1e-20, standardise=False).fit(images)
    assert model.history_[0].reconstruction_error == pytest.approx((images**2).mean(), rel=1e-5)
    assert model.history_[0].mean_activation == 0.5
