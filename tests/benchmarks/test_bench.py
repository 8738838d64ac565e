import json
from itertools import count

import numpy as np
import pytest

from thetarbm_cli.benchmarks import timing
from thetarbm_cli.benchmarks.epochs import epoch_of, literal_theta_epoch
from thetarbm_cli.benchmarks.goals import Ratio, Sizes
from thetarbm_cli.benchmarks.machine import describe_machine
from thetarbm_cli.benchmarks.parts import Part
from thetarbm_cli.benchmarks.payoffs import Payoff
from thetarbm_cli.benchmarks.peers import choose_peers, left_out_peers
from thetarbm_cli.benchmarks.ratios import measure_ratios
from thetarbm_cli.benchmarks.report import bench_report, write_report
from thetarbm_cli.benchmarks.scaling import Scaling, measure_scaling
from thetarbm_cli.errors import InputError
from thetarbm_cli.models import ThetaRBM

SMALL = Sizes(
    images=300,
    hidden=10,
    rounds=1,
    svm_epochs=1,
    svm_tested=50,
    oriented=50,
    rotated_by_peer=5,
    gamma_images=60,
    fine_rotations=12,
)


def test_a_ratio_is_the_median_over_rounds_of_jobs_that_take_turns(monkeypatch):
    clock = count()
    calls = []
    # Every reading of the clock is one tick; the job reads it twice more, so it takes 3 ticks and the base 1.
    monkeypatch.setattr(timing.time, "perf_counter", lambda: float(next(clock)))

    def job():
        calls.append("job")
        next(clock), next(clock)

    compared = timing.compare(job, lambda: calls.append("base"), rounds=3)
    assert compared == timing.Comparison(seconds=3.0, base_seconds=1.0, ratio=3.0)
    assert calls == ["job", "base"] * 4
    calls.clear()
    timing.compare(job, lambda: calls.append("base"), rounds=2, warm=True)
    assert calls == ["job", "base"] * 2


def test_a_goal_is_met_on_its_own_side():
    assert Ratio("a", 1.2, 1.25, at_most=True).met
    assert not Ratio("a", 1.3, 1.25, at_most=True).met
    assert Ratio("b", 21.0, 20.0, at_most=False).met
    assert not Ratio("b", 19.0, 20.0, at_most=False).met


def test_a_figure_of_two_jobs_tells_their_times():
    compared = timing.Comparison(seconds=4.5, base_seconds=0.5, ratio=9.0)
    assert Ratio.of("a", compared, 2.0, at_most=False) == Ratio("a", 9.0, 2.0, False, note="4.5 s / 0.5 s")
    nine = Ratio.of("a", compared, 1.25, at_most=True, parts=9, note="few")
    assert nine == Ratio("a", 1.0, 1.25, True, note="4.5 s / (9 × 0.5 s), few")


def test_the_literal_version_trains_the_same_machine(mnist_rot):
    """Random numbers differ, so weights do; but the reconstructions get better alike."""
    images = mnist_rot.part("train")[0][:500]
    errors = []
    for kind in (epoch_of, literal_theta_epoch):
        model = ThetaRBM(20, tensor="full", sparsity=None, backend="numpy")
        trainer = model.trainer(images)
        model.trainer = lambda _, trainer=trainer: trainer
        state = trainer.start()
        trainer.start = lambda state=state: state
        job = kind(model, images)
        for _ in range(8):
            job()
        model._set_parameters(state.parameters)
        standardised = model._standardised(images, model._orientations(images, None))
        again = model._standardised(model.reconstruct(images), model._orientations(images, None))
        errors.append(float(((standardised - again) ** 2).mean()))
    assert errors[0] < 0.95
    assert errors[0] == pytest.approx(errors[1], rel=0.05)


def test_every_figure_of_a_small_bench_is_there_and_recorded(mnist_rot, tmp_path):
    (train, labels), (test, _) = mnist_rot.part("train"), mnist_rot.part("test")
    seen = []
    ratios = measure_ratios(train, labels, test, SMALL, ["sklearn"], 1, on_ratio=seen.append)
    assert seen == ratios
    assert len(ratios) == 12
    assert all(np.isfinite(ratio.value) and ratio.value > 0 for ratio in ratios)
    by_name = {ratio.name: ratio for ratio in ratios}
    # 15 s are the goal for 50,000 images.
    assert by_name["orientation of 50 images"].goal == 0.015
    assert "support vectors, 50 images" in by_name["SVC.predict / our prediction"].note
    scaling = [Scaling("images", [1, 2], [0.1, 0.2], [1.0, 2.0], 1.0), Scaling("hidden", [1, 2], [1, 2], [1, 2], 1.0)]
    payoffs = [Payoff("batch", "200 images instead of 100", 1.05), Payoff("float16", "300 images", 0.9, 0.5)]
    parts = [Part("RBM epoch", "sigmoid", 0.125), Part("RBM epoch", "everything else", 0.875)]
    report = bench_report(describe_machine(1), SMALL, ratios, parts, scaling, payoffs, ["torch (not installed)"], 784)
    assert {"name", "value", "goal", "met"} <= report["ratios"][0].keys()
    record, page, plot = write_report(report, tmp_path / "bench")
    assert json.loads(record.read_text()) == report
    assert report["machine"]["threads"] == 1
    text = page.read_text()
    for ratio in ratios:
        assert f"| {ratio.name} " in text
    for words in (
        "Left out: torch (not installed).",
        "| hidden | 1.00 ",
        "200 images instead of 100",
        "scaling.png",
        "| sigmoid ",
    ):
        assert words in text
    assert report["machine"]["processor"] in text
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_an_exponent_is_the_slope_of_the_logarithms(mnist_rot, monkeypatch):
    monkeypatch.setattr(
        "thetarbm_cli.benchmarks.scaling._epoch", lambda images, sizes, rounds: (sizes["hidden"] ** 2.0, 1.0)
    )
    by_axis = {axis.axis: axis for axis in measure_scaling(mnist_rot.part("train")[0])}
    assert by_axis["hidden"].exponent == pytest.approx(2.0)
    assert by_axis["rotations"].exponent == pytest.approx(0.0)
    assert by_axis["images"].values == [1250, 2500, 5000, 10000]


def test_epochs_of_every_size_are_measured_with_their_memory(mnist_rot):
    scaling = measure_scaling(mnist_rot.part("train")[0][:80], rounds=1)
    assert [axis.axis for axis in scaling] == ["images", "hidden", "rotations", "batch"]
    for axis in scaling:
        assert all(later == 2 * earlier for earlier, later in zip(axis.values[:-1], axis.values[1:], strict=True))
        assert len(axis.values) == len(axis.seconds) == len(axis.peak_megabytes) == 4
        assert min(axis.seconds) > 0
    hidden = scaling[1].peak_megabytes
    # Weights, their increments and the random start: the memory grows with them.
    assert hidden[3] - hidden[2] > 500 * 784 * 4 * 2 / 2**20


def test_peers_are_chosen_by_name(monkeypatch):
    assert "sklearn" in choose_peers(None)
    monkeypatch.setattr("thetarbm_cli.benchmarks.peers.installed", lambda name: name != "torch")
    assert left_out_peers(["sklearn"]) == ["torch (not installed)", "learnergy"]
    with pytest.raises(InputError, match="the peer torch is not installed"):
        choose_peers("torch")
    with pytest.raises(InputError, match="unknown peer 'keras'"):
        choose_peers("sklearn,keras")
