"""The θ-RBM: the paper's gated Boltzmann machine, with its S slices in full or tied to one matrix."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.imaging.rotation import Rotations, rotation_operators, round_trip_operators
from thetarbm_cli.models.base import Images, Orientations, OrientedModel, estimator
from thetarbm_cli.models.contrastive_divergence import EnergyModel
from thetarbm_cli.models.couplings import Coupling, SharedCoupling, TensorCoupling, TiedCoupling
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.models.visible import VisibleUnits
from thetarbm_cli.parameters import ThetaParameters


@estimator
class ThetaRBM(ThetaParameters, OrientedModel, RBM):
    """The θ-RBM: an unfactored gated Boltzmann machine p(h | x, r) with one slice W_s per orientation.

    The tensor ``full`` trains the paper's S slices and rotates every gradient into each (Eqs. 5–6). ``tied`` trains one
    canonical matrix M with W_s = R_{φs}(M) = M T_s': as W_s x = M (T_s'x), images are rotated back once, before
    training, and an update costs little more than an RBM's. By Lemma 1 the two are the same model when T is an
    exact group; with interpolated rotations they differ by the interpolation.

    Images are standardised within their orientation (or whitened all alike, as they are), and there is one visible
    bias per orientation, or (`visible_biases`) one for all.

    Attributes
    ----------
    weights_ : (H, V) array M, or (S, H, V) array of slices
    hidden_bias_ : (H,) array
    visible_bias_ : (S, V) or (1, V) array
        One per orientation in the frame of the image, or (tied) rotated back as the images are; one for all always in
        the frame of the image.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import ThetaRBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> model = ThetaRBM(hidden=4, epochs=2).fit(images)
    >>> model.transform(images).shape, model.tensor_.shape
    ((20, 4), (9, 4, 16))
    """

    @property
    def tensor_(self) -> NDArray[np.float32]:
        """The paper's W as (S, H, V): slice s is used for images of orientation s."""
        return self.weights_ if self.tensor == "full" else self._rotated_copies(self.weights_)

    def _rotated_copies(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """W_s = R_{φs}(M) = M T_s' for every s."""
        return np.ascontiguousarray(self._rotations().rotate_all(matrix))

    def _group_count(self) -> int:
        return self.rotations

    def _fit_inputs(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        return self._in_frame(self._fit_standardiser(images, by, self.rotations), orientations)

    def _to_standardise(
        self, images: Images, orientations: Orientations, by: Orientations
    ) -> tuple[Images, Orientations | None]:
        return images, by

    def _in_frame(self, standardised: Images, orientations: Orientations) -> Images:
        """Images as the network sees them: as they are, or (tied) T_s'x, in the frame of M."""
        if self.tensor == "full":
            return standardised
        rotated: Images = self._rotations(standardised).rotate(standardised, orientations, transpose=True)
        return rotated

    def _images_of(self, inputs: Images, orientations: Orientations, like: Images | None = None) -> Images:
        images = self._rotations().rotate(inputs, orientations) if self.tensor == "tied" else inputs
        return self._unstandardised(images, orientations, like)

    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        parameters = super()._initial_parameters(inputs)
        if self.visible_biases == "one":
            parameters["visible_bias"] = np.zeros((1, inputs.shape[1]), dtype=np.float32)
        if self.tensor == "full":
            if self.initial == "rotated":
                parameters["weights"] = self._rotated_copies(parameters["weights"])
            else:
                parameters["weights"] = self._initial_weights(self.rotations, self.hidden, inputs.shape[1])
        return parameters

    def _products(self, pixels: int) -> tuple[float, float, float]:
        up, down, update = super()._products(pixels)
        size, support = math.isqrt(pixels), (self.rotations, self.rotation)
        if self.tensor == "tied":
            # The mean over orientations, of which each image has one.
            trips = round_trip_operators(size, *support) if self.visible == "gaussian" else ()
            return up, down + sum(trip.nnz for trip in trips if trip is not None) / self.rotations, update
        if self.rotation == "permutation":
            # Both phases are rotated back, and the gradient of a batch into every slice.
            return up, down, update + 2 * pixels + self.rotations * up / self.batch_size
        turns = sum(operator.nnz for operator in rotation_operators(size, *support))
        return up, down, self.rotations * update + 2 * turns

    def _bias_products(self, pixels: int) -> float:
        by_orientation = super()._bias_products(pixels)
        if self.visible_biases == "orientation":
            return by_orientation
        learned = self.variance == "learned"
        of_variance = by_orientation / 2 if learned else 0.0
        if self.tensor == "full":
            return of_variance
        # c is rotated wherever it is needed, and its gradient back.
        turns = sum(op.nnz for op in rotation_operators(math.isqrt(pixels), self.rotations, self.rotation))
        times = self.gibbs_steps + (2 if learned else 0) + 1
        return of_variance + self.rotations * pixels + times * turns / self.batch_size

    def _energy_model(self, backend: Backend, parameters: dict[str, Array]) -> EnergyModel:
        coupling: Coupling
        if self.tensor == "full":
            coupling = TensorCoupling(backend, parameters, self.size_, self.rotation)
        elif self.visible == "gaussian":
            coupling = TiedCoupling(backend, parameters, self.size_, self.rotations, self.rotation)
        else:
            # T_s'σ(c_s + W_s'h) has no form in the frame of M: there the network is an RBM of its own.
            coupling = SharedCoupling(backend, parameters)
        frame = None
        if self.tensor == "tied" and self.visible_biases == "one":
            frame = Rotations(self.size_, self.rotations, self.rotation, backend=backend)
        visible = VisibleUnits(backend, parameters, self.visible, frame)
        return EnergyModel(backend, parameters, visible, coupling, self._group_count())
