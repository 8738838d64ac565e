from __future__ import annotations

import numpy as np
import pytest

from thetarbm_cli.data.chirality import looks_transposed
from thetarbm_cli.data.prepared import Prepared


@pytest.mark.parametrize("first", [0, 20_000, 40_000])
def test_tells_which_way_digits_look(mnist_rot: Prepared, first: int) -> None:
    rows = slice(first, first + 800)
    images, labels = mnist_rot.images[rows], mnist_rot.labels[rows]
    transposed, as_is, swapped = looks_transposed(images, labels)
    assert not transposed
    assert as_is > swapped + 0.1
    mirrored = looks_transposed(images.transpose(0, 2, 1), labels)
    assert mirrored == (True, pytest.approx(swapped, abs=1e-6), pytest.approx(as_is, abs=1e-6))


def test_floats_are_read_like_bytes(mnist_rot: Prepared) -> None:
    images, labels = mnist_rot.images[:300], mnist_rot.labels[:300]
    as_floats = (images / 255).astype(np.float32)
    assert looks_transposed(as_floats, labels) == pytest.approx(looks_transposed(images, labels), abs=1e-6)


def test_blank_images_and_symmetric_digits_are_left_as_they_are() -> None:
    assert looks_transposed(np.zeros((20, 28, 28), np.uint8), np.arange(20) % 10) == (False, 0.0, 0.0)
    assert looks_transposed(np.ones((5, 28, 28), np.float32), np.zeros(5, int)) == (False, 0.0, 0.0)
