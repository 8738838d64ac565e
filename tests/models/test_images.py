"""Images of any square size, any number of rotations, orientations given or estimated, and wrong input."""

import re
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models.small import MODELS, small
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.orientation import OrientationEstimator
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
@settings(max_examples=8, deadline=None, derandomize=True)
@given(size=st.integers(2, 9), rotations=st.integers(1, 12), count=st.integers(1, 30))
def test_any_size_and_any_number_of_rotations(name: str, kind: str, size: int, rotations: int, count: int) -> None:
    model = small(name, hidden=4, epochs=2, rotations=rotations, rotation=kind, batch_size=7)
    use(model, pictures(count, size))


@pytest.mark.parametrize("name", IMAGE_MODELS)
def test_one_rotation_is_a_plain_machine(name: str) -> None:
    images = pictures(60)
    common: dict[str, Any] = {"epochs": 4, "batch_size": 16, "sparsity_weight": 1.0}
    plain, single = small("rbm", **common).fit(images), small(name, rotations=1, **common).fit(images)
    np.testing.assert_allclose(single.weights_.reshape(plain.weights_.shape), plain.weights_, rtol=0, atol=1e-6)
    np.testing.assert_allclose(single.hidden_bias_.ravel(), plain.hidden_bias_, rtol=0, atol=1e-6)
    for method in ("transform", "free_energy", "reconstruct"):
        expected = getattr(plain, method)(images)
        np.testing.assert_allclose(getattr(single, method)(images), expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(single.sample(3, gibbs_steps=5), plain.sample(3, gibbs_steps=5), rtol=1e-5, atol=1e-5)


def test_a_plain_machine_takes_inputs_of_any_width() -> None:
    for width in (1, 2, 7):
        use(RBM(hidden=3, epochs=2), np.random.default_rng(width).random((20, width)))


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


def test_models_without_orientations_do_not_look_at_them() -> None:
    images = pictures()
    for name in ("rbm", "tirbm"):
        model = small(name).fit(images, orientations=np.arange(40) % 9)
        assert np.array_equal(model.weights_, small(name).fit(images).weights_)


def test_turned_images_have_the_features_of_the_upright_ones_in_theta() -> None:
    # Quarter turns are exact, also for the estimator of the orientation; all groups have one standardisation.
    images = np.random.default_rng(3).random((100, 81), dtype=np.float32)
    turned = np.rot90(images.reshape(-1, 9, 9), 1, axes=(1, 2)).reshape(100, 81)
    model = ThetaRBM(hidden=6, epochs=3, rotations=4, visible="bernoulli").fit(images)
    index = model.orientation_estimator()(images)
    agrees = model.orientation_estimator()(turned) == (index + 1) % 4
    assert agrees.mean() > 0.95
    np.testing.assert_allclose(model.transform(turned[agrees]), model.transform(images[agrees]), rtol=0, atol=1e-6)


def test_an_oriented_machine_may_leave_images_as_they_are() -> None:
    images = pictures(60)
    aligned = OrientedRBM(hidden=5, epochs=2).fit(images)
    kept = OrientedRBM(hidden=5, epochs=2, align=False).fit(images)
    assert np.array_equal(aligned.weights_, kept.weights_)
    assert not np.allclose(aligned.transform(images), kept.transform(images))
    upright = np.zeros(60, dtype=np.int64)
    assert np.array_equal(aligned.transform(images, orientations=upright), kept.transform(images))


@pytest.mark.no_device("refused before a machine is made")
@pytest.mark.parametrize("name", IMAGE_MODELS)
@pytest.mark.parametrize("width", [1, 2, 15])
def test_images_that_are_not_square(name: str, width: int) -> None:
    message = f"images must be square, flattened row by row: {width} pixels are no square of 2 or more"
    with pytest.raises(InputError, match=message):
        small(name).fit(np.zeros((5, width)))


@pytest.mark.parametrize("name", MODELS)
def test_arrays_that_are_no_images(name: str) -> None:
    model = small(name).fit(pictures())
    for wrong, message in (
        (pictures(size=6), "64 features"),
        (np.full((3, 64), np.nan), "NaN"),
        (np.full((3, 64), np.inf), "infinity"),
        (pictures()[0], "2D array"),
        (np.zeros((0, 64)), "minimum of 1"),
    ):
        with pytest.raises(ValueError, match=message):
            model.transform(wrong)
        with pytest.raises(ValueError, match=message):
            model.partial_fit(wrong)


@pytest.mark.parametrize("name", ORIENTED)
@pytest.mark.parametrize(
    ("orientations", "message"),
    [
        (np.zeros(39, dtype=int), "orientations must be 40 integers, one per image"),
        (np.zeros(40), "orientations must be 40 integers, one per image"),
        (np.zeros((40, 1), dtype=int), "orientations must be 40 integers, one per image"),
        (np.full(40, 9), r"orientations must be in 0\.\.8, not 9\.\.9"),
        (np.full(40, -1), r"orientations must be in 0\.\.8, not -1\.\.-1"),
    ],
)
def test_wrong_orientations(name: str, orientations: np.ndarray, message: str) -> None:
    images = pictures()
    with pytest.raises(InputError, match=message):
        small(name).fit(images, orientations=orientations)
    with pytest.raises(InputError, match=message):
        small(name).fit(images).transform(images, orientations=orientations)


# Out of range, of another type, or no such word; what may be is declared with each parameter.
WRONG: dict[type[RBM], list[tuple[str, Any]]] = {
    RBM: [
        *[("hidden", value) for value in (0, "a", True)],
        *[("epochs", value) for value in (1.5, -1)],
        *[("learning_rate", value) for value in (0, float("nan"))],
        *[("variance", value) for value in ("free", "tracked")],
        *[(name, 0) for name in ("batch_size", "gibbs_steps")],
        *[(name, -1) for name in ("momentum_epochs", "weight_decay", "sparsity_weight")],
        *[(name, -0.5) for name in ("rate_decay", "initial_momentum", "floor", "initial_scale")],
        *[(name, "x") for name in ("sparsity_form", "visible_sampling", "visible", "standardise")],
        *[("momentum", 1.0), ("sparsity", 30)],
    ],
    TransformInvariantRBM: [("variance", "x"), ("rotations", 0), ("rotations", 361), ("rotation", "cubic")],
    OrientedRBM: [("turn", "around")],
    ThetaRBM: [("variance", "tracked"), ("tensor", "both"), ("initial", "x")],
    LocalThetaRBM: [
        *[
            ("field", 1),
            ("stride", 0),
            ("pooling", 0),
            ("pooling_width", -0.1),
            ("power", 0.0),
            ("contrast", -1.0),
            ("fields", 0),
            ("variance", "learned"),
        ],
        *[("hypotheses", 0.0), ("hypotheses", 1.5), ("orientation_smoothing", -1.0)],
    ],
}


@pytest.mark.no_device("refused before a machine is made")
@pytest.mark.parametrize(
    ("model_class", "name", "value"), [(kind, *wrong) for kind, each in WRONG.items() for wrong in each]
)
def test_a_wrong_setting_is_named_with_its_value(model_class: type[RBM], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"^{name} must be .*, not {re.escape(repr(value))}(\\.0)?$"):
        model_class(**{"hidden": 3, "epochs": 1, name: value}).fit(pictures())


@pytest.mark.no_device("refused before a machine is made")
@pytest.mark.parametrize(
    ("model_class", "wrong", "message"),
    [
        (RBM, {"random_state": -1}, "a seed must be 0 or above, not -1"),
        (RBM, {"backend": "torch"}, "unknown backend 'torch'"),
        (OrientedRBM, {"orientation_operator": "x"}, "operator must be one of gaussian, central, sobel, not 'x'"),
        (RBM, {"visible": "bernoulli", "variance": "learned"}, "no variance to learn"),
        (TransformInvariantRBM, {"visible": "bernoulli", "variance": "tracked"}, "no variance to learn"),
        (
            TransformInvariantRBM,
            {"sparsity_slope": "each", "sparsity_form": "bias"},
            "sparsity_slope='each' needs sparsity_form=",
        ),
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
        RBM(hidden=3, epochs=1).fit(images)
        RBM(hidden=3, epochs=1, visible="bernoulli").fit(images / 255)


@pytest.mark.no_device("settings only")
def test_numbers_of_numpy_are_numbers() -> None:
    RBM(hidden=np.int64(3), epochs=np.int32(1), learning_rate=np.float32(0.01)).check_settings()


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


@pytest.mark.no_device("orientations are found on the host")
@pytest.mark.parametrize("smoothing", [0.0, 15.0])
def test_hypotheses_equal_a_loop_over_images_and_bins(smoothing: float) -> None:
    estimator = OrientationEstimator(rotations=24, smoothing=smoothing)
    images = np.concatenate([pictures(30), np.zeros((1, 64), dtype=np.float32)])
    dominant, histograms = estimator.estimate(images)
    expected = []
    for row, histogram in enumerate(histograms):
        expected.append((row, int(dominant[row])))
        for s in range(24):
            is_peak = histogram[s] >= histogram[s - 1] and histogram[s] > histogram[(s + 1) % 24]
            if is_peak and histogram[s] >= np.float32(0.8) * histogram.max() and s != dominant[row]:
                expected.append((row, s))
    rows, orientations = estimator.candidate_orientations(images, 0.8)
    assert list(zip(rows.tolist(), orientations.tolist(), strict=True)) == expected
    alone = estimator.candidate_orientations(images, 1.0)
    np.testing.assert_array_equal(alone[0], np.arange(31))
    np.testing.assert_array_equal(alone[1], dominant)


@pytest.mark.no_device("orientations are found on the host")
def test_smoothing_is_a_gaussian_around_the_circle() -> None:
    images = pictures(5)
    plain = OrientationEstimator(rotations=18).histogram(images).astype(np.float64)
    smooth = OrientationEstimator(rotations=18, smoothing=25.0).histogram(images)
    weights = [np.exp(-0.5 * (min(k, 18 - k) * 20 / 25) ** 2) for k in range(18)]
    expected = [
        [sum(weights[(s - t) % 18] * row[t] for t in range(18)) / sum(weights) for s in range(18)] for row in plain
    ]
    np.testing.assert_allclose(smooth, expected, rtol=1e-4)
    np.testing.assert_allclose(smooth.sum(axis=1), plain.sum(axis=1), rtol=1e-4)


@pytest.mark.parametrize("name", ["rbm", *IMAGE_MODELS])
def test_whitening_precedes_the_machine(name: str) -> None:
    """A machine that whitens is one that does not, on whitened images; O-RBMs align before, θ-RBMs after."""
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
