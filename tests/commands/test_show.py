from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.commands.terminals import in_terminal
from tests.data.archives import write_own
from tests.runs import Command, files_in, record_of, rewrite, run_of
from thetarbm_cli.pipeline import Checkpoints
from thetarbm_cli.specs import ALGORITHM
from thetarbm_cli.store import Store

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
    training = Store(results, shipped=False).require(run)
    sheet = thetarbm("show", run, "--json").json
    for field in ("run", "state", "environment"):
        assert sheet[field] == getattr(training, field)
    assert (sheet["model"], sheet["sparsity"], sheet["seed"], sheet["current"]) == ("orbm", 0.3, 0, True)
    assert sheet["settings"] == {"hidden": 40, "epochs": 3, "data.train": 300}
    assert sheet["data"] == training.spec.data.model_dump()
    for curve in ("reconstruction_error", "mean_activation"):
        assert sheet["history"][curve] == [epoch[curve] for epoch in training.history]
    assert sheet["epochs"] == len(training.history)
    assert sheet["timings"]["training"] == training.seconds
    assert set(sheet["files"]) == {"run.json", "measures.jsonl", "weights.npz"}
    numbers = {number["column"]: number for number in sheet["metrics"] if number["published"] is not None}
    expected = {}
    for each in training.measurements:
        for name in PUBLISHED.keys() & each.values.keys():
            expected[f"{name}_unaligned" if each.spec.aligned is False else name] = each.values[name]
    assert len(expected) == 6
    assert {name: number["value"] for name, number in numbers.items()} == expected
    # A results folder as deep as the tests' makes a path that is wider than a terminal; nothing else may be.
    text = thetarbm("show", run).out.replace(str(results), "results")
    assert section(text, "settings") == ["epochs 3, hidden 40"]
    assert re.search("reconstruction error [▁█]", text)
    for name, number in numbers.items():
        assert number["published"] == PUBLISHED[name.removesuffix("_unaligned")]
        assert number["difference"] == pytest.approx(number["value"] - number["published"], abs=1e-6)
        shown = f"{number['value']:.{2 if 'error' in name else 4}f}"
        assert any(shown in line for line in section(text, "metrics"))
    assert "dead units" in thetarbm("show", run_of(results, "pixels")).out
    narrow = in_terminal("--results", str(results), "show", run)
    assert max(len(line) for line in narrow.lines if str(results)[:20] not in line) <= 80


def test_cells_are_those_of_every_profile_and_own_images_have_none(
    thetarbm: Command, results: Path, theta: str, tmp_path: Path
) -> None:
    assert "theta/sparsity=0.3@tiny" in thetarbm("show", theta, "--json").json["cells"]
    own = write_own(tmp_path / "own.npz")
    made = thetarbm("train", "--model", "theta", "--profile", "tiny", "--source", str(own), "--json").json["run"]
    thetarbm("evaluate", made)
    sheet = thetarbm("show", made, "--json").json
    assert all(number["published"] is None for number in sheet["metrics"])


def test_several_runs_are_compared_by_what_differs(thetarbm: Command, results: Path, theta: str) -> None:
    words = ("--model", "theta", "--profile", "tiny", "--sparsity", "0.1", "--seed", "3")
    other = thetarbm("train", *words, "--json").json["run"]
    found = thetarbm("show", theta, other, "--json").json
    assert found["runs"] == [theta, other]
    assert found["settings"] == {"seed": [0, 3], "sparsity": [0.3, 0.1]}
    assert found["measures"]["test_error_percent"][1] is None, "one is not measured"
    for values in found["measures"].values():
        assert values[0] != values[1]
    assert "sparsity" in thetarbm("show", theta, other).out


def test_the_code_of_a_plug_in_is_told(thetarbm: Command, results: Path, theta: str) -> None:
    code = {"distribution": "averaged", "version": "0.1", "sha256": "ab" * 32}
    rewrite(results, theta, {"spec": {**record_of(results, theta)["spec"], "code": code}})
    assert thetarbm("show", theta, "--json").json["code"] == code
    assert section(thetarbm("show", theta).out, "code")[0].startswith("averaged 0.1, sha256 abababababab")


@pytest.mark.parametrize("damage", [False, True])
def test_weights_that_are_not_there_come_with_the_command_that_makes_them(
    thetarbm: Command, results: Path, theta: str, damage: bool
) -> None:
    weights = results / "runs" / theta / "weights.npz"
    whole = weights.read_bytes()
    if damage:
        weights.write_bytes(whole[:-1])
    else:
        weights.unlink()
    sheet = thetarbm("show", theta, "--json").json
    assert sheet["weights"] == "missing"
    lines = section(thetarbm("show", theta).out, "files")
    begin = next(number for number, line in enumerate(lines) if line.startswith("thetarbm "))
    command = commanded(lines[begin:])
    assert command == shlex.split(sheet["train_command"])
    assert thetarbm(*command[1:]).code == 0
    assert weights.read_bytes() == whole


def test_diverged_and_stale_runs_say_why_and_what_to_do(thetarbm: Command, results: Path, theta: str) -> None:
    assert thetarbm("train", "--model", "rbm", "--profile", "tiny", "--set", "learning_rate=1000000.0").code == 1
    trainings = Store(results, shipped=False).trainings()
    (diverged,) = (each.run for each in trainings if each.state == "diverged")
    outcome = thetarbm("show", diverged)
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].split() == ["run", diverged, "(diverged)"]
    assert "--force" in " ".join(section(outcome.out, "diverged"))
    # A terminal gets nothing to obey.
    foreign = {"version": "\x1b[2J", "libraries": {"numpy\r": "1\n2"}}
    spec = {**record_of(results, theta)["spec"], "algorithm": ALGORITHM + 1}
    rewrite(results, theta, {"spec": spec, "error": "\x1b]0;title\x07 two\nlines", "environment": foreign})
    assert thetarbm("show", theta, "--json").json["current"] is False
    text = thetarbm("show", theta).out
    assert section(text, "stale")
    assert all(character == "\n" or character.isprintable() for character in text)


def test_a_run_that_was_cut_off_shows_its_settings_and_what_goes_on_with_it(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(self: Checkpoints, state: Any) -> None:
        save(self, state)
        raise KeyboardInterrupt

    save, store = Checkpoints.save, Store(tmp_path / "results", shipped=False)
    words = ("--model", "theta", "--profile", "tiny", "--sparsity", "0.2", "--seed", "3", "--set", "hidden=11")
    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "save", cut_off)
        assert thetarbm("train", *words).code == 130
    (run,) = store.unfinished()
    text = thetarbm("show", run).out
    assert "interrupted" in section(text, "run")[0]
    assert section(text, "model") == ["theta, sparsity 0.2, seed 3"]
    assert "hidden 11" in section(text, "settings")[0]
    assert section(text, "epochs")[0].startswith("1 of 3 done")
    assert "interrupted" in thetarbm("list").out
    assert run not in thetarbm("list", "--where", "seed=3").out
    with store.locked(run):
        assert "running" in thetarbm("list").out
        sheet = thetarbm("show", run, "--json").json
        assert (sheet["state"], sheet["epochs"]) == ("running", 1)
    goes_on = shlex.split(sheet["train_command"])
    assert commanded(section(text, "goes on by")) == goes_on
    checkpoint = store.path(run, "checkpoint.npz")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[:-9])
    assert section(thetarbm("show", run).out, "settings") == ["known after the first epoch"]
    checkpoint.write_bytes(whole)
    assert f"resuming {run}" in thetarbm(*goes_on[1:]).err
    assert store.unfinished() == []


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
