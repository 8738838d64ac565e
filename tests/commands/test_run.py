from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs import Command
from tests.suites import FAILING, SMALL, write_suite
from thetarbm_cli import evaluation
from thetarbm_cli.store import Store


def test_runs_are_made_once_and_found_again_until_they_are_forced(thetarbm: Command, tmp_path: Path) -> None:
    suite = str(write_suite(tmp_path))
    first = thetarbm("run", "--suite", suite, "--profile", "tiny", "--json")
    assert first.code == 0
    assert {name: first.json[name] for name in ("done", "cached", "failed")} == {"done": 4, "cached": 0, "failed": 0}
    rows = [(row["experiment"], row["state"], row["reason"]) for row in first.json["runs"]]
    assert rows == [(name, "done", "never run") for name in ("rbm", "rbm", "theta", "theta")]
    assert sorted(row["run"] for row in first.json["runs"]) == Store(tmp_path / "results", shipped=False).identifiers()
    assert "[4/4] theta/sparsity=0.1 seed 0:" in first.err
    assert "left" in first.err
    second = thetarbm("run", "--suite", suite, "--profile", "tiny")
    assert (second.code, second.err) == (0, "nothing to run\n")
    assert second.out.startswith("0 done, 4 cached, 0 failed")
    again = ["run", "rbm", "--suite", suite, "--profile", "tiny", "--json", "--force"]
    forced = thetarbm(*again, "rbm/sparsity=0.1").json
    assert (forced["done"], forced["cached"]) == (1, 1)


def test_a_dry_run_says_why_and_makes_nothing(thetarbm: Command, tmp_path: Path) -> None:
    suite = str(write_suite(tmp_path))
    dry = thetarbm("run", "theta", "--suite", suite, "--profile", "tiny", "-n")
    assert dry.code == 3
    assert dry.out == "theta/sparsity=0.3 seed 0: never run\ntheta/sparsity=0.1 seed 0: never run\n"
    assert not (tmp_path / "results").exists()
    assert thetarbm("run", "theta", "--suite", suite, "--profile", "tiny").code == 0
    assert thetarbm("run", "theta", "--suite", suite, "--profile", "tiny", "--dry-run").code == 0
    write_suite(tmp_path, SMALL.replace("epochs: 3", "epochs: 4"))
    changed = thetarbm("run", "theta/sparsity=0.1", "--suite", suite, "--profile", "tiny", "-n", "--json")
    assert changed.code == 3
    assert changed.json["runs"][0]["reason"] == "epochs changed from 3 to 4"


def test_a_failure_stops_the_rest_unless_it_is_to_go_on(thetarbm: Command, tmp_path: Path) -> None:
    arguments = ["run", "--suite", str(write_suite(tmp_path, FAILING)), "--profile", "tiny"]
    stopped = thetarbm("--quiet", *arguments, "--json")
    assert stopped.code == 1
    assert [row["state"] for row in stopped.json["runs"]] == ["done", "failed", "pending"]
    # A failure is shown even if all else is quiet.
    assert stopped.err.startswith("failed: second seed 0: ")
    assert stopped.err.count("\n") == 1
    going = thetarbm(*arguments, "--keep-going", "--json")
    assert going.code == 1
    assert [row["state"] for row in going.json["runs"]] == ["cached", "failed", "done"]
    # What diverged would do so again: it is told, and not tried.
    again = thetarbm(*arguments)
    assert (again.code, again.err) == (1, "nothing to run\n")
    assert "0 done, 2 cached, 1 failed" in again.out
    assert "diverged" in again.out
    assert "--force second" in again.out
    status = thetarbm("status", *arguments[1:], "--json")
    assert [(cell["state"], "diverged" in cell["reason"]) for cell in status.json["cells"]] == [
        ("done", False), ("failed", True), ("done", False),
    ]  # fmt: skip
    forced = thetarbm(*arguments, "--force", "second", "--json")
    assert (forced.code, forced.json["runs"][1]["run"].endswith("-2")) == (1, True)


def test_after_another_failure_the_same_command_goes_on(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["run", "rbm", "--suite", str(write_suite(tmp_path)), "--profile", "tiny", "--json"]
    with monkeypatch.context() as patch:
        patch.setattr(evaluation.Evaluation, "measure", lambda *given: 1 / 0)
        failed = thetarbm(*words)
    assert failed.code == 1
    assert [row["state"] for row in failed.json["runs"]] == ["failed", "pending"]
    assert "ZeroDivisionError" in failed.json["runs"][0]["reason"]
    assert [row["state"] for row in thetarbm(*words).json["runs"]] == ["done", "done"]
