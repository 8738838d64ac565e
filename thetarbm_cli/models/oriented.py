"""The oriented RBM (O-RBM): images aligned by their dominant orientation, then an RBM."""

from __future__ import annotations

import math
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
    set of rotated images, on which it is a plain RBM again. So have those whose φ in degrees is read as ``radians``,
    while by the ``index`` s read as degrees images are hardly rotated. `reconstruct` gives images as the network sees
    them.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import OrientedRBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> OrientedRBM(hidden=4, epochs=2).fit(images).transform(images).shape
    (20, 4)
    """

    def aligned(self, images: Images, orientations: Orientations | None = None) -> Images:
        """Images rotated by -φ_s, so that their dominant orientation is 0°; or by what `turn` mistakes for that."""
        if self.turn == "back":
            return super().aligned(images, orientations)
        index = self._orientations(images, orientations)
        step = None if self.turn == "forth" else self._alignment_step
        rotated: Images = self._rotations(images, step).rotate(images, index)
        return rotated

    @property
    def _alignment_step(self) -> float:
        """Degrees by which an image is rotated for each step of its orientation."""
        step = 360 / self.rotations
        return {"back": -step, "forth": step, "radians": -math.degrees(step), "index": -1.0}[self.turn]

    def _fit_inputs(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        return self._fit_standardiser(self.aligned(images, orientations))

    def _inputs_to_learn(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        # `align` is of features alone.
        return self._standardised(self.aligned(images, orientations))

    def _to_standardise(
        self, images: Images, orientations: Orientations, by: Orientations
    ) -> tuple[Images, Orientations | None]:
        return self.aligned(images, orientations) if self.align else images, None

    def _rotated_inputs(
        self, standardised: Array, support: Rotations, orientations: NDArray[np.int64]
    ) -> Iterator[Array]:
        """Rotated copies of standardised images, aligned by the copies' own orientations.

        From the frame of the aligned image to that of the aligned copy is one rotation, and one interpolation: by the
        copy's angle, and by what aligns for the difference of the two orientations, which is -(S - 1) to S - 1.
        """
        if not self.align:
            yield from super()._rotated_inputs(standardised, support, orientations)
            return
        # An exact permutation has no angles between those of the support set.
        kind = "bilinear" if self.rotation == "permutation" else self.rotation
        own, most, step = orientations[0], self.rotations - 1, self._alignment_step
        for copy, copied in enumerate(orientations[1:]):
            least = 360.0 * copy / support.rotations + support.offset - step * most
            between = Rotations(self.size_, 2 * most + 1, kind, least, support.backend, step)
            yield between.rotate(standardised, copied - own + most)

    def _map(self, X: Any, orientations: Any, *function: Any, **options: Any) -> NDArray[np.float32]:
        # Images that are taken as they are need no orientations found.
        given = orientations if self.align else np.zeros(len(X), dtype=np.int64)
        return super()._map(X, given, *function, **options)
