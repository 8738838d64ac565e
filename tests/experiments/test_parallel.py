from __future__ import annotations

import os
import signal
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.execution.job import Report
from thetarbm_cli.experiments.execution.local import LostProcessError, Worker, outcomes


def square(number: int, report: Report) -> tuple[int, int]:
    return number * number, os.getpid()


def refuse_three(number: int, report: Report) -> int:
    if number == 3:
        raise ThetaRBMError("three is too much")
    return number


def die_of_three(number: int, report: Report) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def crash(folder: Path, number: int, report: Report) -> int:
    """The first waits until the second has been reported, so that it is running when the second dies."""
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    while number == 1 and not (folder / "reported").exists():
        time.sleep(0.01)
    return number


def linger(folder: Path, number: int, report: Report) -> int:
    (folder / str(number)).touch()
    if number:
        time.sleep(100)
    return number


def meet(folder: Path, job: tuple[str, int], report: Report) -> tuple[float, int]:
    """Report on a job, and tell when it began and in which process."""
    started = time.monotonic()
    for done in range(1, 4):
        report("counting", done, 3)
    (folder / f"{job[0]}{job[1]}").touch()
    # The first two wait for each other, so that they are done at the same time.
    while job[1] == 0 and len(list(folder.iterdir())) < 2:
        time.sleep(0.01)
    return started, os.getpid()


def counted(told: list[tuple[object, ...]], job: object) -> bool:
    """Whether the first and the last step of a job were told, and none out of turn."""
    steps = [words[1:] for words in told if words[0] == job and words[1] != "starting"]
    return steps == sorted(steps) and {steps[0], steps[-1]} == {("counting", 1, 3), ("counting", 3, 3)}


def test_processes_do_every_job_once_elsewhere_with_reports_but_not_two_of_one_training_at_a_time(
    tmp_path: Path,
) -> None:
    jobs, told = [("a", 0), ("a", 1), ("b", 0)], []
    done = list(
        outcomes(
            partial(meet, tmp_path), jobs, 2, shared=lambda job: job[0], on_report=lambda *words: told.append(words)
        )
    )
    assert sorted(job for job, _ in done) == jobs
    started, processes = ({job: result[number] for job, result in done} for number in (0, 1))
    assert started["b", 0] < started["a", 1]
    assert os.getpid() not in processes.values()
    assert counted(told, ("a", 0))
    assert counted(told, ("b", 0))
    # A process reports seldom on one step, also of its next job, but always on the last.
    assert (("a", 1), "counting", 3, 3) in told


def test_one_process_is_this_one_keeps_the_order_and_ends_with_the_first_failure(tmp_path: Path) -> None:
    done = list(outcomes(square, [3, 1, 2], 1))
    assert done == [(number, (number**2, os.getpid())) for number in (3, 1, 2)]
    # One job needs no second process, and reports as from there.
    told: list[tuple[object, ...]] = []
    ((job, (_, process)),) = outcomes(
        partial(meet, tmp_path), [("a", 1)], 4, on_report=lambda *words: told.append(words)
    )
    assert (process, counted(told, job)) == (os.getpid(), True)
    *before, (number, failure) = outcomes(refuse_three, [1, 3, 2], 1)
    assert (before, number, str(failure)) == ([(1, 1)], 3, "three is too much")


def test_who_stops_asking_does_not_wait(tmp_path: Path) -> None:
    iteration = outcomes(partial(linger, tmp_path), [0, 1, 2], 2)
    assert next(iteration) == (0, 0)
    iteration.close()
    assert active_children() == []


def test_a_process_that_dies_takes_no_other_job_with_it(tmp_path: Path) -> None:
    iteration = outcomes(partial(crash, tmp_path), [1, 2, 3, 4], 2, lambda result: True)
    told = []
    for number, result in iteration:
        told.append(number)
        if number == 2:
            assert isinstance(result, LostProcessError)
            (tmp_path / "reported").touch()
        else:
            assert result == number
    assert sorted(told) == [1, 2, 3, 4]
    assert told.index(2) < told.index(1)
    assert active_children() == []


def test_no_other_job_is_started_after_a_death_that_ends_it() -> None:
    done = list(outcomes(die_of_three, [3, 3, 1, 1, 1, 1], 2))
    assert [number for number, _ in done] == [3, 3]


def test_a_process_that_dies_while_it_is_idle_is_seen() -> None:
    worker = Worker(refuse_three)
    assert worker.start(1)
    assert worker.receive().result == 1
    worker.process.kill()
    worker.process.join()
    assert not worker.start(2)
    worker.end()
