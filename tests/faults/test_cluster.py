"""A Dask cluster in parts, on the loopback device: one of them is killed, or not what it should be."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from distributed import LocalCluster

from tests.experiments.runs import call, finish, place_of
from tests.faults.scenes import SUITE, TINY, Stage
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments import cluster
from thetarbm_cli.experiments.cluster import DaskExecutor
from thetarbm_cli.experiments.plan import make_plan
from thetarbm_cli.experiments.store import RunStore
from thetarbm_cli.experiments.suite import load_suite
from thetarbm_cli.experiments.work import Job

RUN = ("run", *TINY)
# Imported by each Python that is started with its folder on the path: thetarbm is not there.
WITHOUT_PACKAGE = "import sys; sys.modules['thetarbm_cli'] = None"


@pytest.fixture
def start(small_data: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "start"
    shutil.copytree(small_data, folder / "data")
    (folder / "suite.yaml").write_text(SUITE, encoding="utf-8")
    return folder


def test_a_cluster_of_another_version_is_refused_before_the_first_job(
    start: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(start / "data", start / "results")
    jobs = [Job.of(run) for run in make_plan(place, load_suite(start / "suite.yaml").cells("tiny"), seeds=1)]
    monkeypatch.setattr(cluster, "__version__", "9.9")
    with LocalCluster(
        n_workers=1, processes=False, host="127.0.0.1", protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as running:
        executor = DaskExecutor(running.scheduler_address)
        with pytest.raises(ThetaRBMError, match=r"the scheduler has thetarbm .*, the client 9\.9; install the same"):
            list(executor(place, jobs, False))
    assert RunStore(start / "results").identifiers() == []
    assert list((start / "results").rglob(".*")) == []


class Parts:
    """A scheduler and a worker, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, until: str, package: bool = True) -> re.Match[str]:
        """Start one, and wait until its log has said something."""
        hidden = self.folder / "hidden"
        hidden.mkdir(exist_ok=True)
        (hidden / "sitecustomize.py").write_text(WITHOUT_PACKAGE)
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("PYTHONPATH", "" if package else str(hidden))
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *arguments, "--no-dashboard"],
                cwd=self.folder,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )
        self.processes.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(until, line)
            if found:
                return found
        pytest.fail(f"dask {arguments[0]} ended")

    def scheduler(self, package: bool = True) -> str:
        arguments = ("scheduler", "--host", "127.0.0.1", "--port", "0")
        return self.start(*arguments, until=r"Scheduler at: +(tcp://\S+)", package=package)[1]

    def worker(self, scheduler: str, package: bool = True) -> None:
        arguments = ("worker", scheduler, "--host", "127.0.0.1", "--nthreads", "1", "--no-nanny")
        self.start(*arguments, until="Registered to", package=package)


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
        assert client.stderr is not None
        while not client.stderr.readline().startswith("[1/"):
            assert client.poll() is None
        parts.processes[0].kill()
        outcome = finish(client)
    assert outcome.code == 1
    assert outcome.err.splitlines()[-1] == (
        "error: the connection to the scheduler was lost; the same command goes on from here"
    )
    assert "Traceback" not in outcome.err
    made = RunStore(stage.folder / "results").identifiers()
    assert made
    for folder in (stage.folder, alone.folder):
        monkeypatch.chdir(folder)
        again = call(folder / "data", folder / "results", *RUN)
        assert again.code == 0
    assert stage.contents() == alone.contents()
    assert stage.temporary_files() == []


@pytest.mark.slow
@pytest.mark.parametrize("who", ["scheduler", "worker"])
def test_who_lacks_the_package_is_named(who: str, start: Path, tmp_path: Path) -> None:
    stage = Stage.set_up(start, tmp_path / "stage")
    with parts_in(tmp_path / "parts") as parts:
        address = parts.scheduler(package=who != "scheduler")
        parts.worker(address, package=who != "worker")
        outcome = finish(stage.spawn((*RUN, "--executor", "dask", "--scheduler", address), network=True))
    outcome.assert_refused(f"the {who}", "has no thetarbm", "install the same on both", code=1)
    assert RunStore(stage.folder / "results").identifiers() == []
