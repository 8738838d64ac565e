"""Images of any square size, any number of rotations, orientations given or estimated, and wrong input."""

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.small import small
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.standardise import Whitener
from thetarbm_cli.models import RBM, LocalThetaRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.base import OrientedModel

ORIENTED = ["orbm", "theta-tied", "theta-full"]
IMAGE_MODELS = ["tirbm", *ORIENTED]


def pictures(count: int = 40, size: int = 8) -> np.ndarray:
    return np.random.default_rng(size).random((count, size * size), dtype=np.float32)


def use(model: RBM, images: np.ndarray) -> None:
    """Everything a model does, once."""
    pixels = images.shape[1]
    model.fit(images)
    assert model.transform(images).shape == (len(images), model.hidden)
    assert np.isfinite(model.free_energy(images)).all()
    assert model.reconstruct(images).shape == images.shape
    assert model.sample(2, gibbs_steps=2).shape == (2, pixels)
    model.partial_fit(images)


@pytest.mark.parametrize("kind", ["bilinear", "replicated", "nearest", "permutation"])
@pytest.mark.parametrize("name", IMAGE_MODELS)
@settings(max_examples=6)
@given(size=st.integers(2, 9), rotations=st.integers(1, 12), count=st.integers(1, 30))
def test_any_size_and_any_number_of_rotations(name: str, kind: str, size: int, rotations: int, count: int) -> None:
    model = small(name, hidden=4, epochs=2, rotations=rotations, rotation=kind, batch_size=7)
    use(model, pictures(count, size))


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_one_rotation_is_a_plain_network(name: str) -> None:
    images = pictures(60)
    common: dict[str, Any] = {"epochs": 4, "batch_size": 16, "sparsity_weight": 1.0}
    plain, single = small("rbm", **common).fit(images), small(name, rotations=1, **common).fit(images)
    np.testing.assert_allclose(single.weights_.reshape(plain.weights_.shape), plain.weights_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(single.hidden_bias_.ravel(), plain.hidden_bias_, rtol=0, atol=1e-6)
    for method in ("transform", "free_energy", "reconstruct"):
        expected = getattr(plain, method)(images)
        np.testing.assert_allclose(getattr(single, method)(images), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(single.sample(3, gibbs_steps=5), plain.sample(3, gibbs_steps=5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ORIENTED)
def test_given_orientations_that_are_the_estimated_ones_change_nothing(name: str) -> None:
    images = pictures(80)
    estimated = small(name).orientation_estimator()(images)
    by_itself, told = small(name).fit(images), small(name).fit(images, orientations=estimated.tolist())
    assert np.array_equal(by_itself.weights_, told.weights_)
    for method in ("transform", "free_energy", "reconstruct"):
        expected = getattr(by_itself, method)(images)
        assert np.array_equal(getattr(told, method)(images, orientations=estimated), expected)
    others = small(name).fit(images, orientations=(estimated + 1) % 9)
    assert not np.array_equal(others.weights_, told.weights_)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((5, 15)), "images must be square, flattened row by row: 15 pixels are no square of 2 or more"),
        (np.zeros((5, 4, 3)), "images must be square, not 4×3 pixels"),
        (np.zeros((5, 4, 4, 3)), "pixels have 3 colours: make images grey"),
    ],
)
def test_arrays_that_are_no_square_images(wrong: np.ndarray, message: str) -> None:
    with pytest.raises(InputError, match=message):
        small("tirbm").fit(wrong)


def test_wrong_orientations() -> None:
    images = pictures()
    fitted = small("theta-tied").fit(images)
    for orientations, message in (
        (np.zeros(39, dtype=int), "orientations must be 40 integers, one per image"),
        (np.zeros(40), "orientations must be 40 integers, one per image"),
        (np.full(40, 9), r"orientations must be in 0\.\.8, not 9\.\.9"),
        (np.full(40, -1), r"orientations must be in 0\.\.8, not -1\.\.-1"),
    ):
        for method in (small("orbm").fit, fitted.transform):
            with pytest.raises(InputError, match=message):
                method(images, orientations=orientations)


def test_what_images_are_standardised_by() -> None:
    images = pictures(80)
    index, others = np.random.default_rng(2).integers(0, 9, (2, 80))
    one = small("theta-tied").fit(images, orientations=index, standardise_by=index.tolist())
    same = small("theta-tied").fit(images, orientations=index)
    assert np.array_equal(one.weights_, same.weights_)
    by_others = small("theta-tied").fit(images, orientations=index, standardise_by=others)
    assert not np.array_equal(one.weights_, by_others.weights_)
    seen = by_others.transform(images, orientations=index, standardise_by=others)
    assert not np.allclose(seen, by_others.transform(images, orientations=index))
    # Where there is one group of images, it says nothing.
    for name in ("rbm", "tirbm", "orbm"):
        plain, told = (small(name).fit(images, orientations=index, **more) for more in ({}, {"standardise_by": others}))
        assert np.array_equal(plain.weights_, told.weights_)
        given: dict[str, Any] = {"orientations": index}
        expected = plain.transform(images, **given)
        assert np.array_equal(plain.transform(images, **given, standardise_by=others), expected)
    # Orientations that change have the statistics of the estimated ones, unless others are given.
    estimated = one.orientation_estimator()(images)  # type: ignore[attr-defined]
    found, told = (
        small("theta-tied").fit(images, orientations=lambda _: index, **more)
        for more in ({}, {"standardise_by": estimated})
    )
    assert np.array_equal(found.weights_, told.weights_)
    for wrong, message in ((np.full(80, 9), r"must be in 0\.\.8"), (np.zeros(79, dtype=int), "must be 80 integers")):
        for method in (small("theta-tied").fit, one.transform):
            with pytest.raises(InputError, match=message):
                method(images, orientations=index, standardise_by=wrong)
        with pytest.raises(InputError, match=message):
            small("theta-tied").fit(images, orientations=lambda _, wrong=wrong: wrong)
    for method in (small("theta-tied").fit, one.transform):
        with pytest.raises(InputError, match="give orientations, too"):
            method(images, standardise_by=others)


