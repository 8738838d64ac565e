import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measures.digits import digits
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import rotation_matrix
from thetarbm_cli.measures.gamma import GammaAccumulator, gamma_score


def score(original, rotated, chunk=None):
    accumulator = GammaAccumulator(original.shape[1])
    chunk = chunk or len(original)
    for start in range(0, len(original), chunk):
        rows = slice(start, start + chunk)
        accumulator.add(original[rows], rotated[:, rows])
    return accumulator.result()


def naive(original, rotated):
    """γ_j as the paper writes it, one image and one unit at a time."""
    rotations, images, units = rotated.shape
    gammas, bounded, above, below = [], [], 0.0, 0.0
    for j in range(units):
        h = [float(original[i, j]) for i in range(images)]
        mu = [sum(float(rotated[s, i, j]) for s in range(rotations)) / rotations for i in range(images)]
        copies = [float(rotated[s, i, j]) for s in range(rotations) for i in range(images)]
        variances = []
        for values in (h, mu, copies):
            centre = math.fsum(values) / len(values)
            variances.append(math.fsum((value - centre) ** 2 for value in values) / len(values))
        gammas.append(variances[1] / variances[0])
        bounded.append(variances[1] / variances[2])
        above += variances[1]
        below += variances[0]
    return gammas, above / below, sum(bounded) / units


def noise(images, units, rotations, seed=0):
    random = np.random.default_rng(seed)
    identity = random.random((images, units))
    original = identity + 0.3 * random.random((images, units))
    rotated = identity + 0.5 * random.random((rotations, images, units))
    return original.astype(np.float32), rotated.astype(np.float32)


def test_is_the_equation_of_the_paper():
    original, rotated = noise(30, 5, 4)
    gammas, ratio, bounded = naive(original, rotated)
    result = score(original, rotated, chunk=7)
    np.testing.assert_allclose(result.per_unit, gammas, rtol=1e-12)
    still = score(original, np.ones((3, 30, 5), np.float32))
    assert (still.mean, still.bounded, still.dead_units) == (0.0, 0.0, 0)
    assert result.mean == pytest.approx(np.mean(gammas), rel=1e-12)
    assert result.ratio_of_sums == pytest.approx(ratio, rel=1e-12)
    assert result.bounded == pytest.approx(bounded, rel=1e-12)
    assert (result.images, result.dead_units) == (30, 0)


@given(
    scale=st.floats(1e-3, 1e3) | st.floats(-1e3, -1e-3),
    shift=st.floats(-1e4, 1e4),
    seed=st.integers(0, 1000),
)
def test_scale_and_shift_of_a_unit_do_not_matter(scale, shift, seed):
    original, rotated = (part.astype(np.float64) for part in noise(40, 3, 5, seed))
    expected = score(original, rotated, 16)
    result = score(original * scale + shift, rotated * scale + shift, 16)
    # Moving by 1e7 times the unit's spread costs seven of sixteen digits of the features themselves.
    np.testing.assert_allclose(result.per_unit, expected.per_unit, rtol=1e-6)
    assert result.bounded == pytest.approx(expected.bounded, rel=1e-6)


@given(cuts=st.lists(st.integers(1, 60), unique=True, max_size=8).map(sorted))
def test_chunks_do_not_matter_and_may_grow_and_shrink(cuts):
    original, rotated = noise(61, 4, 3)
    expected, accumulator = score(original, rotated), GammaAccumulator(4)
    for start, stop in itertools.pairwise([0, *cuts, 61]):
        accumulator.add(original[start:stop], rotated[:, start:stop])
    result = accumulator.result()
    np.testing.assert_allclose(result.per_unit, expected.per_unit, rtol=1e-12)
    assert result.bounded == pytest.approx(expected.bounded, rel=1e-12)
    assert result.ratio_of_sums == pytest.approx(expected.ratio_of_sums, rel=1e-12)


