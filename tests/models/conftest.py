import numpy as np
import pytest
from numpy.typing import NDArray

from thetarbm_cli.data.prepare import Prepared


@pytest.fixture(scope="session")
def digits(mnist_rot: Prepared) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Turned digits, 200 of each class in any order: (2000, 784) pixels in [0, 1] and labels."""
    images, labels = mnist_rot.subset(2000, 0, 0).part("train")
    order = np.random.default_rng(0).permutation(len(images))
    return images[order], labels[order]
