"""Completion as a shell asks for it: the real entry point, with the variables that the script of each shell sets."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tests.experiments.suites import write_suite
from thetarbm_cli.cli import COMMANDS, main, root
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite_file import shipped_path, suite_names
from thetarbm_cli.reporting.figures import FIGURES

RUNS = ("rbm-0a1b", "theta-11aa", "theta-11bb", "theta-2222")
SHELLS = ("bash", "zsh", "fish")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with runs; one of them is being trained and has no record."""
    for run in RUNS:
        (tmp_path / "results" / "runs" / run).mkdir(parents=True)
        (tmp_path / "results" / "runs" / run / "run.json").write_text("{}")
    (tmp_path / "results" / "runs" / "theta-33cc").mkdir()
    return tmp_path


def ask(folder: Path, instruction: str, **variables: str) -> str:
    """What the program answers a shell."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out):
        patch.chdir(folder)
        patch.delenv("THETARBM_RESULTS", raising=False)
        for name, value in {"_THETARBM_COMPLETE": instruction, **variables}.items():
            patch.setenv(name, value)
        with pytest.raises(SystemExit) as left:
            main([])
    assert left.value.code == 0
    out.flush()
    return out.buffer.getvalue().decode()


def complete(folder: Path, line: str, shell: str = "bash", **variables: str) -> list[tuple[str, str, str]]:
    """Kind, value and description of each answer to Tab at the end of a line."""
    words = line.split(" ")
    if shell == "bash":
        # Bash takes "=" for a word of its own.
        words = [piece for word in words for piece in word.replace("=", "\0=\0").split("\0") if piece or not word]
    cursor = words[-1] if shell == "fish" else str(len(words) - 1)
    answer = ask(folder, f"{shell}_complete", COMP_WORDS=" ".join(words), COMP_CWORD=cursor, **variables)
    lines = answer.splitlines()
    if shell == "zsh":
        return [(lines[n], lines[n + 1], lines[n + 2].removeprefix("_")) for n in range(0, len(lines) - 2, 3)]
    answers = []
    for each in filter(None, lines):
        kind, _, value = each.partition(",")
        value, _, about = value.partition("\t")
        answers.append((kind, value, about))
    return answers


def values(folder: Path, line: str, shell: str = "bash", **variables: str) -> list[str]:
    return [value for _, value, _ in complete(folder, line, shell, **variables)]


@pytest.mark.parametrize("shell", SHELLS)
def test_commands_complete_with_what_they_do(folder: Path, shell: str) -> None:
    answers = complete(folder, "thetarbm ", shell)
    assert [value for _, value, _ in answers] == list(COMMANDS)
    if shell != "bash":
        assert [about for _, _, about in answers] == [summary for _, summary in COMMANDS.values()]
    assert values(folder, "thetarbm pe", shell) == ["perturb"]


@pytest.mark.parametrize("shell", SHELLS)
def test_runs_complete_by_their_beginning(folder: Path, shell: str) -> None:
    assert values(folder, "thetarbm show ", shell) == list(RUNS)
    assert values(folder, "thetarbm features theta-1", shell) == ["theta-11aa", "theta-11bb"]
    assert values(folder, "thetarbm evaluate theta-11bb theta-", shell) == ["theta-11aa", "theta-2222"]


def test_runs_are_those_of_the_results_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    results = str(folder / "results")
    assert values(tmp_path / "elsewhere", "thetarbm show ") == []
    assert values(tmp_path / "elsewhere", f"thetarbm --results {results} show rbm") == ["rbm-0a1b"]
    assert values(tmp_path / "elsewhere", "thetarbm show rbm", THETARBM_RESULTS=results) == ["rbm-0a1b"]


@pytest.mark.parametrize("shell", SHELLS)
def test_experiments_complete_and_then_their_cells(folder: Path, shell: str) -> None:
    suite = load_suite(shipped_path(), check_settings=False)
    names = [experiment.name for experiment in suite.experiments]
    tables = dict.fromkeys(table for experiment in suite.experiments for table in experiment.tables)
    for command in ("run", "status"):
        assert values(folder, f"thetarbm {command} ", shell) == [*names, "theory", *tables]
    cells = [cell.name for cell in suite.cells() if cell.experiment == "perturbation"]
    assert values(folder, "thetarbm run pert", shell) == ["perturbation", *cells]
    beginning = [name for name in (*names, *tables) if name.startswith("be")]
    assert values(folder, "thetarbm run be", shell) == beginning
    assert {"best", "beyond-paper", "beyond"} <= set(beginning)
    # Of one experiment that is the beginning of another, cells are asked for with the stroke.
    several = values(folder, "thetarbm run theta", shell)
    assert "theta" in several
    assert not any("/" in name for name in several)
    assert values(folder, "thetarbm run theta/", shell) == [
        f"theta/sparsity={target}" for target in ("0.3", "0.2", "0.1")
    ]
    assert "theta" not in values(folder, "thetarbm run theta thet", shell)


def test_names_have_descriptions_where_the_shell_shows_them(folder: Path) -> None:
    about = {
        experiment.name: experiment.about for experiment in load_suite(shipped_path(), check_settings=False).experiments
    }
    for shell in ("zsh", "fish"):
        (answer,) = complete(folder, "thetarbm run mnist-th", shell)
        assert answer == ("plain", "mnist-theta", about["mnist-theta"])


def test_bash_gets_the_part_behind_its_last_break(folder: Path) -> None:
    assert values(folder, "thetarbm run theta/sparsity=") == ["0.3", "0.2", "0.1"]
    assert values(folder, "thetarbm run theta/sparsity=0.3 theta/sparsity=0.") == ["0.2", "0.1"]
    assert values(folder, "thetarbm run perturbation/n=4,p=0.1") == ["0.1"]
    assert values(folder, "thetarbm run --profile=q") == ["quick"]
    assert values(folder, "thetarbm run --profile=quick mnist-th") == ["mnist-theta"]
    # Where bash is told not to break at "=", it gets the whole word.
    whole = ask(folder, "bash_complete", COMP_WORDS="thetarbm run theta/sparsity=0.3", COMP_CWORD="2")
    assert whole == "plain,theta/sparsity=0.3\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_get_whole_words(folder: Path, shell: str) -> None:
    assert values(folder, "thetarbm run theta/sparsity=0.3", shell) == ["theta/sparsity=0.3"]
    assert values(folder, "thetarbm run perturbation/n=4,p=0.1", shell) == ["perturbation/n=4,p=0.1"]
    assert values(folder, "thetarbm run --profile=q", shell) == ["--profile=quick"]
    assert values(folder, "thetarbm train --model=th", shell) == ["--model=theta", "--model=theta-local"]


@pytest.mark.parametrize("shell", SHELLS)
def test_choices_complete(folder: Path, shell: str) -> None:
    models = ["rbm", "orbm", "tirbm", "theta", "theta-local", "pixels", "aligned-pixels"]
    assert values(folder, "thetarbm train --model ", shell) == models
    assert values(folder, "thetarbm train --preset r", shell) == ["reference"]
    assert values(folder, "thetarbm tables --table m", shell) == ["mnist"]
    assert values(folder, "thetarbm run --profile ", shell) == ["paper", "best", "quick", "tiny"]
    assert values(folder, "thetarbm run --force mnist-th", shell) == ["mnist-theta"]
    assert "--model" in values(folder, "thetarbm train --", shell)


def test_sources_are_words_or_files(folder: Path) -> None:
    for command in ("train", "run", "prepare-data", "perturb"):
        assert values(folder, f"thetarbm {command} --source ") == ["generated", "official"]
        assert complete(folder, f"thetarbm {command} --source my") == [("file", "my", "")]


def test_names_of_another_suite(folder: Path) -> None:
    path = write_suite(folder)
    assert values(folder, f"thetarbm run --suite {path} ") == ["rbm", "theta", "again", "theory", "1", "2"]
    assert values(folder, f"thetarbm run --suite {path} --profile ") == ["paper", "tiny"]


@pytest.mark.parametrize("text", ["", "[]", "experiments: 3", "experiments: [{name: 3}]", "a: [", "\x00"])
def test_broken_suite_completes_to_nothing(folder: Path, text: str) -> None:
    (folder / "experiments.yaml").write_text(text)
    names = suite_names(folder / "experiments.yaml")
    assert (names.experiments, names.profiles) == ({}, {})
    assert suite_names(folder / "missing.yaml") == names
    if text == "a: [":
        assert values(folder, "thetarbm run x") == []


def test_names_are_those_of_the_checked_suite() -> None:
    names = suite_names(shipped_path())
    cells = load_suite(shipped_path(), check_settings=False).cells()
    assert [cell for each in names.cells.values() for cell in each] == [cell.name for cell in cells]


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", ["complete -o nosort -F _thetarbm_completion thetarbm"]),
        ("zsh", ["#compdef thetarbm", "compdef _thetarbm_completion thetarbm"]),
        ("fish", ["complete --no-files --command thetarbm", 'string split --max 1 ","']),
    ],
)
def test_script_of_each_shell(folder: Path, shell: str, words: list[str]) -> None:
    script = ask(folder, f"{shell}_source")
    for word in words:
        assert word in script
    assert "_THETARBM_COMPLETE" in script


@pytest.mark.parametrize("shell", SHELLS)
def test_a_process_answers_without_importing_anything_heavy(folder: Path, shell: str) -> None:
    suite = load_suite(shipped_path(), check_settings=False)
    (about,) = (experiment.about for experiment in suite.experiments if experiment.name == "mnist-tirbm")
    line, cursor, answer = {
        "bash": ("thetarbm show theta-2", "2", "plain,theta-2222\n"),
        "zsh": ("thetarbm run mnist-ti", "2", f"plain\nmnist-tirbm\n{about}\n"),
        "fish": ("thetarbm run --profile q", "q", f"plain,quick\t{suite.profiles['quick'].about}\n"),
    }[shell]
    heavy = ["numpy", "scipy", "sklearn", "skimage", "pandas", "pydantic", "platformdirs"]
    script = f"""
import sys
from thetarbm_cli.cli import main
try:
    main()
finally:
    print("imported:", *sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)
"""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**clean, "COMP_WORDS": line, "COMP_CWORD": cursor, "_THETARBM_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, answer, "imported:\n")


def test_figures_are_completed(folder: Path) -> None:
    assert values(folder, "thetarbm figures ") == list(FIGURES.names)
    assert values(folder, "thetarbm figures table-1 tab") == ["table-2", "table-3"]


def test_every_argument_completes() -> None:
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        for argument in command.params:
            if isinstance(argument, click.Argument):
                assert argument._custom_shell_complete is not None, f"{name} {argument.name}"
