"""Squared distances and RBF kernels by one matrix product each.

With the rows of one side widened to ``(x, −|x|², 1)`` and those of the other to ``(2y, 1, −|y|²)``, one
product gives −|x − y|² = 2xy − |x|² − |y|²: BLAS adds the norms too, and only the clip and the exp are left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from thetarbm_cli.backend import Array, Backend

# The terms of −γ|x − y|² cancel: its error is a few roundings of γ|x|², |x| taken from the centre of the
# data. Up to this γ|x|² of the support vectors x a float32 product leaves a kernel good to 1e-5. A point y
# that lies further out need not be asked: its kernel, exp(−γ(|y| − |x|)²) at most, shrinks faster than the
# error grows.
LARGEST_FLOAT32_EXPONENT = 8.0


def left_operand(features: Array, centre: Array, dtype: Any, backend: Backend) -> Array:
    """Rows ``(x, −|x|², 1)`` of the centred features, (n, F + 2).

    Distances do not depend on the centre, but their rounding does: the nearer the rows are to zero, the less
    cancels. Norms are summed in float64.
    """
    centred, norms = _centred(features, centre, backend)
    operand = backend.xp.empty((len(centred), centred.shape[1] + 2), dtype=dtype)
    operand[:, :-2] = centred
    operand[:, -2] = -norms
    operand[:, -1] = 1.0
    return operand


def right_operand(features: Array, centre: Array, dtype: Any, backend: Backend, *, scale: float = 1.0) -> Array:
    """Rows `scale` · ``(2y, 1, −|y|²)`` of the centred features, (n, F + 2)."""
    centred, norms = _centred(features, centre, backend)
    operand = backend.xp.empty((len(centred), centred.shape[1] + 2), dtype=dtype)
    operand[:, :-2] = (2.0 * scale) * centred
    operand[:, -2] = scale
    operand[:, -1] = -scale * norms
    return operand


def negative_distances(left: Array, right: Array, backend: Backend) -> Array:
    """−`scale` · |x − y|² for all pairs of rows of two operands, clipped at 0, (n, m)."""
    product = left @ right.T
    return backend.xp.minimum(product, 0.0, out=product)


def rbf_kernel(left: Array, right: Array, backend: Backend) -> Array:
    """exp(−`scale` · |x − y|²) for all pairs of rows of two operands, (n, m); `scale` is the kernel's γ."""
    exponents = negative_distances(left, right, backend)
    return backend.xp.exp(exponents, out=exponents)


def product_dtype(features: Array, centre: Array, gamma: float, backend: Backend) -> Any:
    """float32 where it is exact enough for features of this size and this γ, else float64."""
    _, norms = _centred(features, centre, backend)
    return np.float32 if gamma * float(norms.max()) <= LARGEST_FLOAT32_EXPONENT else np.float64


def _centred(features: Array, centre: Array, backend: Backend) -> tuple[Array, Array]:
    centred = backend.asarray(features, dtype=np.float64) - centre
    return centred, backend.xp.einsum("ij,ij->i", centred, centred)
