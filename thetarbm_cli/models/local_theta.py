"""The local θ-RBM: small filters that are shared over the image, aligned by its orientation, and pooled.

The tied θ-RBM has one matrix M in the frame of the aligned images, W_s x = M (T_s'x). Here M repeats the same filters
at every place: a unit sees a field of a few pixels, and its activations are averaged over each cell of a coarse grid.
So a stroke may move a little without moving the features, while the orientation, found once for the whole image, still
rotates all filters together.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from thetarbm_cli.backend import Array, Backend, few_threads, naming_memory, select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.standardise import Standardiser
from thetarbm_cli.models.base import Images, Orientations, OrientedModel, estimator
from thetarbm_cli.models.rbm import CHUNK, RBM, integer_seed
from thetarbm_cli.models.seeds import generator_of
from thetarbm_cli.parameters import LocalThetaParameters

# Images whose fields are held at once: few enough for the processor's cache on a host, many for a device.
_HOST_BLOCK = 20
_DEVICE_BLOCK = 500
# Fields drawn for each that is learned from: most of a digit's image is empty.
_DRAWS = 4
# Least difference between the pixels of a field that is learned from.
_CONTRAST = 0.3


@dataclass(frozen=True)
class FieldGrid:
    """Square fields, `stride` pixels apart, of a square image; they are pooled into `pooling` cells along a side.

    A cell weighs its own fields equally, or all fields by a Gaussian around its centre, `width` of a cell's side wide.

    Examples
    --------
    >>> FieldGrid(size=3, field=2, stride=1, pooling=1).places
    array([[0, 1, 3, 4],
           [1, 2, 4, 5],
           [3, 4, 6, 7],
           [4, 5, 7, 8]])
    """

    size: int
    field: int
    stride: int
    pooling: int
    width: float = 0.0

    @property
    def side(self) -> int:
        """Fields along a side."""
        return (self.size - self.field) // self.stride + 1

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Pixels of each field, row by row: (side², field²) indices into a flattened image."""
        pixels = np.arange(self.size * self.size).reshape(self.size, self.size)
        windows = np.lib.stride_tricks.sliding_window_view(pixels, (self.field, self.field))
        return windows[:: self.stride, :: self.stride].reshape(self.side**2, self.field**2)

    @cached_property
    def pool(self) -> NDArray[np.float32]:
        """The mean over the fields of each cell, as a (pooling², side²) matrix; sharp cells are as equal as can be."""
        if self.width:
            cell = self.side / self.pooling
            centres = (np.arange(self.pooling) + 0.5) * cell - 0.5
            along = np.exp(-0.5 * (np.subtract.outer(centres, np.arange(self.side)) / (self.width * cell)) ** 2)
        else:
            edges = np.round(np.linspace(0, self.side, self.pooling + 1)).astype(int)
            along = np.zeros((self.pooling, self.side))
            for row, (start, stop) in zip(along, pairwise(edges), strict=True):
                row[start:stop] = 1
        along /= along.sum(axis=1, keepdims=True)
        return np.kron(along, along).astype(np.float32)

    def folded(self, fields: NDArray[np.float32]) -> NDArray[np.float32]:
        """Lay fields (n, side², field²) into images (n, size²): the mean where they overlap, 0 where there is none."""
        images = np.zeros((len(fields), self.size**2), dtype=np.float32)
        covered = np.zeros(self.size**2, dtype=np.float32)
        for place, pixels in enumerate(self.places):
            images[:, pixels] += fields[:, place]
            covered[pixels] += 1
        images /= np.maximum(covered, 1)
        return images


