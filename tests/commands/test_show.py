from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runs import PATIENCE_SECONDS, Command, files_in, record_of, rewrite, run_of
from tests.experiments.test_checkpoints import RUN, state_after
from thetarbm_cli.backend import Backend
from thetarbm_cli.experiments.runs.checkpoints import Checkpointer
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.models.contrastive_divergence import TrainingState

PUBLISHED = {"test_error_percent": 15.61, "gamma_train": 0.1754, "gamma_test": 0.1782}


@pytest.fixture
def theta(results: Path) -> str:
    return run_of(results, "theta")


def section(text: str, label: str) -> list[str]:
    """Lines of one part of the sheet."""
    lines: list[str] = []
    inside = False
    column = text.index(text.split(maxsplit=2)[1])
    for line in text.splitlines():
        if line[:column].strip():
            inside = line[:column].strip() == label
        if inside:
            lines.append(line[column:])
    return lines


def commanded(lines: list[str]) -> list[str]:
    """The words of a command that stands in several lines, as a shell would take them."""
    return shlex.split("\n".join(lines).replace("\\\n", ""))


def test_it_says_what_the_record_says_beside_the_published_numbers(thetarbm: Command, results: Path) -> None:
    run = run_of(results, "orbm")
    record = record_of(results, run)
    sheet = thetarbm("show", run, "--json").json
    for field in ("run", "state", "seed", "algorithm", "timings", "environment"):
        assert sheet[field] == record[field]
    assert (sheet["model"], sheet["sparsity"], sheet["settings"]) == ("orbm", 0.3, {"hidden": 40, "epochs": 3})
    assert sheet["data"]["images"] == {"train": 300, "valid": 100, "test": 300}
    for curve in ("reconstruction_error", "mean_activation"):
        assert sheet["history"][curve] == [epoch[curve] for epoch in record["history"]]
    assert sheet["epochs"] == len(record["history"])
    assert {file["name"] for file in sheet["files"]} == {"run.json", "weights.npz"}
    expected = {}
    for ending, part in (("", record["metrics"]), ("_unaligned", record["metrics"]["unaligned"])):
        expected[f"test_error_percent{ending}"] = part["svm"]["test_error_percent"]
        for role in ("train", "test"):
            expected[f"gamma_{role}{ending}"] = part["gamma"][role]["mean"]
    assert {number["column"]: number["value"] for number in sheet["metrics"]} == expected
    # A results folder as deep as the tests' makes a path that is wider than a terminal; nothing else may be.
    text = thetarbm("show", run).out.replace(str(results), "results")
    assert max(map(len, text.splitlines())) <= 80
    assert section(text, "settings") == ["hidden 40, epochs 3"]
    assert re.search("reconstruction error [▁█]", text)
    for number in sheet["metrics"]:
        assert number["published"] == PUBLISHED[number["column"].removesuffix("_unaligned")]
        assert number["difference"] == pytest.approx(number["value"] - number["published"], abs=1e-6)
        shown = f"{number['value']:.{2 if 'error' in number['column'] else 4}f}"
        assert any(shown in line for line in section(text, "metrics"))
    assert "dead units are left out of γ" in thetarbm("show", run_of(results, "pixels")).out


def test_cells_are_those_of_every_profile_that_fit_and_own_images_have_none(
    thetarbm: Command, results: Path, theta: str
) -> None:
    cells = thetarbm("show", theta, "--json").json["cells"]
    assert "theta/sparsity=0.3@tiny" in cells
    rewrite(results, theta, {"cells": ["gone@paper", cells[0]]})
    assert thetarbm("show", theta, "--json").json["cells"] == [*cells, "gone@paper"]
    data = record_of(results, theta)["data"]
    for role in data.values():
        role["dataset"] = "digits"
    rewrite(results, theta, {"data": data, "cells": []})
    sheet = thetarbm("show", theta, "--json").json
    assert sheet["cells"] == []
    assert all(number["published"] is None for number in sheet["metrics"])


@pytest.mark.parametrize("damage", [False, True])
def test_weights_that_are_not_there_come_with_the_command_that_makes_them(
    thetarbm: Command, results: Path, theta: str, damage: bool
) -> None:
    weights = RunStore(results).weights_path(theta)
    whole = weights.read_bytes()
    if damage:
        weights.write_bytes(whole[:-1])
    else:
        weights.unlink()
    sheet = thetarbm("show", theta, "--json").json
    assert sheet["weights"] == ("damaged" if damage else "missing")
    lines = section(thetarbm("show", theta).out, "files")
    begin = next(number for number, line in enumerate(lines) if line.endswith("this makes it:"))
    command = commanded(lines[begin + 1 :])
    assert command == shlex.split(sheet["train_command"])
    assert thetarbm(*command[1:]).code == 0
    assert weights.read_bytes() == whole


