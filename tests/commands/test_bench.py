"""``thetarbm bench`` at sizes that take no time; the numbers mean nothing."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.experiments.runs import Command
from thetarbm_cli.benchmarks import payoffs, scaling
from thetarbm_cli.benchmarks.goals import Sizes

TINY = Sizes(
    100, 5, rounds=1, svm_epochs=1, svm_tested=20, oriented=20, rotated_by_peer=2, gamma_images=40, gamma_parts=20
)


@pytest.fixture(autouse=True)
def tiny_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sizes, "quick", lambda: TINY)
    monkeypatch.setattr(scaling, "_epoch", lambda images, sizes, rounds: (0.5 * sizes["hidden"], 1.0))
    monkeypatch.setattr(payoffs, "cores", lambda: 1)


def test_a_table_for_people_and_files(thetarbm: Command, tmp_path: Path) -> None:
    log = tmp_path / "run.json"
    log.write_text(json.dumps({"done": 32, "cached": 0, "failed": 0, "seconds": 900}))
    done = thetarbm("bench", "--quick", "--against", "sklearn", "--run-log", str(log), "--out", str(tmp_path / "bench"))
    assert done.code == 0
    assert re.search(
        r"^RBM epoch / its five matrix products +\d+\.\d\d × +goal <= 1.25 +(not )?met +\(.* s / .* s\)$",
        done.out,
        re.M,
    )
    assert re.search(
        r"^one-seed reproduction, 2 cores +15.00 min +goal <= 30 +met +\(wall time of 32 runs\)$", done.out, re.M
    )
    for job, part in (
        ("RBM epoch", "matrix products"),
        ("γ-score", "dominant orientations"),
        ("γ-score", "everything else"),
    ):
        assert re.search(rf"^{job} +{part} +-?\d+%$", done.out, re.M)
    assert re.search(r"^epoch against hidden +~ hidden\^1.00 ", done.out, re.M)
    assert re.search(r"^float16 +100 images .* × as fast, training set 0.5 ×$", done.out, re.M)
    assert "Images stored in float16 take half of the memory" in done.out
    assert "left out: torch" in done.err
    assert "left out: one-seed" not in done.err
    assert sorted(path.name for path in (tmp_path / "bench").iterdir()) == ["bench.json", "bench.md", "scaling.png"]
    report = json.loads((tmp_path / "bench" / "bench.json").read_text())
    assert report["sizes"]["hidden"] == 5
    assert report["ratios"][-1]["value"] == 15


def test_a_reproduction_that_is_not_recorded_is_left_out(thetarbm: Command) -> None:
    report = thetarbm("bench", "--quick", "--against", "sklearn", "--json").json
    assert any(re.match(r"one-seed reproduction \(0 of \d+ runs are recorded", what) for what in report["left_out"])
    assert not any("reproduction" in ratio["name"] for ratio in report["ratios"])


def test_what_cannot_be_done_is_said_before_anything_is_measured(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "thetarbm_cli.benchmarks.ratios.measure_ratios", lambda *given, **named: pytest.fail("measured")
    )
    thetarbm("bench", "--against", "keras").assert_refused("unknown peer 'keras'")
    thetarbm("bench", "--run-log", str(tmp_path / "none")).assert_refused(
        "does not hold what thetarbm run --json prints"
    )
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    thetarbm("bench", "--out", str(tmp_path / "bench")).assert_refused("needs matplotlib", "extra bench")
    assert not (tmp_path / "bench").exists()
