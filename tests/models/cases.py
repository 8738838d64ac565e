"""Small fits of all models, for comparisons between backends, and what a user gets from them.

``python -m tests.models.cases`` fits all of them on CuPy and prints a digest of each, for comparisons between devices.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.models.small import AUTHORS_SETTINGS
from thetarbm_cli.models import RBM, AugmentedRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM

SIDE, IMAGES, BATCH, HIDDEN, TURNS = 8, 25, 6, 5, 4
COMMON: dict[str, Any] = {"hidden": HIDDEN, "epochs": 3, "batch_size": BATCH, "learning_rate": 0.05}
TURNING: dict[str, Any] = {**COMMON, "rotations": TURNS}
NOISY: dict[str, Any] = {"gibbs_steps": 2, "visible_sampling": "sample"}
LEARNED: dict[str, Any] = {"variance": "learned"}
BERNOULLI: dict[str, Any] = {"visible": "bernoulli"}
FULL: dict[str, Any] = {"tensor": "full"}
ONE_BIAS: dict[str, Any] = {"visible_biases": "one"}

CASES: dict[str, tuple[type[RBM], dict[str, Any]]] = {
    "rbm, bernoulli, noisy": (RBM, {**COMMON, **BERNOULLI, **NOISY}),
    "rbm, learned variance, noisy": (RBM, {**COMMON, **LEARNED, **NOISY}),
    "rbm, whitened": (RBM, {**COMMON, "whiten": True, "drop_last": True, "sparsity": None}),
    "augmented": (AugmentedRBM, TURNING),
    "orbm": (OrientedRBM, TURNING),
    "orbm, radians": (OrientedRBM, {**TURNING, "turn": "radians"}),
    "tirbm, bernoulli, noisy": (TransformInvariantRBM, {**TURNING, **BERNOULLI, **NOISY}),
    "tirbm, learned variance": (TransformInvariantRBM, {**TURNING, **LEARNED, "weight_decay": 1e-3}),
    "tirbm, of its authors": (TransformInvariantRBM, {**AUTHORS_SETTINGS, **TURNING, **NOISY}),
    "theta, tied, bernoulli, noisy": (ThetaRBM, {**TURNING, **BERNOULLI, **NOISY}),
    "theta, tied, learned variance": (ThetaRBM, {**TURNING, **LEARNED, "sparsity_form": "bias"}),
    "theta, full, learned variance": (ThetaRBM, {**TURNING, **FULL, **LEARNED, **NOISY}),
    "theta, full, exact group": (ThetaRBM, {**TURNING, **FULL, **LEARNED, "rotation": "permutation"}),
    "theta, full, one slice": (ThetaRBM, {**TURNING, **FULL, "rotations": 1}),
    "theta, tied, one bias": (ThetaRBM, {**TURNING, **ONE_BIAS, "rotations": 5}),
    "theta, tied, one bias, learned variance": (ThetaRBM, {**TURNING, **ONE_BIAS, **LEARNED, **NOISY}),
    "theta, tied, one bias, bernoulli": (ThetaRBM, {**TURNING, **ONE_BIAS, **BERNOULLI, **NOISY}),
    "theta, full, one bias, learned variance": (ThetaRBM, {**TURNING, **ONE_BIAS, **FULL, **LEARNED}),
}


def images(count: int = IMAGES, side: int = SIDE) -> NDArray[np.float32]:
    return np.random.default_rng(3).random((count, side * side), dtype=np.float32)


def fitted(case: str, backend: str) -> RBM:
    model, settings = CASES[case]
    return model(**settings, backend=backend).fit(images())


def results(model: RBM) -> Iterator[tuple[str, Any]]:
    """All that a user gets from a model: what it learned, and what it says of images."""
    orientation = {"orientation": model.rotations - 1} if isinstance(model, ThetaRBM) else {}
    yield from model.to_arrays().items()
    for method in ("transform", "free_energy", "reconstruct"):
        yield method, getattr(model, method)(images())
    yield "sample", model.sample(3, gibbs_steps=2, **orientation)
    yield "history", np.array([(record.reconstruction_error, record.mean_activation) for record in model.history_])


def digest(model: RBM) -> str:
    """One word for all bits of the results."""
    found = hashlib.sha256()
    for name, values in results(model):
        found.update(name.encode() + values.tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    print(json.dumps({case: digest(fitted(case, "cupy")) for case in CASES}))
