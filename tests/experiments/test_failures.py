from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import LocalCluster

from tests.experiments.runs import Command, call, context_of, finish, record_of, spawn
from tests.experiments.suites import planned_runs, write_suite
from thetarbm_cli.errors import InputError, ThetaRBMError, format_error
from thetarbm_cli.experiments.execution import dask as dask_module
from thetarbm_cli.experiments.execution.dask import DaskExecutor, WorkerContext
from thetarbm_cli.experiments.execution.job import LOST_PROCESS, LostProcessError, Outcome, record_failure, run_job
from thetarbm_cli.experiments.execution.local import LocalExecutor
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs import training as training_run
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.models.rbm import RBM

# How a run ends depends on its momentum, see FAULTS.
SUITE = """\
format: 1
title: faults
profiles:
  tiny:
    data: {train: 300, valid: 100, test: 300}
    parameters: {hidden: 10, epochs: 2}
experiments:
  - {name: killed, label: killed, model: rbm, measures: [error], parameters: {momentum: 0.5}}
  - {name: memory, label: memory, model: rbm, measures: [error], parameters: {momentum: 0.6}}
  - {name: bug, label: bug, model: rbm, measures: [error], parameters: {momentum: 0.7}}
  - {name: good, label: good, model: rbm, measures: [error]}
"""

# A module that Python imports in every process that it starts; only those that do runs are meant. The killed run ends
# after each epoch, and goes on from there.
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

if any("spawn_main" in word for word in sys.orig_argv):
    make_faulty()
"""

ERRORS = {"killed": LOST_PROCESS, "memory": "out of memory", "bug": "ValueError: of two lines"}


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started from here have runs that fail."""
    folder = tmp_path / "faults"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(FAULTS)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)


def records_by_cell(results: Path) -> dict[str, dict[str, Any]]:
    records = [record_of(results, run) for run in RunStore(results).identifiers()]
    return {record["cells"][0].partition("@")[0]: record for record in records}


def test_runs_that_are_killed_or_fail_are_recorded_and_others_go_on(
    tmp_path: Path, small_data: Path, faults: None
) -> None:
    results = tmp_path / "results"
    arguments = ["run", "--suite", str(write_suite(tmp_path, SUITE)), "--profile", "tiny", "--json"]
    outcome = finish(spawn(small_data, results, *arguments, "-j", "2", "--keep-going"))
    assert outcome.code == 1
    assert "Traceback" not in outcome.err
    sheet = outcome.json
    assert (sheet["done"], sheet["failed"]) == (1, 3)
    assert {row["cell"]: row["reason"] for row in sheet["runs"] if row["state"] == "failed"} == ERRORS
    for cell, error in ERRORS.items():
        assert f"failed: {cell} seed 0: {error}" in outcome.err
    assert "; --debug with --retry-failed shows the traceback" in outcome.err
    records = records_by_cell(results)
    assert {cell: record["error"] for cell, record in records.items()} == {**ERRORS, "good": None}
    assert {cell: record["state"] for cell, record in records.items()} == {
        **dict.fromkeys(ERRORS, "failed"),
        "good": "done",
    }
    assert sorted(row["run"] for row in sheet["runs"]) == RunStore(results).identifiers()
    told_again = call(small_data, results, *arguments)
    assert told_again.code == 1
    assert told_again.json["runs"][0]["reason"] == f"failed before: {LOST_PROCESS}; --retry-failed tries it again"
    # Without the faults they are made, and the killed one goes on where it was.
    retried = call(small_data, results, *arguments, "--retry-failed")
    assert (retried.code, retried.json["done"], retried.json["cached"]) == (0, 3, 1)
    assert f"resuming {records['killed']['run']} after epoch 1" in retried.err
    assert {record["error"] for record in records_by_cell(results).values()} == {None}


