"""The θ-RBM: the paper's gated machine, with its S slices in full or tied to one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.models.images import OrientedImageRBM
from thetarbm_cli.models.inference import Images, Orientations
from thetarbm_cli.models.interactions import Interaction, SharedInteraction
from thetarbm_cli.models.machine import Machine
from thetarbm_cli.models.tensor import TensorInteraction, TiedInteraction
from thetarbm_cli.models.visible import VisibleUnits

TENSORS = ("tied", "full")
INITIALS = ("rotated", "independent")


class ThetaRBM(OrientedImageRBM):
    """The θ-RBM: an unfactored gated Boltzmann machine p(h | x, r) with one slice W_s per orientation.

    Parameters
    ----------
    hidden : int
    tensor : {"tied", "full"}
        ``full`` trains the paper's S slices and turns every gradient into each (Eqs. 5–6). ``tied`` trains one
        canonical matrix M with W_s = R_{φs}(M) = M T_s': as W_s x = M (T_s'x), images are turned back once, before
        training, and an update costs little more than an RBM's. By Lemma 1 the two are the same machine when T is an
        exact group; with interpolated rotations they differ by the interpolation.
    initial : {"rotated", "independent"}
        Initial slices: turned copies of one matrix (Lemma 1's base case), or independent ones (its footnote).
    **common
        The parameters of `OrientedImageRBM`, `ImageRBM` and `RBM`. Images are standardised within their
        orientation, and there is one visible bias per orientation.

    Attributes
    ----------
    weights_ : (H, V) array M, or (S, H, V) array of slices
    hidden_bias_ : (H,) array
    visible_bias_ : (S, V) array
        In the frame of the image, or (tied) turned back as the images are.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import ThetaRBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> model = ThetaRBM(hidden=4, epochs=2).fit(images)
    >>> model.transform(images).shape, model.tensor_.shape
    ((20, 4), (9, 4, 16))
    """

    def __init__(self, hidden: int = 500, *, tensor: str = "tied", initial: str = "rotated", **common: Any) -> None:
        super().__init__(hidden, **common)
        self.tensor = tensor
        self.initial = initial

    @property
    def tensor_(self) -> NDArray[np.float32]:
        """The paper's W as (S, H, V): slice s is used for images of orientation s."""
        return self.weights_ if self.tensor == "full" else self._rotated_copies(self.weights_)

    def _rotated_copies(self, matrix: NDArray[np.float32]) -> NDArray[np.float32]:
        """W_s = R_{φs}(M) = M T_s' for every s."""
        return np.ascontiguousarray(self._turning().rotate_all(matrix))

    def _group_count(self) -> int:
        return self.rotations

    def check_settings(self) -> None:
        """Raise an `InputError` for the first setting that is out of range."""
        super().check_settings()
        if self.tensor not in TENSORS:
            raise InputError(f"tensor must be one of {', '.join(TENSORS)}, not {self.tensor!r}")
        if self.initial not in INITIALS:
            raise InputError(f"initial must be one of {', '.join(INITIALS)}, not {self.initial!r}")
        if self.tensor == "tied" and self.initial == "independent":
            raise InputError("independent initial slices need tensor='full': a tied tensor has one matrix")

    def _fit_inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        index = self._orientations(images, orientations)
        return self._in_frame(self._fit_standardiser(images, index, self.rotations), index), index

    def _inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        index = self._orientations(images, orientations)
        return self._in_frame(self._standardised(images, index), index), index

    def _groups_of(self, images: Images, orientations: Orientations | None) -> Orientations | None:
        return self._orientations(images, orientations)

    def _in_frame(self, images: Images, index: Orientations) -> Images:
        """Images as the machine sees them: as they are, or (tied) T_s'x, in the frame of M."""
        return self._turning().rotate(images, index, transpose=True) if self.tensor == "tied" else images

    def _images_of(self, inputs: Images, groups: Orientations | None) -> Images:
        assert groups is not None
        images = self._turning().rotate(inputs, groups) if self.tensor == "tied" else inputs
        return self._unstandardised(images, groups)

    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        parameters = super()._initial_parameters(inputs)
        if self.tensor == "full":
            if self.initial == "rotated":
                parameters["weights"] = self._rotated_copies(parameters["weights"])
            else:
                parameters["weights"] = self._initial_weights(self.rotations, self.hidden, inputs.shape[1])
        return parameters

    def _machine(self, backend: Backend, parameters: dict[str, Array]) -> Machine:
        interaction: Interaction
        if self.tensor == "full":
            interaction = TensorInteraction(backend, parameters, self.size_, self.rotation)
        elif self.visible == "gaussian":
            interaction = TiedInteraction(backend, parameters, self.size_, self.rotations, self.rotation)
        else:
            # T_s'σ(c_s + W_s'h) has no form in the frame of M: there the machine is an RBM of its own.
            interaction = SharedInteraction(backend, parameters)
        visible = VisibleUnits(backend, parameters, self.visible)
        return Machine(backend, parameters, visible, interaction, self._group_count())
