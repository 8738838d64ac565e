"""How each cell of the suite stands: the states of its runs, summed up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thetarbm_cli.experiments.execution import theory
from thetarbm_cli.experiments.execution.plan import PlannedRun, choose_cells, make_plan
from thetarbm_cli.experiments.runs.training import Workplace
from thetarbm_cli.experiments.suite.schema import Suite

# A cell is what the worst of its runs is.
ORDER = ("failed", "running", "stale", "missing", "done")


def standing(
    place: Workplace,
    results: Path,
    suite: Suite,
    names: Sequence[str] = (),
    profile: str = "paper",
    *,
    seeds: int | None = None,
    source: str | None = None,
) -> list[dict[str, Any]]:
    """Each cell as ``status --json`` tells it."""
    wanted = [name for name in names if name != theory.NAME]
    cells = choose_cells(suite.cells(profile, source), wanted) if wanted or not names else []
    plan = make_plan(place, cells, seeds=seeds)
    table = []
    if suite.theory is not None and (not names or theory.NAME in names):
        table.append(_theory(results, suite))
    for cell in cells:
        runs = [run for run in plan if cell.name in run.cells]
        worst = min(runs, key=lambda run: ORDER.index(run.state))
        table.append(
            {
                "experiment": cell.experiment,
                "cell": cell.name,
                "seeds": len(runs),
                "done": sum(run.state == "done" for run in runs),
                "state": worst.state,
                "reason": _reason(runs, worst),
            }
        )
    return table


def _theory(results: Path, suite: Suite) -> dict[str, Any]:
    assert suite.theory is not None
    reason = theory.why_due(results, suite.theory)
    state = "done" if not reason else "missing" if reason == "never run" else "stale"
    cell = {"experiment": theory.NAME, "cell": theory.NAME, "seeds": 1, "done": int(not reason)}
    return {**cell, "state": state, "reason": reason}


def _reason(runs: list[PlannedRun], worst: PlannedRun) -> str:
    """Why the cell is not done; the seeds are named if others are."""
    due = [run for run in runs if run.state == worst.state]
    if worst.state == "done" or len(due) == len(runs):
        return worst.reason
    return f"seed {', '.join(str(run.seed) for run in due)}: {worst.reason}"
