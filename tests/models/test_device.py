"""The models on the stand-in for CuPy: the numbers of the NumPy backend, and no copy that is not asked for."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import thetarbm_cli
from tests.models.small import AUTHORS_SETTINGS
from tests.standin import Ledger, install
from thetarbm_cli.models import RBM, AugmentedRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM

pytestmark = pytest.mark.no_device("on the stand-in in any run, beside NumPy")

SIDE, IMAGES, BATCH, HIDDEN, TURNS = 8, 25, 6, 5, 4
COMMON: dict[str, Any] = {"hidden": HIDDEN, "epochs": 3, "batch_size": BATCH, "learning_rate": 0.05}
TURNING: dict[str, Any] = {**COMMON, "rotations": TURNS}
NOISY: dict[str, Any] = {"gibbs_steps": 2, "visible_sampling": "sample"}
LEARNED: dict[str, Any] = {"variance": "learned"}
BERNOULLI: dict[str, Any] = {"visible": "bernoulli"}
FULL: dict[str, Any] = {"tensor": "full"}

CASES: dict[str, tuple[type[RBM], dict[str, Any]]] = {
    "rbm, bernoulli, noisy": (RBM, {**COMMON, **BERNOULLI, **NOISY}),
    "rbm, learned variance, noisy": (RBM, {**COMMON, **LEARNED, **NOISY}),
    "rbm, whitened": (RBM, {**COMMON, "whiten": True, "drop_last": True, "sparsity": None}),
    "augmented": (AugmentedRBM, TURNING),
    "orbm": (OrientedRBM, TURNING),
    "tirbm, bernoulli, noisy": (TransformInvariantRBM, {**TURNING, **BERNOULLI, **NOISY}),
    "tirbm, learned variance": (TransformInvariantRBM, {**TURNING, **LEARNED, "weight_decay": 1e-3}),
    "tirbm, of its authors": (TransformInvariantRBM, {**AUTHORS_SETTINGS, **TURNING, **NOISY}),
    "theta, tied, bernoulli, noisy": (ThetaRBM, {**TURNING, **BERNOULLI, **NOISY}),
    "theta, tied, learned variance": (ThetaRBM, {**TURNING, **LEARNED, "sparsity_form": "bias"}),
    "theta, full, learned variance": (ThetaRBM, {**TURNING, **FULL, **LEARNED, **NOISY}),
    "theta, full, exact group": (ThetaRBM, {**TURNING, **FULL, **LEARNED, "rotation": "permutation"}),
    "theta, full, one slice": (ThetaRBM, {**TURNING, **FULL, "rotations": 1}),
}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The stand-in in the place of CuPy, and its counts of copies."""
    return install(monkeypatch)


def images(count: int = IMAGES) -> NDArray[np.float32]:
    return np.random.default_rng(3).random((count, SIDE * SIDE), dtype=np.float32)


def results(model: RBM) -> Iterator[tuple[str, Any]]:
    """All that a user gets from a model: what it learned, and what it says of images."""
    orientation = {"orientation": model.rotations - 1} if isinstance(model, ThetaRBM) else {}
    yield from model.to_arrays().items()
    for method in ("transform", "free_energy", "reconstruct"):
        yield method, getattr(model, method)(images())
    yield "sample", model.sample(3, gibbs_steps=2, **orientation)
    yield "history", np.array([(record.reconstruction_error, record.mean_activation) for record in model.history_])


@pytest.mark.parametrize("case", CASES)
def test_device_gives_the_numbers_of_numpy_without_a_hidden_copy(copies: Ledger, case: str) -> None:
    model, settings = CASES[case]
    expected = dict(results(model(**settings, backend="numpy").fit(images())))
    fitted = model(**settings, backend="cupy").fit(images())
    actual = dict(results(fitted))
    assert actual.keys() == expected.keys()
    for name in expected:
        assert isinstance(actual[name], np.ndarray)
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-4, atol=1e-5)
    # Whether a device answers is asked for each call, whether an operator's indices are sorted when it is made.
    assert copies.hidden().keys() <= {"item", "canonical format"}
    # Nothing of the device stays in a fitted model.
    state = fitted.state_
    kept = [*vars(fitted).values(), *state.parameters.values(), *state.increments.values()]
    assert not any(type(value).__module__.startswith("tests.standin") for value in kept)


@pytest.mark.parametrize("batch_size", [IMAGES, 2])
@pytest.mark.parametrize("case", CASES)
def test_an_epoch_copies_its_order_in_and_its_numbers_out(copies: Ledger, case: str, batch_size: int) -> None:
    model, settings = CASES[case]
    after: list[tuple[int, int]] = []
    model(**{**settings, "batch_size": batch_size, "epochs": 4}, backend="cupy").fit(
        images(), monitor=lambda state: after.append(copies.totals())
    )
    assert [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(after)] == [(1, 1)] * 3


@pytest.mark.parametrize("case", CASES)
def test_features_are_copied_in_and_out_once_a_chunk(
    copies: Ledger, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, settings = CASES[case]
    fitted = model(**settings, backend="cupy").fit(images())
    counts = []
    for chunk in (IMAGES, 5):
        monkeypatch.setattr("thetarbm_cli.models.rbm.CHUNK", chunk)
        copies.clear()
        fitted.transform(images())
        counts.append(copies.totals())
    per_chunk = 2 if model is ThetaRBM and settings["rotations"] > 1 else 1  # images, and for θ their orientations
    assert counts[1][0] - counts[0][0] == 4 * per_chunk
    assert counts[1][1] - counts[0][1] == 4


@pytest.mark.usefixtures("copies")
def test_every_name_asked_of_xp_is_in_the_stand_in() -> None:
    """Whether a test comes by it or not."""
    package = Path(thetarbm_cli.__file__).parent
    asked = {name for path in package.rglob("*.py") for name in re.findall(r"\bxp\.(\w+)", path.read_text("utf-8"))}
    assert {"matmul", "take", "exp"} <= asked
    assert {name for name in asked if not hasattr(sys.modules["cupy"], name)} == set()
