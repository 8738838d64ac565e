"""Commands that are printed are pasted into a shell, with the folders and the suite of the call that printed them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.data.archives import write_own
from tests.runs import Command, Outcome, call
from tests.suites import write_suite

SUITE = """\
format: 2
title: small
profiles:
  mine:
    set: {data.train: 60, data.test: 60, hidden: 4, epochs: 1}
experiments:
  - {name: theta, label: θ-RBM, model: theta, grid: {sparsity: [0.3, 0.1]}, measures: [error], tables: ["1"]}
  - {name: rbm, label: RBM, model: rbm, set: {sparsity: 0.3}, measures: [error], tables: ["1"]}
"""
TINY = ("--profile", "tiny", "--hidden", "4", "--epochs", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name a shell would take apart."""
    path = tmp_path / "it's $HOME & mine"
    path.mkdir()
    return path


@pytest.fixture
def here(folder: Path, small_data: Path) -> Command:
    """The command line with all global options, in this process."""

    def command(*arguments: str) -> Outcome:
        return call(small_data, folder / "results", "--backend", "numpy", "--threads", "2", *arguments)

    return command


def words_of(line: str) -> list[str]:
    """The words that a shell makes of a line, without the program's name."""
    assert "--backend numpy --threads 2" in line
    split = subprocess.run(["sh", "-c", f'set -- {line}\nprintf "%s\\0" "$@"'], capture_output=True, check=True)
    program, *words = split.stdout.decode().removesuffix("\0").split("\0")
    assert program == "thetarbm"
    return words


def paste(line: str, folder: Path) -> str:
    """Carry out a line in another folder than it was printed in; what it wrote."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(elsewhere)
        # The folders that the line names win over these.
        done = call(elsewhere / "data", elsewhere / "results", *words_of(line))
    assert done.code == 0, (line, done.err)
    assert list(elsewhere.iterdir()) == []
    return done.out + done.err


def makes_it(text: str) -> list[str]:
    """The commands of lines such as ``missing: …; thetarbm … makes it``, or them."""
    return re.findall(r"; (thetarbm .*) makes (?:it|them)$", text, re.MULTILINE)


def test_after_training_the_run_is_measured_and_global_options_are_those_of_variables_too(
    folder: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("THETARBM_THREADS", "2")
        patch.setenv("THETARBM_BACKEND", "numpy")
        trained = call(small_data, folder / "results", "train", "--model", "theta", *TINY)
    (line,) = re.findall(r"^evaluate  (.*)$", trained.out, re.MULTILINE)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "PYTHONIOENCODING": "utf-8"}
    shell = subprocess.run(["sh", "-c", line], cwd=folder, env=environment, capture_output=True, check=True)
    assert "test error" in shell.stdout.decode()
    assert "(cached)" in paste(line, folder)


def test_show_measures_and_trains(here: Command, folder: Path) -> None:
    trained = here("train", "--model", "theta", *TINY, "--json").json
    run, weights = trained["run"], Path(trained["weights"])
    sheet = here("show", run, "--json").json
    assert "none yet" in here("show", run).out
    paste(sheet["evaluate_command"], folder)
    before = weights.read_bytes()
    weights.unlink()
    refused = here("features", run, "--out", str(folder / "f.npz"))
    refused.assert_refused("train it again: ")
    assert refused.err.rstrip().partition("train it again: ")[2] == sheet["train_command"]
    paste(sheet["train_command"], folder)
    assert weights.read_bytes() == before


def test_tables_name_what_makes_their_cells(here: Command, folder: Path) -> None:
    suite = ("--profile", "mine", "--suite", str(write_suite(folder, SUITE)))

    def carried_out() -> int:
        """How many commands were named; afterwards none is."""
        lines = makes_it(here("tables", *suite).err)
        for line in lines:
            paste(line, folder)
        assert makes_it(here("tables", *suite).err) == []
        return len(lines)

    assert carried_out() == 2
    (folder / "results" / "tables" / "table1-mine.md").write_text("wrong")
    wrong = here("tables", "--check", *suite)
    assert wrong.code == 1
    (line,) = re.findall(r"; (thetarbm .*) writes it$", wrong.err, re.MULTILINE)
    paste(line, folder)
    assert here("tables", "--check", *suite).code == 0
    # A user's file is named by its path.
    own = write_own(folder / "own images.npz", 200)
    assert here("run", "rbm", *suite, "--source", str(own)).code == 0
    assert carried_out() == 1


def test_figures_name_what_they_lack(here: Command, folder: Path) -> None:
    suite = ("--profile", "mine", "--suite", str(write_suite(folder, SUITE)))
    refused = here("figures", "table-1", *suite)
    assert refused.code == 1
    (line,) = makes_it(refused.err)
    paste(line, folder)
    assert here("figures", "table-1", *suite).code == 0
    for path in (folder / "results" / "runs").glob("theta*/weights.npz"):
        path.unlink()
    refused = here("figures", "filters-theta", *suite)
    assert refused.code == 1
    paste("thetarbm" + refused.err.rstrip().partition("thetarbm")[2].removesuffix(" makes them"), folder)
    assert here("figures", "filters-theta", *suite).code == 0
