"""The transformation-invariant RBM (TI-RBM) of Sohn & Lee (2012), the paper's strongest baseline."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.models.base import Images, RotatingModel, estimator, parameter
from thetarbm_cli.models.contrastive_divergence import EnergyModel
from thetarbm_cli.models.couplings import PooledCoupling
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.models.visible import VisibleUnits


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
        "the reconstruction error.",
    )

    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        parameters = super()._initial_parameters(inputs)
        # A unit is on in one of S rotations or off: from biases of 0 it would start on with probability S/(S + 1), and
        # so many units at once overshoot until training may diverge. So it starts at 1/2, as in every other network.
        start = -np.log(self.rotations)
        parameters["hidden_bias"] = np.full((self.rotations, self.hidden), start, dtype=np.float32)
        if self.variance == "tracked":
            parameters["sigma"] = np.array([self._residual(inputs)], dtype=np.float32)
        return parameters

    def _residual(self, inputs: Images) -> float:
        """Root mean squared distance per pixel of the inputs to H cluster centres, or to half as many as inputs."""
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

    def _energy_model(self, backend: Backend, parameters: dict[str, Array]) -> EnergyModel:
        visible = VisibleUnits(backend, parameters, self.visible)
        return EnergyModel(backend, parameters, visible, PooledCoupling(backend, parameters, self.size_, self.rotation))
