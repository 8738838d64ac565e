"""What all models share: parameters that are declared once, the estimator's interface, rotated and oriented images.

A parameter is declared in the class that it belongs to, with its type, default, range and meaning. From this one
declaration come the whole signature of the class and of those below it, the docstring, the checks when a model is
fitted, and what the command line, a suite and the docs know of its settings.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import numbers
import textwrap
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import validate_data

from thetarbm_cli.backend import Backend, few_threads
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.imaging.orientation import (
    BINNINGS,
    BORDERS,
    LARGEST_SCALE,
    OPERATORS,
    SMALLEST_SCALE,
    WEIGHTINGS,
    OrientationEstimator,
)
from thetarbm_cli.imaging.rotation import KINDS as ROTATION_KINDS
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.registry import MODELS

Images = NDArray[np.float32]
Orientations = NDArray[np.int64]

FLOAT_BYTES = 4
# One degree apart: finer rotations of small images are the same image again.
MOST_ROTATIONS = 360

_KIND_NAMES: dict[str, tuple[type[Any], str]] = {
    "int": (numbers.Integral, "a whole number"),
    "float": (numbers.Real, "a number"),
    "bool": (bool, "true or false"),
    "str": (str, "a word"),
}


def parameter(
    *,
    default: Any,
    about: str,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    choices: tuple[str, ...] = (),
    setting: bool = True,
    kw_only: bool = True,
) -> Any:
    """Declare a parameter of a model; its type is the annotation: int, float, bool or str, perhaps ``| None``.

    Parameters
    ----------
    about : what it means, in a sentence
    least, above, most, below : the range of a number
    choices : the values of a word
    setting : whether a run has it among its settings; a run has its own seed, a call its own backend
    kw_only : whether it is given by name alone
    """
    bounds = {"least": least, "above": above, "most": most, "below": below}
    metadata = {"about": about, "choices": choices, "setting": setting, **bounds}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A declared parameter: what `parameter` was given, with its name and type (as ``float | None``)."""

    name: str
    type: str
    default: Any
    about: str
    choices: tuple[str, ...]
    setting: bool
    least: float | None
    above: float | None
    most: float | None
    below: float | None

    @classmethod
    def of(cls, field: dataclasses.Field[Any]) -> Parameter:
        """Read a field that `parameter` made."""
        kind = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
        return cls(field.name, kind, field.default, **field.metadata)

    def checked(self, value: Any) -> Any:
        """Check a value; a whole number given for a number becomes one, nothing else is converted."""
        kind, _, optional = self.type.partition(" | ")
        if kind not in _KIND_NAMES or (value is None and optional == "None"):
            return value
        expected, words = _KIND_NAMES[kind]
        if not isinstance(value, expected) or (isinstance(value, bool) and kind != "bool"):
            raise InputError(f"{self.name} must be {words}, not {value!r}")
        if self.choices and value not in self.choices:
            raise InputError(f"{self.name} must be one of {', '.join(self.choices)}, not {value!r}")
        if kind == "float" and isinstance(value, int):
            value = float(value)
        if kind in ("int", "float") and not self._in_range(value):
            raise InputError(f"{self.name} must be {self.range or 'finite'}, not {value}")
        return value

    @property
    def range(self) -> str:
        """The range of a number in words, as "0 or above and below 1"; empty if there is none."""
        if self.least is not None and self.most is not None:
            return f"{self.least} to {self.most}"
        words = {
            f"{self.least} or above": self.least,
            f"above {self.above}": self.above,
            f"at most {self.most}": self.most,
            f"below {self.below}": self.below,
        }
        return " and ".join(word for word, bound in words.items() if bound is not None)

    def _in_range(self, value: Any) -> bool:
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )


