"""From cells and seeds to runs: which are done, which are missing, and why.

A record belongs to a cell by its settings, its seed, the version of the algorithm, and (where the data is prepared
here) the checksum of the data. Weights are a cache: a run whose record has all its measures is done without them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from thetarbm_cli import documents
from thetarbm_cli.backend import select_backend
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.experiments.execution import theory
from thetarbm_cli.experiments.runs.images import described_data
from thetarbm_cli.experiments.runs.record import FORMAT, RunRecord, SuitePart
from thetarbm_cli.experiments.runs.settings import ALGORITHM, MOST_SEEDS, DataSettings, RunSettings, run_id
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.suite.schema import Cell, Suite, Theory
from thetarbm_cli.outputs import SuiteCell, SuiteRun

if TYPE_CHECKING:
    from thetarbm_cli.experiments.execution.job import Outcome

RETRY = "--retry-failed tries it again"

State = Literal["done", "missing", "failed", "stale", "running"]


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """One run of the plan, as it also travels to a process or a machine; cells of the same settings and seed share it.

    Attributes
    ----------
    labels : what the record says it was made for: ``theta/sparsity=0.3@paper``
    run : id, as far as it is known: data that is not prepared yet has no checksum
    measures : what its cells want: error, gamma, …
    offsets : further Δ for which a cell wants γ
    reason : why it is due; empty if it is done
    suite : what its record says it was made for; None for a run by hand
    """

    settings: RunSettings
    seed: int
    cells: tuple[str, ...]
    labels: tuple[str, ...]
    measures: tuple[str, ...]
    offsets: tuple[float, ...]
    run: str | None
    state: State
    reason: str
    forced: bool = False
    suite: SuitePart | None = None

    @property
    def name(self) -> str:
        """What messages and progress call it."""
        return f"{self.cells[0]} seed {self.seed}"

    @property
    def experiment(self) -> str:
        """Name of the first experiment that asks for it."""
        return self.cells[0].partition("/")[0]


def choose_cells(cells: Sequence[Cell], names: Sequence[str]) -> list[Cell]:
    """The cells of the named experiments or cells; without names, all that do not wait to be named.

    A name may be an experiment (``theta``), a cell (``theta/sparsity=0.3``), a pattern (``perturbation/n=1,*``) or a
    table (``fashion``), for all of its cells.
    """
    if not names:
        return [cell for cell in cells if not cell.on_request]
    for name in names:
        if not any(_is_named(cell, name) for cell in cells):
            # Cells are many: they are named where an experiment is.
            known = dict.fromkeys(cell.name if "/" in name else cell.experiment for cell in cells)
            tables = dict.fromkeys(table for cell in cells for table in cell.tables)
            hint = did_you_mean(name, [*known, *tables], "it has {}")
            raise InputError(f"the suite has no experiment, cell or table {name!r}; {hint}")
    return [cell for cell in cells if any(_is_named(cell, name) for name in names)]


def _is_named(cell: Cell, name: str) -> bool:
    return name in (cell.experiment, cell.name, *cell.tables) or fnmatchcase(cell.name, name)


def seeds_of(cell: Cell, seeds: int | None) -> int:
    """How many seeds a cell gets: what was asked for or its own number, and never more than make sense."""
    if seeds is not None and seeds > MOST_SEEDS:
        raise InputError(f"{seeds} seeds are too many: at most {MOST_SEEDS} are planned")
    wanted = seeds or cell.seeds
    return wanted if cell.most_seeds is None else min(wanted, cell.most_seeds)


class RecordedRuns:
    """What a results folder has of the runs that cells ask for; its records are read once for all questions.

    Attributes
    ----------
    begun : names of runs that have a folder and no record that can be used
    """

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.records = context.store.load_all()
        folders = {path.name for path in context.store.folder.glob("*")}
        self.begun = folders - {record.run for record in self.records}
        self._checksums: dict[DataSettings, dict[str, str] | None] = {}

    @cached_property
    def backend(self) -> str:
        """Name of the backend that a run would be made with."""
        return select_backend(self.context.backend_name).name

    def checksums(self, data: DataSettings) -> dict[str, str] | None:
        """Checksums of images, where they are prepared."""
        if data not in self._checksums:
            described = described_data(self.context.data_dir, data)
            self._checksums[data] = described.checksums if described else None
        return self._checksums[data]

    def fitting(self, cell: Cell, seed: int) -> list[RunRecord]:
        """List the records with the settings of a cell and a seed, of whatever algorithm and data."""
        return [record for record in self.records if record.seed == seed and cell.fits(record)]

    def current(self, cell: Cell, fitting: Sequence[RunRecord]) -> RunRecord | None:
        """Choose the record of this algorithm and data that says most: done, with all numbers, on this backend."""
        checksums = self.checksums(cell.data_settings)
        found = [
            record
            for record in fitting
            if record.algorithm == ALGORITHM and (checksums is None or record.checksums == checksums)
        ]
        if len(found) > 1:
            measured = (cell.measures, cell.offsets)
            found.sort(key=lambda each: (each.state == "done", each.has(*measured), each.backend == self.backend))
        return found[-1] if found else None

    def is_done(self, cell: Cell, seeds: int | None) -> bool:
        """Whether each run of a cell has a record with all its measures, and no process works on it.

        What records say is enough for that.
        """
        for seed in range(seeds_of(cell, seeds)):
            found = self.current(cell, self.fitting(cell, seed))
            if found is None or found.state != "done" or not found.has(cell.measures, cell.offsets):
                return False
            if self.context.store.is_held(found.run):
                return False
        return True

    def state(self, cell: Cell, seed: int, labels: Collection[str]) -> tuple[str | None, State, str]:
        """Find the id of a run as far as it matters, its state and the reason; a model is asked only if it has to be.

        Parameters
        ----------
        cell : with all that is to be measured
        labels : of all cells that ask for the run
        """
        store, same, checksums = self.context.store, self.fitting(cell, seed), self.checksums(cell.data_settings)
        record, name = self.current(cell, same), None
        if record is not None:
            name = record.run
        elif checksums and any(run.startswith(f"{cell.model}-") for run in self.begun):
            name = run_id(cell.settings(), checksums, seed, self.backend)
        if name is not None and store.is_held(name):
            return name, "running", "another process works on it"
        if record is not None:
            if record.state == "done" and record.has(cell.measures, cell.offsets):
                return name, "done", ""
            if record.state == "failed" or record.error:
                return name, "failed", f"failed before: {record.error}"
            return name, "missing", "trained, not measured yet"
        newer = None if name is None else documents.newer_format(store.record_path(name), FORMAT)
        if newer is not None:
            return name, "stale", f"its record is of format {newer}, from a newer thetarbm"
        if name is not None and store.checkpoint_path(name).is_file():
            return name, "missing", "cut off: goes on from its checkpoint"
        older = [each for each in same if each.algorithm != ALGORITHM]
        if older:
            return name, "stale", f"algorithm version changed from {older[-1].algorithm} to {ALGORITHM}"
        if same:
            return name, "stale", "data: the prepared images have another checksum"
        source = cell.data_settings.source
        made_for = [each for each in self.records if each.seed == seed and not set(labels).isdisjoint(each.cells)]
        changes = [describe_changes(each, cell.settings()) for each in made_for if each.settings.data.source == source]
        if nearest := min(changes, key=len, default=[]):
            return name, "stale", "; ".join(nearest)
        return name, "missing", "never run"


def make_plan(
    context: RunContext,
    cells: Sequence[Cell],
    *,
    seeds: int | None = None,
    forced: Sequence[str] = (),
    only_seed: int | None = None,
    suite: SuitePart | None = None,
) -> list[PlannedRun]:
    """All runs of these cells, in the order of the cells, each seed in turn.

    Parameters
    ----------
    seeds : number of seeds, instead of each cell's own
    forced : names of experiments or cells whose runs are due in any case
    only_seed : this seed, instead of all from 0
    suite : the suite that the cells are of; None for runs by hand
    """
    groups: dict[tuple[str, int], tuple[RunSettings, list[Cell]]] = {}
    for cell in cells:
        settings = cell.settings()
        for seed in range(seeds_of(cell, seeds)) if only_seed is None else [only_seed]:
            groups.setdefault((settings.model_dump_json(), seed), (settings, []))[1].append(cell)
    recorded, plan = RecordedRuns(context), []
    for (_, seed), (settings, sharing) in groups.items():
        measures = tuple(dict.fromkeys(measure for cell in sharing for measure in cell.measures))
        offsets = tuple(sorted({offset for cell in sharing for offset in cell.offsets}))
        labels = tuple(f"{cell.name}@{cell.profile}" for cell in sharing)
        run, state, reason = recorded.state(replace(sharing[0], measures=measures, offsets=offsets), seed, labels)
        is_forced = any(_is_named(cell, name) for cell in sharing for name in forced)
        if is_forced and state != "running":
            state, reason = "missing", "forced"
        checksums = recorded.checksums(settings.data)
        if run is None and checksums is not None:
            run = run_id(settings, checksums, seed, recorded.backend)
        cell_names = tuple(cell.name for cell in sharing)
        plan.append(
            PlannedRun(settings, seed, cell_names, labels, measures, offsets, run, state, reason, is_forced, suite)
        )
    return plan


def pending(plan: Sequence[PlannedRun], retry_failed: bool) -> list[PlannedRun]:
    """List the runs that are to be made."""
    return [run for run in plan if run.state not in ("done", "failed") or (run.state == "failed" and retry_failed)]


def final_states(
    plan: Sequence[PlannedRun], finished: Mapping[PlannedRun, Outcome], retry_failed: bool
) -> list[SuiteRun]:
    """List every run of the plan with its state after those that are `finished`."""
    runs = []
    for run in plan:
        outcome = finished.get(run)
        state: Literal["done", "cached", "failed", "pending"]
        name = (outcome.run if outcome else None) or run.run
        if outcome is not None:
            state, reason = outcome.state, outcome.error or run.reason
        elif run.state == "done":
            state, reason = "cached", ""
        elif run.state == "failed" and not retry_failed:
            state, reason = "failed", f"{run.reason}; {RETRY}"
        else:
            state, reason = "pending", run.reason
        runs.append(
            SuiteRun(run=name, experiment=run.experiment, cell=run.cells[0], seed=run.seed, state=state, reason=reason)
        )
    return runs


def describe_changes(record: RunRecord, settings: RunSettings) -> list[str]:
    """One sentence for each difference, as ``parameter floor changed from 0.0 to 0.1``."""
    old, new = _named(record.settings, record.parameters), _named(settings, settings.complete_parameters)
    return [
        f"{name} changed from {_word(old.get(name))} to {_word(new.get(name))}"
        for name in dict.fromkeys((*new, *old))
        if old.get(name) != new.get(name)
    ]


def _named(settings: RunSettings, parameters: dict[str, Any]) -> dict[str, Any]:
    """Give all settings by what a reason calls them."""
    named = {f"parameter {name}": value for name, value in parameters.items()}
    others = {name.replace(".", " "): value for name, value in settings.by_name().items()}
    return {"model": settings.model, **named, **others}


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


# A cell is what the worst of its runs is.
ORDER = ("failed", "running", "stale", "missing", "done")


def suite_status(
    recorded: RecordedRuns,
    suite: Suite,
    names: Sequence[str] = (),
    profile: str = "paper",
    *,
    seeds: int | None = None,
    source: str | None = None,
    check: Callable[[], object] = lambda: None,
) -> list[SuiteCell]:
    """List the cells with the worst state of their runs.

    Parameters
    ----------
    check : callable
        Called if a cell is not done, before a model is asked about one.
    """
    wanted = [name for name in names if name != theory.NAME]
    cells = choose_cells(suite.cells(profile, source), wanted) if wanted or not names else []
    table = []
    if suite.theory is not None and (not names or theory.NAME in names):
        table.append(_theory(recorded.context.store.folder.parent, suite.theory))
    if not all(recorded.is_done(cell, seeds) for cell in cells):
        check()
    for cell in cells:
        labels = {f"{cell.name}@{cell.profile}"}
        # By itself: a run that a cell shares may lack what another one asks for.
        runs = [recorded.state(cell, seed, labels)[1:] for seed in range(seeds_of(cell, seeds))]
        state, reason = min(runs, key=lambda run: ORDER.index(run[0]))
        due = [str(seed) for seed, run in enumerate(runs) if run[0] == state]
        if state != "done" and len(due) < len(runs):
            reason = f"seed {', '.join(due)}: {reason}"
        done = sum(run[0] == "done" for run in runs)
        table.append(
            SuiteCell(
                experiment=cell.experiment, cell=cell.name, seeds=len(runs), done=done, state=state, reason=reason
            )
        )
    return table


def recorded_sources(
    recorded: RecordedRuns, suite: Suite, names: Sequence[str], profile: str = "paper", *, seeds: int | None = None
) -> dict[str, int]:
    """Count how many of these cells are done for each source other than the suite's, but for files of a user.

    Cells are named in full; those that say themselves which images they want are the same for every source.
    """
    known = {record.settings.data.source for record in recorded.records} - {suite.defaults.data.source}
    found = {
        source: sum(cell.name in names and recorded.is_done(cell, seeds) for cell in suite.cells(profile, source))
        for source in sorted(known)
        if not source.endswith(".npz")
    }
    return {source: count for source, count in found.items() if count}


def _theory(results: Path, wanted: Theory) -> SuiteCell:
    reason = theory.why_due(results, wanted)
    state: State = "done" if not reason else "missing" if reason == "never run" else "stale"
    return SuiteCell(
        experiment=theory.NAME, cell=theory.NAME, seeds=1, done=int(not reason), state=state, reason=reason
    )
