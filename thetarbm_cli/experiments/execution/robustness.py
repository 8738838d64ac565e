"""Table 3: the θ-RBM's test error when the orientations it learns from are perturbed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from thetarbm_cli.experiments.execution.local import each
from thetarbm_cli.experiments.runs.evaluation import evaluate_run
from thetarbm_cli.experiments.runs.settings import RunSettings, resolve
from thetarbm_cli.experiments.runs.training import Workplace, train_run
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite_file import shipped_path

PAPER_N = (1, 2, 3, 4)
PAPER_P = (0.1, 0.2, 0.3, 0.4)


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    n: int
    p: float
    test_error_percent: float
    run: str


@dataclass(frozen=True)
class Robustness:
    """The whole table."""

    scope: str
    unperturbed_error_percent: float
    cells: list[Cell]


@dataclass(frozen=True)
class PublishedTable:
    """Table 3 of the paper: test errors in percent by (n, p), and the unperturbed one."""

    errors: dict[tuple[int, float], float]
    unperturbed: float


def published_table() -> PublishedTable:
    """Table 3 as the shipped suite has it."""
    cells = load_suite(shipped_path(), check_settings=False).cells()
    table = [cell for cell in cells if "3" in cell.tables]
    unperturbed = table[0].unperturbed(cells)
    assert unperturbed is not None
    return PublishedTable(
        {(cell.at["n"], cell.at["p"]): cell.published["test_error_percent"] for cell in table},
        unperturbed.published["test_error_percent"],
    )


def perturbation_table(
    place: Workplace,
    *,
    n_values: tuple[int, ...] = PAPER_N,
    p_values: tuple[float, ...] = PAPER_P,
    scope: str = "train",
    profile: str = "paper",
    data: dict[str, Any] | None = None,
    parameters: dict[str, Any] | None = None,
    seed: int = 0,
    processes: int = 1,
    on_cell: Callable[[str], None] | None = None,
) -> Robustness:
    """Train and test the unperturbed θ-RBM and one for each n and p; finished cells are found again."""
    common: dict[str, Any] = {"profile": profile, "data": data, "parameters": parameters}
    unperturbed = resolve("theta", **common)
    grid = {
        resolve("theta", perturbation={"n": n, "p": p, "scope": scope}, **common).model_dump_json(): (n, p)
        for n in n_values
        for p in p_values
    }
    jobs = [unperturbed.model_dump_json(), *grid]
    errors = {}
    for job, (run, error) in each(partial(_cell, place, seed), jobs, processes):
        errors[job] = (run, error)
        if on_cell is not None:
            name = "unperturbed" if job not in grid else "n = {}, p = {:g}".format(*grid[job])
            on_cell(f"{name}: {error:.2f} % ({len(errors)} of {len(jobs)})")
    return Robustness(
        scope,
        errors[jobs[0]][1],
        [Cell(n, p, errors[job][1], errors[job][0]) for job, (n, p) in grid.items()],
    )


def _cell(place: Workplace, seed: int, settings_json: str) -> tuple[str, float]:
    """Run id and test error of one cell."""
    trained = train_run(place, RunSettings.model_validate_json(settings_json), seed)
    record, _ = evaluate_run(place, trained.record.run, with_gamma=False)
    assert record.metrics is not None
    return record.run, record.metrics["svm"]["test_error_percent"]
