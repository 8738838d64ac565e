"""The restricted Boltzmann machine, and the parameters that all models share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.models.estimator import BoltzmannEstimator
from thetarbm_cli.models.inference import Images, Orientations
from thetarbm_cli.models.interactions import SharedInteraction
from thetarbm_cli.models.machine import Machine
from thetarbm_cli.models.visible import VisibleUnits


class RBM(BoltzmannEstimator):
    """Restricted Boltzmann machine with Gaussian or Bernoulli visible units.

    Parameters
    ----------
    hidden : int
        Number H of hidden units.
    visible : {"gaussian", "bernoulli"}
        Visible units; the paper's experiments are Gaussian.
    epochs, batch_size : int
        Passes over the training set; images in an update.
    learning_rate, rate_decay : float
        η = learning_rate / (1 + rate_decay · epoch).
    momentum : float
        α of Eq. 7, on the previous increment.
    initial_momentum : float or None
        Momentum of the first `momentum_epochs` epochs.
    momentum_epochs : int
    weight_decay : float
        L2 weight of W.
    gibbs_steps : int
        k of CD-k.
    visible_sampling : {"mean", "sample"}
        What the negative phase takes from the visible units.
    sparsity : float or None
        Target p of the mean activation of every unit.
    sparsity_weight : float
        λ of the pull λ (p - q), q the unit's mean activation in the batch.
    sparsity_form : {"bias", "bias+weights"}
        Whether the pull acts on b alone, or through h (1 - h) on b and W.
    variance : {"fixed", "learned"}
        σ = 1, or log σ² learned (Cho, Ilin & Raiko 2011).
    standardise : bool or None
        Standardise each pixel with the statistics of the training images; None: for Gaussian units only.
    floor : float
        A pixel with a standard deviation at or below this keeps scale 1.
    initial_scale : float
        Standard deviation of the initial weights.
    random_state : int
        Seed of the initial weights, the batch orders and the sampling.
    backend : {"auto", "numpy", "cupy"}

    Attributes
    ----------
    weights_ : (H, V) array
        W, also as ``components_``.
    hidden_bias_ : (H,) array
        b
    visible_bias_ : (1, V) array
        c
    history_ : list of EpochRecord

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import RBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> RBM(hidden=4, epochs=2).fit(images).transform(images).shape
    (20, 4)
    """

    def __init__(
        self,
        hidden: int = 500,
        *,
        visible: str = "gaussian",
        epochs: int = 30,
        batch_size: int = 100,
        learning_rate: float = 0.01,
        rate_decay: float = 0.0,
        momentum: float = 0.9,
        initial_momentum: float | None = None,
        momentum_epochs: int = 0,
        weight_decay: float = 0.0,
        gibbs_steps: int = 1,
        visible_sampling: str = "mean",
        sparsity: float | None = 0.3,
        sparsity_weight: float = 0.3,
        sparsity_form: str = "bias",
        variance: str = "fixed",
        standardise: bool | None = None,
        floor: float = 0.0,
        initial_scale: float = 0.01,
        random_state: Any = 0,
        backend: str = "auto",
    ) -> None:
        self.hidden = hidden
        self.visible = visible
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.rate_decay = rate_decay
        self.momentum = momentum
        self.initial_momentum = initial_momentum
        self.momentum_epochs = momentum_epochs
        self.weight_decay = weight_decay
        self.gibbs_steps = gibbs_steps
        self.visible_sampling = visible_sampling
        self.sparsity = sparsity
        self.sparsity_weight = sparsity_weight
        self.sparsity_form = sparsity_form
        self.variance = variance
        self.standardise = standardise
        self.floor = floor
        self.initial_scale = initial_scale
        self.random_state = random_state
        self.backend = backend

    def _fit_inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        return self._fit_standardiser(images), None

    def _inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        return self._standardised(images), None

    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        pixels = inputs.shape[1]
        return {
            "weights": self._initial_weights(self.hidden, pixels),
            "hidden_bias": np.zeros(self.hidden, dtype=np.float32),
            **self._visible_parameters(pixels),
        }

    def _machine(self, backend: Backend, parameters: dict[str, Array]) -> Machine:
        return Machine(
            backend,
            parameters,
            VisibleUnits(backend, parameters, self.visible),
            SharedInteraction(backend, parameters),
            self._group_count(),
        )
