"""By whose statistics a fitted model standardises, and rotated copies of images that are standardised first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.small import MODELS, small
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.models import RBM, LocalThetaRBM

SIDE, TURNS = 8, 4


def images(count: int = 60, seed: int = 3) -> np.ndarray:
    return np.random.default_rng(seed).random((count, SIDE * SIDE), dtype=np.float32)


def orientations(count: int = 60) -> np.ndarray:
    return np.random.default_rng(5).integers(0, TURNS, count)


def fitted(name: str, **settings: Any) -> RBM:
    own: dict[str, Any] = {} if name == "rbm" else {"rotations": TURNS}
    return small(name, **own, **settings).fit(images())


def own_statistics(model: RBM, given: np.ndarray, index: np.ndarray, cuts: tuple[int, ...] = ()) -> RBM:
    parts = zip(np.split(given, cuts), np.split(index, cuts), strict=True)
    return model.with_statistics_of(part for part in parts if len(part[0]))


@pytest.mark.parametrize("whiten", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_by_the_statistics_of_its_training_images_a_model_is_what_it_was(name: str, whiten: bool) -> None:
    # The augmented RBM learned from all copies.
    model, learned = fitted(name, whiten=whiten), images()
    if name == "augmented":
        learned = Rotations(SIDE, TURNS).rotate_all(learned).reshape(-1, SIDE * SIDE)
    index = model._orientations(learned, None)
    again, before = own_statistics(model, learned, index), model.transform(images())
    np.testing.assert_allclose(again.transform(images()), before, rtol=1e-4, atol=1e-6)
    others = own_statistics(model, images(seed=4), model._orientations(images(seed=4), None))
    assert np.abs(others.transform(images()) - before).max() > 1e-4
    # It is a copy.
    np.testing.assert_array_equal(model.transform(images()), before)


@given(cuts=st.lists(st.integers(0, 60), max_size=5).map(sorted).map(tuple), name=st.sampled_from([*MODELS]))
def test_it_does_not_matter_in_which_parts_images_come(cuts: tuple[int, ...], name: str) -> None:
    model = _fitted_once(name)
    whole, parts = (own_statistics(model, images(seed=4), orientations(), each) for each in ((), cuts))
    for one, other in zip(
        whole._standardiser.to_arrays().values(), parts._standardiser.to_arrays().values(), strict=True
    ):  # type: ignore[union-attr]
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


KNOWN: dict[str, RBM] = {}


def _fitted_once(name: str) -> RBM:
    return KNOWN.setdefault(name, fitted(name))


@given(seed=st.integers(0, 100), name=st.sampled_from(["rbm", "tirbm", "theta-tied", "theta-full"]))
def test_scale_and_shift_of_a_pixel_are_lost_by_a_set_that_has_its_own_statistics(seed: int, name: str) -> None:
    model, random = _fitted_once(name), np.random.default_rng(seed)
    scale, shift = random.uniform(0.5, 2, SIDE * SIDE), random.uniform(-1, 1, SIDE * SIDE)
    other = (images(seed=4) * scale + shift).astype(np.float32)
    expected, found = (
        own_statistics(model, each, orientations()).transform(each, orientations=orientations())
        for each in (images(seed=4), other)
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_local_fields_are_standardised_by_fields_of_the_set() -> None:
    model = LocalThetaRBM(hidden=4, field=3, pooling=2, fields=200, epochs=1, rotations=TURNS, random_state=2)
    model.fit(images())
    again = own_statistics(model, images(), model._orientations(images(), None), (7,))
    np.testing.assert_allclose(again.transform(images()), model.transform(images()), atol=1e-6)
    twice = own_statistics(model, 2 * images(), model._orientations(images(), None))
    # Twice as bright, with deviations twice as large: the same fields.
    bright = twice.transform(2 * images())
    np.testing.assert_allclose(bright, _with_equal_fields(model).transform(images()), atol=1e-3)


def _with_equal_fields(model: LocalThetaRBM) -> RBM:
    # The contrast by which fields are drawn is twice as large, too, so more of them are drawn.
    model._seed = 2
    fields = model._drawn_fields(model.aligned(2 * images(), model._orientations(images(), None))) / 2
    copied = own_statistics(model, images(), model._orientations(images(), None))
    copied._fit_standardiser(fields)
    return copied


# Standardised first


@pytest.mark.parametrize(
    ("name", "settings", "sign"),
    [("orbm", {}, 1), ("orbm", {"turn": "forth"}, -1), ("theta-tied", {}, 1), ("theta-full", {}, 1)],
)
def test_with_exact_rotations_oriented_models_do_not_see_that_images_are_rotated(
    name: str, settings: dict[str, Any], sign: int
) -> None:
    """Theorem 1, in the frame in which images are standardised."""
    model, given = fitted(name, **settings), orientations()
    support = Rotations(SIDE, TURNS, backend=model._fitted_model().backend)
    index = np.stack([given, *((given + sign * s) % TURNS for s in range(TURNS))])
    original = model.transform(images(), orientations=given)
    backend = support.backend
    copies = list(model.features_of_rotated_inputs(backend.asarray(images()), support, index))
    assert len(copies) == TURNS
    for copy in copies:
        np.testing.assert_allclose(backend.to_host(copy), original, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_where_all_pixels_have_the_same_statistics_the_order_does_not_matter(name: str) -> None:
    """Of exact rotations, as what comes into the frame of others is 0 in one order, and no mean in the other."""
    model = fitted(name)
    assert model._standardiser is not None
    alike = own_statistics(model, images(), orientations())
    for values, value in ((alike._standardiser.mean_, 0.4), (alike._standardiser.scale_, 0.3)):  # type: ignore[union-attr]
        values[...] = value
    support = Rotations(SIDE, TURNS, backend=model._fitted_model().backend)
    backend, rotated = support.backend, Rotations(SIDE, TURNS).rotate_all(images())
    index = np.stack([model._orientations(each, None) for each in (images(), *rotated)])
    copies = alike.features_of_rotated_inputs(backend.asarray(images()), support, index)
    for copy, each, s in zip(copies, rotated, index[1:], strict=True):
        np.testing.assert_allclose(backend.to_host(copy), alike.transform(each, orientations=s), atol=1e-5)


def test_an_aligned_copy_is_made_by_one_interpolation() -> None:
    model, given = fitted("orbm", backend="numpy"), orientations()
    support = Rotations(SIDE, 3, "bilinear", 20.0)
    index = np.stack([given, *((given + s) % TURNS for s in range(3))])
    seen = list(model._rotated_inputs(images(), support, index))
    for s, rotated in enumerate(seen):
        for row in (0, 7, 31):
            angle = 120.0 * s + 20 + 90.0 * (given[row] - index[s + 1, row])
            expected = Rotations(SIDE, 1, "bilinear", angle).rotate_by(images()[row : row + 1], 0)[0]
            np.testing.assert_allclose(rotated[row], expected, atol=1e-5)
