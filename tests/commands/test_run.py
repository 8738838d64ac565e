from __future__ import annotations

from pathlib import Path

from tests.runs import Command
from tests.suites import FAILING, SMALL, write_suite
from thetarbm_cli.experiments.runs.store import RunStore


def test_runs_are_made_once_and_found_again_until_they_are_forced(thetarbm: Command, tmp_path: Path) -> None:
    suite = str(write_suite(tmp_path))
    first = thetarbm("run", "--suite", suite, "--profile", "tiny", "--json")
    assert first.code == 0
    assert {name: first.json[name] for name in ("done", "cached", "failed")} == {"done": 4, "cached": 0, "failed": 0}
    rows = [(row["experiment"], row["state"], row["reason"]) for row in first.json["runs"]]
    assert rows == [(name, "done", "never run") for name in ("rbm", "rbm", "theta", "theta")]
    assert sorted(row["run"] for row in first.json["runs"]) == RunStore(tmp_path / "results").identifiers()
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
    assert changed.json["runs"][0]["reason"] == "parameter epochs changed from 3 to 4"


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
    assert "--retry-failed" in going.json["runs"][1]["reason"]
    again = thetarbm(*arguments, "--retry-failed")
    assert again.code == 1
    assert "0 done, 2 cached, 1 failed" in again.out
    assert "1 run to make" in again.err