@pytest.mark.parametrize(
    ("model_class", "wrong", "message"),
    [
        (RBM, {"random_state": -1}, "a seed must be 0 or above, not -1"),
        (RBM, {"backend": "torch"}, "unknown backend 'torch'"),
        (ThetaRBM, {"variance": "tracked"}, "variance must be one of fixed, learned, not 'tracked'"),
        (RBM, {"visible": "bernoulli", "variance": "learned"}, "no variance to learn"),
        (TransformInvariantRBM, {"sparsity_slope": "each", "sparsity_form": "bias"}, "'each' needs sparsity_form="),
        (OrientedRBM, {"turn": "radians", "rotation": "permutation"}, "for which there are no exact permutations"),
        (OrientedRBM, {"turn": "index", "rotation": "permutation"}, "turn='index' rotates by other angles"),
        (TransformInvariantRBM, {"angles": "wedge", "rotation": "permutation"}, "a wedge of angles has no exact perm"),
        (TransformInvariantRBM, {"angles": "wedge", "rotations": 25}, "25 rotations in steps of 15° are more than"),
        (ThetaRBM, {"whiten": True, "visible": "bernoulli"}, "whitened images are no probabilities: use visible="),
        (RBM, {"whiten": True, "standardise": True}, "whitening takes the place of standardising"),
        (LocalThetaRBM, {"whiten": True}, "the local θ-RBM sees fields, which whiten does not prepare"),
        (ThetaRBM, {"initial": "independent"}, "independent initial slices need tensor='full'"),
    ],
)
def test_settings_that_do_not_go_together_are_named(
    model_class: type[RBM], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        model_class(**{"hidden": 3, "epochs": 1, **wrong}).fit(pictures())


def test_bernoulli_units_warn_of_values_outside_their_range() -> None:
    images = 255 * pictures()
    with pytest.warns(UserWarning, match=r"take values in \[0, 1\], and the images have .* to 25"):
        RBM(hidden=3, epochs=1, visible="bernoulli", learning_rate=1e-6).fit(images)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RBM(hidden=3, epochs=1, visible="bernoulli").fit(images / 255)


@pytest.mark.parametrize(
    "model",
    [
        ThetaRBM(6, epochs=2, rotations=12, hypotheses=0.7),
        ThetaRBM(6, epochs=2, rotations=12, hypotheses=0.7, tensor="full"),
        OrientedRBM(6, epochs=2, rotations=12, hypotheses=0.7),
        LocalThetaRBM(6, epochs=2, rotations=12, hypotheses=0.7, field=3, pooling=2, fields=100),
    ],
    ids=["tied", "full", "orbm", "local"],
)
def test_it_learns_from_every_pair_as_from_an_image_of_its_own(model: OrientedModel) -> None:
    images = pictures()
    rows, orientations = model.candidate_orientations(images)
    assert len(images) < len(rows)
    single = type(model)(**{**model.get_params(), "hypotheses": 1.0})
    single.fit(images[rows], orientations=orientations)
    np.testing.assert_array_equal(model.fit(images).weights_, single.weights_)
    # Features are those of the dominant orientation.
    dominant = model.orientation_estimator()(images)
    np.testing.assert_array_equal(model.transform(images), single.transform(images, orientations=dominant))


@pytest.mark.parametrize("name", ["rbm", *IMAGE_MODELS])
def test_whitening_precedes_the_network(name: str) -> None:
    """A network that whitens is one that does not, on whitened images; O-RBMs align before, θ-RBMs after."""
    images, others = pictures(60), pictures(40)[::-1] ** 2
    whitening = small(name, whiten=True, initial_scale=0.1).fit(images)
    plain = small(name, standardise=False, initial_scale=0.1)
    index, given = None, None
    if isinstance(whitening, OrientedModel):
        index, given = (whitening.orientation_estimator()(each) for each in (images, others))
    before, after = images, others
    if isinstance(whitening, OrientedRBM):
        before, after = whitening.aligned(images), whitening.aligned(others)
        index, given = np.zeros(60, dtype=np.int64), np.zeros(40, dtype=np.int64)
    whitener = Whitener().fit(before)
    plain.fit(whitener.transform(before), orientations=index)
    assert np.array_equal(whitening.weights_, plain.weights_)
    expected = plain.transform(whitener.transform(after), orientations=given)
    np.testing.assert_allclose(whitening.transform(others), expected, rtol=0, atol=1e-6)
    rebuilt = whitener.inverse(plain.reconstruct(whitener.transform(after), orientations=given), like=others)
    np.testing.assert_allclose(whitening.reconstruct(others), rebuilt, rtol=0, atol=1e-4)
    copy = small(name, whiten=True, initial_scale=0.1).load_arrays(whitening.to_arrays())
    for method in ("transform", "reconstruct", "free_energy"):
        assert np.array_equal(getattr(copy, method)(others), getattr(whitening, method)(others))
    assert np.array_equal(copy.sample(2, gibbs_steps=2), whitening.sample(2, gibbs_steps=2))
