import numpy as np
import pytest
from numpy.typing import NDArray

from thetarbm_cli.data.sources.mnist import load_mnist


@pytest.fixture(scope="session")
def digits() -> NDArray[np.float32]:
    """The first 600 test digits of MNIST: (600, 784), in [0, 1]."""
    images, _ = load_mnist()
    return (images[60_000:60_600].reshape(600, -1) / 255).astype(np.float32)