def test_jobs_that_dask_gives_up_are_tried_again_alone(
    tmp_path: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed, _, first, second = planned_runs(small_data, tmp_path, SUITE)
    given: list[list[PlannedRun]] = []

    def cluster_of_one_worker(
        client: object, context: object, worker: object, jobs: list[PlannedRun]
    ) -> Iterator[tuple[PlannedRun, Outcome | Exception]]:
        given.append(jobs)
        for job in jobs:
            yield job, LostProcessError() if killed in jobs else Outcome("done", "run", None, 1.0)

    monkeypatch.setattr(dask_module, "_outcomes", cluster_of_one_worker)
    context = context_of(small_data, tmp_path)
    worker = WorkerContext(context, token=None)
    outcomes = list(dask_module._finish_runs(None, context, worker, [first, killed, second], True))
    assert given == [[first, killed, second], [first], [killed], [second]]
    assert [outcome.error for _, outcome in outcomes] == [None, LOST_PROCESS, None]
    assert records_by_cell(tmp_path)["killed"]["error"] == LOST_PROCESS


@pytest.mark.slow
def test_a_run_whose_cluster_workers_die_is_recorded_and_others_go_on(
    tmp_path: Path, small_data: Path, faults: None
) -> None:
    killed, _, _, good = planned_runs(small_data, tmp_path, SUITE)
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        ) as running,
    ):
        executor = DaskExecutor(running.scheduler_address)
        outcomes = dict(executor(context_of(small_data, tmp_path), [killed, good], True))
    assert (outcomes[killed].state, outcomes[killed].error) == ("failed", LOST_PROCESS)
    assert outcomes[good].state == "done"
    assert records_by_cell(tmp_path)["killed"]["error"] == LOST_PROCESS


def refuse(*_: object, **__: object) -> None:
    raise MemoryError("Unable to allocate 9 TiB")


def test_a_traceback_is_shown_with_debug_only(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RBM, "fit", refuse)
    arguments = ["run", "memory", "--suite", str(write_suite(tmp_path, SUITE)), "--profile", "tiny"]
    plain = thetarbm(*arguments)
    assert plain.code == 1
    assert "failed: memory seed 0: out of memory: Unable to allocate 9 TiB; --debug" in plain.err
    assert "Traceback" not in plain.err
    debugged = thetarbm("--debug", *arguments, "--retry-failed")
    assert debugged.code == 1
    assert "Traceback (most recent call last):" in debugged.err
    assert debugged.err.count("--debug") == 0


def test_a_run_knows_what_it_is_for_before_it_is_measured_and_when_it_is_trained_again(
    tmp_path: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its last number it is done: a process that is killed then leaves nothing to be added."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    *_, good = planned_runs(small_data, tmp_path, SUITE)
    context = context_of(small_data, tmp_path)
    monkeypatch.setattr("thetarbm_cli.experiments.execution.job.evaluate_run", killed)
    with pytest.raises(KeyboardInterrupt):
        run_job(context, good)
    record = records_by_cell(tmp_path)["good"]
    assert record["cells"] == ["good@tiny"]
    context.store.weights_path(record["run"]).unlink()
    assert not training_run.train_run(context, good.settings, good.seed).cached
    assert records_by_cell(tmp_path)["good"]["cells"] == ["good@tiny"]


def test_what_another_process_works_on_is_left_to_it_and_a_run_without_data_has_no_name(
    tmp_path: Path, small_data: Path
) -> None:
    killed, *_ = planned_runs(small_data, tmp_path, SUITE)
    context = context_of(small_data, tmp_path)
    with context.store.locked(killed.run):
        assert record_failure(context, killed, "lost") == killed.run
    assert record_failure(context_of(tmp_path / "empty", tmp_path), killed, "lost") is None
    assert context.store.identifiers() == []


def test_wrong_input_is_told_but_no_failed_run(
    tmp_path: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object, **__: object) -> None:
        raise InputError("no such device")

    monkeypatch.setattr(RBM, "fit", wrong)
    *_, good = planned_runs(small_data, tmp_path, SUITE)
    ((_, outcome),) = LocalExecutor(1)(context_of(small_data, tmp_path), [good], True)
    assert (outcome.state, outcome.error) == ("failed", "no such device")
    assert RunStore(tmp_path).identifiers() == []


def test_a_failure_that_cannot_be_recorded_is_still_told(
    tmp_path: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(store: RunStore, record: RunRecord) -> None:
        raise ThetaRBMError("no space left")

    monkeypatch.setattr(RBM, "fit", refuse)
    monkeypatch.setattr(RunStore, "save", full)
    *_, good = planned_runs(small_data, tmp_path, SUITE)
    ((_, outcome),) = LocalExecutor(1)(context_of(small_data, tmp_path), [good], True)
    assert (outcome.state, outcome.run, outcome.error) == ("failed", None, "no space left")
    assert "a failed run of good@tiny cannot be recorded: no space left" in caplog.text


def test_errors_are_told_in_one_line() -> None:
    assert format_error(ThetaRBMError("ours")) == "ours"
    assert format_error(MemoryError()) == "out of memory"
    assert format_error(ValueError("a\n b")) == "ValueError: a b"
    assert format_error(AssertionError()) == "AssertionError"
