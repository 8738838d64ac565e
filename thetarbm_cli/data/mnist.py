"""MNIST as it ships inside the package: all 70,000 images and labels.

MNIST is Yann LeCun's and Corinna Cortes's, under CC BY-SA 3.0. The shipped file is the four original idx
files one after another, compressed with xz; ``scripts/build_mnist.py`` rebuilds it.
"""

from __future__ import annotations

import lzma
from functools import lru_cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.data.idx import IMAGES_HEADER, LABELS_HEADER, read_set
from thetarbm_cli.errors import ThetaRBMError

SHIPPED = "shipped/mnist.idx.xz"
SIDE = 28
TRAIN_IMAGES = 60_000
TEST_IMAGES = 10_000

# The four idx files in the order in which they are shipped: name -> MD5 of the uncompressed file.
MD5 = {
    "train-images-idx3-ubyte": "6bbc9ace898e44ae57da46a324031adb",
    "train-labels-idx1-ubyte": "a25bea736e30d166cdddb491f175f624",
    "t10k-images-idx3-ubyte": "2646ac647ad5339dbf082846283269ea",
    "t10k-labels-idx1-ubyte": "27ae3e4e09519cfbb04c329615203637",
}
# Bytes of each of the four files: a header of big-endian 32-bit numbers, then one byte a pixel or label.
SIZES = {
    "train-images-idx3-ubyte": IMAGES_HEADER + TRAIN_IMAGES * SIDE * SIDE,
    "train-labels-idx1-ubyte": LABELS_HEADER + TRAIN_IMAGES,
    "t10k-images-idx3-ubyte": IMAGES_HEADER + TEST_IMAGES * SIDE * SIDE,
    "t10k-labels-idx1-ubyte": LABELS_HEADER + TEST_IMAGES,
}


def read_shipped_files() -> dict[str, bytes]:
    """Unpack the shipped file into the four idx files.

    Raises
    ------
    ThetaRBMError
        If the file is missing or damaged (xz carries its own checksum).
    """
    resource = files("thetarbm_cli.data").joinpath(SHIPPED)
    try:
        content = lzma.decompress(resource.read_bytes())
    except (OSError, lzma.LZMAError) as error:
        raise ThetaRBMError(f"the MNIST file of the package is damaged ({error}); install thetarbm again") from error
    if len(content) != sum(SIZES.values()):
        raise ThetaRBMError("the MNIST file of the package has the wrong length; install thetarbm again")
    parts: dict[str, bytes] = {}
    start = 0
    for name, size in SIZES.items():
        parts[name] = content[start : start + size]
        start += size
    return parts


@lru_cache(maxsize=1)
def load_mnist() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Load MNIST: the 60,000 training images, then the 10,000 test images, in their original order.

    Returns
    -------
    images : (70000, 28, 28) uint8 array, read-only
    labels : (70000,) uint8 array, read-only
    """
    return read_set(read_shipped_files())
