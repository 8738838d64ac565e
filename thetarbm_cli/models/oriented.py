"""The oriented RBM (O-RBM): images aligned by their dominant orientation, then an RBM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.models.base import Images, Orientations, OrientedModel, estimator
from thetarbm_cli.models.rbm import RBM
from thetarbm_cli.parameters import OrientedRBMParameters


@estimator
class OrientedRBM(OrientedRBMParameters, OrientedModel, RBM):
    """RBM trained on images that are aligned by their dominant orientation, then standardised or whitened.

    The paper does not say whether images are aligned when features are taken, so both are measured, with
    `align` and without. Rotated the wrong way (``forth``), by +φ instead of -φ, images have orientations 2φ: another
    set of rotated images, on which it is a plain RBM again. `reconstruct` gives images as the network sees them.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import OrientedRBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> OrientedRBM(hidden=4, epochs=2).fit(images).transform(images).shape
    (20, 4)
    """

    def aligned(self, images: Images, orientations: Orientations | None = None) -> Images:
        """Images rotated by -φ_s, so that their dominant orientation is 0°; or, where `turn` says so, by +φ_s."""
        if self.turn == "back":
            return super().aligned(images, orientations)
        rotated: Images = self._rotations(images).rotate(images, self._orientations(images, orientations))
        return rotated

    def _fit_inputs(self, images: Images, orientations: Orientations) -> Images:
        return self._fit_standardiser(self.aligned(images, orientations))

    def _to_standardise(self, images: Images, orientations: Orientations) -> tuple[Images, Orientations | None]:
        return self.aligned(images, orientations) if self.align else images, None

    def _rotated_inputs(
        self, standardised: Array, support: Rotations, orientations: NDArray[np.int64]
    ) -> Iterator[Array]:
        """Rotated copies of standardised images, aligned by the copies' own orientations.

        From the frame of the aligned image to that of the aligned copy is one rotation, and one interpolation.
        """
        if not self.align:
            yield from super()._rotated_inputs(standardised, support, orientations)
            return
        # An exact permutation has no angles between those of the support set.
        kind = "bilinear" if self.rotation == "permutation" else self.rotation
        own, sign = orientations[0], -1 if self.turn == "back" else 1
        for copy, copied in enumerate(orientations[1:]):
            angle = 360.0 * copy / support.rotations + support.offset
            between = Rotations(self.size_, self.rotations, kind, angle, support.backend)
            yield between.rotate(standardised, sign * (copied - own) % self.rotations)

    def _map(self, X: Any, orientations: Any, *function: Any, **options: Any) -> NDArray[np.float32]:
        # Images that are taken as they are need no orientations found.
        given = orientations if self.align else np.zeros(len(X), dtype=np.int64)
        return super()._map(X, given, *function, **options)
