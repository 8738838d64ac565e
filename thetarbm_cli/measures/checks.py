"""What a measure asks of the arrays it is given, each wrong one refused with one sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array
from thetarbm_cli.errors import InputError


def positive(value: float, name: str) -> float:
    """Return `value` as a float, or refuse one that is not a positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} is {value}, but it must be a positive number")
    return float(value)


def feature_matrix(features: Array, what: str, *, width: int | None = None) -> None:
    """Refuse features that are no matrix, are empty, or have another number of columns than `width`."""
    if features.ndim != 2 or 0 in features.shape:
        raise InputError(f"the {what} features have the shape {features.shape}; give one row for each image")
    if width is not None and features.shape[1] != width:
        raise InputError(
            f"the {what} features have {features.shape[1]} columns, the training features {width}; "
            "give features of the same model"
        )


def finite(values: Array, what: str) -> None:
    """Refuse NaN and infinity in `values` (of any shape, on any device)."""
    # A sum is NaN or infinite if a term is, and needs no array of flags; float64 does not overflow here.
    with np.errstate(invalid="ignore"):
        total = float(values.sum(dtype=np.float64))
    if not math.isfinite(total):
        raise InputError(f"the {what} features hold NaN or infinite values; train the model again or mend the file")


def training_labels(labels: NDArray[Any], images: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Classes of the training labels, sorted, and the number of the class of each image.

    Returns
    -------
    classes : (K,) array
    members : (images,) array of class numbers in 0, …, K − 1
    """
    if labels.shape != (images,):
        raise InputError(f"there are {images} training images but labels of the shape {labels.shape}")
    classes, members, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise InputError(f"the training images are all of class {classes[0]}; a classifier needs two classes")
    if counts.min() < 2:
        rare = classes[counts.argmin()]
        raise InputError(f"class {rare} has one training image; a classifier needs at least 2 images of each class")
    return classes, members


def known_labels(labels: NDArray[Any], classes: NDArray[Any], images: int, what: str) -> NDArray[np.intp]:
    """Class number of each label, refusing a class that the training images do not have."""
    if labels.shape != (images,):
        raise InputError(f"there are {images} {what} images but labels of the shape {labels.shape}")
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise InputError(f"the {what} images have class {unknown[0]}, which no training image has")
    return np.searchsorted(classes, labels)
