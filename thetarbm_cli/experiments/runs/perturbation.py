"""Table 3: orientations that are estimated wrongly on purpose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def perturb(
    orientations: NDArray[np.int64], n: int, p: float, rotations: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """s ← s ± ε modulo S, ε ~ Binomial(n, p), the sign fair.

    Parameters
    ----------
    orientations : (N,) array of indices s
    n, p : parameters of the Binomial distribution
    rotations : S
    generator : source of ε and of the signs
    """
    errors = generator.binomial(n, p, size=len(orientations))
    signs = 2 * generator.integers(0, 2, size=len(orientations)) - 1
    return (orientations + signs * errors) % rotations
