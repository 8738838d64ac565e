from itertools import count

import pytest

from tests.benchmarks.test_bench import SMALL
from thetarbm_cli.benchmarks import timing
from thetarbm_cli.benchmarks.parts import REST, Part, measure_parts, shares


def test_shares_are_of_the_whole_and_leave_the_rest(monkeypatch):
    clock = count()
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(clock)))

    def ticks(number):
        # Reading the clock before and after is one tick by itself.
        return lambda: [next(clock) for _ in range(number - 1)]

    found = shares("job", ticks(16), {"small": ticks(2), "large": ticks(10)}, rounds=3)
    assert found == [Part("job", "large", 0.625), Part("job", "small", 0.125), Part("job", REST, 0.25)]


def test_every_part_of_both_jobs_is_measured(mnist_rot):
    (train, _), (test, _) = mnist_rot.part("train"), mnist_rot.part("test")
    seen = []
    parts = measure_parts(train[:300], test[:40], SMALL, on_part=seen.append)
    assert seen == parts
    by_job = {of: [part for part in parts if part.of == of] for of in ("RBM epoch", "γ-score")}
    assert [len(by_job["RBM epoch"]), len(by_job["γ-score"])] == [6, 8]
    for job in by_job.values():
        assert sum(part.share for part in job) == pytest.approx(1)
        assert all(part.share > 0 for part in job[:-1])
        assert job[-1].name == REST
