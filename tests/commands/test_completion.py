"""Completion as a shell asks for it: the real entry point, with the variables that the script of each shell sets."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from tests.suites import write_suite
from thetarbm_cli.cli import COMMANDS, main
from thetarbm_cli.suite import load_suite, shipped_path

RUNS = ("rbm-0a1b", "theta-11aa", "theta-11bb", "theta-2222")


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


def complete(folder: Path, line: str, shell: str = "zsh", **variables: str) -> list[str]:
    """Values of the answers to Tab at the end of a line."""
    words = line.split(" ")
    if shell == "bash":
        # Bash takes "=" for a word of its own.
        words = [piece for word in words for piece in word.replace("=", "\0=\0").split("\0") if piece or not word]
    cursor = words[-1] if shell == "fish" else str(len(words) - 1)
    answer = ask(folder, f"{shell}_complete", COMP_WORDS=" ".join(words), COMP_CWORD=cursor, **variables).splitlines()
    if shell == "zsh":
        return answer[1::3]
    return [line.partition(",")[2].partition("\t")[0] for line in answer if line]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_answered(folder: Path, shell: str) -> None:
    assert complete(folder, "thetarbm ", shell) == list(COMMANDS)
    assert complete(folder, "thetarbm pe", shell) == ["perturb"]
    assert complete(folder, "thetarbm evaluate theta-11bb theta-", shell) == ["theta-11aa", "theta-2222"]
    cell = ["0.3"] if shell == "bash" else ["theta/sparsity=0.3"]
    assert complete(folder, "thetarbm run theta/sparsity=0.3", shell) == cell
    assert "_THETARBM_COMPLETE" in ask(folder, f"{shell}_source")


def test_runs_are_those_of_the_results_folder(folder: Path, tmp_path: Path) -> None:
    assert complete(folder, "thetarbm show ") == list(RUNS)
    elsewhere, results = tmp_path / "elsewhere", str(folder / "results")
    elsewhere.mkdir()
    assert complete(elsewhere, "thetarbm show ") == []
    assert complete(elsewhere, f"thetarbm --results {results} show rbm") == ["rbm-0a1b"]
    assert complete(elsewhere, "thetarbm show rbm", THETARBM_RESULTS=results) == ["rbm-0a1b"]


def test_experiments_complete_and_then_their_cells(folder: Path) -> None:
    suite = load_suite(shipped_path(), check_settings=False)
    names = [experiment.name for experiment in suite.experiments]
    tables = dict.fromkeys(table for experiment in suite.experiments for table in experiment.tables)
    assert complete(folder, "thetarbm status ") == [*names, "theory", *tables]
    cells = [cell.name for cell in suite.cells() if cell.experiment == "tirbm"]
    assert complete(folder, "thetarbm run tirbm/") == cells
    # Of names with commas, at which shells break, the experiment's is given.
    assert complete(folder, "thetarbm run pert") == ["perturbation"]
    # Of one experiment that is the beginning of another, cells are asked for with the stroke.
    several = complete(folder, "thetarbm run theta")
    assert "theta" in several
    assert not any("/" in name for name in several)
    assert complete(folder, "thetarbm run theta/") == [f"theta/sparsity={target}" for target in ("0.3", "0.2", "0.1")]
    assert "theta" not in complete(folder, "thetarbm run theta thet")
    path = write_suite(folder)
    assert complete(folder, f"thetarbm run --suite {path} ") == ["rbm", "theta", "again", "theory", "1", "2"]
    assert "tiny" in complete(folder, f"thetarbm run --suite {path} --profile ")


def test_bash_gets_the_part_behind_its_last_break(folder: Path) -> None:
    assert complete(folder, "thetarbm run theta/sparsity=", "bash") == ["0.3", "0.2", "0.1"]
    assert complete(folder, "thetarbm run theta/sparsity=0.3 theta/sparsity=0.", "bash") == ["0.2", "0.1"]
    assert complete(folder, "thetarbm run --profile=q", "bash") == ["quick"]
    assert complete(folder, "thetarbm train --set tensor=f", "bash") == ["full"]
    # A source that is no word is a file.
    assert ask(folder, "bash_complete", COMP_WORDS="thetarbm train --source my", COMP_CWORD="3") == "file,my\n"
    # Where bash is told not to break at "=", it gets the whole word.
    whole = ask(folder, "bash_complete", COMP_WORDS="thetarbm run theta/sparsity=0.3", COMP_CWORD="2")
    assert whole == "plain,theta/sparsity=0.3\n"


@pytest.mark.parametrize(
    ("line", "answers"),
    [
        ("train --model=th", ["--model=theta", "--model=theta-local"]),
        ("tables --table mn", ["mnist"]),
        ("run --profile ", ["paper", "best", "survey", "quick", "tiny"]),
        ("run --force mnist-th", ["mnist-theta"]),
        ("figures table-1 tab", ["table-3"]),
        ("prepare-data --source ", ["generated", "bilinear", "official"]),
        # Settings by the model that is named, then by their values.
        ("train --model theta --set tens", ["tensor="]),
        ("train --model rbm --set tens", []),
        ("train --model theta --set tensor=f", ["tensor=full"]),
        ("train --set data.tr", ["data.train="]),
        ("evaluate rbm-0a1b --set svm.", ["svm.C=", "svm.gamma=", "svm.scaled="]),
        ("list --where tens", ["tensor="]),
    ],
)
def test_choices_and_settings_complete(folder: Path, line: str, answers: list[str]) -> None:
    assert complete(folder, f"thetarbm {line}") == answers


def test_broken_suite_completes_to_nothing(folder: Path) -> None:
    for text in ("", "experiments: [{name: 3}]", "a: ["):
        (folder / "experiments.yaml").write_text(text)
        assert complete(folder, "thetarbm run --profile ") == complete(folder, "thetarbm run x") == []
