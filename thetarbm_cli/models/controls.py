"""Controls: the pixels themselves as features, as they are or aligned. Nothing is learned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thetarbm_cli.models.base import Model, OrientedModel, estimator


@estimator
class Pixels(Model):
    """Features that are the pixels of the image."""

    def fit(self, X: Any, y: Any = None, *, orientations: Any = None, monitor: Any = None, resume: Any = None) -> Self:
        """Note the width of the images."""
        self.check_settings()
        self._check_images(X, reset=True)
        self.history_: list[Any] = []
        return self

    def transform(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """The images themselves, (n, V)."""
        check_is_fitted(self, "n_features_in_")
        return self._check_images(X, reset=False)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The number of pixels."""
        return {"pixels": np.array([self.n_features_in_])}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take the number of pixels; the inverse of `to_arrays`."""
        self.n_features_in_ = int(arrays["pixels"][0])
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)


@estimator
class AlignedPixels(OrientedModel, Pixels):
    """Features that are the pixels of the image, rotated back by its dominant orientation."""

    def transform(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """The aligned images, (n, V)."""
        images = super().transform(X)
        return self.aligned(images, self._check_orientations(orientations, len(images)))
