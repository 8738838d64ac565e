import numpy as np
import pytest
from threadpoolctl import threadpool_info

from thetarbm_cli.benchmarks import payoffs
from thetarbm_cli.benchmarks.goals import Sizes
from thetarbm_cli.benchmarks.payoffs import HalfImages, Payoff, conclusions, measure_payoffs
from thetarbm_cli.models import ThetaRBM

SMALL = Sizes(hidden=10, rounds=2, payoff_images=600)


@pytest.fixture
def images(mnist_rot):
    return mnist_rot.part("train")[0][:1000]


def test_every_change_is_tried_as_far_as_the_images_reach(images, monkeypatch):
    monkeypatch.setattr(payoffs, "cores", lambda: 2)
    limits = []
    # Two threads on small products can be slow beyond measure where others use the machine.
    monkeypatch.setattr(payoffs, "_with_threads", lambda job, threads: limits.append(threads) or job)
    seen = []
    tried = measure_payoffs(images, SMALL, on_payoff=seen.append)
    assert seen == tried
    assert [(payoff.change, payoff.setting) for payoff in tried] == [
        ("batch", "200 images instead of 100"),
        ("batch", "500 images instead of 100"),
        ("float16", "600 images"),
        ("threads", "2 instead of 1, batch 100, 10 hidden"),
        ("threads", "2 instead of 1, batch 500, 10 hidden"),
        ("threads", "2 instead of 1, batch 100, 40 hidden"),
        ("threads", "2 instead of 1, batch 500, 40 hidden"),
    ]
    assert all(payoff.speedup > 0 for payoff in tried)
    assert [payoff.memory for payoff in tried] == [1, 1, 0.5, 1, 1, 1, 1]
    assert limits == [1, 2] * 4


def test_one_core_has_no_second_thread(images, monkeypatch):
    monkeypatch.setattr(payoffs, "cores", lambda: 1)
    assert {payoff.change for payoff in measure_payoffs(images, SMALL)} == {"batch", "float16"}


def test_images_in_float16_train_the_same_machine(images):
    """Half the digits of the inputs, the same course: an epoch's error is what it was to three digits."""
    errors = []
    for half in (False, True):
        trainer = ThetaRBM(20, backend="numpy").trainer(images)
        if half:
            trainer.inputs = HalfImages(trainer.inputs)
            assert trainer.inputs.stored.nbytes == images.nbytes // 2
        state = trainer.start()
        trainer.run(state, 2)
        errors.append(state.history[-1].reconstruction_error)
    assert errors[0] != errors[1]
    assert errors[0] == pytest.approx(errors[1], rel=1e-3)


def test_a_job_runs_under_its_number_of_threads_and_leaves_the_number_as_it_was():
    def threads():
        return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]

    np.zeros((2, 2)) @ np.zeros((2, 2))
    before, during = threads(), []
    payoffs._with_threads(lambda: during.extend(threads()), 2)()
    assert during == [2] * len(before)
    assert threads() == before


def test_conclusions_say_where_a_change_begins_to_pay(monkeypatch):
    monkeypatch.setattr(payoffs, "memory_megabytes", lambda: 784 * 4)
    tried = [
        Payoff("batch", "200", 1.05),
        Payoff("batch", "500", 1.2),
        Payoff("batch", "1000", 1.3),
        Payoff("float16", "10,000 images", 0.97, 0.5),
        Payoff("threads", "batch 100", 0.8),
    ]
    assert [payoff.pays for payoff in tried] == [False, True, True, False, False]
    assert conclusions(tried, 784) == [
        "A bigger batch pays at: 500; 1000.",
        "A second BLAS thread does not pay at any size tried.",
        "Images stored in float16 take half of the memory, which gains no speed (×0.97): "
        "it pays from about 1,048,576 images on, whose float32 fills this machine's memory.",
    ]
