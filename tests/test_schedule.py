"""What is due, in which order, and who makes it: this process, others beside it, a cluster; whatever dies meanwhile."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client, LocalCluster
from joblib.externals.loky import get_reusable_executor

from tests.records import save, training_for
from tests.runs import PATIENCE_SECONDS, call, finish, lasting, spawn, store_of
from tests.suites import FAILING, SMALL, write_suite
from thetarbm_cli import evaluation, schedule, storage
from thetarbm_cli.data.prepare import prepared_checksum
from thetarbm_cli.errors import InputError, ThetaRBMError, format_error
from thetarbm_cli.models import RBM
from thetarbm_cli.schedule import LOST_PROCESS, Done, Elsewhere, HandedBack, Job, _store, _work, cost, plan, run
from thetarbm_cli.specs import ALGORITHM
from thetarbm_cli.store import CHECKPOINT, RECORD, Store
from thetarbm_cli.suite import Cell, load_suite

NUMBERS = {"test_error_percent": 5.0, "gamma_train": 0.5, "gamma_test": 0.5}


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    return load_suite(write_suite(tmp_path)).cells("tiny")


@pytest.fixture
def store(small_data: Path, tmp_path: Path) -> Store:
    return store_of(small_data, tmp_path / "results")


def jobs_of(store: Store, folder: Path, text: str = SMALL, seeds: int = 1) -> list[Job]:
    """The jobs of a suite."""
    return plan(store, load_suite(write_suite(folder, text)).cells("tiny"), seeds=seeds)


def named(jobs: list[Job], cell: str) -> Job:
    return next(job for job in jobs if cell in job.cells)


def made(store: Store) -> dict[str, dict[str, Any]]:
    """What lasts of every training; measurements in whichever order."""
    found = {each.run: lasting(each) for each in store.trainings()}
    for each in found.values():
        each["measurements"].sort(key=str)
    return found


# Planning


def test_equal_trainings_are_one_job_with_all_that_is_measured(store: Store, cells: list[Cell]) -> None:
    jobs = plan(store, cells)
    assert [job.cells for job in jobs] == [
        ("rbm/sparsity=0.3", "again"),
        ("rbm/sparsity=0.1",),
        ("theta/sparsity=0.3",),
        ("theta/sparsity=0.1",),
    ]
    assert [len(job.wanted) for job in jobs] == [3, 3, 1, 1]
    assert all((job.state, job.reason) == ("missing", "never run") for job in jobs)
    assert [job.spec.seed for job in plan(store, cells, seeds=3)] == [0, 1, 2] * 4
    assert len({job.spec.key for job in plan(store, cells, seeds=3)}) == 12
    assert [job.spec.seed for job in plan(store, cells, only_seed=7)] == [7] * 4


def test_what_is_recorded_is_done_and_what_is_not_measured_missing(store: Store, cells: list[Cell]) -> None:
    elsewhere = Store(store.results, store.results / "no data", shipped=False)
    save(store.results, training_for(cells[0], **NUMBERS), training_for(cells[2]))
    jobs = plan(elsewhere, cells)
    assert [job.state for job in jobs] == ["done", "missing", "missing", "missing"]
    assert jobs[2].reason == "trained, not measured yet"
    assert [job.state for job in plan(elsewhere, cells, forced=["rbm"])][:2] == ["missing"] * 2
    # Where the images are known, theirs is another checksum.
    assert named(plan(store, cells), "rbm/sparsity=0.3").reason == "data: the prepared images have another checksum"


def test_a_change_is_named_from_the_nearest_record(store: Store, tmp_path: Path) -> None:
    def cell(settings: str) -> Cell:
        text = SMALL.replace("hidden: 20, epochs: 3", settings)
        return next(c for c in load_suite(write_suite(tmp_path, text)).cells("tiny") if c.name == "theta/sparsity=0.3")

    save(store.results, training_for(cell("hidden: 5, epochs: 9, momentum: 0.1"), **NUMBERS))
    save(store.results, training_for(cell("hidden: 20, epochs: 4, momentum: 0.5"), **NUMBERS))
    (job,) = plan(store, [cell("hidden: 20, epochs: 3, momentum: 0.2")])
    assert (job.state, job.reason) == ("stale", "epochs changed from 4 to 3; momentum changed from 0.5 to 0.2")


def test_a_record_of_another_algorithm_does_not_count(store: Store, cells: list[Cell]) -> None:
    training = training_for(cells[2], **NUMBERS)
    spec = training.spec.model_copy(update={"algorithm": ALGORITHM - 1})
    save(store.results, training.model_copy(update={"spec": spec}))
    assert named(plan(store, cells), "theta/sparsity=0.3").state != "done"


def test_a_record_with_the_random_numbers_of_before_counts(store: Store, cells: list[Cell]) -> None:
    checksum = prepared_checksum(store.data_dir, "mnist-rot", "generated")
    training = training_for(cells[2], images=checksum or "", **NUMBERS)
    save(store.results, training.model_copy(update={"spec": training.spec.model_copy(update={"random": "pcg64"})}))
    assert named(plan(store, cells), "theta/sparsity=0.3").state == "done"


def test_running_cut_off_and_diverged_ones_are_recognised(store: Store, cells: list[Cell]) -> None:
    checksum = prepared_checksum(store.data_dir, "mnist-rot", "generated")
    assert checksum is not None
    names = [cell.train_spec().run_id(checksum) for cell in cells[1:4]]
    storage.write_text(store.path(names[1], CHECKPOINT), "")
    diverged = training_for(cells[3], images=checksum).model_copy(update={"state": "diverged", "error": "too fast"})
    save(store.results, diverged)
    with store.locked(names[0]):
        jobs = plan(store, cells[1:4])
    assert [job.run for job in jobs] == names
    assert [(job.state, job.reason) for job in jobs] == [
        ("running", "another process works on it"),
        ("missing", "cut off: goes on from its checkpoint"),
        ("failed", "diverged before: too fast"),
    ]
    assert plan(store, cells[1:2])[0].state == "missing"


def test_the_longest_jobs_are_first(store: Store) -> None:
    jobs = plan(store, load_suite().cells("paper"), seeds=1)
    models = [job.spec.model for job in sorted(jobs, key=cost, reverse=True)]
    assert models[0] == "tirbm"
    assert models[-1] in ("pixels", "aligned-pixels")


# In this process


def test_one_process_keeps_the_order_and_ends_with_the_first_failure(store: Store, tmp_path: Path) -> None:
    jobs, polled = jobs_of(store, tmp_path, FAILING), []
    ended = list(run(store, jobs, keep_going=False, poll=polled.append))
    assert [(job, done.state) for job, done in ended] == [(jobs[0], "done"), (jobs[1], "failed")]
    assert "diverged" in str(ended[1][1].error)
    assert ended[0][1].values["test_error_percent"] > 0
    diverged = store.path(str(ended[1][1].run), RECORD).read_bytes()
    assert [done.state for _, done in run(store, jobs)] == ["cached", "failed", "done"]
    # What diverged is recorded once.
    assert store.path(str(ended[1][1].run), RECORD).read_bytes() == diverged
    assert len(store.identifiers()) == 3


@pytest.mark.parametrize(
    ("error", "told"),
    [(MemoryError("Unable to allocate 9 TiB"), "out of memory: Unable to allocate 9 TiB"), (InputError("no"), "no")],
)
def test_a_failure_leaves_no_record_and_only_a_strange_one_a_traceback(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    job = jobs_of(store, tmp_path, FAILING)[0]
    with monkeypatch.context() as patch:
        patch.setattr(RBM, "fit", fail)
        ((_, done),) = run(store, [job])
    assert (done.state, done.error, done.traceback is None) == ("failed", told, isinstance(error, ThetaRBMError))
    assert store.identifiers() == []
    # Trained, and lost while it is measured: what is there is found.
    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "Evaluation", fail)
        ((_, done),) = run(store, [job])
    (training,) = store.trainings()
    assert (done.state, training.state) == ("failed", "done")
    assert [done.state for _, done in run(store, [job])] == ["done"]


def test_progress_is_seen_while_a_job_is_made(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "POLL_SECONDS", 0.001)
    jobs, seen = jobs_of(store, tmp_path, FAILING)[:1], []

    def poll(running: Any) -> None:
        for job in running:
            assert job is jobs[0]
            seen.append(store.holder(job.run))

    assert [done.state for _, done in run(store, jobs, poll=poll)] == ["done"]
    assert any(each.step == "epoch" or each.step.startswith("SVM") for each in seen if each)


def test_errors_are_told_in_one_line() -> None:
    assert format_error(ThetaRBMError("ours")) == "ours"
    assert format_error(MemoryError()) == "out of memory"
    assert format_error(ValueError("a\n b")) == "ValueError: a b"
    assert format_error(AssertionError()) == "AssertionError"


# In processes beside it, and on a cluster


@pytest.fixture(scope="module")
def undisturbed(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Records of the small suite, two seeds, made one after another in this process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    store = store_of(small_data, folder / "results")
    assert [done.state for _, done in run(store, jobs_of(store, folder, seeds=2))] == ["done"] * 8
    return made(store)


@pytest.fixture
def workers() -> Iterator[None]:
    """No worker of another test is taken, and none is left."""
    get_reusable_executor(max_workers=2).shutdown(wait=True)
    yield
    get_reusable_executor(max_workers=2).shutdown(wait=True, kill_workers=True)


@pytest.mark.usefixtures("workers")
def test_processes_give_the_records_of_one_though_a_worker_is_killed(
    store: Store, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    jobs, killed, told = jobs_of(store, tmp_path, seeds=2), [], []

    def kill_a_worker(running: Any) -> None:
        pids = [held.pid for job in running if (held := store.holder(job.run))]
        if not killed and pids and pids[0] != os.getpid():
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    for job, done in run(store, jobs, n_jobs=2, poll=kill_a_worker):
        told.append(job)
        assert (done.state, done.error) in (("done", None), ("cached", None))
    assert killed
    assert len(told) == len(set(told)) == 8
    assert made(store) == undisturbed


@pytest.mark.usefixtures("workers")
def test_after_a_failure_what_has_begun_is_finished_and_nothing_else_started(store: Store, tmp_path: Path) -> None:
    jobs = sorted(jobs_of(store, tmp_path, FAILING, seeds=4), key=lambda job: "second" not in job.cells)
    states = [done.state for _, done in run(store, jobs, n_jobs=2, keep_going=False)]
    # Those that diverge come first or beside another.
    assert "failed" in states
    assert len(states) < len(jobs)
    assert all(each.state == "diverged" or each.by_key for each in store.trainings())


@pytest.mark.usefixtures("workers")
def test_who_stops_asking_does_not_wait(store: Store, tmp_path: Path) -> None:
    iteration = run(store, jobs_of(store, tmp_path, SMALL.replace("epochs: 3", "epochs: 300"), seeds=3), n_jobs=2)
    next(iteration)
    iteration.close()  # type: ignore[attr-defined]
    _, alive = psutil.wait_procs([each for each in psutil.Process().children(recursive=True) if is_worker(each)], 30)
    assert alive == []


def is_worker(process: psutil.Process) -> bool:
    """Whether a process makes jobs; one that has ended does not."""
    try:
        return "resource_tracker" not in str(process.cmdline())
    except psutil.Error:
        return False


# How a training ends depends on its momentum. Every Python that is started imports it; only workers are meant.
FAULTS = """\
import os, signal, sys

