"""Weights that were not learned: what they share with the learned ones, and what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import MiniBatchKMeans

from tests.models.cases import CASES, fitted, images
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.models import RBM, LocalThetaRBM, ThetaRBM
from thetarbm_cli.models.seeds import generator_of
from thetarbm_cli.models.unlearned import KINDS, unlearned


def activations(model: RBM) -> np.ndarray:
    """Mean activation of each unit over what it learned from."""
    shown = images()
    if type(model).__name__ == "AugmentedRBM":
        shown = Rotations(model.size_, model.rotations).rotate_all(shown).reshape(-1, shown.shape[1])
    return model.transform(shown).mean(axis=0, dtype=np.float64)


def lengths(weights: np.ndarray) -> np.ndarray:
    units = np.moveaxis(weights.astype(np.float64), -2, 0)
    return np.linalg.norm(units.reshape(len(units), -1), axis=1)


def cosines(rows: np.ndarray, others: np.ndarray) -> np.ndarray:
    return np.asarray((rows / lengths(rows)[:, None]) @ (others / lengths(others)[:, None]).T)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", CASES)
def test_units_are_as_long_and_as_active_as_the_learned_ones(case: str, kind: str) -> None:
    model = fitted(case, "auto")
    before = {name: value.copy() for name, value in model.to_arrays().items()}
    control, again = (unlearned(model, kind, images()) for _ in range(2))
    np.testing.assert_allclose(lengths(control.weights_), lengths(model.weights_), rtol=1e-5)
    np.testing.assert_allclose(activations(control), activations(model), atol=1e-4)
    assert not np.allclose(control.weights_, model.weights_, rtol=1e-2)
    # All else is as it was, and the model, too.
    for name, value in control.to_arrays().items():
        np.testing.assert_array_equal(model.to_arrays()[name], before[name])
        assert (name in ("weights", "hidden_bias")) or np.array_equal(value, before[name])
        assert (value.shape, value.dtype) == (before[name].shape, before[name].dtype)
        np.testing.assert_array_equal(again.to_arrays()[name], value)
    copied = type(model)(**model.get_params()).load_arrays(control.to_arrays())
    np.testing.assert_array_equal(copied.transform(images()), control.transform(images()))


@pytest.mark.parametrize("case", ["tirbm, learned variance", "tirbm, of its authors"])
def test_all_rotations_of_a_unit_have_one_bias(case: str) -> None:
    control = unlearned(fitted(case, "auto"), "images", images())
    assert (control.hidden_bias_ == control.hidden_bias_[0]).all()


def standardised(case: str) -> tuple[RBM, np.ndarray]:
    """A model, and what its hidden units see, written out."""
    model = fitted(case, "auto")
    arrays, shown = model.to_arrays(), images()
    if case == "orbm":
        shown = Rotations(model.size_, model.rotations).rotate(
            shown, -model._orientations(shown, None) % model.rotations
        )
    seen = (shown - shown.mean(axis=0)) / shown.std(axis=0)
    if "log_variance" in arrays:
        seen = seen * np.exp(-arrays["log_variance"])
    if "sigma" in arrays:
        seen = seen / arrays["sigma"]
    return model, seen


PLAIN = ["rbm, learned variance, noisy", "orbm", "tirbm, of its authors"]


@pytest.mark.parametrize("case", PLAIN)
def test_images_are_inputs_of_the_network_each_taken_once(case: str) -> None:
    model, seen = standardised(case)
    found = cosines(unlearned(model, "images", images()).weights_, seen)
    chosen = found.argmax(axis=1)
    np.testing.assert_allclose(found.max(axis=1), 1, atol=1e-5)
    assert len(set(chosen)) == len(chosen) == model.hidden
    np.testing.assert_array_equal(chosen, generator_of(0, "controls", 2).choice(len(seen), model.hidden, replace=False))


@pytest.mark.parametrize("case", PLAIN)
def test_normal_weights_are_random_numbers_of_the_seed(case: str) -> None:
    model, seen = standardised(case)
    rows = generator_of(0, "controls", 0).standard_normal((model.hidden, seen.shape[1]), dtype=np.float32)
    found = cosines(unlearned(model, "normal", images()).weights_, rows)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-5)
    other = unlearned(model.set_params(random_state=1), "normal", images())
    assert np.abs(np.diag(cosines(other.weights_, rows))).max() < 0.9


def test_centres_are_those_of_clusters_of_the_inputs() -> None:
    # Images in four heaps have four centres, whatever finds them.
    heaps = np.random.default_rng(0).random((4, 64), dtype=np.float32)
    shown = np.repeat(heaps, 30, axis=0) + np.random.default_rng(1).normal(0, 0.01, (120, 64)).astype(np.float32)
    model = RBM(hidden=4, epochs=1, standardise=False).fit(shown)
    found = cosines(
        unlearned(model, "kmeans", shown).weights_, np.stack([part.mean(axis=0) for part in np.split(shown, 4)])
    )
    np.testing.assert_allclose(found.max(axis=1), 1, atol=1e-4)
    assert sorted(found.argmax(axis=1)) == [0, 1, 2, 3]
    inertia = MiniBatchKMeans(4, n_init=3, random_state=0).fit(shown).inertia_
    assert inertia < 0.01 * np.square(shown - shown.mean(axis=0)).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_images_than_units_are_taken_more_than_once(kind: str) -> None:
    model = RBM(hidden=9, epochs=1).fit(images()[:5])
    control = unlearned(model, kind, images()[:5])
    np.testing.assert_allclose(lengths(control.weights_), lengths(model.weights_), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_slices_are_rotated_copies_of_one_matrix(kind: str) -> None:
    model: Any = fitted("theta, full, exact group", "auto")
    control: Any = unlearned(model, kind, images())
    support = Rotations(model.size_, model.rotations, "permutation")
    for s in range(model.rotations):
        np.testing.assert_allclose(control.weights_[s], support.rotate_by(control.weights_[0], s), atol=1e-6)
    if kind == "images":
        # In the frame of a tied model, of whose inputs these are.
        tied = ThetaRBM(**{**model.get_params(), "tensor": "tied", "variance": "fixed"}).fit(images())
        index = tied._orientations(images(), None)
        variance = np.exp(-model.log_variance_[index])
        seen = support.rotate(tied._standardised(images(), index) * variance, index, transpose=True)
        np.testing.assert_allclose(cosines(control.weights_[0], seen).max(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_local_filters_are_as_active_over_the_fields_of_training(kind: str) -> None:
    model = LocalThetaRBM(hidden=4, field=3, pooling=2, fields=300, epochs=2, rotations=4).fit(images())
    control = unlearned(model, kind, images())
    np.testing.assert_allclose(lengths(control.weights_), lengths(model.weights_), rtol=1e-5)
    model._seed = 0
    fields = model._inputs_to_learn(images(), *[model._orientations(images(), None)] * 2).astype(np.float64)
    means = [
        (1 / (1 + np.exp(-fields @ each.weights_.T - each.hidden_bias_))).mean(axis=0) for each in (model, control)
    ]
    np.testing.assert_allclose(means[0], means[1], atol=1e-4)
    assert control.transform(images()).shape == model.transform(images()).shape


def test_orientations_of_the_training_are_those_that_count() -> None:
    model, given = fitted("theta, tied, learned variance", "auto"), np.arange(25) % 4
    own, other = (unlearned(model, "images", images(), orientations=each) for each in (None, given))
    assert not np.allclose(own.weights_, other.weights_, atol=1e-3)
    found = other.transform(images(), orientations=given).mean(axis=0)
    np.testing.assert_allclose(found, model.transform(images(), orientations=given).mean(axis=0), atol=1e-4)


def test_units_that_are_always_on_or_off_stay_so() -> None:
    model = RBM(hidden=3, epochs=1).fit(images())
    model._set_parameters({**model._parameters(), "hidden_bias": np.float32([-200, 200, 0])})
    found = activations(unlearned(model, "normal", images()))
    np.testing.assert_allclose(found[:2], [0, 1], atol=1e-4)
    empty = model.load_arrays({**model.to_arrays(), "weights": np.zeros((3, 64), np.float32)})
    assert not unlearned(empty, "images", images()).weights_.any()


def test_other_words_are_refused() -> None:
    with pytest.raises(InputError, match="weights must be one of normal, kmeans, images, not 'learned'"):
        unlearned(fitted("orbm", "auto"), "learned", images())
