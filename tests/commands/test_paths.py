"""Paths as users write them: ``~`` where the shell leaves it, and the file of a record for its run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.data.archives import write_own
from tests.runs import Command, call, files_in, run_of
from tests.suites import write_suite


@pytest.fixture
def home(tmp_path: Path, small_data: Path, trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with prepared data, runs, a suite and images; the working folder is another, and stays empty."""
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    shutil.copytree(small_data, home / "data")
    shutil.copytree(trained, home / "results")
    write_suite(home)
    write_own(home / "own.npz")
    write_own(home / "digits.npz", 2, side=28)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(work)
    return home


@pytest.mark.parametrize(
    ("words", "made"),
    [
        ("train --model rbm --profile tiny --set data.source=~/own.npz --epochs 1", "data/own-*.npz"),
        ("prepare-data --source=~/own.npz", "data/own-*.npz"),
        ("features rbm --out=~/new/f.npz --images=~/digits.npz", "new/f.npz"),
        ("show ~/results/runs/RUN/weights.npz", "results"),
        ("report --suite=~/suite.yaml --profile tiny --out=~/page.html", "page.html"),
    ],
)
def test_home_is_expanded(home: Path, words: str, made: str) -> None:
    words = words.replace("RUN", run_of(home / "results", "rbm"))
    outcome = call(Path("~/data"), Path("~/results"), *words.split())
    assert outcome.code in (0, 3), outcome.err
    assert list(home.glob(made))
    assert files_in(Path.cwd()) == {}


def test_home_is_expanded_in_variables(home: Path, monkeypatch: pytest.MonkeyPatch, thetarbm: Command) -> None:
    monkeypatch.setenv("THETARBM_SHOW_SUITE", "~/suite.yaml")
    monkeypatch.setenv("THETARBM_FASHION_DIR", "~/clothes")
    assert thetarbm("show", "rbm", results=Path("~/results")).code == 0
    thetarbm("prepare-data", "--dataset", "fashion-rot").assert_refused(str(home / "clothes"))


def test_a_record_s_file_names_its_run(
    thetarbm: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(trained, "rbm")
    path = trained / "runs" / run / "run.json"
    assert thetarbm("show", str(path), "--json", results=trained).json["run"] == run
    monkeypatch.chdir(path.parent)
    assert thetarbm("show", "run.json", "--json", results=trained).json["run"] == run
    thetarbm("show", str(path), results=tmp_path).assert_refused("is not in", "--results")
