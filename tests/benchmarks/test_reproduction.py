import json

import pytest

from benchmarks.reproduction import RecordedTimes, logged_time, products_ratio, recorded_times
from tests.records import save
from tests.reporting.numbers import trainings
from thetarbm_cli.errors import InputError
from thetarbm_cli.store import Store
from thetarbm_cli.suite import load_suite, shipped_path

# Tables 1 and 2: four models at three targets; two controls; Table 3: 16 cells; "Training on mnist": two models.
WANTED = 12 + 2 + 16 + 2


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "results", tmp_path / "data")


def test_the_records_are_summed_up_seed_by_seed_and_the_fastest_seed_counts(store):
    for training in trainings(lambda cell, column: 0.5, seeds=2):
        training.seconds = 100.0
        # However many measurements there are, the first has taken it all.
        training.measurements[0].seconds = 20.0 if training.spec.seed == 0 else 10.0
        save(store.results, training)
    recorded = recorded_times(store, load_suite(shipped_path()))
    # The two controls have seed 0 alone.
    second = 110.0 * (WANTED - 2) + 120.0 * 2
    assert recorded == RecordedTimes(seconds={0: 120.0 * WANTED, 1: second}, runs=WANTED, wanted=WANTED)
    ratio = recorded.ratio()
    assert ratio.value == pytest.approx(second / 2 / 60)
    assert (ratio.unit, ratio.goal, ratio.met) == ("min", 17.0, False)


def test_products_are_counted_for_every_run_once():
    ratio = products_ratio(20.0, load_suite(shipped_path()), 1e-5)
    seen, epochs, images = 60_000, 30, 10_000
    learned = 5 * epochs * images
    kernels = 2 * seen * images / 784
    measured = {
        "rbm, theta": 6 * (learned + 11 * seen + kernels),
        "orbm, aligned and not": 3 * (learned + 2 * (11 * seen + kernels)),
        "tirbm": 3 * (9 * (learned + 11 * seen) + kernels),
        "table 3": 16 * (learned + seen + kernels),
        "controls": 2 * kernels,
        "mnist": (learned + 11 * seen + kernels) + (9 * (learned + 11 * seen) + kernels),
    }
    assert ratio.value == pytest.approx(20.0 * 60 * 2 / (sum(measured.values()) * 1e-5))


def test_a_part_of_the_records_gives_no_figure(store):
    assert recorded_times(store, load_suite(shipped_path())) == RecordedTimes({}, 0, WANTED)
    save(store.results, *trainings(lambda cell, column: 0.5, seeds=1)[:5])
    recorded = recorded_times(store, load_suite(shipped_path()))
    assert recorded.runs == 5
    assert recorded.ratio() is None


def test_a_log_tells_the_wall_time_and_one_of_something_else_is_refused(tmp_path):
    log = tmp_path / "run.json"
    log.write_text(json.dumps({"done": 33, "cached": 0, "failed": 0, "seconds": 1500.0, "runs": []}))
    ratio = logged_time(log)
    assert (ratio.value, ratio.met, ratio.note) == (25.0, False, "wall time of 33 runs")
    for text, fact in (
        ("[]", "run.json"),
        ('{"done": 3, "cached": 2, "failed": 0, "seconds": 9}', "3 runs made and 2"),
    ):
        log.write_text(text)
        with pytest.raises(InputError, match=fact):
            logged_time(log)