def make_faulty():
    from thetarbm_cli.models.rbm import RBM
    fit = RBM.fit

    def faulty(self, *arguments, monitor=None, **options):
        def deadly(state):
            monitor(state)
            if self.momentum == 0.5:
                os.kill(os.getpid(), signal.SIGKILL)
        if self.momentum == 0.6:
            raise MemoryError
        if self.momentum == 0.7:
            raise ValueError("of two\\nlines")
        return fit(self, *arguments, monitor=deadly, **options)

    RBM.fit = faulty

if any(word in each for each in sys.orig_argv for word in ("spawn_main", "popen_loky")):
    make_faulty()
"""
FAULTY = """\
format: 2
title: faults
profiles:
  tiny: {set: {hidden: 10, epochs: 4, data.train: 300, data.test: 300}}
experiments:
  - {name: killed, label: killed, model: rbm, measures: [error], set: {momentum: 0.5}}
  - {name: memory, label: memory, model: rbm, measures: [error], set: {momentum: 0.6}}
  - {name: bug, label: bug, model: rbm, measures: [error], set: {momentum: 0.7}}
  - {name: good, label: good, model: rbm, measures: [error]}
"""
ERRORS = {"killed": LOST_PROCESS, "memory": "out of memory", "bug": "ValueError: of two lines"}


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that are started from here have trainings that fail."""
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(FAULTS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "faults"), prepend=os.pathsep)