Class = TypeVar("Class", bound=type)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
def estimator(cls: Class) -> Class:
    """Give a class the signature of all parameters that it and its bases declare, and their meanings in its docstring.

    As scikit-learn wants it, a new estimator only keeps what it is given; values are checked when it is fitted.
    """
    made: Any = dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    generated = made.__init__

    @functools.wraps(generated)
    def initialise(self: Any, *args: Any, **given: Any) -> None:
        _refuse_unknown(type(self), given)
        generated(self, *args, **given)

    made.__init__ = initialise
    made.declared = {field.name: Parameter.of(field) for field in dataclasses.fields(made)}
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
class Model(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of all models: a scikit-learn transformer of images whose learned arrays can be stored.

    A model of another distribution derives from it, or from a class below it, and declares its parameters with
    `parameter` under the decorator `estimator`.
    """

    random_state: Any = parameter(
        default=0, about="Seed of the initial weights, the batch orders and the sampling.", setting=False
    )
    backend: str = parameter(default="auto", about="Where it is computed: auto, numpy or cupy.", setting=False)
    verbose: Any = parameter(default=False, about="Whether fit prints a line after each epoch.", setting=False)

    # All parameters of the class by name; `estimator` fills it.
    declared: ClassVar[Mapping[str, Parameter]]
    # Whether `fit` and `transform` use given orientations, and the model has an `orientation_estimator`.
    uses_orientations: ClassVar[bool] = False
    # Whether features are probabilities of binary units, of which states can be drawn.
    has_states: ClassVar[bool] = False
    # Other settings of a trained model with which it is also measured, by the field of the record's metrics that holds
    # their numbers (`MetricsPart.unaligned`).
    evaluation_variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @abstractmethod
    def fit(self, X: Any, y: Any = None, *, orientations: Any = None, monitor: Any = None, resume: Any = None) -> Self:
        """Learn from images (N, V); see `RBM.fit`."""

    @abstractmethod
    def transform(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Features of images, one row for each."""

    @abstractmethod
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as plain arrays."""

    @abstractmethod
    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what another model with equal settings learned; the inverse of `to_arrays`."""

    @classmethod
    def default_settings(cls) -> dict[str, Any]:
        """Settings of a run with their default values, in the order of their names."""
        return {name: each.default for name, each in sorted(cls.declared.items()) if each.setting}

    @classmethod
    def checked_settings(cls, settings: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """Check the names, types and ranges of settings; whole numbers given for numbers become numbers.

        Messages call the model by `name`.
        """
        known = cls.default_settings()
        for key in settings:
            if key not in known:
                hint = did_you_mean(key, known, "it has {}" if known else "it has none")
                raise InputError(f"model {name or cls.__name__} has no setting {key!r}; {hint}")
        checked = {key: cls.declared[key].checked(value) for key, value in settings.items()}
        cls(**checked).check_settings()
        return checked

    def check_settings(self) -> None:
        """Raise an `InputError` for the first parameter that is of a wrong type or out of range."""
        for name, each in self.declared.items():
            each.checked(getattr(self, name))
        self._check_together()

    def _check_together(self) -> None:
        """Check what parameters must be only together."""

    def candidate_orientations(self, X: Any) -> tuple[Orientations, Orientations] | None:
        """Find the orientations with which images are measured; None if `transform` finds the one of each by itself.

        Gives pairs of an image, by its row, ascending, and an orientation: two (m,) arrays.
        """
        return None

    def training_bytes(self, images: int, pixels: int) -> int:
        """Estimate the memory that training takes at most: here, of the images as they are, checked and changed."""
        return FLOAT_BYTES * 3 * images * pixels

    def training_products(self, images: int, pixels: int) -> int | None:
        """Count the multiply-adds of training; None for a model that does not say."""
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


@estimator
class RotatingModel(Model):
    """Base of the models whose inputs are square images that are rotated."""

    rotations: int = parameter(
        default=9, least=1, most=MOST_ROTATIONS, about="Size S of the support set of rotations {0°, 360°/S, ...}."
    )
    rotation: str = parameter(
        default="bilinear", choices=ROTATION_KINDS, about="Kind of the rotation operators T_θ on the pixels."
    )

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

    def _rotations(self) -> Rotations:
        """The support set's operators on the host, where images are prepared."""
        return _host_rotations(self.size_, self.rotations, self.rotation)


@estimator
class OrientedModel(RotatingModel):
    """Base of the models that use the dominant orientation of an image."""

    uses_orientations: ClassVar[bool] = True

    orientation_operator: str = parameter(
        default="gaussian", choices=OPERATORS, about="How gradients are taken to estimate the orientation."
    )
    orientation_scale: float = parameter(
        default=2.0, least=SMALLEST_SCALE, most=LARGEST_SCALE, about="σ in pixels of the Gaussian of that operator."
    )
    orientation_weighting: str = parameter(
        default="squared", choices=WEIGHTINGS, about="Weight of a pixel in the histogram of directions."
    )
    orientation_binning: str = parameter(
        default="shared", choices=BINNINGS, about="How the weight of a pixel goes to the bins of the histogram."
    )
    orientation_smoothing: float = parameter(
        default=0.0, least=0, most=180, about="Degrees by which the histogram is smoothed."
    )
    orientation_border: str = parameter(
        default="repeated",
        choices=BORDERS,
        about="What gradients see beyond the frame; the two differ for Gaussian gradients alone.",
    )
    hypotheses: float = parameter(
        default=1.0,
        above=0,
        most=1,
        about="Every peak of the histogram at this share of the highest or above is learned from and measured as an "
        "image of its own; at 1, the dominant orientation alone, as in the paper.",
    )

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
        rotated: Images = self._rotations().rotate(images, (-index) % self.rotations)
        return rotated

    def _orientations(self, images: Images, given: Orientations | None) -> Orientations:
        """The orientations that were given, checked, or else the estimated ones."""
        if given is None:
            with few_threads():
                return self.orientation_estimator()(images)
        if given.min() < 0 or given.max() >= self.rotations:
            raise InputError(f"orientations must be in 0..{self.rotations - 1}, not {given.min()}..{given.max()}")
        return np.asarray(given)


@functools.lru_cache(maxsize=8)
def _host_rotations(size: int, rotations: int, kind: str) -> Rotations:
    return Rotations(size, rotations, kind, backend=Backend())
