"""Controls: the pixels themselves as features, as they are or aligned; an RBM that has seen every image rotated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thetarbm_cli.models.base import Images, Model, Orientations, OrientedModel, RotatingModel, estimator
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.parameters import AugmentedParameters


@estimator
class Pixels(Model):
    """Features that are the pixels of the image."""

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        orientations: Any = None,
        standardise_by: Any = None,
        monitor: Any = None,
        resume: Any = None,
    ) -> Self:
        """Note the width of the images."""
        self.check_settings()
        self._check_images(X, reset=True)
        self.history_: list[Any] = []
        return self

    def transform(self, X: Any, *, orientations: Any = None, standardise_by: Any = None) -> NDArray[np.float32]:
        """The images themselves, (n, V)."""
        check_is_fitted(self, "n_features_in_")
        return self._check_images(X, reset=False)

    def training_products(self, images: int, pixels: int) -> int:
        """None: it learns nothing."""
        return 0

    def feature_products(self, images: int, pixels: int) -> int:
        """None: there is no network."""
        return 0

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

    def transform(self, X: Any, *, orientations: Any = None, standardise_by: Any = None) -> NDArray[np.float32]:
        """The aligned images, (n, V)."""
        images = super().transform(X)
        return self.aligned(images, self._check_orientations(orientations, len(images)))


@estimator
class AugmentedRBM(AugmentedParameters, RotatingModel, RBM):
    """RBM trained on S rotated copies of every image; its features are of the image as it is.

    What the paper calls augmentation: an epoch does S times the work of an RBM's.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import AugmentedRBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> AugmentedRBM(hidden=4, epochs=2).fit(images).transform(images).shape
    (20, 4)
    """

    def training_products(self, images: int, pixels: int) -> int:
        """Count the multiply-adds of training: those of an RBM on all copies."""
        return super().training_products(self.rotations * images, pixels)

    def _learned_from(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        return self._rotations().rotate_all(images).reshape(-1, images.shape[1]), None
