from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetarbm_cli.measures.invariance import dosovitskiy, goodfellow, zou

GENERATOR = np.random.default_rng(0)


def random_features(images: int, units: int, copies: int = 9) -> list[np.ndarray]:
    return [GENERATOR.random((images, units), dtype=np.float32) for _ in range(copies + 1)]


def test_goodfellow_of_units_with_known_answers() -> None:
    # Of 200 images every unit fires for two. Columns: always as the original; for one of four rotations; for none,
    # as it fires for the original's rotation only; for every copy of every image.
    original = GENERATOR.permuted(np.tile(np.arange(200.0)[:, None], (1, 4)), axis=0)
    copies = [original.copy() for _ in range(4)]
    for number, copy in enumerate(copies):
        copy[:, 1] *= number == 2
        copy[:, 2] = 0
        copy[:, 3] = 200
    scores = [goodfellow(original[:, [unit]], [copy[:, [unit]] for copy in copies]) for unit in range(4)]
    assert scores == pytest.approx([100, 25, 0, 100])
    # Together, and beside a dead unit, which is left out.
    wide = [np.hstack([each, np.full((200, 1), 0.5)]) for each in (original, *copies)]
    assert goodfellow(wide[0], wide[1:]) == pytest.approx(np.mean([100, 25, 0, 100]))
    assert math.isnan(goodfellow(wide[0][:, 4:], [each[:, 4:] for each in wide[1:]]))


def test_goodfellow_of_independent_values_is_one() -> None:
    original, *copies = random_features(5000, 100)
    assert goodfellow(original, copies) == pytest.approx(1, abs=0.1)


def test_goodfellow_of_a_unit_that_is_on_or_off() -> None:
    # It is on for a quarter of the images, and cannot fire for fewer of them.
    on = (np.arange(400) % 4 == 0).astype(np.float32)[:, None]
    assert goodfellow(on, [on, 0 * on]) == pytest.approx(0.5 * 4)


def test_zou_of_vectors_with_known_answers() -> None:
    original = np.array([[3.0, 0.0], [0.0, 0.2]])
    assert zou(original, [original, 7 * original]) == 0
    assert zou(original, [original[:, ::-1]]) == pytest.approx(2)
    assert zou(original, [-original]) == pytest.approx(4)
    assert zou(original, [original, original[:, ::-1]]) == pytest.approx(1)
    # A vector without direction is as far from all others, and not from itself.
    assert zou(original, [0 * original]) == pytest.approx(1)
    assert zou(0 * original, [0 * original]) == 0


def test_dosovitskiy_counts_copies_with_the_class_of_the_original() -> None:
    labels = np.array([1, 2, 3, 3])
    assert dosovitskiy(labels, [labels, labels]) == 1
    assert dosovitskiy(labels, [labels, np.array([1, 2, 3, 0]), np.zeros(4)]) == pytest.approx(7 / 12)
    guesses = np.random.default_rng(1).integers(0, 10, (10, 5000))
    assert dosovitskiy(guesses[0], guesses[1:]) == pytest.approx(0.1, abs=0.01)


@given(images=st.integers(1, 250), units=st.integers(1, 4), copies=st.integers(1, 3), seed=st.integers(0, 99))
def test_measures_are_those_of_plain_loops(images: int, units: int, copies: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    # Few values, so that some are equal.
    original, *turned = (generator.integers(0, 5, (copies + 1, images, units)) / 4).astype(np.float32)
    scores, distances = [], []
    for unit in range(units):
        values = sorted(original[:, unit].tolist(), reverse=True)
        threshold = values[max(1, math.ceil(images / 100)) - 1]
        firing = [image for image in range(images) if original[image, unit] >= threshold]
        local = [copy[image, unit] >= threshold for image in firing for copy in turned]
        if len(set(values)) > 1:
            scores.append((sum(local) / len(local)) / (len(firing) / images))
    for image in range(images):
        for copy in turned:
            pair = [each.tolist() for each in (original[image], copy[image])]
            norms = [math.hypot(*each) or 1 for each in pair]
            distances.append(sum((a / norms[0] - b / norms[1]) ** 2 for a, b in zip(*pair, strict=True)))
    expected = sum(scores) / len(scores) if scores else math.nan
    assert goodfellow(original, turned) == pytest.approx(expected, nan_ok=True)
    assert zou(original, turned) == pytest.approx(sum(distances) / len(distances), abs=1e-9)
