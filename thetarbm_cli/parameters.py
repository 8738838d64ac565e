"""Every parameter of every model, declared once: its type, default, range and meaning.

From a declaration come the signature and the docstring of a model's class, the checks when it is fitted, and what the
command line, a suite and the docs know of its settings. A model's class derives from its declarations here. This module
imports nothing heavy, so that who reads records knows the parameters of a model without the model.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar, dataclass_transform

from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.registry import MODELS, load_target

# -- what a declaration is ------------------------------------------------------------------------------------

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
    before: Any = dataclasses.MISSING,
    setting: bool = True,
    kw_only: bool = True,
) -> Any:
    """Declare a parameter of a model; its type is the annotation: int, float, bool or str, perhaps ``| None``.

    Parameters
    ----------
    about : what it means, in a sentence
    least, above, most, below : the range of a number
    choices : the values of a word
    before : the value that gives what was done before the parameter existed, where that is not its default
    setting : whether a run has it among its settings; a run has its own seed, a call its own backend
    kw_only : whether it is given by name alone
    """
    bounds = {"least": least, "above": above, "most": most, "below": below}
    before = default if before is dataclasses.MISSING else before
    metadata = {"about": about, "choices": choices, "before": before, "setting": setting, **bounds}
    return dataclasses.field(default=default, kw_only=kw_only, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A declared parameter: what `parameter` was given, with its name and type (as ``float | None``)."""

    name: str
    type: str
    default: Any
    about: str
    choices: tuple[str, ...]
    before: Any
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
def declaration(cls: Class) -> Class:
    """Give a class its parameters and those of its bases as its signature, and by name as `declared`."""
    made: Any = dataclasses.dataclass(kw_only=True, eq=False, repr=False)(cls)
    made.declared = {field.name: Parameter.of(field) for field in dataclasses.fields(made)}
    return cls


# -- by the name of a model -----------------------------------------------------------------------------------


def parameters_of(model: str) -> type[ModelParameters]:
    """Find the class that declares a model's parameters; only a plug-in is imported for it."""
    entry = MODELS[model]
    if entry.parameters:
        found: type[ModelParameters] = load_target(entry.parameters)
        return found
    plugin = MODELS.load(model)
    if not (isinstance(plugin, type) and issubclass(plugin, ModelParameters)):
        raise InputError(f"the model {model} of the plug-in {entry.about} does not derive from Model")
    return plugin


def declared(model: str) -> dict[str, Parameter]:
    """Find all settings of a model, in the order of their names."""
    return parameters_of(model).declared_settings()


def defaults(model: str) -> dict[str, Any]:
    """Find the default values of all settings of a model, in the order of their names."""
    return parameters_of(model).default_settings()


