from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetarbm_cli.measures.invariance import dosovitskiy, goodfellow, zou


def test_vectors_and_labels_with_known_answers() -> None:
    original = np.array([[3.0, 0.0], [0.0, 0.2]])
    assert zou(original, [original, 7 * original]) == 0
    assert zou(original, [original, original[:, ::-1]]) == pytest.approx(1)
    # A vector without direction is as far from all others, and not from itself.
    assert zou(original, [0 * original]) == pytest.approx(1)
    assert zou(0 * original, [0 * original]) == 0
    labels = np.array([1, 2, 3, 3])
    assert dosovitskiy(labels, [labels, np.array([1, 2, 3, 0]), np.zeros(4)]) == pytest.approx(7 / 12)


# Of few values some are equal.
@given(images=st.integers(1, 250), units=st.integers(1, 4), copies=st.integers(1, 3), values=st.sampled_from([5, 1000]))
def test_measures_are_those_of_plain_loops(images: int, units: int, copies: int, values: int) -> None:
    generator = np.random.default_rng(images)
    original, *turned = (generator.integers(0, values, (copies + 1, images, units)) / 4).astype(np.float32)
    scores, distances = [], []
    for unit in range(units):
        highest = sorted(original[:, unit].tolist(), reverse=True)
        threshold = highest[max(1, math.ceil(images / 100)) - 1]
        firing = [image for image in range(images) if original[image, unit] >= threshold]
        local = [copy[image, unit] >= threshold for image in firing for copy in turned]
        if len(set(highest)) > 1:
            scores.append((sum(local) / len(local)) / (len(firing) / images))
    for image in range(images):
        for copy in turned:
            pair = [each.tolist() for each in (original[image], copy[image])]
            norms = [math.hypot(*each) or 1 for each in pair]
            distances.append(sum((a / norms[0] - b / norms[1]) ** 2 for a, b in zip(*pair, strict=True)))
    expected = sum(scores) / len(scores) if scores else math.nan
    assert goodfellow(original, turned) == pytest.approx(expected, nan_ok=True)
    assert zou(original, turned) == pytest.approx(sum(distances) / len(distances), abs=1e-9)
