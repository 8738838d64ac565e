"""What a fitted model says of images: features, energies, reconstructions and samples."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from tests.models.exact import all_states
from tests.models.small import MODELS, small
from tests.models.tiny import PIXELS, tiny
from thetarbm_cli.errors import InputError
from thetarbm_cli.models import RBM, ThetaRBM

Digits = tuple[np.ndarray, np.ndarray]


@pytest.mark.parametrize("name", MODELS)
def test_an_image_alone_is_as_in_a_batch_of_several_chunks(
    name: str, digits: Digits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thetarbm_cli.models.rbm.CHUNK", 25)
    images = digits[0][:60]
    model = small(name).fit(images)
    for method in (model.transform, model.free_energy, model.reconstruct):
        together = method(images)
        assert len(together) == 60
        for i in range(0, 60, 7):
            np.testing.assert_allclose(method(images[i : i + 1])[0], together[i], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("settings", [{"variance": "learned"}, {"visible": "bernoulli"}], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_arrays_hold_all_that_was_learned(name: str, settings: dict[str, Any], digits: Digits) -> None:
    images = digits[0][:80]
    model = small(name, **settings).fit(images)
    arrays = model.to_arrays()
    assert all(isinstance(value, np.ndarray) and value.dtype == np.float32 for value in arrays.values())
    assert ("standard_mean" in arrays) is (settings.get("visible") != "bernoulli")
    copy = small(name, **settings).load_arrays(arrays)
    assert copy.n_features_in_ == 784
    for method in ("transform", "free_energy", "reconstruct"):
        assert np.array_equal(getattr(copy, method)(images), getattr(model, method)(images))
    assert np.array_equal(copy.sample(2, gibbs_steps=3), model.sample(2, gibbs_steps=3))
    assert copy.to_arrays().keys() == arrays.keys()
    assert len(copy.get_feature_names_out()) == model.transform(images).shape[1] == 8
    assert model.components_ is model.weights_


def test_reconstruction_is_one_pass_up_and_down_in_the_scale_of_pixels() -> None:
    images = np.random.default_rng(0).random((30, 16), dtype=np.float32)
    model = RBM(hidden=5, epochs=3, initial_scale=0.3).fit(images)
    mean, scale = images.mean(axis=0), images.std(axis=0)
    hidden = expit(model.hidden_bias_ + (images - mean) / scale @ model.weights_.T)
    expected = (model.visible_bias_ + hidden @ model.weights_) * scale + mean
    np.testing.assert_allclose(model.reconstruct(images), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["rbm", "tirbm", "theta-full", "theta-tied"])
def test_samples_have_the_distribution_of_the_exact_network(name: str) -> None:
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


def test_samples_that_cannot_be_drawn() -> None:
    model = ThetaRBM(hidden=3, epochs=1).fit(np.random.default_rng(0).random((20, 16)))
    for name, wrong, message in (
        ("orientation", 9, r"orientation must be in 0\.\.8, not 9"),
        ("orientation", -1, r"orientation must be in 0\.\.8, not -1"),
        ("n_samples", 0, "n_samples and gibbs_steps must be 1 or above, not 0 and 1000"),
        ("gibbs_steps", 0, "n_samples and gibbs_steps must be 1 or above, not 1 and 0"),
    ):
        with pytest.raises(InputError, match=message):
            model.sample(**{name: wrong})


def test_the_error_of_an_epoch_by_hand() -> None:
    # No weights to speak of and one batch: the reconstruction is the visible bias, still 0, of every pixel.
    images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    model = RBM(hidden=3, epochs=1, initial_scale=1e-20, standardise=False).fit(images)
    assert model.history_[0].reconstruction_error == pytest.approx((images**2).mean(), rel=1e-5)
    assert model.history_[0].mean_activation == 0.5
