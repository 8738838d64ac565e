"""The models on CuPy: the numbers of NumPy, equal to the last bit from fit to fit, and what goes to a device and when.

`tests.device` is a device for machines that have none; what is copied, launched and waited for can be counted there
alone.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.launches import SUBJECTS, Subject, count_model, count_transform
from tests.models.cases import CASES, IMAGES, digest, fitted, images, results
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM

pytestmark = pytest.mark.cupy

Counts = Callable[[], Counter[str]]


@pytest.fixture
def emulated() -> Any:
    return pytest.importorskip("cupy_device", reason="a real device does not count")


@pytest.fixture
def counts(emulated: Any) -> Counts:
    """Gives how often the device was called so far, by kind."""
    return lambda: Counter({kind: count.calls for kind, count in emulated.counters().items()})


@pytest.mark.parametrize("case", CASES)
def test_device_gives_the_numbers_of_numpy_and_keeps_nothing(case: str) -> None:
    expected = dict(results(fitted(case, "numpy")))
    model = fitted(case, "cupy")
    actual = dict(results(model))
    assert actual.keys() == expected.keys()
    for name in expected:
        assert isinstance(actual[name], np.ndarray)
        np.testing.assert_allclose(actual[name], expected[name], rtol=1e-4, atol=1e-5, err_msg=name)
    state = model.state_
    kept = [*vars(model).values(), *state.parameters.values(), *state.increments.values()]
    assert not any(type(value).__module__.startswith("cupy") for value in kept)
    pickled = pickle.dumps(model)
    assert b"cupy." not in pickled
    assert digest(pickle.loads(pickled)) == digest(model)


@pytest.mark.parametrize("case", CASES)
def test_two_fits_of_a_seed_are_equal_to_the_last_bit(case: str) -> None:
    first, second = (dict(results(fitted(case, "cupy"))) for _ in range(2))
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


def test_the_number_of_multiprocessors_changes_no_bit() -> None:
    child = subprocess.run(
        [sys.executable, "-m", "tests.models.cases"],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "EMU_SMS": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(child.stdout) == {case: digest(fitted(case, "cupy")) for case in CASES}


@pytest.mark.parametrize("batch_size", [IMAGES, 2])
@pytest.mark.parametrize("case", CASES)
def test_an_epoch_copies_its_order_in_and_its_numbers_out(counts: Counts, case: str, batch_size: int) -> None:
    model, settings = CASES[case]
    after: list[Counter[str]] = []
    model(**{**settings, "batch_size": batch_size, "epochs": 4}, backend="cupy").fit(
        images(), monitor=lambda state: after.append(counts())
    )
    kinds = ("HtoD", "DtoH", "sync")
    assert [tuple(after[kind] - before[kind] for kind in kinds) for before, after in pairwise(after)] == [(1, 1, 1)] * 3


@pytest.mark.parametrize("case", CASES)
def test_features_are_copied_in_and_out_once_a_chunk(
    counts: Counts, emulated: Any, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = fitted(case, "cupy")
    model.transform(images())
    # Images, and for what has orientations these and an order by them.
    per_chunk = 1 if type(model) in (RBM, TransformInvariantRBM) else 3
    found = []
    for chunk in (IMAGES, 5):
        monkeypatch.setattr("thetarbm_cli.models.rbm.CHUNK", chunk)
        emulated.reset()
        model.transform(images())
        found.append([counts()[kind] for kind in ("HtoD", "DtoH", "sync")])
        # What else a device needs of a fitted model is there since the first call.
        assert emulated.counters()["HtoD"].bytes <= images().nbytes + (per_chunk - 1) * 8 * IMAGES
    assert found[0][0] <= per_chunk
    assert found[0][1:] == [1, 1]
    assert found[1] == [5 * calls for calls in found[0]]


# One visible bias of the tied θ-RBM is rotated forth and back in each batch.
ONE_BIAS = [
    Subject("θ-RBM, tied, one bias", ThetaRBM, 26, {"tensor": "tied", "visible_biases": "one"}),
    Subject("θ-RBM, full, one bias", ThetaRBM, 60, {"tensor": "full", "visible_biases": "one"}),
]


@pytest.mark.parametrize("subject", [*SUBJECTS, *ONE_BIAS], ids=lambda subject: subject.name)
def test_launches_of_a_batch_are_few(emulated: Any, subject: Subject) -> None:
    """At the size of the paper."""
    counted = count_model(emulated, subject)
    print(f"{subject.name}: {counted.batch.launches:g} launches a batch")
    print(*(f"{calls:6g} {name}" for name, calls in counted.batch.by_name.items()), sep="\n")
    assert counted.met


def test_launches_of_a_transform(emulated: Any) -> None:
    assert count_transform(emulated).met
