"""The transformation-invariant RBM (TI-RBM) of Sohn & Lee (2012), the paper's strongest baseline."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import rotation_matrix, rotation_operators
from thetarbm_cli.models.base import Images, RotatingModel, estimator, parameter
from thetarbm_cli.models.contrastive_divergence import EnergyModel
from thetarbm_cli.models.couplings import PooledCoupling
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.models.visible import VisibleUnits

# Degrees from one rotation to the next in a wedge.
WEDGE_STEP = 15


@estimator
class TransformInvariantRBM(RotatingModel, RBM):
    """RBM whose hidden units see the image rotated S ways and are on in one of the rotations, or off.

    Its features are the probabilities that a unit is on in any rotation. The default settings are those the paper gives
    to all networks; the preset ``reference`` in `thetarbm_cli.registry` has those of the TI-RBM's authors.

    Attributes
    ----------
    weights_ : (H, V) array
    hidden_bias_ : (S, H) array
        One bias per rotation and unit.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import TransformInvariantRBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> TransformInvariantRBM(hidden=4, epochs=2).fit(images).transform(images).shape
    (20, 4)
    """

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

    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        parameters = super()._initial_parameters(inputs)
        # A unit is on in one of S rotations or off: from biases of 0 it starts on with probability S/(S + 1), and so
        # many units at once may overshoot until training diverges.
        start = -np.log(self.rotations) if self.initial_bias == "half" else 0.0
        parameters["hidden_bias"] = np.full((self.rotations, self.hidden), start, dtype=np.float32)
        if self.variance == "tracked":
            parameters["sigma"] = np.array([self._residual(inputs)], dtype=np.float32)
        return parameters

    def _residual(self, inputs: Images) -> float:
        """Root mean squared distance per pixel of the inputs to H cluster centres, or to half as many as inputs."""
        # Few runs begin so, and it takes a while to import.
        from sklearn.cluster import MiniBatchKMeans

        clusters = MiniBatchKMeans(
            max(min(self.hidden, len(inputs) // 2), 1),
            random_state=self._seed % 2**32,
            n_init=1,
            batch_size=1024,
            max_iter=10,
        ).fit(inputs)
        residual = float(np.sqrt(clusters.inertia_ / inputs.size))
        # Images that are all alike leave no residual but rounding, and no scale to start from.
        return residual if residual > 1e-3 else 1.0

    def _machine_numbers(self, batch: int, pixels: int) -> int:
        return 4 * self.hidden * pixels + 4 * batch * self.hidden * self.rotations

    def _products(self, pixels: int) -> tuple[float, float, float]:
        dense, _, update = super()._products(pixels)
        turns = sum(operator.nnz for operator in self._operators(math.isqrt(pixels)))
        way = self.rotations * dense + turns
        return way, way, self.rotations * update + 2 * turns

    def _energy_model(self, backend: Backend, parameters: dict[str, Array]) -> EnergyModel:
        visible = VisibleUnits(backend, parameters, self.visible)
        coupling = PooledCoupling(backend, parameters, self._operators(self.size_), self.sparsity_slope)
        return EnergyModel(backend, parameters, visible, coupling)

    def _operators(self, size: int) -> tuple[scipy.sparse.csr_matrix, ...]:
        """T_s for every rotation, on the host."""
        if self.angles == "circle":
            return rotation_operators(size, self.rotations, self.rotation)
        return _wedge_operators(size, self.rotations, self.rotation)


@lru_cache(maxsize=8)
def _wedge_operators(size: int, rotations: int, kind: str) -> tuple[scipy.sparse.csr_matrix, ...]:
    angles = (WEDGE_STEP * (index - (rotations - 1) / 2) for index in range(rotations))
    return tuple(rotation_matrix(size, angle, kind) for angle in angles)
