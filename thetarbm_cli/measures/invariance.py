"""Three other measures of invariance, which the paper discusses beside γ, under the rotations S' of the γ-score.

Each compares what a model makes of images and of their rotated copies: `originals` are features h(x), (n, H), and
`copies` those of the same images under each rotation, h(T_s x), (n, H) each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.floating[Any]]

# A unit fires for this share of all images, as Goodfellow et al. have it.
FIRING_SHARE = 0.01


def goodfellow(originals: Features, copies: Sequence[Features]) -> float:
    """Compute the invariance score of Goodfellow et al. 2009: how often what makes a unit fire does so when rotated.

    A unit fires where its feature is at least t_j, which is chosen such that it fires for `FIRING_SHARE` of the
    originals, or for more if they are equal. G_j is that share, L_j the share of rotated copies for which it fires
    among those of the images for which it fires; the score is the mean of L_j / G_j over all units that are alive (vary
    over the originals), not over the best of them alone as in some of their figures, and a unit never fires by being
    off. From 0 to 1 / `FIRING_SHARE`, higher is more invariant; 1 for units whose values under rotation are
    independent, NaN if all units are dead.
    """
    images = len(originals)
    rank = images - max(1, math.ceil(FIRING_SHARE * images))
    thresholds = np.partition(originals, rank, axis=0)[rank]
    fires = originals >= thresholds
    firing = fires.sum(axis=0)
    kept = sum(np.count_nonzero(fires & (copy >= thresholds), axis=0) for copy in copies)
    alive = originals.min(axis=0) < originals.max(axis=0)
    if not alive.any():
        return math.nan
    scores = (kept / (len(copies) * firing)) / (firing / images)
    return float(scores[alive].mean())


def zou(originals: Features, copies: Sequence[Features]) -> float:
    """Compute the measure of Zou et al. 2012: the mean of |u(x) − u(T_s x)|² with u = h / |h|.

    From 0 to 4, for features that are not negative to 2; lower is more invariant. Features without any value have no
    direction: their u is 0.
    """
    unit = _unit_vectors(originals)
    return float(np.mean([np.square(unit - _unit_vectors(copy)).sum(axis=1).mean() for copy in copies]))


def dosovitskiy(labels: NDArray[Any], copied: Sequence[NDArray[Any]]) -> float:
    """Compute how often a classifier gives rotated copies the class that it gives their original.

    Dosovitskiy et al. 2014 take the classifier's accuracy on transformed images. Where the test images have all
    rotations, that is little more than its accuracy on them; agreement with the original asks for invariance alone.
    From 0 to 1, higher is more invariant; a classifier that guesses one of K classes has 1 / K.
    """
    return float(np.mean([np.mean(each == labels) for each in copied]))


def _unit_vectors(features: Features) -> NDArray[np.float64]:
    unit = features.astype(np.float64)
    norms = np.linalg.norm(unit, axis=1, keepdims=True)
    np.divide(unit, norms, out=unit, where=norms > 0)
    return unit
