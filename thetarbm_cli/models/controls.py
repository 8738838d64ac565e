"""Controls beside the models: the pixels themselves, as they are or aligned, as features."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thetarbm_cli.models.base import Images, Orientations, OrientedModel, estimator
from thetarbm_cli.models.rbm import RBM


@estimator
class Pixels(OrientedModel, RBM):
    """Features that are the pixels of the image; nothing is learned and only the settings of turning are used."""

    def fit(self, X: Any, y: Any = None, **_: Any) -> Self:
        """Note the width of the images."""
        self._check_images(X, reset=True)
        self.history_: list[Any] = []
        return self

    def transform(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """The images themselves, (n, V)."""
        check_is_fitted(self, "n_features_in_")
        images = self._check_images(X, reset=False)
        return self._pixels(images, self._check_orientations(orientations, len(images)))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What `load_arrays` needs: the number of pixels."""
        return {"pixels": np.array([self.n_features_in_])}

    def load_arrays(self, arrays: Any) -> Self:
        """The inverse of `to_arrays`."""
        self.n_features_in_ = int(arrays["pixels"][0])
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)

    def _pixels(self, images: Images, orientations: Orientations | None) -> Images:
        return images


@estimator
class AlignedPixels(Pixels):
    """Features that are the pixels of the image, turned back by its dominant orientation."""

    def _pixels(self, images: Images, orientations: Orientations | None) -> Images:
        return self.aligned(images, orientations)
