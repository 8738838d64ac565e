"""Controls: pixels as features, as they are or aligned; principal components; an RBM that sees every image rotated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thetarbm_cli.models.base import Images, Model, Orientations, OrientedModel, RotatingModel, estimator
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.parameters import AlignedPCAParameters, AugmentedParameters


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
class AlignedPCA(AlignedPCAParameters, AlignedPixels):
    """Features that are the first principal components of aligned images, around the mean of the training images.

    Attributes
    ----------
    mean_ : (V,) array
    components_ : (F, V) array
        Orthonormal, those of the largest variance first, each with its largest number above 0.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import AlignedPCA
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> AlignedPCA(components=3).fit(images).transform(images).shape
    (20, 3)
    """

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
        """Learn mean and components of images, aligned by orientations that are given or estimated."""
        super().fit(X)
        images = self._check_images(X, reset=False)
        given = self._check_orientations(orientations, len(images))
        candidates = self.candidate_orientations(images) if given is None else None
        if candidates is not None:
            rows, given = candidates
            images = images[rows]
        aligned = self.aligned(images, given).astype(np.float64)
        mean = aligned.mean(axis=0)
        aligned -= mean
        # Ascending variances.
        vectors = np.linalg.eigh(aligned.T @ aligned)[1].T[::-1][: min(self.components, *aligned.shape)]
        largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], axis=1)
        self.mean_ = mean.astype(np.float32)
        self.components_ = (vectors * np.where(largest < 0, -1, 1)).astype(np.float32)
        return self

    def transform(self, X: Any, *, orientations: Any = None, standardise_by: Any = None) -> NDArray[np.float32]:
        """The components of the aligned images, (n, F)."""
        check_is_fitted(self, "components_")
        aligned = super().transform(X, orientations=orientations)
        return np.asarray((aligned - self.mean_) @ self.components_.T)

    def training_products(self, images: int, pixels: int) -> int:
        """Count the multiply-adds of the covariance; those of its eigenvectors are left out."""
        return images * pixels * pixels

    def feature_products(self, images: int, pixels: int) -> int:
        """Count the multiply-adds of the components."""
        return images * pixels * min(self.components, pixels)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Mean and components."""
        check_is_fitted(self, "components_")
        return {"mean": self.mean_, "components": self.components_}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take mean and components; the inverse of `to_arrays`."""
        self.mean_, self.components_ = arrays["mean"], arrays["components"]
        self.n_features_in_, self.history_ = self.components_.shape[1], list[Any]()
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


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