@estimator
class LocalThetaRBM(LocalThetaParameters, OrientedModel, RBM):
    """θ-RBM of local filters with pooled features.

    The variance is fixed; fields are standardised, each of their pixels by itself.

    Attributes
    ----------
    weights_ : (H, field²) array
        The filters in the frame of aligned images; `sample` draws fields.
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

    def transform(self, X: Any, *, orientations: Any = None, standardise_by: Any = None) -> NDArray[np.float32]:
        """Features of images, (n, pooling² · H) in [0, 1], by cells: mean p(h = 1 | field) over each, to a power."""
        check_is_fitted(self, "weights_")
        images = self._check_images(X, reset=False)
        given = self._check_orientations(orientations, len(images))
        backend = select_backend(self.backend)
        result = np.empty((len(images), self._n_features_out), dtype=np.float32)
        with few_threads(), naming_memory(backend, "chunks of images"):
            for first in range(0, len(images), CHUNK):
                rows = slice(first, first + CHUNK)
                index = self._orientations(images[rows], None if given is None else given[rows])
                result[rows] = backend.to_host(self.features(backend.asarray(images[rows]), index))
        return result

    def features(self, images: Array, orientations: Orientations | None = None) -> Array:
        """Take features of a chunk of images (n, V) where they are, on the host or the model's device."""
        backend = select_backend(self.backend)
        if orientations is None:
            orientations = self._orientations(backend.to_host(images), None)
        aligned = self.aligned(images, backend.asarray(orientations))
        on_host = backend.name == "numpy"
        block = _HOST_BLOCK if on_host else _DEVICE_BLOCK
        kept = {} if on_host else self._on_device(backend).others
        if not kept:
            grid = self._grid()
            kept["filters"] = (backend.asarray(grid.places), backend.asarray(grid.pool), *self._folded(backend))
        parts = [
            _pooled(backend, aligned[start : start + block], self.contrast, *kept["filters"])
            for start in range(0, len(aligned), block)
        ]
        pooled = backend.xp.concatenate(parts)
        if self.power != 1:
            pooled **= backend.xp.float32(self.power)
        if self.unit_length:
            # Activations are above 0, so that there is a length.
            pooled /= backend.xp.sqrt((pooled * pooled).sum(axis=1, keepdims=True))
        return pooled

    def free_energy(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Free energy of images, (n,): the sum over their fields, low where the model finds them likely."""
        energies = super().free_energy(X, orientations=orientations)
        return np.asarray(energies.reshape(-1, len(self._grid().places)).sum(axis=1))

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

    def training_products(self, images: int, pixels: int) -> int:
        """Count the multiply-adds of training, on the drawn fields."""
        return super().training_products(self.fields, self.field**2)

    def feature_products(self, images: int, pixels: int) -> int:
        """Count the multiply-adds of the filters at all fields and of pooling."""
        fields = ((math.isqrt(pixels) - self.field) // self.stride + 1) ** 2
        return images * fields * self.hidden * (self.field**2 + self.pooling**2)

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

    def _fit_inputs(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        return self._fit_standardiser(self._drawn_fields(self.aligned(images, orientations)))

    def _inputs_to_learn(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        return self._standardised(self._drawn_fields(self.aligned(images, orientations)))

    def _inputs(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        """All fields of all images, (n · places, field²), one image after the other."""
        places = select_backend(self.backend).asarray(self._grid().places)
        fields = self.aligned(images, orientations)[:, places].reshape(-1, self.field**2)
        return self._standardised(self._seen(fields))

    def with_statistics_of(self, parts: Iterable[tuple[Images, Orientations]]) -> Self:
        """Copy the fitted model, to standardise fields by the statistics of fields that are drawn from these images."""
        copied = copy.copy(self)
        if self._standardiser is not None:
            copied._seed = integer_seed(self.random_state)
            aligned = np.concatenate([self.aligned(images, index) for images, index in parts])
            copied._fit_standardiser(copied._drawn_fields(aligned))
        return copied

    def _images_at_once(self) -> int:
        return max(CHUNK // len(self._grid().places), 1)

    def _images_of(self, inputs: Images, orientations: Orientations, like: Images | None = None) -> Images:
        """Images of all their fields, the mean where fields overlap; fields that belong to no image stay fields."""
        fields = self._unstandardised(inputs)
        if like is None:
            return fields
        fields = fields.reshape(len(like), -1, self.field**2)
        if self.contrast:
            seen = self.aligned(like, orientations)[:, self._grid().places]
            _, mean, spread = _contrasted(seen, self.contrast)
            fields = fields * spread + mean
        rotated: Images = self._rotations().rotate(self._grid().folded(fields), orientations)
        return rotated

    def _seen(self, fields: Images) -> Images:
        """Fields as filters see them, before they are standardised."""
        return _contrasted(fields, self.contrast)[0] if self.contrast else fields

    def _drawn_fields(self, aligned: Images) -> Images:
        """Fields with contrast from random places, (at most `fields`, field²); any fields if there are none such."""
        random = generator_of(self._seed, "fields")
        everywhere = FieldGrid(self.size_, self.field, 1, 1)
        draws = _DRAWS * self.fields
        images = random.integers(len(aligned), size=draws)
        drawn = aligned[images[:, None], everywhere.places[random.integers(everywhere.side**2, size=draws)]]
        contrasted = drawn[drawn.max(axis=1) - drawn.min(axis=1) > _CONTRAST]
        return self._seen((contrasted if len(contrasted) else drawn)[: self.fields])

    def _grid(self) -> FieldGrid:
        return FieldGrid(self.size_, self.field, self.stride, self.pooling, self.pooling_width)

    def _folded(self, backend: Backend) -> tuple[Array, Array]:
        """Weights (field², H) and bias (H,) that take fields as they are: σ(b + W (x - m) / s) = σ(b' + W' x)."""
        weights, bias = self.weights_, self.hidden_bias_
        if isinstance(self._standardiser, Standardiser):
            weights = weights / self._standardiser.scale_
            bias = bias - weights @ self._standardiser.mean_[0]
        return backend.asarray(np.ascontiguousarray(weights.T)), backend.asarray(bias)


def _contrasted(fields: Array, contrast: float) -> tuple[Array, Array, Array]:
    """Fields (..., field²) centred and divided by their spread, and what was taken off and divided by, (..., 1)."""
    mean = fields.mean(axis=-1, keepdims=True)
    centred = fields - mean
    spread = ((centred * centred).mean(axis=-1, keepdims=True) + np.float32(contrast)) ** 0.5
    centred /= spread
    return centred, mean, spread


def _pooled(
    backend: Backend, images: Array, contrast: float, places: Array, pool: Array, weights: Array, bias: Array
) -> Array:
    """Features (n, cells · H) of a few images that are aligned."""
    xp = backend.xp
    fields = xp.take(images, places, axis=1)
    if contrast:
        fields, _, _ = _contrasted(fields, contrast)
    active = backend.sigmoid(xp.matmul(fields.reshape(-1, fields.shape[2]), weights), bias)
    active = active.reshape(len(images), len(places), -1)
    return xp.matmul(pool, active).reshape(len(images), -1)
