from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from tests.experiments.runs import PATIENCE_SECONDS, call, context_of, finish, record_of, spawn
from tests.experiments.suites import FAILING, lasting, planned_runs, write_suite
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.execution.dask import DaskExecutor, WorkerContext, run_on_worker
from thetarbm_cli.experiments.execution.job import Executor, Outcome
from thetarbm_cli.experiments.execution.local import LocalExecutor
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.multiverse import multiverse_store
from thetarbm_cli.experiments.runs.store import RunContext, RunStore


def do_all(executor: Executor, small_data: Path, results: Path, jobs: list[PlannedRun]) -> list[Outcome]:
    return [outcome for _, outcome in executor(context_of(small_data, results), jobs, False)]


def records_in(results: Path) -> dict[str, dict[str, Any]]:
    """What lasts of every record, with the checksum of its weights."""
    return {run: lasting(record_of(results, run)) for run in RunStore(results).identifiers()}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """One BLAS thread here and in every process started from here, as on the command line: more add up otherwise."""
    with pytest.MonkeyPatch.context() as patched, threadpool_limits(1, "blas"):
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            patched.setenv(variable, "1")
        yield


@pytest.fixture(scope="module")
def undisturbed(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Records of the small suite, two seeds, made one after another in this process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    outcomes = do_all(LocalExecutor(1), small_data, folder, planned_runs(small_data, folder, seeds=2))
    assert [outcome.state for outcome in outcomes] == ["done"] * 8
    return records_in(folder)


@pytest.fixture(scope="module")
def two_workers() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as running:
        yield running


def test_a_failure_while_measuring_is_recorded_and_forgotten_when_it_is_over(
    tmp_path: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job, *_) = planned_runs(small_data, tmp_path, FAILING)
    with monkeypatch.context() as patched:
        patched.setattr("thetarbm_cli.experiments.execution.job.evaluate_run", refuse)
        (outcome,) = do_all(LocalExecutor(1), small_data, tmp_path, [job])
    assert (outcome.state, outcome.error) == ("failed", "out of memory: too large")
    ((_, record),) = records_in(tmp_path).items()
    assert (record["state"], record["error"]) == ("done", "out of memory: too large")
    (weights,) = tmp_path.rglob("weights.npz")
    made = weights.stat().st_mtime_ns
    (outcome,) = do_all(LocalExecutor(1), small_data, tmp_path, [job])
    ((_, record),) = records_in(tmp_path).items()
    assert (outcome.state, record["error"], weights.stat().st_mtime_ns) == ("done", None, made)


def refuse(*_: object, **__: object) -> None:
    raise MemoryError("too large")


@pytest.mark.parametrize("jobs", [pytest.param("1", marks=pytest.mark.slow), "2"])
def test_interrupted_and_called_again_gives_the_same_records(
    tmp_path: Path, small_data: Path, undisturbed: dict[str, dict[str, Any]], jobs: str
) -> None:
    suite, results = write_suite(tmp_path), tmp_path / "results"
    arguments = ["run", "--suite", str(suite), "--profile", "tiny", "--seeds", "2", "-j", jobs]
    process = spawn(small_data, results, *arguments)
    while not process.stderr.readline().startswith("[1/8]"):
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    assert finish(process).code == 130
    assert 1 <= len(RunStore(results).identifiers()) < 8
    assert call(small_data, results, *arguments).code == 0
    assert records_in(results) == undisturbed


@pytest.mark.slow
def test_workers_leave_when_their_parent_is_killed(tmp_path: Path, small_data: Path) -> None:
    import psutil

    suite = str(write_suite(tmp_path))
    process = spawn(
        *(small_data, tmp_path / "results", "run", "--suite", suite),
        *("-j", "2", "--seeds", "9", "--profile", "tiny"),
    )
    while not process.stderr.readline().startswith("[1/"):
        assert process.poll() is None
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


@pytest.mark.parametrize(
    ("shared", "kill"),
    [
        pytest.param(True, True, id="shared, killed"),
        pytest.param(False, False, id="handed back"),
        pytest.param(False, True, id="handed back, killed", marks=pytest.mark.slow),
    ],
)
def test_a_cluster_gives_the_records_of_this_process_though_a_worker_is_killed(
    shared: bool,
    kill: bool,
    tmp_path: Path,
    small_data: Path,
    undisturbed: dict[str, dict[str, Any]],
    two_workers: LocalCluster,
) -> None:
    jobs = planned_runs(small_data, tmp_path, seeds=2)
    executor = DaskExecutor(two_workers.scheduler_address, shared=shared)
    told, reported = [], set()
    with Client(two_workers) as client:
        # Whoever is killed, it is one of two that have work when the first of eight runs is done.
        victims = list(client.run(os.getpid).values())
        for job, outcome in executor(context_of(small_data, tmp_path), jobs, False, lambda job, *_: reported.add(job)):
            told.append(job)
            assert outcome.state in (("done", "cached") if kill else ("done",))
            if kill and len(told) == 1:
                os.kill(victims[0], signal.SIGKILL)
    assert len(told) == len(set(told)) == 8
    assert reported == set(jobs)
    assert records_in(tmp_path) == undisturbed
    store = RunStore(tmp_path)
    for run in store.identifiers():
        record = store.load(run)
        assert store.load_weights(record) is not None
    assert kill or [path for path in tmp_path.rglob("*") if path.name.startswith(".")] == []


def test_a_local_cluster_is_started_where_no_address_is_given(tmp_path: Path, small_data: Path) -> None:
    jobs = planned_runs(small_data, tmp_path, FAILING)
    outcomes = dict(DaskExecutor(workers=1)(context_of(small_data, tmp_path), jobs, True))
    assert [outcomes[job].state for job in jobs] == ["done", "failed", "done"]


def test_a_worker_of_another_version_refuses(tmp_path: Path, small_data: Path) -> None:
    (job, *_) = planned_runs(small_data, tmp_path, FAILING)
    worker = WorkerContext(context_of(small_data, tmp_path), token=None, version="0.0.1")
    with pytest.raises(ThetaRBMError, match=r"client 0\.0\.1"):
        run_on_worker(worker, job)


def test_a_worker_that_sees_the_folder_works_in_the_store_of_the_client() -> None:
    here = Path.cwd()
    store = RunContext(Path("data"), multiverse_store(Path("results"))).absolute().store
    assert store.folder == here / "results" / "multiverse" / "runs"
    assert store.packed == here / "results" / "packed", "packed records are not made again"
