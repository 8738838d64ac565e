"""The local θ-RBM: small filters that are shared over the image, turned back by its orientation, and pooled.

The tied θ-RBM has one matrix M in the frame of the images turned back, W_s x = M (T_s'x). Here M repeats the same
filters at every place: a unit sees a field of a few pixels, and its activations are averaged over each cell of a
coarse grid. So a stroke may move a little without moving the features, while the orientation, found once for the
whole image, still turns all filters together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thetarbm_cli.backend import Array, Backend, select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.models.activation import sigmoid
from thetarbm_cli.models.grid import FieldGrid
from thetarbm_cli.models.images import OrientedImageRBM
from thetarbm_cli.models.inference import CHUNK, Images, Orientations
from thetarbm_cli.models.seeds import generator_of

# Images whose fields are held at once: few enough for the processor's cache on a host, many for a device.
_HOST_BLOCK = 20
_DEVICE_BLOCK = 500
# Fields drawn for each that is learned from: most of a digit's image is empty.
_DRAWS = 4
# Least difference between the pixels of a field that is learned from.
_CONTRAST = 0.3


class LocalThetaRBM(OrientedImageRBM):
    """θ-RBM of local filters with pooled features.

    Parameters
    ----------
    hidden : int
        Number H of filters.
    field : int
        Side of the square field that a filter sees.
    stride : int
        Pixels from one field to the next when features are taken.
    pooling : int
        Features are means over a grid of pooling × pooling cells.
    contrast : float
        Each field x is seen as (x - mean) / √(variance + contrast), over its own pixels; at 0, as it is. Turning blurs
        an image a little, which weakens the contrast of its fields more than it changes their shape.
    fields : int
        Fields with contrast that are drawn from the training images, at any place, to learn from.
    **common
        The parameters of `OrientedImageRBM`, `ImageRBM` and `RBM`. The variance is fixed; fields are standardised,
        each of their pixels by itself.

    Attributes
    ----------
    weights_ : (H, field²) array
        The filters in the frame of images turned back; `sample` draws fields.
    hidden_bias_ : (H,) array
    visible_bias_ : (1, field²) array

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import LocalThetaRBM
    >>> images = np.random.default_rng(0).random((20, 64), dtype=np.float32)
    >>> LocalThetaRBM(hidden=4, field=3, pooling=2, fields=200, epochs=2).fit(images).transform(images).shape
    (20, 16)
    """

    variances: ClassVar[tuple[str, ...]] = ("fixed",)

    def __init__(
        self,
        hidden: int = 500,
        *,
        field: int = 8,
        stride: int = 2,
        pooling: int = 4,
        contrast: float = 0.0,
        fields: int = 40_000,
        **common: Any,
    ) -> None:
        super().__init__(hidden, **common)
        self.field = field
        self.stride = stride
        self.pooling = pooling
        self.contrast = contrast
        self.fields = fields

    def check_settings(self) -> None:
        """Raise an `InputError` for the first setting that is out of range."""
        super().check_settings()
        for name, least in (("field", 2), ("stride", 1), ("pooling", 1), ("fields", 1)):
            if getattr(self, name) < least:
                raise InputError(f"{name} must be {least} or above, not {getattr(self, name)}")
        if not 0 <= self.contrast < math.inf:
            raise InputError(f"contrast must be 0 or above, not {self.contrast}")

    def transform(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Features of images: mean p(h = 1 | field) over each cell, (n, pooling² · H) in [0, 1], cell by cell."""
        check_is_fitted(self, "weights_")
        images = self._check_images(X, reset=False)
        given = self._check_orientations(orientations, len(images))
        backend = select_backend(self.backend)
        weights, bias = self._folded(backend)
        grid = self._grid()
        places, pool = backend.asarray(grid.places), backend.asarray(grid.pool)
        block = _HOST_BLOCK if backend.xp is np else _DEVICE_BLOCK
        result = np.empty((len(images), self._n_features_out), dtype=np.float32)
        for first in range(0, len(images), CHUNK):
            rows = slice(first, first + CHUNK)
            device = backend.asarray(self.aligned(images[rows], None if given is None else given[rows]))
            parts = [
                _pooled(backend, device[start : start + block], self.contrast, places, pool, weights, bias)
                for start in range(0, len(device), block)
            ]
            result[rows] = backend.to_host(backend.xp.concatenate(parts))
        return result

    def free_energy(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Free energy of images, (n,): the sum over their fields, low where the model finds them likely."""
        machine = self._fitted_machine()

        def energy(images: Images, index: Orientations) -> Images:
            fields = machine.backend.asarray(self._inputs(images, index)[0])
            values = machine.backend.to_host(machine.free_energy(fields, None))
            return np.asarray(values.reshape(len(images), -1).sum(axis=1))

        return self._in_chunks(X, orientations, energy)

    def reconstruct(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Images (n, V) from one pass of every field up and down, the mean where fields overlap."""
        machine = self._fitted_machine()

        def up_and_down(images: Images, index: Orientations) -> Images:
            fields = machine.backend.asarray(self._inputs(images, index)[0])
            hidden = machine.interaction.probabilities(machine.visible.drive(fields, None), None)
            means = machine.visible.mean(machine.interaction.field(hidden, None), None)
            values = self._unstandardised(machine.backend.to_host(means)).reshape(len(images), -1, self.field**2)
            if self.contrast:
                seen = self.aligned(images, index)[:, self._grid().places]
                _, mean, spread = _contrasted(np, seen, self.contrast)
                values = values * spread + mean
            turned: Images = self._turning().rotate(self._grid().folded(values), index)
            return turned

        return self._in_chunks(X, orientations, up_and_down)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as plain arrays, and the number of pixels of an image."""
        return {**super().to_arrays(), "pixels": np.array([self.n_features_in_])}

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what another estimator with equal settings learned; the inverse of `to_arrays`."""
        learned = dict(arrays)
        pixels = learned.pop("pixels")
        super().load_arrays(learned)
        self.n_features_in_ = int(pixels[0])
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.hidden * self.pooling**2)

    def _check_images(self, X: Any, *, reset: bool) -> Images:
        images = super()._check_images(X, reset=reset)
        side = self.size_
        if side < self.field or self._grid().side < self.pooling:
            raise InputError(
                f"images of {side}×{side} pixels are too small for fields of {self.field}×{self.field} pixels, "
                f"{self.stride} apart, in {self.pooling}×{self.pooling} cells"
            )
        return images

    def _fit_inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        return self._fit_standardiser(self._drawn_fields(self.aligned(images, orientations))), None

    def _inputs_to_learn(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        return self._standardised(self._drawn_fields(self.aligned(images, orientations))), None

    def _inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """All fields of all images, (n · places, field²), one image after the other."""
        fields = self.aligned(images, orientations)[:, self._grid().places].reshape(-1, self.field**2)
        return self._standardised(self._seen(fields)), None

    def _in_chunks(
        self, X: Any, orientations: Any, function: Callable[[Images, Orientations], Images]
    ) -> NDArray[np.float32]:
        """Apply a function to images and their orientations, few enough at a time that all their fields can be held."""
        images = self._check_images(X, reset=False)
        index = self._orientations(images, self._check_orientations(orientations, len(images)))
        chunks = (slice(first, first + _DEVICE_BLOCK) for first in range(0, len(images), _DEVICE_BLOCK))
        return np.concatenate([function(images[rows], index[rows]) for rows in chunks])

    def _seen(self, fields: Images) -> Images:
        """Fields as filters see them, before they are standardised."""
        return _contrasted(np, fields, self.contrast)[0] if self.contrast else fields

    def _drawn_fields(self, aligned: Images) -> Images:
        """Fields with contrast from random places, (at most `fields`, field²); any fields if there are none such."""
        random = generator_of(self._seed, "fields")
        everywhere = FieldGrid(self.size_, self.field, 1, 1)
        draws = _DRAWS * self.fields
        images = random.integers(len(aligned), size=draws)
        drawn = aligned[images[:, None], everywhere.places[random.integers(everywhere.side**2, size=draws)]]
        lively = drawn[drawn.max(axis=1) - drawn.min(axis=1) > _CONTRAST]
        return self._seen((lively if len(lively) else drawn)[: self.fields])

    def _grid(self) -> FieldGrid:
        return FieldGrid(self.size_, self.field, self.stride, self.pooling)

    def _folded(self, backend: Backend) -> tuple[Array, Array]:
        """Weights (field², H) and bias (H,) that take fields as they are: σ(b + W (x - m) / s) = σ(b' + W' x)."""
        weights, bias = self.weights_, self.hidden_bias_
        if self._standardiser is not None:
            weights = weights / self._standardiser.scale_
            bias = bias - weights @ self._standardiser.mean_[0]
        return backend.asarray(np.ascontiguousarray(weights.T)), backend.asarray(bias)


def _contrasted(xp: Any, fields: Array, contrast: float) -> tuple[Array, Array, Array]:
    """Fields (..., field²) centred and divided by their spread, and what was taken off and divided by, (..., 1)."""
    mean = fields.mean(axis=-1, keepdims=True)
    centred = fields - mean
    spread = xp.sqrt((centred * centred).mean(axis=-1, keepdims=True) + xp.float32(contrast))
    centred /= spread
    return centred, mean, spread


def _pooled(
    backend: Backend, images: Array, contrast: float, places: Array, pool: Array, weights: Array, bias: Array
) -> Array:
    """Features (n, cells · H) of a few images that are turned back."""
    xp = backend.xp
    fields = xp.take(images, places, axis=1)
    if contrast:
        fields, _, _ = _contrasted(xp, fields, contrast)
    drives = xp.matmul(fields.reshape(-1, fields.shape[2]), weights)
    drives += bias
    active = sigmoid(xp, drives).reshape(len(images), len(places), -1)
    return xp.matmul(pool, active).reshape(len(images), -1)
