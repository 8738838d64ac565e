from __future__ import annotations

import os
import signal
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.runs import context_of
from thetarbm_cli.experiments.execution.job import LOST_PROCESS, Outcome, Report
from thetarbm_cli.experiments.execution.local import LocalExecutor, Worker
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs.settings import resolve
from thetarbm_cli.experiments.runs.store import RunContext


def planned(seed: int, C: float = 10.0) -> PlannedRun:
    """A run that is known by its seed; what its SVM is told makes no other training of it."""
    return PlannedRun(resolve("rbm", svm={"C": C}), seed, (f"C={C}",), (), ("error",), (), None, "missing", "")


def done() -> Outcome:
    """The end of a run that went well; its name says in which process, and its seconds when."""
    return Outcome("done", str(os.getpid()), None, time.monotonic())


def refuse_three(context: RunContext, run: PlannedRun, report: Report) -> Outcome:
    return Outcome("failed", None, "three is too much", 0.0) if run.seed == 3 else done()


def die(deadly: tuple[int, ...], context: RunContext, run: PlannedRun, report: Report) -> Outcome:
    """The first waits until the death of the second has been told, so that it is running when the second dies."""
    if run.seed in deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    while run.seed == 1 and not (context.data_dir / "told").exists():
        time.sleep(0.01)
    return done()


def linger(context: RunContext, run: PlannedRun, report: Report) -> Outcome:
    time.sleep(100 if run.seed else 0)
    return done()


def meet(context: RunContext, run: PlannedRun, report: Report) -> Outcome:
    """Report on a run, and tell when it began and in which process."""
    outcome = done()
    for number in range(1, 4):
        report("counting", number, 3)
    (context.data_dir / run.name).touch()
    # The first two wait for each other, so that they are done at the same time.
    while run.cells != ("C=2",) and len(list(context.data_dir.iterdir())) < 2:
        time.sleep(0.01)
    return outcome


@pytest.fixture
def context(tmp_path: Path) -> RunContext:
    (tmp_path / "data").mkdir()
    return context_of(tmp_path / "data", tmp_path / "results")


def counted(told: list[tuple[Any, ...]], run: PlannedRun) -> bool:
    """Whether the first and the last step of a run were told, and none out of turn."""
    steps = [words[1:] for words in told if words[0] is run and words[1] != "starting"]
    return steps == sorted(steps) and {steps[0], steps[-1]} == {("counting", 1, 3), ("counting", 3, 3)}


def test_processes_make_every_run_once_elsewhere_with_reports_but_not_two_of_one_training_at_a_time(
    context: RunContext,
) -> None:
    first, second, other = runs = [planned(0, 1), planned(0, 2), planned(1)]
    told: list[tuple[Any, ...]] = []
    outcomes = list(LocalExecutor(2, meet)(context, runs, False, lambda *words: told.append(words)))
    ended = dict(outcomes)
    assert len(outcomes) == len(ended) == 3
    assert ended[other].seconds < ended[second].seconds
    assert str(os.getpid()) not in {outcome.run for outcome in ended.values()}
    assert counted(told, first)
    assert counted(told, other)
    # A process reports seldom on one step, also of its next run, but always on the last.
    assert (second, "counting", 3, 3) in told


def test_one_process_is_this_one_keeps_the_order_and_ends_with_the_first_failure(context: RunContext) -> None:
    runs = [planned(seed) for seed in (1, 3, 2)]
    *before, (failed, failure) = LocalExecutor(1, refuse_three)(context, runs, False)
    assert [(run, outcome.run) for run, outcome in before] == [(runs[0], str(os.getpid()))]
    assert (failed, failure.error) == (runs[1], "three is too much")
    assert [run for run, _ in LocalExecutor(1, refuse_three)(context, runs, True)] == runs
    # One run needs no second process, and reports as from there.
    told: list[tuple[Any, ...]] = []
    alone = planned(0, 2)
    ((_, outcome),) = LocalExecutor(4, meet)(context, [alone], False, lambda *words: told.append(words))
    assert (outcome.run, counted(told, alone)) == (str(os.getpid()), True)


def test_who_stops_asking_does_not_wait(context: RunContext) -> None:
    iteration = LocalExecutor(2, linger)(context, [planned(seed) for seed in range(3)], False)
    assert next(iteration)[0].seed == 0
    iteration.close()
    assert active_children() == []


def test_a_process_that_dies_takes_no_other_run_with_it(context: RunContext) -> None:
    told = []
    for run, outcome in LocalExecutor(2, partial(die, (2,)))(context, [planned(seed) for seed in (1, 2, 3, 4)], True):
        told.append(run.seed)
        if run.seed == 2:
            assert (outcome.state, outcome.error) == ("failed", LOST_PROCESS)
            (context.data_dir / "told").touch()
        else:
            assert outcome.state == "done"
    assert sorted(told) == [1, 2, 3, 4]
    assert told.index(2) < told.index(1)
    assert active_children() == []


def test_no_other_run_is_started_after_a_death_that_ends_it(context: RunContext) -> None:
    runs = [planned(seed) for seed in (2, 3, 4, 5, 6, 7)]
    ended = [run.seed for run, _ in LocalExecutor(2, partial(die, (2, 3)))(context, runs, False)]
    assert sorted(ended) == [2, 3]


def test_a_process_that_dies_while_it_is_idle_is_seen(context: RunContext) -> None:
    worker = Worker(partial(refuse_three, context))
    assert worker.start(planned(1))
    outcome = worker.receive()
    assert isinstance(outcome, Outcome)
    assert outcome.run == str(worker.process.pid)
    worker.process.kill()
    worker.process.join()
    assert not worker.start(planned(2))
    worker.end()
