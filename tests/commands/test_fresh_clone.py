"""The first commands of a new user: after any of them, what git keeps is as it was."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data.archives import write_own
from tests.docs.pages import ROOT, commands
from tests.runs import Command, call, rewrite, run_of
from tests.suites import SMALL
from thetarbm_cli.data.sources.fashion import DEBIAN
from thetarbm_cli.store import Store

TINY = ("--suite", "experiments.yaml", "--profile", "tiny")
FIGURES = ("figures", "table-1", "filters-theta", *TINY)
PERTURBED = """\
  - name: perturbation
    like: theta
    set: {sparsity: 0.3}
    grid: {n: [1], p: [0.1, 0.4]}
    tables: ["3"]
"""
PERTURB = ("perturb", "--profile", "tiny", "--n", "1", "--p", "0.1,0.4")


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def clone(small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a repository with the results of a small suite, made where training gives other last digits."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "-q")
    shutil.copy(ROOT / ".gitignore", origin)
    (origin / "experiments.yaml").write_text(SMALL + PERTURBED)
    monkeypatch.chdir(origin)
    results = origin / "results"
    train = ("train", "--model", "orbm", "--profile", "tiny")
    for arguments in (("run", *TINY), PERTURB, train, ("evaluate", "--all"), ("tables", *TINY), FIGURES):
        assert call(small_data, results, *arguments).code == 0
    for run in Store(results, shipped=False).identifiers():
        rewrite(results, run, {"weights_sha256": "0" * 64})
    assert call(small_data, results, "pack", "--all", "--remove").code == 0
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "results")
    git(tmp_path, "clone", "-q", str(origin), "clone")
    monkeypatch.chdir(tmp_path / "clone")
    return tmp_path / "clone"


def test_no_command_changes_what_git_keeps(clone: Path, small_data: Path, tmp_path: Path) -> None:
    results = clone / "results"
    orbm = run_of(results, "orbm")
    theta = next(run for run in Store(results, shipped=False).identifiers() if run.startswith("theta"))

    def check(*arguments: str, code: int = 0) -> str:
        outcome = call(small_data, results, *arguments)
        assert outcome.code == code, outcome.err
        assert git(clone, "status", "--porcelain") == "", arguments
        return outcome.out

    first = check("tables", *TINY, "--check")
    table = check(*PERTURB)
    check("evaluate", "--all")
    check("run", *TINY)
    check("status", *TINY)
    check("features", orbm, "--out", "features.npz", code=2)
    for _ in range(2):
        check("train", "--model", "orbm", "--profile", "tiny")
    check("train", "--model", "theta", "--profile", "tiny", "--sparsity", "0.1", "--hidden", "20")
    check("train", "--model", "theta", "--profile", "tiny", "--hidden", "20")
    check("evaluate", orbm)
    check("evaluate", orbm, "--offset", "5", "--grid-search")
    check("features", orbm, "--out", "features.npz")
    check(*FIGURES)
    check("report", *TINY)
    check("show", theta)
    check("tables", *TINY)
    assert check(*PERTURB) == table
    assert check("tables", *TINY, "--check") == first


@pytest.fixture(scope="module")
def whole_clone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A clone of this repository."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    folder = tmp_path_factory.mktemp("whole") / "clone"
    git(ROOT, "clone", "-q", "--shared", str(ROOT), str(folder))
    yield folder
    shutil.rmtree(folder)


def test_committed_records_are_enough(
    whole_clone: Path, thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(whole_clone)
    for arguments in (("perturb",), ("status",), ("run",), ("evaluate", "--all"), ("tables", "--check")):
        outcome = thetarbm(*arguments, results=whole_clone / "results", data_dir=tmp_path / "empty")
        assert outcome.code == 0, outcome.err
    assert git(whole_clone, "status", "--porcelain") == ""


@pytest.mark.slow
def test_the_commands_of_the_readme(whole_clone: Path, data_dir: Path, tmp_path: Path) -> None:
    """Each as it stands there; runs that are not among the committed ones go into another folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    environment |= {"PYTHONPATH": str(whole_clone), "THETARBM_DATA_DIR": str(data_dir), "BROWSER": "true"}
    run, fashion_is_installed = "", (DEBIAN / "train-images-idx3-ubyte.gz").is_file()
    write_own(whole_clone / "images.npz")
    for line in commands(ROOT / "README.md"):
        words = [run if word == "RUN" else word for word in shlex.split(line, comments=True)[1:]]
        if "fashion-rot" in words and not fashion_is_installed:
            continue
        elsewhere = "quick" in words or "images.npz" in words or "theta-" in line
        done = subprocess.run(
            [sys.executable, "-m", "thetarbm_cli", *words],
            cwd=whole_clone,
            env={**environment, **({"THETARBM_RESULTS": str(tmp_path / "results")} if elsewhere else {})},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (line, done.stderr)
        assert git(whole_clone, "status", "--porcelain") == "", line
        # RUN is the one that was trained first.
        run = run or (done.stdout.split()[1] if words[0] == "train" else "")
    check = [sys.executable, "-m", "thetarbm_cli", "tables", "--check"]
    assert subprocess.run(check, cwd=whole_clone, env=environment, check=False, capture_output=True).returncode == 0