def test_dead_units_are_counted_and_left_out():
    original, rotated = noise(100, 6, 4)
    alive = score(original[:, [0, 2, 5]], rotated[:, :, [0, 2, 5]])
    original[:, 1] = 0.0
    original[:, 3] = 0.7
    original[:, 4] = 1.0
    original[::3, 4] = np.nextafter(np.float32(1), np.float32(0))  # saturated: the last bit flickers
    result = score(original, rotated, 30)
    assert result.dead_units == 3
    np.testing.assert_array_equal(np.isnan(result.per_unit), [False, True, False, True, True, False])
    assert result.mean == pytest.approx(alive.mean, rel=1e-12)
    assert result.ratio_of_sums == pytest.approx(alive.ratio_of_sums, rel=1e-12)
    assert result.bounded == pytest.approx(alive.bounded, rel=1e-12)


def test_a_unit_of_tiny_values_is_alive_and_all_dead_is_not_a_number():
    original, rotated = noise(50, 2, 3)
    tiny = np.float32(1e-18)
    result = score(original * tiny, rotated * tiny)
    assert result.dead_units == 0
    np.testing.assert_allclose(result.per_unit, score(original, rotated).per_unit, rtol=1e-5)
    dead = score(np.ones((10, 2), np.float32), np.ones((3, 10, 2), np.float32))
    assert dead.dead_units == 2
    assert np.isnan([dead.mean, dead.ratio_of_sums, dead.bounded]).all()


def test_turns_the_images_and_asks_the_model_again(monkeypatch):
    monkeypatch.setattr("thetarbm_cli.measures.gamma.DEFAULT_CHUNK", 16)
    images, _ = digits(40)
    random = np.random.default_rng(1)
    weights = random.normal(0, 0.2, (784, 6)).astype(np.float32)

    def features_of(batch):
        return np.tanh(batch @ weights)

    rotated = np.stack(
        [features_of((rotation_matrix(28, 360 * s / 5 + 11) @ images.T).T.astype(np.float32)) for s in range(5)]
    )
    expected, ratio, bounded = naive(features_of(images), rotated)
    steps = []
    result = gamma_score(
        features_of, images, size=28, rotations=5, offset=11.0, progress=lambda *step: steps.append(step)
    )
    np.testing.assert_allclose(result.per_unit, expected, rtol=1e-4)
    assert result.ratio_of_sums == pytest.approx(ratio, rel=1e-4)
    assert result.bounded == pytest.approx(bounded, rel=1e-4)
    assert steps == [(16, 40), (32, 40), (40, 40)]


def test_a_model_that_reuses_its_buffer_is_measured_right():
    images, _ = digits(30)
    buffer = np.empty((30, 3), dtype=np.float32)

    def plain(batch):
        return batch[:, 300:303] + batch.mean(axis=1, keepdims=True)

    def reusing(batch):
        buffer[: len(batch)] = plain(batch)
        return buffer[: len(batch)]

    expected = gamma_score(plain, images, size=28)
    np.testing.assert_array_equal(gamma_score(reusing, images, size=28).per_unit, expected.per_unit)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offset": 40.0}, "offset of the γ-score is 40.0°.*below 40°"),
        ({"offset": -1.0}, "offset of the γ-score is -1.0°"),
        ({"offset": math.nan}, "offset of the γ-score is nan°"),
        ({"images": np.ones((1, 784), np.float32)}, "at least 2 images"),
    ],
)
def test_refuses_what_cannot_be_measured(change, message):
    images, _ = digits(40)
    with pytest.raises(InputError, match=message):
        gamma_score(**({"features_of": lambda batch: batch, "images": images, "size": 28} | change))


@pytest.mark.parametrize(("value", "where"), [(np.nan, 0), (np.inf, 1)])
def test_features_that_are_not_finite_are_refused(value, where):
    features = noise(20, 3, 2)
    features[where][..., 4, 1] = value
    features[where][..., 5, 1] = -value
    with pytest.raises(InputError, match="have NaN or infinite"):
        score(*features)
