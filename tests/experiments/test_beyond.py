"""What goes beyond the paper, from the settings to the numbers of a record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.svm import SVC

from tests.experiments.runs import Command, parts_of, record_of
from thetarbm_cli.experiments.runs.loading import load_checked, load_model
from thetarbm_cli.experiments.runs.settings import run_id
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.measures.svm import class_pairs
from thetarbm_cli.models.local_theta import LocalThetaRBM

COMMITTED = Path(__file__).parents[2] / "results"
LOCAL = ("train", "--model", "theta-local", "--profile", "tiny", "--seed", "1", "--json")
SETTINGS = ("hypotheses=0.8", "rotations=24", "orientation_smoothing=15.0", "fields=500", "svm.C=3", "svm.gamma=0.05")


def words(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


def test_new_settings_leave_the_ids_of_committed_runs_as_they_were() -> None:
    store = RunStore(COMMITTED)
    records = store.load_all()
    assert len(records) == len(store.identifiers()) > 100
    for record in records:
        assert run_id(record.settings, record.checksums, record.seed, record.backend) == record.run


def test_error_of_several_orientations_is_that_of_svc_on_summed_decisions(
    thetarbm: Command, tmp_path: Path, small_data: Path
) -> None:
    results = tmp_path / "results"
    run = thetarbm(*LOCAL, *words(*SETTINGS, "data.protocol=final")).json["run"]
    row = thetarbm("evaluate", run, "--json").json["runs"][0]
    context = RunContext(small_data, RunStore(results))
    model = load_model(context, load_checked(context, run))
    assert isinstance(model, LocalThetaRBM)
    shown = thetarbm("show", run, "--json").json
    assert shown["svm"] == {"C": 3.0, "gamma": 0.05}
    parts = parts_of(small_data)
    train, test = [np.concatenate([parts["train"][k], parts["valid"][k]]) for k in (0, 1)], parts["test"]
    rows, index = model.candidate_orientations(train[0])
    machine = SVC(C=3.0, gamma=0.05, decision_function_shape="ovo")
    machine.fit(model.transform(train[0][rows], orientations=index).astype(np.float64), train[1][rows])
    rows, index = model.candidate_orientations(test[0])
    assert len(rows) > len(test[0])
    values = machine.decision_function(model.transform(test[0][rows], orientations=index).astype(np.float64))
    wrong = 0
    for image, label in enumerate(test[1]):
        sums = values[rows == image].sum(axis=0)
        votes = np.zeros(10, dtype=int)
        for value, (first, second) in zip(sums, class_pairs(10), strict=True):
            votes[first if value > 0 else second] += 1
        wrong += int(votes.argmax()) != label
    assert row["test_error_percent"] == pytest.approx(100 * wrong / len(test[1]), abs=0.5)
    assert record_of(results, run)["metrics"]["svm"]["C"] == 3.0
    # Nine turns by Δ = 20° and 40° more each, however many orientations the model knows.
    assert 0 < row["gamma_test"] < 1.2
    # Nothing is chosen on images that were learned from.
    thetarbm("evaluate", run, "--grid-search").assert_refused("learns from the validation images", "protocol=choice")


def test_a_grid_search_judges_several_orientations_as_the_test_error_does(thetarbm: Command, tmp_path: Path) -> None:
    run = thetarbm(*LOCAL, *words("hypotheses=0.8", "fields=500", "data.protocol=choice")).json["run"]
    thetarbm("evaluate", run, "--grid-search", "--json")
    metrics = record_of(tmp_path / "results", run)["metrics"]
    # Under this protocol the images that are tested are the validation images.
    own = {name: metrics["svm"][name] for name in ("C", "gamma")}
    errors = {
        point["validation_error_percent"] for point in metrics["grid_search"]["grid"] if own.items() <= point.items()
    }
    assert errors == {metrics["svm"]["test_error_percent"]}
    assert metrics["grid_search"]["validation_error_percent"] == metrics["grid_search"]["test_error_percent"]
