"""Several orientations an image: what is learned from, and what is found."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.models import LocalThetaRBM, OrientedRBM, ThetaRBM
from thetarbm_cli.models.images import OrientedImageRBM


def pictures(count: int = 40, side: int = 8) -> NDArray[np.float32]:
    return np.random.default_rng(side).random((count, side * side), dtype=np.float32)


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
def test_it_learns_from_every_pair_as_from_an_image_of_its_own(model: OrientedImageRBM) -> None:
    images = pictures()
    rows, orientations = model.hypothesised(images)
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
