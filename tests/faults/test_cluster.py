"""A Dask cluster in parts, on the loopback device: one of them is killed, or not what it should be."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.scenes import CHECKOUT, SUITE, TINY, Stage
from tests.runs import call, finish
from thetarbm_cli import schedule
from thetarbm_cli.store import Store

RUN = ("run", *TINY)
# Imported by each Python that is started with its folder on the path: thetarbm is not there, or is an older one.
WITHOUT_PACKAGE = "import sys; sys.modules['thetarbm_cli'] = None"
OLDER_PACKAGE = "import thetarbm_cli; thetarbm_cli.__version__ = '0.0.1'"


@pytest.fixture
def start(small_data: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "start"
    shutil.copytree(small_data, folder / "data")
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return folder


def test_a_scheduler_that_does_not_answer_is_told_and_the_suite_is_made_without_it(
    start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(start)
    monkeypatch.setattr(schedule, "PATIENCE_SECONDS", 1)
    nobody = ("--executor", "dask", "--scheduler", "tcp://127.0.0.1:9")
    outcome = call(start / "data", start / "results", *RUN, *nobody)
    outcome.assert_refused("tcp://127.0.0.1:9", code=1)
    assert Store(start / "results", shipped=False).identifiers() == []
    assert call(start / "data", start / "results", *RUN).code == 0


class Parts:
    """A scheduler and a worker, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, until: str, first: str) -> re.Match[str]:
        """Start one that does something `first`, and wait until its log has said something."""
        hooks = self.folder / f"hooks {len(self.processes)}"
        hooks.mkdir()
        (hooks / "sitecustomize.py").write_text(first)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("PYTHONPATH", f"{hooks}{os.pathsep}{CHECKOUT}")
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments, "--no-dashboard"],
                cwd=self.folder,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )
        self.processes.append(process)
        for line in process.stderr:
            found = re.search(until, line)
            if found:
                return found
        pytest.fail(f"dask {arguments[0]} ended")

    def scheduler(self, first: str = "") -> str:
        arguments = ("scheduler", "--host", "127.0.0.1", "--port", "0")
        return self.start(*arguments, until=r"Scheduler at: +(tcp://\S+)", first=first)[1]

    def worker(self, scheduler: str, first: str = "") -> None:
        arguments = ("worker", scheduler, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny")
        self.start(*arguments, until="Registered to", first=first)


@contextmanager
def parts_in(folder: Path) -> Iterator[Parts]:
    folder.mkdir()
    parts = Parts(folder)
    try:
        yield parts
    finally:
        for process in parts.processes:
            process.kill()
            process.communicate()


@pytest.mark.slow
def test_a_killed_scheduler_is_told_in_a_sentence_and_nothing_is_lost(
    start: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, stage = (Stage.set_up(start, tmp_path / name) for name in ("alone", "stage"))
    with parts_in(tmp_path / "parts") as parts:
        address = parts.scheduler()
        parts.worker(address)
        client = stage.spawn((*RUN, "--executor", "dask", "--scheduler", address), network=True)
        while not client.stderr.readline().startswith("[1/"):
            assert client.poll() is None
        parts.processes[0].kill()
        outcome = finish(client)
    outcome.assert_refused("scheduler", code=1)
    made = Store(stage.folder / "results", shipped=False).identifiers()
    assert made
    for folder in (stage.folder, alone.folder):
        monkeypatch.chdir(folder)
        again = call(folder / "data", folder / "results", *RUN)
        assert again.code == 0
    assert stage.contents() == alone.contents()
    assert stage.temporary_files() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "found"), [(WITHOUT_PACKAGE, "has no thetarbm"), (OLDER_PACKAGE, "has thetarbm 0.0.1")]
)
@pytest.mark.parametrize("who", ["scheduler", "worker"])
def test_who_has_not_this_package_is_named(who: str, first: str, found: str, start: Path, tmp_path: Path) -> None:
    stage = Stage.set_up(start, tmp_path / "stage")
    with parts_in(tmp_path / "parts") as parts:
        address = parts.scheduler(first if who == "scheduler" else "")
        parts.worker(address, first if who == "worker" else "")
        outcome = finish(stage.spawn((*RUN, "--executor", "dask", "--scheduler", address), network=True))
    outcome.assert_refused(f"the {who}", found, "install the same on both", code=1)
    assert Store(stage.folder / "results", shipped=False).identifiers() == []
