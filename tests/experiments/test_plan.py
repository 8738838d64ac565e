from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.runs import context_of
from tests.experiments.suites import SMALL, record_for, save, write_suite
from thetarbm_cli import storage
from thetarbm_cli.data.prepare import prepared_checksum
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.execution.plan import PlannedRun, RecordedRuns, choose_cells, make_plan, suite_status
from thetarbm_cli.experiments.runs.settings import run_id
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outputs import SuiteCell


@pytest.fixture
def cells(tmp_path: Path) -> list[Cell]:
    return load_suite(write_suite(tmp_path)).cells("tiny")


def plan(tmp_path: Path, cells: list[Cell], data_dir: Path | None = None, **options: object) -> list[PlannedRun]:
    return make_plan(context_of(data_dir or tmp_path / "nowhere", tmp_path), cells, **options)


def named(runs: list[PlannedRun], cell: str) -> PlannedRun:
    return next(run for run in runs if cell in run.cells)


def test_equal_settings_are_one_run_with_all_its_measures(tmp_path: Path, cells: list[Cell]) -> None:
    runs = plan(tmp_path, cells)
    assert [run.cells for run in runs] == [
        ("rbm/sparsity=0.3", "again"),
        ("rbm/sparsity=0.1",),
        ("theta/sparsity=0.3",),
        ("theta/sparsity=0.1",),
    ]
    assert ["gamma" in run.measures for run in runs] == [True, True, False, False]
    assert all((run.state, run.reason) == ("missing", "never run") for run in runs)


def test_seeds_multiply_runs_but_not_beyond_what_makes_sense(tmp_path: Path) -> None:
    text = SMALL.replace("label: the same", "label: the same\n    seeds: 1").replace("name: again", "name: alone")
    cells = load_suite(write_suite(tmp_path, text.replace("{sparsity: 0.3}\n    m", "{floor: 0.5}\n    m"))).cells(
        "paper"
    )
    assert [run.seed for run in plan(tmp_path, cells)] == [0, 1] * 4 + [0]
    assert [run.seed for run in plan(tmp_path, cells, seeds=3)] == [0, 1, 2] * 4 + [0]


def test_names_choose_experiments_cells_patterns_and_tables(tmp_path: Path) -> None:
    cells = load_suite(write_suite(tmp_path, SMALL + "    on_request: true\n")).cells("tiny")

    def chosen(*names: str) -> list[str]:
        return [cell.name for cell in choose_cells(cells, names)]

    assert chosen("theta") == ["theta/sparsity=0.3", "theta/sparsity=0.1"]
    assert chosen("rbm/sparsity=0.1") == chosen("r*=0.1") == ["rbm/sparsity=0.1"]
    assert chosen("2") == ["rbm/sparsity=0.3", "rbm/sparsity=0.1"]
    # What waits to be named is left out.
    assert chosen() == chosen("1")
    assert chosen("again") == ["again"]
    with pytest.raises(InputError, match="'xyz'; it has rbm, theta, again"):
        choose_cells(cells, ["rbm", "xyz"])
    with pytest.raises(InputError, match=r"'theta/sparsity=0.35'; did you mean theta/sparsity=0.3\?"):
        choose_cells(cells, ["theta/sparsity=0.35"])


def test_a_record_with_its_measures_is_done_without_data_and_weights(tmp_path: Path, cells: list[Cell]) -> None:
    save(tmp_path, record_for(cells[0], test_error_percent=1.0, gamma_train=0.5, gamma_test=0.5))
    save(tmp_path, record_for(cells[2], test_error_percent=1.0))
    runs = plan(tmp_path, cells)
    assert [run.state for run in runs] == ["done", "missing", "done", "missing"]
    assert runs[0].run == record_for(cells[0]).run


def test_a_record_without_a_wanted_measure_is_due(tmp_path: Path, cells: list[Cell]) -> None:
    save(tmp_path, record_for(cells[0], test_error_percent=1.0))
    run = named(plan(tmp_path, cells), "again")
    assert (run.state, run.reason) == ("missing", "trained, not measured yet")
    (alone,) = plan(tmp_path, [cell for cell in cells if cell.name == "again"])
    assert alone.state == "done"