def test_failed_and_stale_runs_say_why_and_what_to_do(thetarbm: Command, results: Path, theta: str) -> None:
    assert thetarbm("train", "--model", "rbm", "--profile", "tiny", "--set", "learning_rate=1000000.0").code == 1
    (failed,) = (run for run in RunStore(results).identifiers() if record_of(results, run)["state"] == "failed")
    outcome = thetarbm("show", failed)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].split() == ["run", failed, "(failed)"]
    assert "diverged" in " ".join(section(outcome.out, "failed"))
    # A terminal gets nothing to obey.
    foreign = {"version": "\x1b[2J", "libraries": {"numpy\r": "1\n2"}}
    changes = {"algorithm": ALGORITHM + 1, "error": "\x1b]0;title\x07 two\nlines", "environment": foreign}
    rewrite(results, theta, changes)
    assert thetarbm("show", theta, "--json").json["current"] is False
    text = thetarbm("show", theta).out
    assert f"version {ALGORITHM + 1}" in " ".join(section(text, "stale"))
    assert all(character == "\n" or character.isprintable() for character in text)


def test_a_run_without_a_record_shows_how_far_it_is(thetarbm: Command, tmp_path: Path) -> None:
    store = RunStore(tmp_path / "results")
    Checkpointer(store, RUN, Backend())(state_after(2))
    shown = thetarbm("show", RUN[:6])
    assert shown.code == 0
    assert "interrupted" in section(shown.out, "run")[0]
    assert section(shown.out, "epochs")[0].startswith("2 done")
    assert section(shown.out, "settings") == ["known after the first epoch"]
    assert "interrupted" in thetarbm("list").out
    assert RUN not in thetarbm("list", "--where", "seed=0").out
    with store.locked(RUN):
        assert "running" in thetarbm("list").out
        sheet = thetarbm("show", RUN, "--json").json
    assert (sheet["state"], sheet["epochs"]) == ("running", 2)


def test_a_run_that_was_cut_off_shows_its_settings_and_what_goes_on_with_it(
    thetarbm: Command, small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(self: Checkpointer, state: TrainingState) -> None:
        save(self, state)
        raise KeyboardInterrupt

    save = Checkpointer.__call__
    words = ("--model", "theta", "--profile", "tiny", "--sparsity", "0.2", "--seed", "3", "--set", "hidden=11")
    with monkeypatch.context() as patch:
        patch.setattr(Checkpointer, "__call__", cut_off)
        assert thetarbm("train", *words).code == 130
    thetarbm("train", "--model", "theta", "--profile", "tiny")
    (run,) = RunStore(tmp_path / "results").unfinished()
    text = thetarbm("show", run).out
    assert section(text, "model") == ["theta, sparsity 0.2, seed 3"]
    assert section(text, "settings")[0].startswith("hidden 11")
    assert section(text, "epochs")[0].startswith("1 of 3 done")
    goes_on = shlex.split(thetarbm("show", run, "--json").json["train_command"])
    assert commanded(section(text, "goes on by")) == goes_on
    assert f"resuming {run}" in thetarbm(*goes_on[1:]).err
    assert RunStore(tmp_path / "results").unfinished() == []


def test_wrong_names_are_refused_and_nothing_is_written(thetarbm: Command, results: Path, theta: str) -> None:
    (results / "runs" / "theta-begun").mkdir()
    (results / "runs" / "theta-begun" / "checkpoint.npz").write_bytes(b"")
    for number in range(20):
        shutil.copytree(results / "runs" / theta, results / "runs" / f"many-{number:02}")
    before = files_in(results)
    thetarbm("show", "nothing").assert_refused("nothing", str(results / "runs"))
    thetarbm("evaluate", "theta-beg").assert_refused("theta-begun has no record yet")
    many = thetarbm("show", "many")
    assert (many.code, many.out) == (2, "")
    _, *lines = many.err[many.err.index("error: ") :].splitlines()
    assert [line.split()[0] for line in lines] == [*(f"many-{number:02}" for number in range(8)), "or"]
    assert files_in(results) == before


def test_ascii_where_the_terminal_has_no_more(
    thetarbm: Command, results: Path, theta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "thetarbm_cli", "--results", str(results), "show", theta]
    variables = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=variables, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert "gamma test" in text
    assert re.search(r"reconstruction error [.:=+*#@-]+  \S+ -> \S+", text)
    monkeypatch.setenv("TERM", "dumb")
    assert thetarbm("show", theta).out.isascii()