@pytest.mark.usefixtures("faults", "workers")
@pytest.mark.parametrize("dask", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_job_whose_process_dies_twice_has_failed_and_goes_on_later(
    store: Store, tmp_path: Path, dask: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "thetarbm")
    jobs = jobs_of(store, tmp_path, FAULTY)
    ended = {job.cells[0]: done for job, done in run(store, jobs, n_jobs=2, dask=dask)}
    assert {cell: done.error for cell, done in ended.items()} == {**ERRORS, "good": None}
    assert [cell for cell, done in ended.items() if done.traceback] == [cell for cell in ended if cell in ("memory", "bug")]  # noqa: E501  # fmt: skip
    assert len(store.identifiers()) == 1
    (cut_off,) = store.unfinished()
    assert cut_off == ended["killed"].run == named(jobs, "killed").run
    # Without the faults it goes on after the epochs that were there.
    assert [done.state for _, done in run(store, jobs)] == ["done", "done", "done", "cached"]
    assert f"resuming {cut_off} after epoch 2" in caplog.text


def begin(store: Store, tmp_path: Path, *options: str, until: str = "[1/") -> Any:
    """Start the small suite in another process, and wait until it has said something."""
    suite = ("--suite", str(write_suite(tmp_path)), "--profile", "tiny")
    process = spawn(store.data_dir, store.results, "run", *suite, *options)
    while not process.stderr.readline().startswith(until):  # type: ignore[union-attr]
        assert process.poll() is None
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_interrupted_and_called_again_gives_the_same_records(
    store: Store, tmp_path: Path, undisturbed: dict[str, Any], number: signal.Signals
) -> None:
    process = begin(store, tmp_path, "--seeds", "2", "-j", "2")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    outcome = finish(process)
    assert (outcome.code, "Traceback" in outcome.err) == (130, False)
    assert psutil.wait_procs(children, timeout=30)[1] == []
    assert not list(store.results.rglob("*.part"))
    assert 1 <= len(store.identifiers()) < 8
    jobs = jobs_of(store, tmp_path, seeds=2)
    assert {done.state for _, done in run(store, jobs)} == {"done", "cached"}
    assert {run: {**each, "made_for": 0} for run, each in made(store).items()} == {
        run: {**each, "made_for": 0} for run, each in undisturbed.items()
    }


def test_workers_leave_when_their_parent_is_killed(store: Store, tmp_path: Path) -> None:
    process = begin(store, tmp_path, "--seeds", "9", "-j", "2")
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    assert psutil.wait_procs(children, timeout=60)[1] == []


@pytest.fixture(scope="module")
def two_workers() -> Iterator[LocalCluster]:
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    ) as running:
        yield running


