"""What all models share: the estimator's interface, rotated and oriented images.

The parameters of this package's models are declared in `thetarbm_cli.parameters`; a model of another distribution
declares its own in its class, with `parameter` under the decorator `estimator`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import textwrap
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from thetarbm_cli.backend import Array, few_threads, select_backend
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.parameters import (
    ModelParameters,
    OrientedParameters,
    RotatingParameters,
    declaration,
    parameter,
)
from thetarbm_cli.registry import MODELS

__all__ = ["Images", "Model", "Orientations", "OrientedModel", "RotatingModel", "estimator", "parameter"]

Images = NDArray[np.float32]
Orientations = NDArray[np.int64]

Class = TypeVar("Class", bound=type)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
def estimator(cls: Class) -> Class:
    """Give a class the signature of all parameters that it and its bases declare, and their meanings in its docstring.

    As scikit-learn wants it, a new estimator only keeps what it is given; values are checked when it is fitted.
    """
    made: Any = declaration(cls)
    generated = made.__init__

    @functools.wraps(generated)
    def initialise(self: Any, *args: Any, **given: Any) -> None:
        _refuse_unknown(type(self), given)
        generated(self, *args, **given)

    made.__init__ = initialise
    if made.__doc__:
        made.__doc__ = _with_parameters(made.__doc__, made)
    return cls


def _refuse_unknown(cls: Any, given: Mapping[str, Any]) -> None:
    """Name a keyword that a class does not take, and who takes it or what was meant."""
    known = cls.declared
    for name in given:
        if name not in known:
            takers = [each for each in map(MODELS.load, MODELS.own) if name in each.declared]
            owners = [each.__name__ for each in takers if not any(base in takers for base in each.__mro__[1:])]
            hint = did_you_mean(name, sorted(known), "it has {}")
            if owners:
                hint = f"{', '.join(owners)} {'have' if owners[1:] else 'has'}"
            raise TypeError(f"{cls.__name__} has no parameter {name!r}; {hint}")


def _with_parameters(text: str, cls: Any) -> str:
    """Lay the parameters of a class into its docstring, before its attributes and examples."""
    lines = ["Parameters", "----------"]
    # As in the signature: first what may be given without its name.
    for field in sorted(dataclasses.fields(cls), key=lambda field: bool(field.kw_only)):
        each = cls.declared[field.name]
        kind = "{" + ", ".join(f'"{word}"' for word in each.choices) + "}" if each.choices else each.type
        lines += [f"{each.name} : {kind}, default {each.default!r}", f"    {each.about}"]
    block = textwrap.indent("\n".join(lines), "    ")
    headings = ("\n    Attributes\n", "\n    Examples\n")
    place = min((text.index(heading) for heading in headings if heading in text), default=len(text))
    return f"{text[:place].rstrip()}\n\n{block}\n{text[place:] or '    '}"


@estimator
class Model(ModelParameters, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all models: a scikit-learn transformer of images whose learned arrays can be stored.

    A model of another distribution derives from it, or from a class below it, and declares its parameters with
    `parameter` under the decorator `estimator`.
    """

    @abstractmethod
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
        """Learn from images (N, V); see `RBM.fit`."""

    @abstractmethod
    def transform(self, X: Any, *, orientations: Any = None, standardise_by: Any = None) -> NDArray[np.float32]:
        """Features of images, one row for each."""

    @abstractmethod
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as plain arrays."""

    @abstractmethod
    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what another model with equal settings learned; the inverse of `to_arrays`."""

    def candidate_orientations(self, X: Any) -> tuple[Orientations, Orientations] | None:
        """Find the orientations with which images are measured; None if `transform` finds the one of each by itself.

        Gives pairs of an image, by its row, ascending, and an orientation: two (m,) arrays.
        """
        return None

    def training_products(self, images: int, pixels: int) -> int | None:
        """Count the multiply-adds of training; None for a model that does not say."""
        return None

    def feature_products(self, images: int, pixels: int) -> int | None:
        """Count the multiply-adds of taking the features of images; None for a model that does not say."""
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    def _check_images(self, X: Any, *, reset: bool) -> Images:
        """Validate images as scikit-learn does: finite, float32, as wide as at fit; (N, h, w) becomes (N, h·w)."""
        shape: tuple[int, ...] = X.shape if isinstance(X, np.ndarray) else ()
        if len(shape) == 4 and shape[3] in (3, 4):
            raise InputError(f"pixels have {shape[3]} colours: make images grey, as X[..., :3].mean(axis=-1)")
        if len(shape) == 3:
            X = X.reshape(shape[0], -1)
        images: Images = validate_data(
            self, X, reset=reset, dtype=np.float32, order="C", accept_sparse=False, ensure_min_samples=1
        )
        return images

    def _check_orientations(self, orientations: Any, count: int) -> Orientations | None:
        if orientations is None:
            return None
        index = np.asarray(orientations)
        if index.shape != (count,) or not np.issubdtype(index.dtype, np.integer):
            raise InputError(f"orientations must be {count} integers, one per image")
        return index.astype(np.int64)

    def _check_standardise_by(self, standardise_by: Any, orientations: Any, count: int) -> Orientations | None:
        if standardise_by is not None and orientations is None:
            raise InputError("standardise_by says what differs from given orientations: give orientations, too")
        return self._check_orientations(standardise_by, count)


