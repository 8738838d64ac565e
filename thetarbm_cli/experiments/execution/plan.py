"""From cells and seeds to runs: which are done, which are missing, and why.

A record belongs to a cell by its settings, its seed, the version of the algorithm, and (where the data is prepared
here) the checksum of the data. Weights are a cache: a run whose record has all its measures is done without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from thetarbm_cli.backend import select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.execution import theory
from thetarbm_cli.experiments.runs.evaluation import is_measured
from thetarbm_cli.experiments.runs.images import prepared_checksums
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM, MOST_SEEDS, RunSettings, run_id
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.outputs import SuiteCell

State = Literal["done", "missing", "failed", "stale", "running"]


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One run of the plan; cells that ask for the same settings and seed share it.

    Attributes
    ----------
    run : id, as far as it is known: data that is not prepared yet has no checksum
    with_gamma : whether a cell wants the γ-score beside the error
    offsets : further Δ for which a cell wants γ
    reason : why it is due; empty if it is done
    """

    settings: RunSettings
    seed: int
    profile: str
    cells: tuple[str, ...]
    with_gamma: bool
    offsets: tuple[float, ...]
    run: str | None
    state: State
    reason: str
    forced: bool = False

    @property
    def experiment(self) -> str:
        """Name of the first experiment that asks for it."""
        return self.cells[0].partition("/")[0]

    def is_met_by(self, record: RunRecord) -> bool:
        """Whether a record has the numbers that its cells ask for."""
        return is_measured(record.metrics, self.with_gamma, self.offsets)

    @property
    def labels(self) -> tuple[str, ...]:
        """What the record says it was made for: ``theta/sparsity=0.3@paper``."""
        return tuple(f"{cell}@{self.profile}" for cell in self.cells)


