from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from thetarbm_cli.data.sources.mnist import sample_digits
from thetarbm_cli.imaging.rotation import Rotations, rotation_operators
from thetarbm_cli.measures import theory
from thetarbm_cli.measures.theory import Check, load_theory, record_theory, verify, why_due


@pytest.fixture(scope="module", autouse=True)
def short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("UPDATES", 10), ("HIDDEN", 12), ("BATCH", 50)):
            patch.setattr(theory, name, value)
        yield


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return sample_digits(200, 12)


@pytest.fixture(scope="module")
def checks(short: None, digits: np.ndarray) -> dict[tuple[str, str], Check]:
    return {(check.rotation, check.name.split(":")[0]): check for check in verify(digits, rotations=5)}


@pytest.mark.parametrize("kind", ["permutation", "bilinear", "nearest", "replicated"])
def test_values_of_the_group_laws_by_dense_matrices(checks: dict[tuple[str, str], Check], kind: str) -> None:
    turns = [T.toarray().astype(np.float64) for T in rotation_operators(12, 5, kind)]
    orthogonal = max(np.abs(T @ T.T - np.eye(144)).max() for T in turns)
    assert checks[kind, "T orthogonal"].value == pytest.approx(orthogonal, abs=1e-6)
    determinant = max(abs(abs(np.linalg.det(T)) - 1) for T in turns)
    assert checks[kind, "det T = ±1"].value == pytest.approx(determinant, abs=1e-6)
    group = max(np.abs(turns[a] @ turns[b] - turns[(a + b) % 5]).max() for a in range(5) for b in range(5))
    assert checks[kind, "group"].value == pytest.approx(group, abs=1e-6)


def test_lemma_is_about_every_pair_of_slices() -> None:
    turns = Rotations(6, 4, "permutation")
    matrix = np.random.default_rng(0).standard_normal((3, 36)).astype(np.float32)
    tensor = np.stack([turns.rotate_by(matrix, s) for s in range(4)])
    assert theory._lemma(tensor, turns) == 0
    for s in range(4):
        disturbed = tensor.copy()
        disturbed[s, 1, 7] += 0.25
        assert theory._lemma(disturbed, turns) == pytest.approx(0.25)


def test_theorem_is_broken_by_slices_that_are_not_rotated_copies(digits: np.ndarray) -> None:
    orientations = np.arange(200) % 5
    model = theory._trained(digits, orientations, 5, "permutation", "full")
    turns = Rotations(12, 5, "permutation")
    assert theory._theorem(model, digits, orientations, turns) < 1e-5
    model.weights_[2] += 0.05 * np.random.default_rng(0).standard_normal(model.weights_[2].shape).astype(np.float32)
    assert theory._theorem(model, digits, orientations, turns) > 0.01


def test_quarter_turns_of_a_square_are_exact_in_every_kind() -> None:
    for check in verify(sample_digits(200, 8), rotations=4):
        assert check.value < 1e-5, check


def test_checks_are_recorded_once_for_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_theory(tmp_path) is None
    record, found = record_theory(tmp_path, 4, 8)
    assert (found, load_theory(tmp_path)) == (False, record)
    monkeypatch.setattr(theory, "verify", lambda *_, **__: pytest.fail("they are made twice"))
    assert record_theory(tmp_path, 4, 8) == (record, True)
    assert not why_due(record, 4, 8)
    assert "8 to 12" in why_due(record, 4, 12)
    # What was changed by hand is not used.
    path = tmp_path / "theory.json"
    content = json.loads(path.read_text())
    content["checks"][0]["value"] = 0.5
    path.write_text(json.dumps(content))
    assert load_theory(tmp_path) is None


def test_the_shipped_record_is_read() -> None:
    record = load_theory(Path(__file__).parents[2] / "results")
    assert record is not None
    assert all(check.passed for check in record.checks)