@estimator
class RotatingModel(RotatingParameters, Model):
    """Base of the models whose inputs are square images that are rotated."""

    def _check_images(self, X: Any, *, reset: bool) -> Images:
        if getattr(X, "ndim", 2) == 3 and X.shape[1] != X.shape[2]:
            raise InputError(f"images must be square, not {X.shape[1]}×{X.shape[2]} pixels")
        images = super()._check_images(X, reset=reset)
        side = math.isqrt(images.shape[1])
        if side * side != images.shape[1] or side < 2:
            raise InputError(
                f"images must be square, flattened row by row: {images.shape[1]} pixels are no square of 2 or more"
            )
        return images

    @property
    def size_(self) -> int:
        """Side of the images."""
        return math.isqrt(self.n_features_in_)

    def _rotations(self, images: Array = None, step: float | None = None) -> Rotations:
        """The support set's operators, or those in other steps, where images are: on the host, or on a device."""
        where = "numpy" if images is None or isinstance(images, np.ndarray) else "cupy"
        return _rotations_on(where, self.size_, self.rotations, self.rotation, step)


@estimator
class OrientedModel(OrientedParameters, RotatingModel):
    """Base of the models that use the dominant orientation of an image."""

    def orientation_estimator(self) -> OrientationEstimator:
        """Make the estimator with this model's settings."""
        return OrientationEstimator(
            rotations=self.rotations,
            operator=self.orientation_operator,
            scale=self.orientation_scale,
            weighting=self.orientation_weighting,
            binning=self.orientation_binning,
            smoothing=self.orientation_smoothing,
            border=self.orientation_border,
        )

    def candidate_orientations(self, X: Any) -> tuple[Orientations, Orientations] | None:
        """Find every orientation that each image may have, the dominant one first; None if `hypotheses` is 1."""
        if self.hypotheses == 1:
            return None
        images = np.asarray(X, dtype=np.float32).reshape(len(X), -1)
        return self.orientation_estimator().candidate_orientations(images, self.hypotheses)

    def aligned(self, images: Images, orientations: Orientations | None = None) -> Images:
        """Images rotated by -φ_s, so that their dominant orientation is 0°."""
        index = self._orientations(images, orientations)
        rotated: Images = self._rotations(images).rotate(images, (-index) % self.rotations)
        return rotated

    def _orientations(self, images: Images, given: Any) -> Orientations:
        """The orientations that were given, checked, or else the estimated ones."""
        if given is None:
            with few_threads():
                return self.orientation_estimator()(images)
        if not isinstance(given, np.ndarray):
            # They were checked before they were brought to the device.
            return given  # type: ignore[no-any-return]
        if given.min() < 0 or given.max() >= self.rotations:
            raise InputError(f"orientations must be in 0..{self.rotations - 1}, not {given.min()}..{given.max()}")
        return np.asarray(given)


@functools.lru_cache(maxsize=8)
def _rotations_on(backend: str, size: int, rotations: int, kind: str, step: float | None) -> Rotations:
    return Rotations(size, rotations, kind, step=step, backend=select_backend(backend))
