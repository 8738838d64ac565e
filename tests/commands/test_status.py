from __future__ import annotations

from pathlib import Path

from tests.records import save, training_for
from tests.runs import Command
from tests.suites import write_suite
from thetarbm_cli.suite import load_suite

NUMBERS = {"test_error_percent": 1.0, "gamma_train": 0.5, "gamma_test": 0.5}


def test_every_cell_with_its_state_and_reason(thetarbm: Command, tmp_path: Path) -> None:
    path = write_suite(tmp_path)
    cells = load_suite(path).cells("paper")
    older = training_for(cells[2], 0, **NUMBERS)
    older.spec = older.spec.model_copy(update={"algorithm": 0})
    save(tmp_path / "results", training_for(cells[0], 0, **NUMBERS), training_for(cells[0], 1, **NUMBERS), older)
    arguments = ["status", "--suite", str(path)]
    empty = tmp_path / "empty"
    told = thetarbm(*arguments, "--json", data_dir=empty)
    assert told.code == 3
    assert told.json["due"] == 3
    assert [(cell["cell"], cell["seeds"], cell["state"], cell["reason"]) for cell in told.json["cells"]] == [
        ("rbm/sparsity=0.3", 2, "done", ""),
        ("rbm/sparsity=0.1", 2, "missing", "never run"),
        ("theta/sparsity=0.3", 2, "stale", "seed 0: algorithm changed from 0 to 1"),
        ("theta/sparsity=0.1", 2, "missing", "never run"),
        ("again", 2, "done", ""),
    ]
    text = thetarbm(*arguments, data_dir=empty)
    cells = ["theta/sparsity=0.3", "0/2", "stale", "seed 0: algorithm changed from 0 to 1"]
    assert cells in [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.out.splitlines()]
    assert text.err == "3 of 5 cells lack runs\n"


def test_runs_on_other_images_are_named(thetarbm: Command, tmp_path: Path) -> None:
    path = write_suite(tmp_path)
    cells = load_suite(path).cells(source="bilinear")
    # The last cell has the trainings of the first.
    made = [training_for(cell, seed, **NUMBERS) for cell in cells[:-1] for seed in (0, 1)]
    arguments = ["status", "--suite", str(path)]
    for part, how_many in ((made[:2], "2"), (made[2:], "all")):
        save(tmp_path / "results", *part)
        told = thetarbm(*arguments, data_dir=tmp_path / "empty")
        assert (told.code, f"; {how_many} are recorded for --source bilinear\n" in told.err) == (3, True)
    assert thetarbm(*arguments, "--source", "bilinear", data_dir=tmp_path / "empty").code == 0


def test_a_cell_is_done_though_another_wants_more_of_its_run(thetarbm: Command, tmp_path: Path) -> None:
    path = write_suite(tmp_path)
    path.write_text(path.read_text() + "    offsets: [5]\n")
    cells = load_suite(path).cells("paper")
    save(tmp_path / "results", *(training_for(cells[0], seed, **NUMBERS) for seed in (0, 1)))
    told = thetarbm("status", "rbm/sparsity=0.3", "again", "--suite", str(path), "--json", data_dir=tmp_path / "empty")
    states = {cell["cell"]: (cell["state"], cell["reason"]) for cell in told.json["cells"]}
    assert states == {"rbm/sparsity=0.3": ("done", ""), "again": ("missing", "trained, not measured yet")}


def test_runs_of_another_profile_are_not_taken_for_older_ones(thetarbm: Command, tmp_path: Path) -> None:
    path = write_suite(tmp_path)
    save(tmp_path / "results", training_for(load_suite(path).cells("tiny")[0], 0, **NUMBERS))
    told = thetarbm("status", "rbm/sparsity=0.3", "--suite", str(path), "--json", data_dir=tmp_path / "empty")
    assert [cell["state"] for cell in told.json["cells"]] == ["missing"]