@pytest.mark.parametrize(
    ("shared", "kill"),
    [
        pytest.param(True, True, id="shared, killed"),
        pytest.param(False, False, id="handed back"),
        pytest.param(False, True, id="handed back, killed", marks=pytest.mark.slow),
    ],
)
def test_a_cluster_gives_the_records_of_this_process_though_a_worker_is_killed(
    shared: bool, kill: bool, store: Store, tmp_path: Path, undisturbed: dict[str, Any], two_workers: LocalCluster
) -> None:
    jobs, told = jobs_of(store, tmp_path, seeds=2), []
    with Client(two_workers) as client:
        victims = list(client.run(os.getpid).values())
        for job, done in run(store, jobs, dask=True, scheduler=two_workers.scheduler_address, shared=shared):
            told.append(job)
            assert done.state in (("done", "cached") if kill else ("done",)), done.error
            if kill and len(told) == 1:
                os.kill(victims[0], signal.SIGKILL)
    assert len(told) == len(set(told)) == 8
    assert made(store) == undisturbed
    assert all(store.load_weights(run) is not None for run in store.identifiers())
    assert kill or [path for path in tmp_path.rglob("*") if path.name.startswith(".")] == []


def test_a_local_cluster_is_started_where_no_address_is_given(store: Store, tmp_path: Path) -> None:
    jobs = jobs_of(store, tmp_path, FAILING)
    ended = dict(run(store, jobs, n_jobs=1, dask=True))
    assert [ended[job].state for job in jobs] == ["done", "failed", "done"]


