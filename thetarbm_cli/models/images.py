"""What the models that turn images share: square sides, the support set of rotations, the dominant orientation."""

from __future__ import annotations

import inspect
import math
from functools import lru_cache
from typing import Any

import numpy as np

from thetarbm_cli.backend import NumpyBackend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import KINDS, Rotations
from thetarbm_cli.models.inference import Images, Orientations
from thetarbm_cli.models.rbm import RBM

# One degree apart: finer rotations of small images are the same image again.
MOST_ROTATIONS = 360


class ImageRBM(RBM):
    """Base of the models whose inputs are square images that are turned.

    Parameters
    ----------
    hidden : int
    rotations : int
        Size S of the support set {0°, 360°/S, ...}.
    rotation : {"bilinear", "nearest", "permutation"}
        Kind of the operators T_θ.
    **common
        The parameters of `RBM`.
    """

    def __init__(self, hidden: int = 500, *, rotations: int = 9, rotation: str = "bilinear", **common: Any) -> None:
        super().__init__(hidden, **common)
        self.rotations = rotations
        self.rotation = rotation

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Names of all parameters: scikit-learn reads one signature, here a class adds to its base's."""
        names: set[str] = set()
        for ancestor in cls.__mro__:
            if issubclass(ancestor, RBM):
                signature = inspect.signature(ancestor.__init__)
                names.update(
                    name
                    for name, parameter in signature.parameters.items()
                    if name != "self" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
                )
        return sorted(names)

    def check_settings(self) -> None:
        """Raise an `InputError` for the first setting that is out of range."""
        super().check_settings()
        if not 1 <= self.rotations <= MOST_ROTATIONS:
            raise InputError(f"rotations must be in 1..{MOST_ROTATIONS}, not {self.rotations}")
        if self.rotation not in KINDS:
            raise InputError(f"rotation must be one of {', '.join(KINDS)}, not {self.rotation!r}")

    def _check_images(self, X: Any, *, reset: bool) -> Images:
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

    def _turning(self) -> Rotations:
        """The support set's operators on the host, where images are prepared."""
        return _host_rotations(self.size_, self.rotations, self.rotation)


class OrientedImageRBM(ImageRBM):
    """Base of the models that use the dominant orientation of an image.

    Parameters
    ----------
    hidden : int
    orientation_operator, orientation_scale, orientation_weighting, orientation_binning : str, float, str, str
        The estimator of the dominant orientation, see `thetarbm_cli.imaging.orientation.OrientationEstimator`.
    orientation_smoothing : float
        Degrees by which its histogram is smoothed.
    hypotheses : float
        Every peak of the histogram at this share of the highest or above is learned from, as an image of its own. At 1
        an image has its dominant orientation alone, as in the paper. Features are those of the dominant orientation,
        unless `transform` is given the orientations that `hypothesised` finds.
    **common
        The parameters of `ImageRBM` and `RBM`.
    """

    def __init__(
        self,
        hidden: int = 500,
        *,
        orientation_operator: str = "gaussian",
        orientation_scale: float = 2.0,
        orientation_weighting: str = "squared",
        orientation_binning: str = "shared",
        orientation_smoothing: float = 0.0,
        hypotheses: float = 1.0,
        **common: Any,
    ) -> None:
        super().__init__(hidden, **common)
        self.orientation_operator = orientation_operator
        self.orientation_scale = orientation_scale
        self.orientation_weighting = orientation_weighting
        self.orientation_binning = orientation_binning
        self.orientation_smoothing = orientation_smoothing
        self.hypotheses = hypotheses

    def check_settings(self) -> None:
        """Raise an `InputError` for the first setting that is out of range."""
        super().check_settings()
        self.orientation_estimator()
        if not 0 < self.hypotheses <= 1:
            raise InputError(f"hypotheses must be above 0 and at most 1, not {self.hypotheses}")

    def orientation_estimator(self) -> OrientationEstimator:
        """The estimator with this model's settings."""
        return OrientationEstimator(
            rotations=self.rotations,
            operator=self.orientation_operator,
            scale=self.orientation_scale,
            weighting=self.orientation_weighting,
            binning=self.orientation_binning,
            smoothing=self.orientation_smoothing,
        )

    def hypothesised(self, X: Any) -> tuple[Orientations, Orientations]:
        """Every orientation that each of n images may have, as pairs of the image's row and the orientation.

        Returns
        -------
        rows : (m,) array, ascending, m ≥ n
        orientations : (m,) array
            The dominant one of an image comes first.
        """
        return self.orientation_estimator().candidate_orientations(np.asarray(X, dtype=np.float32), self.hypotheses)

    def aligned(self, images: Images, orientations: Orientations | None = None) -> Images:
        """Images turned by -φ_s, so that their dominant orientation is 0°."""
        index = self._orientations(images, orientations)
        turned: Images = self._turning().rotate(images, (-index) % self.rotations)
        return turned

    def _learned_from(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """Images once for each of their hypotheses; orientations that are given have no others."""
        if orientations is not None or self.hypotheses == 1:
            return images, orientations
        rows, index = self.hypothesised(images)
        return images[rows], index

    def _orientations(self, images: Images, given: Orientations | None) -> Orientations:
        """The orientations that were given, checked, or else the estimated ones."""
        if given is None:
            return self.orientation_estimator()(images)
        if given.min() < 0 or given.max() >= self.rotations:
            raise InputError(f"orientations must be in 0..{self.rotations - 1}, not {given.min()}..{given.max()}")
        return np.asarray(given)


@lru_cache(maxsize=8)
def _host_rotations(size: int, rotations: int, kind: str) -> Rotations:
    return Rotations(size, rotations, kind, backend=NumpyBackend())
