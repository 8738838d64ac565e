"""The oriented RBM (O-RBM): images turned back by their dominant orientation, then an RBM."""

from __future__ import annotations

from typing import Any

from thetarbm_cli.models.images import OrientedImageRBM
from thetarbm_cli.models.inference import Images, Orientations


class OrientedRBM(OrientedImageRBM):
    """RBM trained on images that are aligned by their dominant orientation.

    Parameters
    ----------
    hidden : int
    align : bool
        Whether images are aligned when features are taken. The paper does not say; its γ-scores can
        only come from not aligning, so both are reported. `reconstruct` gives images as the machine sees them.
    **common
        The parameters of `OrientedImageRBM`, `ImageRBM` and `RBM`.

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import OrientedRBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> OrientedRBM(hidden=4, epochs=2).fit(images).transform(images).shape
    (20, 4)
    """

    def __init__(self, hidden: int = 500, *, align: bool = True, **common: Any) -> None:
        super().__init__(hidden, **common)
        self.align = align

    def _fit_inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        return self._fit_standardiser(self.aligned(images, orientations)), None

    def _inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        return self._standardised(self.aligned(images, orientations) if self.align else images), None