def test_a_worker_of_another_version_refuses(store: Store, tmp_path: Path) -> None:
    job, options = jobs_of(store, tmp_path, FAILING)[0], schedule.followup.call_options()
    with pytest.raises(ThetaRBMError, match=r"client 0\.0\.1"):
        _work(store, "auto", job, Elsewhere(None, version="0.0.1"), options)


def test_what_is_handed_back_is_added_and_never_replaces(store: Store, small_data: Path, tmp_path: Path) -> None:
    job, away = jobs_of(store, tmp_path)[0], store_of(small_data, tmp_path / "away")
    ((_, done),) = run(away, [job])
    (theirs,) = away.trainings()
    measurements = tuple(each.model_dump(mode="json") for each in theirs.measurements)
    weights = away.path(theirs.run, "weights.npz").read_bytes()
    handed = HandedBack(done, theirs.model_dump(mode="json"), measurements, weights)

    def count() -> tuple[list[str], int]:
        return store.identifiers(), sum(len(each.measurements) for each in store.trainings())

    for _ in range(2):
        assert _store(store, job, handed) == done
        assert count() == ([theirs.run], 3)
    # As a clone has it, without weights and with fewer numbers.
    record = store.path(theirs.run, RECORD).read_bytes()
    store.path(theirs.run, "weights.npz").unlink()
    store.path(theirs.run, "measures.jsonl").unlink()
    _store(store, job, handed)
    assert store.path(theirs.run, RECORD).read_bytes() == record
    assert store.load_weights(theirs.run) is not None
    assert count() == ([theirs.run], 3)
    forced = schedule.replace(job, forced=True)
    assert _store(store, forced, handed) == Done(**{**vars(done), "run": f"{theirs.run}-2"})
    assert len(store.identifiers()) == 2


def test_a_scheduler_that_does_not_answer_is_told(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "PATIENCE_SECONDS", 1)
    with pytest.raises(ThetaRBMError, match=r"tcp://127\.0\.0\.1:9"):
        list(run(store, jobs_of(store, tmp_path, FAILING), dask=True, scheduler="tcp://127.0.0.1:9"))
    assert store.identifiers() == []


def test_a_suite_is_made_and_found_by_the_command(store: Store, tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    arguments = ("run", "--suite", str(write_suite(tmp_path)), "--profile", "tiny", "--seeds", "2", "--json")
    for done, cached in ((8, 0), (0, 8)):
        sheet = call(store.data_dir, store.results, *arguments).json
        assert (sheet["done"], sheet["cached"], sheet["failed"]) == (done, cached, 0)
    assert made(store).keys() == undisturbed.keys()
