"""Elementwise functions of the models, in place and free of overflow."""

from __future__ import annotations

from typing import Any

import numpy as np

from thetarbm_cli.backend import Array

# exp(80) is far inside float32, σ(-80) is 0 to every digit that a product can see, and σ(80) is 1.
_FARTHEST = 80.0
# Numbers that a processor's cache holds from one operation to the next; a device takes all at once.
_CACHED = 1 << 16


def sigmoid(xp: Any, x: Array) -> Array:
    """σ(x) = 1 / (1 + exp(-x)), written over `x`; inputs of any size give 0 or 1, never NaN."""
    step = max(_CACHED * len(x) // max(x.size, 1) if xp is np else len(x), 1)
    for first in range(0, len(x), step):
        part = x[first : first + step]
        # NumPy clips twice as fast as it takes the maximum with a number.
        xp.clip(part, -_FARTHEST, _FARTHEST, out=part)
        xp.negative(part, out=part)
        xp.exp(part, out=part)
        part += 1
        xp.reciprocal(part, out=part)
    return x


def softplus(xp: Any, x: Array) -> Array:
    """log(1 + exp(x)), as a new array."""
    return xp.logaddexp(x, x.dtype.type(0))


def softmax_with_off(xp: Any, x: Array) -> Array:
    """Probabilities of the states along the first axis against an off state of energy 0, written over `x`.

    Parameters
    ----------
    x : (S, n, H) array
        Drives z_s; the result is exp(z_s) / (1 + Σ_t exp(z_t)).
    """
    highest = xp.maximum(x.max(axis=0), 0)
    x -= highest
    xp.exp(x, out=x)
    xp.negative(highest, out=highest)
    xp.exp(highest, out=highest)
    highest += x.sum(axis=0)
    x /= highest
    return x


def log_sum_with_off(xp: Any, x: Array) -> Array:
    """log(1 + Σ_s exp(x_s)) over the first axis of an (S, n, H) array, as a new (n, H) array."""
    highest = xp.maximum(x.max(axis=0), 0)
    return highest + xp.log(xp.exp(-highest) + xp.exp(x - highest).sum(axis=0))