def test_the_nearest_record_of_the_cell_gives_the_reason(tmp_path: Path) -> None:
    def cell(parameters: str) -> Cell:
        text = SMALL.replace("hidden: 20, epochs: 3", parameters)
        return next(c for c in load_suite(write_suite(tmp_path, text)).cells("tiny") if c.name == "theta/sparsity=0.3")

    save(tmp_path, record_for(cell("hidden: 5, epochs: 9, momentum: 0.1"), test_error_percent=1.0))
    save(tmp_path, record_for(cell("hidden: 20, epochs: 4, momentum: 0.5"), test_error_percent=1.0))
    (run,) = plan(tmp_path, [cell("hidden: 20, epochs: 3, momentum: 0.2")])
    assert run.reason == "parameter epochs changed from 4 to 3; parameter momentum changed from 0.5 to 0.2"


def test_other_profiles_and_runs_by_hand_are_no_reason(tmp_path: Path, cells: list[Cell]) -> None:
    paper = load_suite(write_suite(tmp_path)).cells("paper")
    by_hand = record_for(cells[3], test_error_percent=1.0)
    save(tmp_path, record_for(paper[2], test_error_percent=1.0))
    save(tmp_path, by_hand.model_copy(update={"cells": [], "run": "theta-0", "seed": 7}))
    assert {run.reason for run in plan(tmp_path, cells)} == {"never run"}


def test_an_older_algorithm_is_stale(tmp_path: Path, cells: list[Cell]) -> None:
    save(tmp_path, record_for(cells[2], test_error_percent=1.0).model_copy(update={"algorithm": 0}))
    run = named(plan(tmp_path, cells), "theta/sparsity=0.3")
    assert (run.state, run.reason) == ("stale", "algorithm version changed from 0 to 1")


def test_other_data_is_stale_where_the_data_is_known(tmp_path: Path, cells: list[Cell], small_data: Path) -> None:
    save(tmp_path, record_for(cells[2], test_error_percent=1.0))
    run = named(plan(tmp_path, cells, small_data), "theta/sparsity=0.3")
    assert (run.state, run.reason) == ("stale", "data: the prepared images have another checksum")
    assert named(plan(tmp_path, cells), "theta/sparsity=0.3").state == "done"


def test_running_and_cut_off_runs_are_recognised(tmp_path: Path, cells: list[Cell], small_data: Path) -> None:
    checksum = prepared_checksum(small_data, "mnist-rot", "generated")
    store = RunStore(tmp_path)
    names = [run_id(cell.settings(), {"train": checksum, "test": checksum}, 0) for cell in cells[2:4]]
    storage.write_text(store.checkpoint_path(names[1]), "")
    suite = load_suite(write_suite(tmp_path))
    with store.locked(names[0]):
        runs = plan(tmp_path, cells[2:4], small_data)
        status = suite_status(RecordedRuns(context_of(small_data, tmp_path)), suite, ["theta"], "tiny")
    assert [run.run for run in runs] == names
    assert [(each.state, each.reason) for each in status] == [(run.state, run.reason) for run in runs]
    assert [(run.state, run.reason) for run in runs] == [
        ("running", "another process works on it"),
        ("missing", "cut off: goes on from its checkpoint"),
    ]
    assert [run.state for run in plan(tmp_path, cells[2:4], small_data)] == ["missing", "missing"]


def test_records_of_another_source_are_no_runs_of_this_one(tmp_path: Path, cells: list[Cell]) -> None:
    save(tmp_path, record_for(cells[2], source="official", test_error_percent=1.0))
    assert named(plan(tmp_path, cells), "theta/sparsity=0.3").reason == "never run"
    official = load_suite(write_suite(tmp_path)).cells("tiny", "official")
    assert named(plan(tmp_path, official), "theta/sparsity=0.3").state == "done"


def test_status_asks_models_only_where_records_do_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load_suite(write_suite(tmp_path))
    context = context_of(tmp_path / "nowhere", tmp_path)
    numbers = {"test_error_percent": 5.0, "gamma_train": 0.5, "gamma_test": 0.5}
    checks: list[str] = []

    def status() -> list[SuiteCell]:
        return suite_status(RecordedRuns(context), suite, profile="tiny", check=lambda: checks.append("checked"))

    with monkeypatch.context() as patched:
        patched.setattr(Cell, "settings", lambda cell: pytest.fail("a model is asked"))
        assert {each.reason for each in status()} == {"never run"}
    for count, cell in enumerate(suite.cells("tiny")):
        found = status()
        assert [each.state for each in found if each.cell == cell.name] == (["done"] if count == 4 else ["missing"])
        save(tmp_path, record_for(cell, **numbers))
    checks.clear()
    monkeypatch.setattr(Cell, "settings", lambda cell: pytest.fail("a model is asked"))
    assert {each.state for each in status()} == {"done"}
    assert checks == []
    monkeypatch.undo()
    with context.store.locked(RunStore(tmp_path).identifiers()[0]):
        assert "running" in {each.state for each in status()}
