"""The image models for inputs of any width, so that scikit-learn's checks can be run on them.

The checks make data of 1 to 20 features and have no way to ask for squares. Zeros fill the last row of an image here;
all else is the models' own.
"""

import math
from typing import Any

import numpy as np

from thetarbm_cli.models import AlignedPixels, AugmentedRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.base import Images, Model, RotatingModel


class Padded(RotatingModel):
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


class PaddedAugmentedRBM(Padded, AugmentedRBM):
    pass
