from __future__ import annotations

from scripts.evidence import CELLS, Evidence
from tests.records import training_for
from thetarbm_cli.results import collect
from thetarbm_cli.store import Training
from thetarbm_cli.suite import load_suite, shipped_path

SUITE = load_suite(shipped_path(), check_settings=False)
SHIPPED = {cell.name: cell for cell in SUITE.cells("paper")}


def evidence(*trainings: Training) -> Evidence:
    found = collect(SUITE, "paper", trainings, in_tables=False)
    return Evidence(SUITE, [each for each in found if each.source.is_papers], None)


def measured(cell: str, seed: int = 0, **numbers: float) -> Training:
    return training_for(
        SHIPPED[cell], seed, test_error_percent=10.0 + seed, gamma_train=0.25, **{"gamma_test": 0.5, **numbers}
    )


def rows(text: str) -> list[list[str]]:
    """Words of the lines of a table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[word.strip() for word in line.strip("|").split("|")] for line in lines[2:]]


def test_cells_are_in_the_suite_and_without_records_the_command_is_told() -> None:
    assert set(CELLS) <= {assumption.name for assumption in SUITE.assumptions}
    assert evidence().of("biases") == ""
    for name in CELLS.keys() - {"data"}:
        text = evidence().of(name)
        assert text.startswith("No records yet: `thetarbm run ")
        for experiment in text.partition("thetarbm run ")[2].partition("`")[0].split():
            assert any(cell.experiment == experiment for cell in SHIPPED.values())


def test_only_cells_with_runs_have_a_line_with_mean_deviation_and_published_value() -> None:
    records = [measured("theta-full", seed, mean_activation=0.125) for seed in (0, 1)]
    (row,) = rows(evidence(*records).of("tensor"))
    assert row == ["`theta-full`", "10.50 ± 0.71", "0.5000 ± 0.0000", "0.125", "2"]
    both = rows(evidence(*records, measured("theta/sparsity=0.3")).of("tensor"))
    assert both == [["`theta/sparsity=0.3`", "10.00 (10.31)", "0.5000 (0.9062)", "0.300", "1"], row]
    assert "error in % 0.71 (`theta-full`), γ test 0.0000" in evidence(*records).of("seeds")


def test_runs_that_are_in_several_cells_count_once_where_runs_are_counted() -> None:
    def scored(seed: int, mean: float, ratio: float, dead: int) -> Training:
        scores = {"gamma": mean, "gamma_ratio": ratio, "dead_units": dead}
        numbers = {f"{name}_{role}": value for name, value in scores.items() for role in ("train", "test")}
        return training_for(SHIPPED["theta/sparsity=0.3"], seed, **numbers)

    known = evidence(scored(0, 0.5, 0.51, 0), scored(1, 0.5, 0.47, 3))
    assert sum(bool(known.numbers[0].trainings(cell)) for cell in known.numbers[0].cells) > 1
    assert "Over 4 γ-scores the two ways differ by 0.0200 on average, by 0.0300 at most." in known.of("gamma-mean")
    assert "2 of 4 γ-scores leave out dead units, 3 at most." in known.of("dead-units")
    assert "None of 2 γ-scores leaves out a unit." in evidence(scored(0, 0.5, 0.5, 0)).of("dead-units")