def checked(model: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Check names, types and ranges of settings of a model, and what they must be together.

    Whole numbers given for numbers become numbers.
    """
    return parameters_of(model).checked_settings(given, name=model)


def completed(model: str, recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Complete the parameters of a record that is older than some: with values that give what was done before."""
    return {**{name: each.before for name, each in declared(model).items()}, **recorded}


# -- words and bounds that more than one module knows ---------------------------------------------------------

VISIBLE_KINDS = ("gaussian", "bernoulli")
ROTATION_KINDS = ("bilinear", "replicated", "nearest", "permutation")
# Of the estimated orientation: gradients, the weight of a pixel, its bins, and what lies beyond the frame.
OPERATORS = ("gaussian", "central", "sobel")
WEIGHTINGS = ("squared", "magnitude", "count")
BINNINGS = ("shared", "hard", "smoothed")
BORDERS = ("repeated", "mirrored")
# A narrower Gaussian is zero beside its centre, and a wider one flat over any image.
SMALLEST_SCALE, LARGEST_SCALE = 0.1, 100.0
# One degree apart: finer rotations of small images are the same image again.
MOST_ROTATIONS = 360
# Degrees from one rotation to the next in a wedge.
WEDGE_STEP = 15

# -- the parameters -------------------------------------------------------------------------------------------


@declaration
class ModelParameters:
    """Parameters of all models, and of those that learn nothing."""

    random_state: Any = parameter(
        default=0, about="Seed of the initial weights, the batch orders and the sampling.", setting=False
    )
    backend: str = parameter(default="auto", about="Where it is computed: auto, numpy or cupy.", setting=False)
    verbose: Any = parameter(default=False, about="Whether fit prints a line after each epoch.", setting=False)

    # All parameters of the class by name; `declaration` fills it.
    declared: ClassVar[Mapping[str, Parameter]]
    # Whether `fit` and `transform` use given orientations, and the model has an `orientation_estimator`.
    uses_orientations: ClassVar[bool] = False
    # Whether features are probabilities of binary units, of which states can be drawn.
    has_states: ClassVar[bool] = False
    # Whether features can also be taken of images that are not aligned, by the parameter `align`.
    aligns_optionally: ClassVar[bool] = False
    # Whether hidden units have learned weights, in whose place there may be others.
    has_weights: ClassVar[bool] = False
    # Whether it is images that are standardised or whitened, where anything is: not fields of them.
    standardises_images: ClassVar[bool] = True

    @property
    def prepares_inputs(self) -> bool:
        """Whether something is standardised or whitened before a network sees it."""
        return False

    @classmethod
    def declared_settings(cls) -> dict[str, Parameter]:
        """Settings of a run, in the order of their names."""
        return {name: each for name, each in sorted(cls.declared.items()) if each.setting}

    @classmethod
    def default_settings(cls) -> dict[str, Any]:
        """Settings of a run with their default values, in the order of their names."""
        return {name: each.default for name, each in cls.declared_settings().items()}

    @classmethod
    def checked_settings(cls, settings: Mapping[str, Any], *, name: str | None = None) -> dict[str, Any]:
        """Check the names, types and ranges of settings; whole numbers given for numbers become numbers.

        Messages call the model by `name`.
        """
        known = cls.declared_settings()
        for key in settings:
            if key not in known:
                hint = did_you_mean(key, known, "it has {}" if known else "it has none")
                raise InputError(f"model {name or cls.__name__} has no setting {key!r}; {hint}")
        checked = {key: known[key].checked(value) for key, value in settings.items()}
        cls(**checked).check_settings()
        return checked

    def check_settings(self) -> None:
        """Raise an `InputError` for the first parameter that is of a wrong type or out of range."""
        for name, each in self.declared.items():
            each.checked(getattr(self, name))
        self._check_together()

    def _check_together(self) -> None:
        """Check what parameters must be only together."""


@declaration
class RotatingParameters(ModelParameters):
    """Parameters of the models whose inputs are rotated."""

    rotations: int = parameter(
        default=9, least=1, most=MOST_ROTATIONS, about="Size S of the support set of rotations {0°, 360°/S, ...}."
    )
    rotation: str = parameter(
        default="bilinear", choices=ROTATION_KINDS, about="Kind of the rotation operators T_θ on the pixels."
    )


@declaration
class OrientedParameters(RotatingParameters):
    """Parameters of the models that use the dominant orientation of an image."""

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


@declaration
class CDParameters:
    """Parameters of the learning loop, contrastive divergence; `before` is as in records that leave them out."""

    epochs: int = parameter(default=30, least=0, about="Passes over the training images.")
    batch_size: int = parameter(default=200, least=1, about="Images in an update.")
    drop_last: bool = parameter(
        default=False, about="Leave out the images of an epoch that do not fill its last batch, others in each."
    )
    learning_rate: float = parameter(default=0.01, above=0, about="η of the first epoch.")
    rate_decay: float = parameter(default=0.0, least=0, about="η = learning_rate / (1 + rate_decay · epoch).")
    momentum: float = parameter(default=0.9, least=0, below=1, about="α of Eq. 7, on the previous increment.")
    initial_momentum: float | None = parameter(
        default=None, least=0, below=1, about="Momentum of the first momentum_epochs epochs."
    )
    momentum_epochs: int = parameter(default=0, least=0, about="Epochs with initial_momentum.")
    weight_decay: float = parameter(default=0.0001, least=0, about="Weight of the L2 penalty on W.")
    gibbs_steps: int = parameter(default=1, least=1, about="k of CD-k.")
    visible_sampling: str = parameter(
        default="mean", choices=("mean", "sample"), about="What the negative phase takes from the visible units."
    )
    sparsity: float | None = parameter(
        default=0.3, above=0, below=1, about="Target p of the mean activation of every hidden unit."
    )
    sparsity_weight: float = parameter(
        default=3.0, least=0, about="λ of the pull λ (p - q), q the unit's mean activation in the batch."
    )
    sparsity_form: str = parameter(
        default="bias+weights",
        choices=("bias", "bias+weights"),
        about="Whether the pull acts on b alone, or through h (1 - h) on b and W.",
    )

    def rate_at(self, epoch: int) -> float:
        """Learning rate η of an epoch (counted from 0)."""
        return self.learning_rate / (1 + self.rate_decay * epoch)

    def momentum_at(self, epoch: int) -> float:
        """Momentum α of an epoch (counted from 0)."""
        if self.initial_momentum is not None and epoch < self.momentum_epochs:
            return self.initial_momentum
        return self.momentum


@declaration
class AlignedPCAParameters(OrientedParameters):
    """Parameters of the principal components of aligned images."""

    components: int = parameter(
        default=500, least=1, about="Principal components; at most as many as there are pixels and training images."
    )


@declaration
class RBMParameters(ModelParameters, CDParameters):
    """Parameters of the RBM, and of all models that learn."""

    has_states: ClassVar[bool] = True
    has_weights: ClassVar[bool] = True

    hidden: int = parameter(default=500, least=1, about="Number H of hidden units.", kw_only=False)
    visible: str = parameter(
        default="gaussian", choices=VISIBLE_KINDS, about="Visible units; the paper's experiments are Gaussian."
    )
    variance: str = parameter(
        default="fixed",
        choices=("fixed", "learned"),
        about="σ = 1, or log σ² learned (Cho, Ilin & Raiko 2011).",
    )
    standardise: bool | None = parameter(
        default=None,
        about="Standardise each pixel with the statistics of the training images; None: for Gaussian units only.",
    )
    floor: float = parameter(
        default=0.0, least=0, about="A pixel with a standard deviation at or below this keeps scale 1."
    )
    whiten: bool = parameter(
        default=False,
        about="Instead of standardising, normalise the contrast of each image and whiten by ZCA with the statistics of "
        "the training images, as the TI-RBM's authors do.",
    )
    initial_scale: float = parameter(default=0.01, least=0, about="Standard deviation of the initial weights.")

    @property
    def prepares_inputs(self) -> bool:
        """Whether images are standardised or whitened; for Bernoulli units only where it is asked for."""
        return self.whiten or (self.visible == "gaussian" if self.standardise is None else self.standardise)

    def _check_together(self) -> None:
        super()._check_together()
        if self.visible == "bernoulli" and self.variance != "fixed":
            raise InputError("Bernoulli visible units have no variance to learn: use variance='fixed'")
        if self.whiten and self.visible == "bernoulli":
            raise InputError("whitened images are no probabilities: use visible='gaussian' with whiten")
        if self.whiten and self.standardise:
            raise InputError("whitening takes the place of standardising: use one of whiten and standardise")


@declaration
class AugmentedParameters(RotatingParameters, RBMParameters):
    """Parameters of the RBM on rotated copies of every image."""


@declaration
class OrientedRBMParameters(OrientedParameters, RBMParameters):
    """Parameters of the O-RBM."""

    aligns_optionally: ClassVar[bool] = True

    align: bool = parameter(default=True, about="Whether images are aligned when features are taken.", setting=False)
    turn: str = parameter(
        default="back",
        choices=("back", "forth", "radians", "index"),
        about="Images are rotated back by their orientation, which aligns them; or by mistake: by as much the other "
        "way, by its degrees read as radians, or by its index read as degrees.",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.turn in ("radians", "index") and self.rotation == "permutation":
            raise InputError(
                f"turn={self.turn!r} rotates by other angles than the support set's, for which there are no exact "
                "permutations: use another rotation"
            )


@declaration
class TIRBMParameters(RotatingParameters, RBMParameters):
    """Parameters of the TI-RBM."""

    variance: str = parameter(
        default="fixed",
        choices=("fixed", "learned", "tracked"),
        about="σ = 1, log σ² learned, or a scalar σ that starts at the residual of a k-means clustering and follows "
        "the error of reconstructions from the hidden probabilities.",
    )
    initial_bias: str = parameter(
        default="half",
        choices=("half", "zero"),
        about="Initial hidden biases: -log S, so that units start on with probability 1/2, or 0, as its authors have "
        "it: S/(S + 1).",
    )
    sparsity_slope: str = parameter(
        default="pooled",
        choices=("pooled", "each"),
        about="What the pull on weights and biases passes through: the slope of the pooled activation; or, as its "
        "authors have it, h (1 - h) of each rotation by itself, all biases of a unit moved by their sum.",
    )
    angles: str = parameter(
        default="circle",
        choices=("circle", "wedge"),
        about="Rotations in S equal steps of the circle, or in S steps of 15° around 0°.",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.sparsity_slope == "each" and self.sparsity_form == "bias":
            raise InputError("sparsity_slope='each' needs sparsity_form='bias+weights': a pull on b has no slope")
        if self.angles == "wedge" and self.rotation == "permutation":
            raise InputError("a wedge of angles has no exact permutations: use angles='circle' or another rotation")
        if self.angles == "wedge" and self.rotations * WEDGE_STEP > 360:
            raise InputError(f"{self.rotations} rotations in steps of {WEDGE_STEP}° are more than a circle")


@declaration
class ThetaParameters(OrientedParameters, RBMParameters):
    """Parameters of the θ-RBM."""

    tensor: str = parameter(
        default="tied",
        choices=("tied", "full"),
        about="One matrix of which the slices are rotated copies, or S slices trained by rotated gradients.",
    )
    initial: str = parameter(
        default="rotated",
        choices=("rotated", "independent"),
        about="Initial slices: rotated copies of one matrix (Lemma 1's base case), or independent (its footnote).",
    )
    visible_biases: str = parameter(
        default="orientation",
        choices=("orientation", "one"),
        about="A visible bias c for each orientation, or one c for all, in the images' own frame, as in the paper's "
        "energy.",
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.tensor == "tied" and self.initial == "independent":
            raise InputError("independent initial slices need tensor='full': a tied tensor has one matrix")


@declaration
class LocalThetaParameters(OrientedParameters, RBMParameters):
    """Parameters of the local θ-RBM."""

    # Features are means over fields, perhaps of length 1.
    has_states: ClassVar[bool] = False
    standardises_images: ClassVar[bool] = False

    variance: str = parameter(default="fixed", choices=("fixed",), about="σ = 1.")
    field: int = parameter(default=8, least=2, about="Side of the square field that a filter sees.")
    stride: int = parameter(default=2, least=1, about="Pixels from one field to the next when features are taken.")
    pooling: int = parameter(default=4, least=1, about="Features are means over a grid of pooling × pooling cells.")
    pooling_width: float = parameter(
        default=0.0,
        least=0,
        about="Deviation of the Gaussian by which a cell weighs fields, in sides of a cell; at 0, sharp edges.",
    )
    power: float = parameter(
        default=1.0, above=0, most=1, about="Exponent of the pooled activations; at 0.5, features are their roots."
    )
    unit_length: bool = parameter(default=False, about="Divide the features of an image by their length.")
    contrast: float = parameter(
        default=0.0,
        least=0,
        about="Each field x is seen as (x - mean) / √(variance + contrast), over its own pixels; at 0, as it is.",
    )
    fields: int = parameter(
        default=40_000, least=1, about="Fields with contrast that are drawn from the training images to learn from."
    )

    def _check_together(self) -> None:
        super()._check_together()
        if self.whiten:
            raise InputError("the local θ-RBM sees fields, which whiten does not prepare: use its setting contrast")
