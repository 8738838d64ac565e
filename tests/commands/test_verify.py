from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.runs import Command
from thetarbm_cli.measures import theory

QUICK = ("verify", "--size", "8", "--rotations", "4")


@pytest.fixture(autouse=True)
def short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few updates instead of fifty, but for the test of the command as it is."""
    if "as_it_is" not in request.node.name:
        monkeypatch.setattr(theory, "UPDATES", 5)
        monkeypatch.setattr(theory, "HIDDEN", 10)


def test_paper_s_size_as_it_is(thetarbm: Command, tmp_path: Path) -> None:
    outcome = thetarbm("verify", "--json", data_dir=tmp_path / "data")
    assert (outcome.code, outcome.json["passed"]) == (0, True)
    checks = outcome.json["checks"]
    exact = [check for check in checks if check["exact"]]
    measured = [check for check in checks if not check["exact"]]
    assert {check["rotation"] for check in exact} == {"permutation"}
    assert {check["rotation"] for check in measured} == {"bilinear", "nearest", "replicated"}
    assert len(checks) == 4 * len(exact) == 24
    assert all(check["passed"] and check["value"] <= check["tolerance"] for check in exact)
    by_name = {check["name"].split(":")[0]: check["value"] for check in exact}
    # Not close to zero: zero.
    assert by_name["T orthogonal"] == by_name["group"] == by_name["Lemma 1"] == 0
    # A 40° turn of a pixel grid is no permutation: none of it holds exactly.
    assert all(check["tolerance"] is None and check["value"] > 1e-4 for check in measured)
    # No data is prepared, no run is made.
    assert list(tmp_path.iterdir()) == []


def test_wrong_operators_are_found(thetarbm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    real = theory._group_laws
    fine = thetarbm(*QUICK)
    assert (fine.code, fine.err, fine.out.splitlines()[-1]) == (0, "", "every exact claim holds")
    monkeypatch.setattr(theory, "_group_laws", lambda operators: real((*operators[:-1], 0.5 * operators[-1])))
    outcome = thetarbm(*QUICK)
    assert outcome.code == 1
    assert [line.split()[-2] for line in outcome.out.splitlines()[2:8]] == ["FAIL"] * 3 + ["pass"] * 3
    assert outcome.out.splitlines()[-1] == "an exact claim fails"


def test_wrong_learning_is_found(thetarbm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    real = theory._trained

    def disturbed(*arguments: Any) -> Any:
        model = real(*arguments)
        if model.tensor == "full":
            model.weights_[0] *= 1.01
        return model

    monkeypatch.setattr(theory, "_trained", disturbed)
    failed = [check["name"].split(":")[0] for check in thetarbm(*QUICK, "--json").json["checks"] if not check["passed"]]
    assert failed == ["Lemma 1", "Theorem 1", "full = tied"]
