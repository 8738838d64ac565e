"""Measuring streams: what it takes beside its input and output hardly grows with the number of images."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from thetarbm_cli.measures.gamma import gamma_score
from thetarbm_cli.measures.svm import RBFClassifier
from thetarbm_cli.models import build

SIZE, UNITS = 16, 8
# Both are several times the images that are in work at once (2,000 at most).
FEW, MANY = 4_000, 10_000


def images_of(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).random((count, SIZE * SIZE), dtype=np.float32)


def peak_bytes(work: Callable[[], Any]) -> int:
    """Most that a piece of work allocates at a time, without what was there before; its result counts."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def growth_per_image(work: Callable[[NDArray[np.float32]], Any]) -> float:
    """How much the peak grows with each further image, in bytes."""
    few, many = (images_of(count) for count in (FEW, MANY))
    work(few[:10])
    return (peak_bytes(lambda: work(many)) - peak_bytes(lambda: work(few))) / (MANY - FEW)


@pytest.mark.parametrize("model", ["rbm", "orbm", "tirbm", "theta"])
def test_features_take_little_beside_themselves(model: str) -> None:
    fitted = build(model, {"hidden": UNITS, "epochs": 1}, seed=0, backend="numpy").fit(images_of(100))
    # The features themselves, and less than a byte for a pixel, where an image has four.
    assert growth_per_image(fitted.transform) < 4 * UNITS + SIZE * SIZE


def test_the_gamma_score_takes_no_more_for_more_images() -> None:
    weights = np.random.default_rng(1).random((SIZE * SIZE, UNITS), dtype=np.float32)
    assert growth_per_image(lambda images: gamma_score(lambda x: x @ weights, images, size=SIZE)) < 8


def test_the_svm_takes_no_more_for_more_images_than_their_labels() -> None:
    trained = images_of(400)[:, :UNITS]
    classifier = RBFClassifier().fit(trained, np.arange(400) % 4)
    assert len(classifier.support_) > 100
    # A row of the kernel has a number for each support vector.
    assert growth_per_image(lambda images: classifier.predict(images[:, :UNITS])) < 4 * 8
