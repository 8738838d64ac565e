"""The transformation-invariant RBM (TI-RBM) of Sohn & Lee (2012), the paper's strongest baseline."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.imaging.rotation import rotation_matrix, rotation_operators
from thetarbm_cli.models.base import Images, RotatingModel, estimator
from thetarbm_cli.models.contrastive_divergence import EnergyModel
from thetarbm_cli.models.couplings import PooledCoupling
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.models.visible import VisibleUnits
from thetarbm_cli.parameters import WEDGE_STEP, TIRBMParameters


@estimator
class TransformInvariantRBM(TIRBMParameters, RotatingModel, RBM):
    """RBM whose hidden units see the image rotated S ways and are on in one of the rotations, or off.

    Its features are the probabilities that a unit is on in any rotation. The default settings are those the paper gives
    to all networks, not those of the TI-RBM's authors.

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
