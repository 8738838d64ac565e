"""What scikit-learn asks of an estimator."""

import math
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from thetarbm_cli.models import (
    RBM,
    AlignedPCA,
    AlignedPixels,
    AugmentedRBM,
    LocalThetaRBM,
    OrientedRBM,
    Pixels,
    ThetaRBM,
    TransformInvariantRBM,
)
from thetarbm_cli.models.base import Images, Model, RotatingModel

# Needs an environment variable that is read when SciPy is imported.
SKIPPED = {"check_array_api_input"}


class Padded(RotatingModel):
    """A model for inputs of any width: the checks make data of 1 to 20 features, and zeros fill the last row here."""

    @property
    def size_(self) -> int:
        return max(math.ceil(math.sqrt(self.n_features_in_)), 2)

    def _check_images(self, X: Any, *, reset: bool) -> Images:
        # The check of all models: that of RotatingModel refuses what is not square.
        images = Model._check_images(self, X, reset=reset)
        return np.pad(images, ((0, 0), (0, self.size_**2 - images.shape[1])))


class PaddedOrientedRBM(Padded, OrientedRBM):
    pass


class PaddedTransformInvariantRBM(Padded, TransformInvariantRBM):
    pass


class PaddedThetaRBM(Padded, ThetaRBM):
    pass


class PaddedAlignedPixels(Padded, AlignedPixels):
    pass


class PaddedAlignedPCA(Padded, AlignedPCA):
    pass


class PaddedAugmentedRBM(Padded, AugmentedRBM):
    pass


@pytest.mark.parametrize(
    "estimator",
    [
        RBM(hidden=6, epochs=2),
        RBM(hidden=6, epochs=2, visible="bernoulli", standardise=True),
        PaddedOrientedRBM(hidden=6, epochs=2),
        PaddedTransformInvariantRBM(hidden=6, epochs=2),
        RBM(hidden=6, epochs=2, whiten=True),
        PaddedAugmentedRBM(hidden=6, epochs=2, rotations=3),
        PaddedThetaRBM(hidden=6, epochs=2),
        PaddedThetaRBM(hidden=6, epochs=2, tensor="full"),
        Pixels(),
        PaddedAlignedPixels(),
        PaddedAlignedPCA(),
    ],
    ids=repr,
)
def test_the_checks_of_scikit_learn(estimator: Model) -> None:
    results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    failed = [f"{result['check_name']}: {result['exception']!r}" for result in results if result["status"] == "failed"]
    assert failed == []
    assert {result["check_name"] for result in results if result["status"] == "skipped"} <= SKIPPED


@pytest.mark.parametrize("model", [RBM(), LocalThetaRBM()], ids=repr)
def test_a_model_that_has_learned_nothing_says_so(model: RBM) -> None:
    for method in ("transform", "free_energy", "reconstruct"):
        with pytest.raises(NotFittedError):
            getattr(model, method)(np.zeros((3, 784)))
    for method in ("sample", "to_arrays"):
        with pytest.raises(NotFittedError):
            getattr(model, method)()
