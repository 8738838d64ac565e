from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disk import FullDisk, ReadOnly
from tests.faults.scenes import Stage
from tests.runs import Outcome, call, files_in
from tests.suites import write_suite
from thetarbm_cli import documents, pipeline
from thetarbm_cli.arrays import read_arrays
from thetarbm_cli.store import Store

SUITE = """\
format: 2
title: small
profiles:
  tiny:
    set: {hidden: 3, epochs: 1, data.train: 30, data.test: 30}
experiments:
  - {name: rbm, label: RBM, model: rbm, measures: [error], tables: ["1"]}
"""
RUN = ("run", "--profile", "tiny", "--suite", "suite.yaml")
SMALL = ("--epochs", "1", "--hidden", "3", "--set", "data.train=30")
TRAIN = ("train", "--model", "rbm", "--profile", "tiny", *SMALL)
TABLES = ("tables", "--profile", "tiny", "--suite", "suite.yaml", "--table", "1")
# Each command, and what was called before it.
COMMANDS: dict[str, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    "prepare-data": (("prepare-data", "--source", "own.npz"), ()),
    "train": (TRAIN, ()),
    "evaluate": (("evaluate", "--all"), (TRAIN,)),
    "run": (RUN, ()),
    "tables": (TABLES, (RUN,)),
}
NO_ROOM = "No space left on device"


@pytest.fixture(autouse=True)
def smallest_suite(monkeypatch: pytest.MonkeyPatch, start: Path) -> None:
    """One run, with a checkpoint after every epoch."""
    monkeypatch.setattr(pipeline, "CHECKPOINT_SHARE", 1e9)
    write_suite(start, SUITE)


@pytest.fixture
def act(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Outcome]]:
    """Call a command in a folder."""

    def call_in(folder: Path, *arguments: str) -> Outcome:
        with monkeypatch.context() as patched:
            patched.chdir(folder)
            return call(Path("data"), Path("results"), *arguments)

    return call_in


def assert_told(outcome: Outcome, words: str) -> None:
    """One sentence: of the command, or of the one run of a suite that failed."""
    assert outcome.code == 1
    assert "Traceback" not in outcome.err
    assert "unexpected" not in outcome.err
    sentences = [line for line in outcome.err.splitlines() if line.startswith(("error: ", "failed: "))]
    (sentence,) = sentences
    assert words in sentence
    assert "cannot write " in sentence or "cannot lock " in sentence


def assert_whole(stage: Stage, before: Path, after: Path) -> None:
    """Every file is as it was before, as it will be, or can be read to its end."""
    known = [files_in(before), files_in(after)]
    for name, content in files_in(stage.folder).items():
        if content in [files.get(name) for files in known]:
            continue
        path = stage.folder / name
        if path.suffix == ".json":
            assert documents.read(path)
        elif path.suffix == ".jsonl":
            # What did not fit is at the end, and is known as torn.
            lines, problems = documents.read_lines(path)
            assert len(lines) + len(problems) == len(content.splitlines())
            assert all(problem == f"line {len(lines) + 1} is torn" for problem in problems)
        else:
            assert read_arrays(path)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_is_full_at_any_moment(name: str, start: Path, tmp_path: Path, act: Callable[..., Outcome]) -> None:
    command, before = COMMANDS[name]
    for arguments in before:
        assert act(start, *arguments).code == 0
    whole = Stage.set_up(start, tmp_path / "whole")
    with FullDisk(whole.folder, room_for=1000).in_force() as disk:
        assert act(whole.folder, *command).code == 0
    assert disk.calls > 5
    made_good: list[dict[str, Any]] = []
    # A run of the suite writes what training and measuring write.
    for room in range(0, disk.calls, 7 if name == "run" else 1):
        stage = Stage.set_up(start, tmp_path / f"room for {room}")
        with FullDisk(stage.folder, room).in_force() as full:
            outcome = act(stage.folder, *command)
        assert full.was_full
        assert_told(outcome, NO_ROOM)
        assert stage.temporary_files() == []
        assert_whole(stage, start, whole.folder)
        # Creating, writing and renaming a file fail alike: from what they leave it goes on but once.
        left = stage.contents()
        if left not in made_good:
            assert act(stage.folder, *command).code == 0
            assert stage.contents() == whole.contents()
            made_good.append(left)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_results_folder_that_cannot_be_written_to(name: str, start: Path, act: Callable[..., Outcome]) -> None:
    error = errno.EACCES if name == "train" else errno.EROFS
    command, before = COMMANDS[name]
    for arguments in before:
        assert act(start, *arguments).code == 0
    found = files_in(start)
    with ReadOnly(start / "results", error).in_force():
        outcome = act(start, *command)
    if name == "prepare-data":
        # It has no business there.
        assert outcome.code == 0
        return
    if name == "tables":
        assert (outcome.code, outcome.out) == (0, act(start, *command).out)
        assert "printed only: cannot write" in outcome.err
        assert os.strerror(error) in outcome.err
        return
    assert_told(outcome, os.strerror(error))
    assert files_in(start) == found
    assert act(start, *command).code == 0


def test_a_data_folder_that_cannot_be_written_to(start: Path, act: Callable[..., Outcome]) -> None:
    error = errno.EROFS
    with ReadOnly(start / "data", error).in_force():
        for command in (TRAIN, ("evaluate", "--all"), RUN, TABLES):
            assert act(start, *command).code == 0
        found = files_in(start)
        assert_told(act(start, *COMMANDS["prepare-data"][0]), os.strerror(error))
        assert_told(act(start, *TRAIN, "--source", "own.npz"), os.strerror(error))
    assert files_in(start) == found
    assert act(start, *COMMANDS["prepare-data"][0]).code == 0
    assert act(start, *TRAIN, "--source", "own.npz").code == 0


def test_what_is_done_is_shown_from_a_folder_that_cannot_be_written_to(
    start: Path, act: Callable[..., Outcome]
) -> None:
    assert act(start, *RUN).code == 0
    (run,) = Store(start / "results", shipped=False).identifiers()
    for command in (("evaluate", run), TABLES):
        assert act(start, *command).code == 0
    elsewhere = start.parent / "elsewhere"
    suite = ("--profile", "tiny", "--suite", "suite.yaml")
    with ReadOnly(start, errno.EROFS).in_force():
        for command in (
            TABLES,
            (*TABLES, "--check"),
            RUN,
            (*RUN, "--dry-run"),
            ("status", *RUN[1:]),
            ("show", run),
            ("evaluate", run, "--json"),
            ("evaluate", "--all"),
            ("features", run, "--out", str(elsewhere / "features.npz")),
            ("figures", "making", *suite, "--out", str(elsewhere)),
            ("report", *suite, "--out", str(elsewhere / "report.html")),
            ("info",),
        ):
            outcome = act(start, *command)
            assert outcome.code == 0, (command, outcome.err)
    assert {"features.npz", "making-tiny.png", "report.html"} <= {path.name for path in elsewhere.iterdir()}


def test_the_folder_for_temporary_files_is_not_needed(
    start: Path, act: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it does not matter whether results are on the same file system."""
    monkeypatch.setattr(tempfile, "tempdir", str(start / "not there"))
    for command in (COMMANDS["prepare-data"][0], TRAIN, ("evaluate", "--all"), RUN, TABLES):
        assert act(start, *command).code == 0
