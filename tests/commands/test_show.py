from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from tests.commands.terminals import in_terminal
from tests.experiments.runs import PATIENCE_SECONDS, Command, files_in, record_of, rewrite, run_of
from tests.experiments.test_checkpoints import RUN, state_after
from thetarbm_cli.backend import Backend
from thetarbm_cli.experiments.runs.checkpoints import Checkpointer
from thetarbm_cli.experiments.runs.settings import ALGORITHM, RunSettings
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite_file import shipped_path
from thetarbm_cli.models.contrastive_divergence import TrainingState

PUBLISHED = {
    "theta": {"test_error_percent": 10.31, "gamma_train": 0.9, "gamma_test": 0.9062},
    "orbm": {"test_error_percent": 15.61, "gamma_train": 0.1754, "gamma_test": 0.1782},
    "pixels": {},
}


@pytest.fixture
def results(evaluated: Path, tmp_path: Path) -> Path:
    """A copy of the measured runs, where the command looks for them."""
    shutil.copytree(evaluated, tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def theta(results: Path) -> str:
    return run_of(results, "theta")


def section(text: str, label: str) -> list[str]:
    """Lines of one part of the sheet."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line[:12].strip():
            inside = line[:12].strip() == label
        if inside:
            lines.append(line[12:])
    return lines


@pytest.mark.parametrize("model", ["theta", "orbm", "pixels"])
def test_it_says_what_the_record_says_beside_the_published_numbers(
    thetarbm: Command, results: Path, model: str
) -> None:
    run = run_of(results, model)
    record = record_of(results, run)
    sheet = thetarbm("show", run, "--json").json
    for field in ("run", "state", "error", "seed", "algorithm", "timings", "environment", "peak_memory_megabytes"):
        assert sheet[field] == record[field]
    differing = RunSettings(**record["settings"]).differing_parameters
    assert (sheet["model"], sheet["settings"]) == (model, differing)
    assert not differing or differing == {"hidden": 40, "epochs": 3}
    assert sheet["data"]["test"] == record["data"]["test"]
    assert sheet["data"]["images"] == {"train": 300, "valid": 100, "test": 300}
    for curve in ("reconstruction_error", "mean_activation"):
        assert sheet["history"][curve] == [epoch[curve] for epoch in record["history"]]
    assert sheet["epochs"] == len(record["history"])
    assert sheet["path"] == str(results / "runs" / run)
    assert {file["name"]: file["bytes"] for file in sheet["files"]} == {
        name: (results / "runs" / run / name).stat().st_size for name in ("run.json", "weights.npz")
    }
    assert sheet["weights"] == "there"
    expected = {}
    for ending, part in (("", record["metrics"]), ("_unaligned", record["metrics"].get("unaligned"))):
        if part:
            expected[f"test_error_percent{ending}"] = part["svm"]["test_error_percent"]
            expected[f"gamma_train{ending}"] = part["gamma"]["train"]["mean"]
            expected[f"gamma_test{ending}"] = part["gamma"]["test"]["mean"]
    assert {number["column"]: number["value"] for number in sheet["metrics"]} == expected
    assert sheet["sparsity"] == record["parameters"].get("sparsity")
    # A results folder as deep as the tests' makes a path that is wider than a terminal; nothing else may be.
    text = thetarbm("show", run).out.replace(str(results), "results")
    assert max(map(len, text.splitlines())) <= 80
    assert "\x1b" not in text
    for number in sheet["metrics"]:
        published = PUBLISHED[model].get(number["column"].removesuffix("_unaligned"))
        assert number["published"] == published
        if published is not None:
            assert number["difference"] == pytest.approx(number["value"] - published, abs=1e-6)
        shown = f"{number['value']:.{2 if 'error' in number['column'] else 4}f}"
        assert any(shown in line for line in section(text, "metrics"))


def test_cells_are_those_of_every_profile_that_fit(thetarbm: Command, results: Path, theta: str) -> None:
    record = RunStore(results).load(theta)
    assert record is not None
    suite = load_suite(shipped_path(), check_settings=False)
    expected = [f"{cell.name}@tiny" for cell in suite.cells("tiny", in_tables=True) if cell.fits(record)]
    assert "theta/sparsity=0.3@tiny" in expected
    assert thetarbm("show", theta, "--json").json["cells"] == expected
    rewrite(results, theta, {"cells": ["gone@paper", expected[0]]})
    assert thetarbm("show", theta, "--json").json["cells"] == [*expected, "gone@paper"]


def test_own_images_are_not_compared_with_the_paper(thetarbm: Command, results: Path, theta: str) -> None:
    data = record_of(results, theta)["data"]
    for role in data.values():
        role["dataset"] = "digits"
    rewrite(results, theta, {"data": data})
    sheet = thetarbm("show", theta, "--json").json
    assert sheet["cells"] == []
    assert all(number["published"] is None for number in sheet["metrics"])


def test_settings_that_differ_are_shown(thetarbm: Command, results: Path, theta: str) -> None:
    assert section(thetarbm("show", theta).out, "settings") == ["hidden 40, epochs 3"]
    settings = record_of(results, theta)["settings"]
    settings["parameters"] |= {"hidden": 1, "standardise": False, "sparsity": None, "floor": 0.25, "tensor": "full"}
    settings["perturbation"] = {"n": 4, "p": 0.4, "scope": "rbm"}
    rewrite(results, theta, {"settings": settings})
    assert " ".join(section(thetarbm("show", theta).out, "settings")) == (
        "hidden 1, epochs 3, standardise no, sparsity none, floor 0.25, tensor full, "
        "perturbation.n 4, perturbation.p 0.4, perturbation.scope rbm"
    )


def test_history_is_drawn(thetarbm: Command, results: Path, theta: str) -> None:
    history = [
        {"epoch": number + 1, "reconstruction_error": 8.0 - number, "mean_activation": 0.1 * (number + 1)}
        for number in range(8)
    ]
    rewrite(results, theta, {"history": history})
    lines = section(thetarbm("show", theta).out, "history")
    assert lines == [
        "8 epochs",
        "reconstruction error █▇▆▅▄▃▂▁  8 → 1",
        "mean activation      ▁▂▃▄▅▆▇█  0.1 → 0.8",
    ]


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
    # The lines as a shell would take them.
    command = shlex.split("\n".join(lines[begin + 1 :]).replace("\\\n", ""))
    assert command == shlex.split(sheet["train_command"])
    assert thetarbm(*command[1:]).code == 0
    assert weights.read_bytes() == whole


def test_run_that_was_not_measured_says_how(thetarbm: Command, trained: Path, tmp_path: Path) -> None:
    run = run_of(trained, "rbm")
    outcome = thetarbm("show", run, results=trained)
    sheet = thetarbm("show", run, "--json", results=trained).json
    assert sheet["metrics"] == []
    first, *command = section(outcome.out, "metrics")
    assert first.startswith("none yet")
    assert shlex.split("\n".join(command).replace("\\\n", "")) == shlex.split(sheet["evaluate_command"])


def test_failed_and_stale_runs_say_why_and_what_to_do(thetarbm: Command, results: Path, theta: str) -> None:
    assert thetarbm("train", "--model", "rbm", "--profile", "tiny", "--set", "learning_rate=1000000.0").code == 1
    states = {run: record_of(results, run)["state"] for run in RunStore(results).identifiers()}
    (failed,) = (run for run, state in states.items() if state == "failed")
    outcome = thetarbm("show", failed)
    assert outcome.code == 0
    assert outcome.out.startswith(f"run         {failed} (failed)\n")
    told = section(outcome.out, "failed")
    assert "diverged" in " ".join(told)
    command = shlex.split("\n".join(told).partition("try again with\n")[2].replace("\\\n", ""))
    assert command == shlex.split(thetarbm("show", failed, "--json").json["train_command"])
    rewrite(results, theta, {"algorithm": ALGORITHM + 1})
    assert thetarbm("show", theta, "--json").json["current"] is False
    assert f"version {ALGORITHM + 1}" in " ".join(section(thetarbm("show", theta).out, "stale"))


def test_a_terminal_gets_nothing_to_obey(thetarbm: Command, results: Path, theta: str) -> None:
    foreign = {"version": "\x1b[2J", "libraries": {"numpy\r": "1\n2"}}
    rewrite(results, theta, {"error": "\x1b]0;title\x07 two\nlines", "environment": foreign})
    text = thetarbm("show", theta).out
    assert all(character == "\n" or character.isprintable() for character in text)
    assert section(text, "failed") == ["when it was measured: ?]0;title? two?lines"]


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
    assert sheet["history"]["reconstruction_error"] == [1.0, 0.5]


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
    assert f"{run} (not finished)" in thetarbm("show", "theta").err
    goes_on = shlex.split(thetarbm("show", run, "--json").json["train_command"])
    assert shlex.split("\n".join(section(text, "goes on by")).replace("\\\n", "")) == goes_on
    assert f"resuming {run}" in thetarbm(*goes_on[1:]).err
    assert RunStore(tmp_path / "results").unfinished() == []


@pytest.mark.parametrize("columns", [80, 40])
def test_it_fits_a_terminal(results: Path, columns: int) -> None:
    seen = in_terminal("--results", str(results), "show", run_of(results, "orbm"), columns=columns)
    # A path is not broken, so that it can be copied.
    assert max(cell_len(line) for line in seen.lines if str(results) not in line) <= columns


def test_wrong_names_are_refused_and_nothing_is_written(thetarbm: Command, results: Path, theta: str) -> None:
    (results / "runs" / "theta-begun").mkdir()
    (results / "runs" / "theta-begun" / "checkpoint.npz").write_bytes(b"")
    for number in range(20):
        shutil.copytree(results / "runs" / theta, results / "runs" / f"many-{number:02}")
    (results / "runs" / run_of(results, "rbm") / "run.json").write_text("{")
    before = files_in(results)
    thetarbm("show", "nothing").assert_refused("nothing", str(results / "runs"))
    thetarbm("show", f"elsewhere/{theta}").assert_refused("--results")
    thetarbm("evaluate", "theta-beg").assert_refused("theta-begun has no record yet")
    thetarbm("show", "rbm").assert_refused(run_of(results, "rbm"), "train it again")
    many = thetarbm("show", "many")
    assert (many.code, many.out) == (2, "")
    _, *lines = many.err[many.err.index("error: ") :].splitlines()
    assert [line.split()[0] for line in lines] == [*(f"many-{number:02}" for number in range(8)), "or"]
    assert files_in(results) == before


def environment(**variables: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("THETARBM_", "NO_COLOR"))}
    return {**clean, "PYTHONIOENCODING": "utf-8", "TERM": "xterm", **variables}


def test_colour_on_a_terminal_unless_it_is_not_wanted(results: Path, theta: str) -> None:
    def on_a_terminal(**variables: str) -> str:
        seen = in_terminal("--results", str(results), "show", theta, **variables)
        assert seen.code == 0
        return seen.raw

    colour = re.compile(r"\x1b\[[0-9;]*m")
    coloured = on_a_terminal()
    assert colour.search(coloured)
    # Labels are bold, what stands beside them is not.
    assert re.search(r"\x1b\[1mdata +\x1b\[0mmnist", coloured)
    plain = on_a_terminal(NO_COLOR="1")
    assert not colour.search(plain)
    assert colour.sub("", coloured) == plain


def test_ascii_where_the_terminal_has_no_more(
    thetarbm: Command, results: Path, theta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-m", "thetarbm_cli", "--results", str(results), "show", theta]
    variables = environment(PYTHONIOENCODING="ascii")
    done = subprocess.run(command, env=variables, capture_output=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode("ascii")
    assert "gamma test" in text
    assert re.search(r"reconstruction error [.:=+*#@-]+  \S+ -> \S+", text)
    assert max(map(len, text.replace(str(results), "results").splitlines())) <= 80
    monkeypatch.setenv("TERM", "dumb")
    assert thetarbm("show", theta).out.isascii()