def choose_cells(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """The cells of the named experiments or cells; without names, all that do not wait to be named.

    A name may be an experiment (``theta``), a cell (``theta/sparsity=0.3``), a pattern (``perturbation/n=1,*``) or a
    table (``fashion``), for all of its cells.
    """
    if not names:
        return [cell for cell in cells if not cell.on_request]
    for name in names:
        if not any(_is_named(cell, name) for cell in cells):
            known = ", ".join(dict.fromkeys(cell.experiment for cell in cells))
            tables = ", ".join(dict.fromkeys(table for cell in cells for table in cell.tables))
            known += f", and the tables {tables}" if tables else ""
            raise InputError(f"the suite has no experiment, cell or table {name!r}; it has {known}")
    return [cell for cell in cells if any(_is_named(cell, name) for name in names)]


def _is_named(cell: Cell, name: str) -> bool:
    return name in (cell.experiment, cell.name, *cell.tables) or fnmatchcase(cell.name, name)


def seeds_of(cell: Cell, seeds: int | None) -> int:
    """How many seeds a cell gets: what was asked for or its own number, and never more than make sense."""
    wanted = seeds or cell.seeds
    return wanted if cell.most_seeds is None else min(wanted, cell.most_seeds)


def make_plan(
    context: RunContext,
    cells: Sequence[Cell],
    *,
    seeds: int | None = None,
    forced: Sequence[str] = (),
    only_seed: int | None = None,
    records: list[RunRecord] | None = None,
) -> list[PlannedRun]:
    """All runs of these cells, in the order of the cells, each seed in turn.

    Parameters
    ----------
    seeds : number of seeds, instead of each cell's own
    forced : names of experiments or cells whose runs are due in any case
    only_seed : this seed, instead of all from 0
    records : of the results folder, where they were read before
    """
    if seeds is not None and seeds > MOST_SEEDS:
        raise InputError(f"{seeds} seeds are too many: at most {MOST_SEEDS} are planned")
    if records is None:
        records = context.store.load_all()
    plan: dict[tuple[str, int], PlannedRun] = {}
    for cell in cells:
        settings = cell.settings()
        force = any(_is_named(cell, name) for name in forced)
        for seed in range(seeds_of(cell, seeds)) if only_seed is None else [only_seed]:
            key = (settings.model_dump_json(), seed)
            shared = plan.get(key)
            planned = PlannedRun(
                settings=settings,
                seed=seed,
                profile=cell.profile,
                cells=(*(shared.cells if shared else ()), cell.name),
                with_gamma="gamma" in cell.measures or (shared is not None and shared.with_gamma),
                offsets=tuple(sorted({*cell.offsets, *(shared.offsets if shared else ())})),
                run=None,
                state="missing",
                reason="",
                forced=force or (shared is not None and shared.forced),
            )
            plan[key] = planned
    checksums = {
        settings: prepared_checksums(context.data_dir, settings)
        for settings in {run.settings.data for run in plan.values()}
    }
    fitting = {cell.name: cell for cell in cells}
    backend = select_backend(context.backend_name).name
    return [
        _with_state(context, run, fitting[run.cells[0]], records, checksums[run.settings.data], backend)
        for run in plan.values()
    ]


def _with_state(
    context: RunContext,
    run: PlannedRun,
    cell: Cell,
    records: list[RunRecord],
    checksums: dict[str, str] | None,
    backend: str,
) -> PlannedRun:
    """The run with its id, state and reason."""
    same = [record for record in records if record.seed == run.seed and cell.fits(record)]
    current = [record for record in same if record.algorithm == ALGORITHM and _on_data(record, checksums)]
    current.sort(key=lambda record: (record.state == "done", run.is_met_by(record), record.backend == backend))
    record = current[-1] if current else None
    name = record.run if record else run_id(run.settings, checksums, run.seed, backend) if checksums else None
    state, reason = _state(context, run, name, record, same, records)
    return replace(run, run=name, state=state, reason=reason)


def _state(
    context: RunContext,
    run: PlannedRun,
    name: str | None,
    record: RunRecord | None,
    same: list[RunRecord],
    records: list[RunRecord],
) -> tuple[State, str]:
    if name is not None and context.store.is_held(name):
        return "running", "another process works on it"
    if run.forced:
        return "missing", "forced"
    if record is not None:
        if record.state == "failed" or (record.error and not run.is_met_by(record)):
            return "failed", f"failed before: {record.error}"
        if run.is_met_by(record):
            return "done", ""
        return "missing", "trained, not measured yet"
    newer = None if name is None else context.store.newer_format(name)
    if newer is not None:
        return "stale", f"its record is of format {newer}, from a newer thetarbm"
    if name is not None and context.store.checkpoint_path(name).is_file():
        return "missing", "cut off: goes on from its checkpoint"
    older = [each for each in same if each.algorithm != ALGORITHM]
    if older:
        return "stale", f"algorithm version changed from {older[-1].algorithm} to {ALGORITHM}"
    if same:
        return "stale", "data: the prepared images have another checksum"
    nearest = min(
        (describe_changes(each, run.settings) for each in records if _is_older(each, run)), key=len, default=[]
    )
    if nearest:
        return "stale", "; ".join(nearest)
    return "missing", "never run"


def _is_older(record: RunRecord, run: PlannedRun) -> bool:
    """Whether a record was made for the same cell and seed, on images of the same source."""
    same_source = record.settings.data.source == run.settings.data.source
    return same_source and record.seed == run.seed and bool(set(record.cells) & set(run.labels))


def _on_data(record: RunRecord, checksums: dict[str, str] | None) -> bool:
    return checksums is None or {role: each["sha256"] for role, each in record.data.items()} == checksums


def describe_changes(record: RunRecord, settings: RunSettings) -> list[str]:
    """One sentence for each difference, as ``parameter floor changed from 0.0 to 0.1``."""
    wanted = settings.complete_parameters
    found = record.parameters
    differences = [
        _changed(f"parameter {name}", found.get(name), wanted.get(name))
        for name in dict.fromkeys((*wanted, *found))
        if found.get(name) != wanted.get(name)
    ]
    for section in ("data", "perturbation", "svm"):
        before, after = getattr(record.settings, section), getattr(settings, section)
        old: dict[str, Any] = before.model_dump() if before else {}
        new: dict[str, Any] = after.model_dump() if after else {}
        differences += [
            _changed(f"{section} {name}", old.get(name), new.get(name))
            for name in dict.fromkeys((*new, *old))
            if old.get(name) != new.get(name)
        ]
    if record.settings.model != settings.model:
        differences.insert(0, _changed("model", record.settings.model, settings.model))
    return differences


def _changed(what: str, before: Any, after: Any) -> str:
    return f"{what} changed from {_word(before)} to {_word(after)}"


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


# A cell is what the worst of its runs is.
ORDER = ("failed", "running", "stale", "missing", "done")


def suite_status(
    context: RunContext,
    results: Path,
    suite: Suite,
    names: Sequence[str] = (),
    profile: str = "paper",
    *,
    seeds: int | None = None,
    source: str | None = None,
) -> list[SuiteCell]:
    """List the cells with the worst state of their runs."""
    wanted = [name for name in names if name != theory.NAME]
    cells = choose_cells(suite.cells(profile, source), wanted) if wanted or not names else []
    records = context.store.load_all()
    table = []
    if suite.theory is not None and (not names or theory.NAME in names):
        table.append(_theory(results, suite))
    for cell in cells:
        # By itself: a run that a cell shares may lack what another one asks for.
        runs = make_plan(context, [cell], seeds=seeds, records=records)
        worst = min(runs, key=lambda run: ORDER.index(run.state))
        table.append(
            SuiteCell(
                experiment=cell.experiment,
                cell=cell.name,
                seeds=len(runs),
                done=sum(run.state == "done" for run in runs),
                state=worst.state,
                reason=_reason(runs, worst),
            )
        )
    return table


def _theory(results: Path, suite: Suite) -> SuiteCell:
    assert suite.theory is not None
    reason = theory.why_due(results, suite.theory)
    state: State = "done" if not reason else "missing" if reason == "never run" else "stale"
    return SuiteCell(
        experiment=theory.NAME, cell=theory.NAME, seeds=1, done=int(not reason), state=state, reason=reason
    )


def _reason(runs: list[PlannedRun], worst: PlannedRun) -> str:
    """Why the cell is not done; the seeds are named if others are."""
    due = [run for run in runs if run.state == worst.state]
    if worst.state == "done" or len(due) == len(runs):
        return worst.reason
    return f"seed {', '.join(str(run.seed) for run in due)}: {worst.reason}"
