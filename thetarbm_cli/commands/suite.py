"""``thetarbm run``, ``status`` and ``demo``: the runs of a suite."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
from pydantic import BaseModel, ConfigDict, Field

from thetarbm_cli.commands.common import (
    Session,
    UserPath,
    jobs_option,
    json_option,
    pass_session,
    profile_option,
    seeds_option,
    source_option,
    suite_option,
)
from thetarbm_cli.commands.completion import complete_names
from thetarbm_cli.errors import EXIT_FAILED, EXIT_RUNS_MISSING, InputError, ThetaRBMError
from thetarbm_cli.followup import call_options, command_line, repeating
from thetarbm_cli.measures import ERROR, GAMMA_TEST, MEASURES
from thetarbm_cli.registry import source_names
from thetarbm_cli.ui import Cell, JobsDisplay, Progress, print_table, print_text, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.pipeline import Report
    from thetarbm_cli.results import Results
    from thetarbm_cli.schedule import Done, Job, Planner, State
    from thetarbm_cli.store import Store
    from thetarbm_cli.suite import Cell as PlannedCell
    from thetarbm_cli.suite import Suite

Count = Annotated[int, Field(ge=0)]


class SuiteRun(BaseModel):
    """A run of the suite and its state at the end."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run: str | None
    """Its id; null as long as its data is not prepared."""
    experiment: str
    cell: str
    """The first cell that asks for it."""
    seed: int
    state: Literal["done", "cached", "failed", "pending"]
    reason: str
    """Why it was or is due, or how it failed; empty if it was found."""


class SuiteRuns(BaseModel):
    """What ``thetarbm run --json`` prints."""

    done: Count
    cached: Count
    failed: Count
    seconds: Annotated[float, Field(ge=0)]
    runs: list[SuiteRun]


def executor_options(function: Any) -> Any:
    """Add the options that say where runs are made, beside the number of jobs."""
    for option in (
        click.option(
            "--no-shared-folder",
            is_flag=True,
            help="Dask: workers hand records back even if they see the results folder.",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="Dask: the scheduler's address [default: a local cluster]."
        ),
        click.option(
            "--executor",
            type=click.Choice(["local", "dask"]),
            default="local",
            help="Processes of this machine, or a Dask cluster.",
        ),
    ):
        function = option(function)
    return function


@click.command("run")
@click.argument("names", nargs=-1, metavar="[NAME]…", shell_complete=complete_names)
@suite_option
@profile_option
@seeds_option
@source_option
@jobs_option
@click.option("-n", "--dry-run", is_flag=True, help="Only list the runs that are due; exit code 3 if there are any.")
@click.option("--keep-going", is_flag=True, help="Go on with other runs after one has failed.")
@click.option(
    "--force",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_names,
    help="Train this experiment or cell once more, beside the runs that are there.",
)
@executor_options
@json_option
@pass_session
def run(
    session: Session,
    /,
    names: tuple[str, ...],
    suite_path: Path | None,
    profile: str,
    seeds: int | None,
    source: str | None,
    jobs: int,
    dry_run: bool,
    keep_going: bool,
    force: tuple[str, ...],
    **where: Any,
) -> int:
    """Make every run of the suite that is missing, or of the named experiments or cells.

    Finished runs are found again, interrupted ones go on. NAME is an experiment, a cell, a pattern, or a table:

    \b
    thetarbm run
    thetarbm run theta rbm --profile quick
    thetarbm run theta/sparsity=0.3 'perturbation/n=1,*' -j 2
    thetarbm run fashion
    """  # noqa: D301  click takes \b as "keep these lines"
    with session.progress("planning"):
        from thetarbm_cli.measures.theory import load_theory, record_theory, why_due
        from thetarbm_cli.schedule import plan
        from thetarbm_cli.suite import choose_cells, find_suite, load_suite

        on_cluster = cluster_options(**where)
        suite, store = load_suite(suite_path), session.store()
        cells = suite.cells(profile, source)
        wanted = [name for name in names if name != "theory"]
        chosen = choose_cells(cells, wanted) if wanted or not names else []
        for name in force:
            if not {cell.name for cell in choose_cells(cells, [name])} & {cell.name for cell in chosen}:
                raise InputError(
                    f"--force {name} is not among the runs of this call: name it before the options as well"
                )
        planned = plan(store, chosen, seeds=seeds, forced=force, suite=find_suite(suite_path).name)
        due = [job for job in planned if job.state not in ("done", "failed")]
        theory = suite.theory if not names or "theory" in names else None
        reason = why_due(load_theory(session.results), theory.rotations, theory.size) if theory else ""
    started = time.perf_counter()
    finished: dict[Job, Done] = {}
    if not dry_run:
        session.say(f"{len(due)} run{'' if len(due) == 1 else 's'} to make" if due else "nothing to run")
        if theory and reason:
            session.say(f"theory: {reason}")
            record_theory(session.results, theory.rotations, theory.size)
        finished = make_jobs(session, store, due, jobs, keep_going=keep_going, **on_cluster)
    runs = [_final(job, finished.get(job)) for job in planned]
    if theory is not None:
        state: Literal["pending", "done", "cached"] = "cached" if not reason else "pending" if dry_run else "done"
        checks = SuiteRun(run="theory", experiment="theory", cell="theory", seed=0, state=state, reason=reason)
        runs.insert(0, checks)
    states = [each.state for each in runs]
    output = SuiteRuns(
        done=states.count("done"),
        cached=states.count("cached"),
        failed=states.count("failed"),
        seconds=round(time.perf_counter() - started, 3) if not dry_run else 0.0,
        runs=runs,
    )
    pending = [each for each in runs if each.state == "pending"]
    if not session.print_json(output):
        if not dry_run:
            print_text(f"{output.done} done, {output.cached} cached, {output.failed} failed, {output.seconds:.0f} s")
        for each in runs:
            if each.state in ("failed", "pending"):
                state_word = "" if dry_run and each.state == "pending" else f"  {each.state}: "
                print_text(f"{state_word}{each.cell} seed {each.seed}: {each.reason}", indent=4)
        if dry_run:
            session.say(f"{len(pending)} runs to do, {output.cached} done")
    if dry_run:
        return EXIT_RUNS_MISSING if pending else 0
    return EXIT_FAILED if pending or output.failed else 0


def cluster_options(executor: str, scheduler: str | None, no_shared_folder: bool) -> dict[str, Any]:
    """Turn the options of the command line into those of `schedule.run`."""
    if executor == "local":
        if scheduler is not None or no_shared_folder:
            raise InputError("--scheduler and --no-shared-folder are for --executor dask")
        return {}
    return {"dask": True, "scheduler": scheduler, "shared": not no_shared_folder}


def _final(job: Job, done: Done | None) -> SuiteRun:
    """Say in which state a job is after those that were made."""
    state: Literal["done", "cached", "failed", "pending"]
    if done is not None:
        state, reason = done.state, done.error or job.reason
    elif job.state == "done":
        state, reason = "cached", ""
    elif job.state == "failed":
        state, reason = "failed", f"{job.reason}; --force {job.cells[0]} trains it once more"
    else:
        state, reason = "pending", job.reason
    name = (done.run if done else None) or job.run
    return SuiteRun(
        run=name, experiment=job.experiment, cell=job.cells[0], seed=job.spec.seed, state=state, reason=reason
    )


def make_jobs(
    session: Session, store: Store, due: Sequence[Job], jobs: int, *, keep_going: bool, **on_cluster: Any
) -> dict[Job, Done]:
    """Prepare the images that jobs need, then make the jobs, and show how far they are."""
    from thetarbm_cli import schedule
    from thetarbm_cli.pipeline import load_data

    finished: dict[Job, Done] = {}
    with JobsDisplay(len(due), session.quiet) as display:
        sets = {(job.spec.data.dataset, job.source or job.spec.data.source, job.spec.data.seed) for job in due}
        for dataset, source, seed in sorted(sets):
            with display.step("preparing", f"{dataset} {source}") as progress:
                load_data(store, dataset, source, seed, report=_without_step(progress))
        known = {job: replace(job, run=_id(store, job)) for job in due}

        def poll(running: Sequence[Job]) -> None:
            for job in running:
                held = store.holder(job.run) if job.run else None
                if held is not None:
                    display.update(job.name, held.step, held.done, held.total)
                elif not on_cluster:
                    # A cluster says of none whether it has begun.
                    display.update(job.name, "", 0, 0)

        back = {planned: job for job, planned in known.items()}
        for planned, done in schedule.run(
            store,
            list(known.values()),
            backend=session.backend_name,
            n_jobs=jobs,
            keep_going=keep_going,
            poll=poll,
            **on_cluster,
        ):
            finished[back[planned]] = done
            error, gamma = done.values.get(ERROR), done.values.get(GAMMA_TEST)
            numbers = [f"error {error:.2f} %"] if error is not None else []
            numbers += [f"γ {gamma:.4f}"] if gamma is not None else []
            text = done.error or f"{', '.join(numbers)}{', ' if numbers else ''}{done.seconds:.0f} s"
            display.finished(planned.name, text, failed=done.state == "failed")
            if done.traceback and click.get_current_context().find_root().params.get("debug"):
                session.say(done.traceback)
    return finished


def _without_step(progress: Progress) -> Report:
    """Report how far a step is that is named already."""
    return lambda step, done, total: progress(done, total)


def _id(store: Store, job: Job) -> str | None:
    """Name the run of a job whose images are prepared now."""
    from thetarbm_cli.pipeline import data_checksum

    data = job.spec.data
    sha256 = data_checksum(store, data.dataset, job.source or data.source, data.seed)
    if job.run is not None and not job.forced:
        return job.run
    return job.run if sha256 is None else store.new_id(job.spec, sha256)


def make_all(session: Session, store: Store, planned: Sequence[Job], jobs: int) -> None:
    """Make all that is missing; the first that fails is an error."""
    due = [job for job in planned if job.state != "done"]
    for job, done in make_jobs(session, store, due, jobs, keep_going=False).items():
        if done.state == "failed":
            raise ThetaRBMError(f"{job.cells[0]}: {done.error}")


class SuiteCell(BaseModel):
    """A cell of the suite and the worst state of its runs."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    experiment: str
    cell: str
    seeds: Count
    """Runs that it asks for, one a seed."""
    done: Count
    state: Literal["done", "missing", "failed", "stale", "running"]
    reason: str


class SuiteStatus(BaseModel):
    """What ``thetarbm status --json`` prints."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    due: Count
    """Cells that are not done."""
    cells: list[SuiteCell]


# A cell is what the worst of its runs is.
ORDER = ("failed", "running", "stale", "missing", "done")


@click.command("status")
@click.argument("names", nargs=-1, metavar="[NAME]…", shell_complete=complete_names)
@suite_option
@profile_option
@seeds_option
@source_option
@json_option
@pass_session
def status(
    session: Session,
    names: tuple[str, ...],
    suite_path: Path | None,
    profile: str,
    seeds: int | None,
    source: str | None,
) -> int:
    """Say of each cell whether it is done, missing, failed, stale or running, and why.

    Exit code 3 if runs are missing. NAME is as for run.
    """
    from thetarbm_cli.measures.theory import load_theory, why_due
    from thetarbm_cli.schedule import Planner
    from thetarbm_cli.suite import choose_cells, find_suite, load_suite, shipped_path

    # A link to itself has no end to resolve; it is refused when it is read.
    is_shipped = os.path.realpath(find_suite(suite_path)) == os.path.realpath(shipped_path())
    suite = load_suite(suite_path, check_settings=not is_shipped)
    planner = Planner(session.store())
    wanted = [name for name in names if name != "theory"]
    cells = choose_cells(suite.cells(profile, source), wanted) if wanted or not names else []
    found = []
    if suite.theory is not None and (not names or "theory" in names):
        reason = why_due(load_theory(session.results), suite.theory.rotations, suite.theory.size)
        state: Any = "done" if not reason else "missing" if reason == "never run" else "stale"
        found.append(
            SuiteCell(experiment="theory", cell="theory", seeds=1, done=int(not reason), state=state, reason=reason)
        )
    for cell in cells:
        runs = _states(planner, cell, seeds)
        state, reason = min(runs, key=lambda each: ORDER.index(each[0]))
        lacking = [str(seed) for seed, each in enumerate(runs) if each[0] == state]
        if state != "done" and len(lacking) < len(runs):
            reason = f"seed {', '.join(lacking)}: {reason}"
        done = sum(each[0] == "done" for each in runs)
        found.append(
            SuiteCell(
                experiment=cell.experiment, cell=cell.name, seeds=len(runs), done=done, state=state, reason=reason
            )
        )
    output = SuiteStatus(due=sum(each.state != "done" for each in found), cells=found)
    if not session.results.is_dir() and not any(each.done for each in found):
        session.say(f"the results folder {session.results} does not exist: nothing was run yet")
    if not session.print_json(output):
        rows = [
            (each.cell, f"{each.done}/{each.seeds}", state_cell(each.state), (each.reason, "weak")) for each in found
        ]
        # A column of reasons that nobody gives would only be in the way.
        width = 4 if any(each.reason for each in found) else 3
        print_table(("cell", "seeds", "state", "why")[:width], [row[:width] for row in rows])
        told = f"{output.due} of {len(found)} cells lack runs" if output.due else "all runs are done"
        due = {each.cell for each in found if each.state != "done"} if source is None else set()
        used = {cell.source for cell in cells}
        for other in sorted({each.spec.data.source for each in planner.trainings} - used) if due else ():
            others = [cell for cell in suite.cells(profile, other) if cell.name in due and not cell.compares_data]
            count = sum(all(each[0] == "done" for each in _states(planner, cell, seeds)) for cell in others)
            if count:
                told += f"; {'all' if count == len(due) else count} are recorded for --source {other}"
        session.say(told)
    return EXIT_RUNS_MISSING if output.due else 0


def _states(planner: Planner, cell: PlannedCell, seeds: int | None) -> list[tuple[State, str]]:
    """Give state and reason of each run of a cell."""
    from thetarbm_cli.store import MadeFor
    from thetarbm_cli.suite import seeds_of

    given, made_for = str(cell.given.get("data.source", "generated")), MadeFor(profile=cell.profile, cells=(cell.name,))
    path = None if given in source_names() else given
    return [
        planner.state(cell.train_spec(seed), cell.measure_specs, made_for, path)[1:]
        for seed in range(seeds_of(cell, seeds))
    ]


MODELS, SPARSITY, PROFILE, FIGURE = ("rbm", "orbm", "tirbm", "theta"), 0.3, "quick", "filters-theta"


@click.command("demo")
@click.option("--out", type=UserPath(file_okay=False), help="Folder of runs, figure and report [default: user cache].")
@suite_option
@pass_session
def demo(session: Session, out: Path | None, suite_path: Path | None) -> None:
    """Train and measure the four models at a quick size, and show them beside the full-size results and the paper's.

    Takes about a minute. The full-size results are those of --results, or those that came with the program; the report
    is of them, or of the quick runs where there are none.
    """
    from thetarbm_cli.commands.report import write_page
    from thetarbm_cli.commands.tables import print_paper_table
    from thetarbm_cli.reporting.html.content import gather
    from thetarbm_cli.reporting.tables import build
    from thetarbm_cli.results import Recorded, Results, Source, collect
    from thetarbm_cli.schedule import plan
    from thetarbm_cli.suite import load_suite

    folder = out or session.data_dir / "demo"
    store = session.store(folder)
    session.say(_describe_backend(session))
    suite = load_suite(suite_path, check_settings=False)
    names = [f"{model}/sparsity={SPARSITY}" for model in MODELS]
    cells = [cell for cell in suite.cells(PROFILE) if cell.name in names]
    make_all(session, store, plan(store, cells), min(2, os.cpu_count() or 1))
    quick = Results(Source(cells[0].source, "", cells[0].tested_on), cells, Recorded(store.trainings()))
    full = collect(suite, "paper", session.store().trainings())[0]
    has_full = not full.is_empty
    _print_beside(quick, full)
    for table in ("1", "2"):
        print_paper_table(build(table, suite.tables[table], full))
    figure, page = _draw(store, suite), folder / "report.html"
    options = call_options()
    # These are of the runs made just now, and so are their commands: the later of two --results counts.
    with repeating(replace(options, words=(*options.words, "--results", str(folder)))):
        quick_size = command_line("report", "--open", profile=PROFILE)
        if not has_full:
            write_page(session, store, gather(store, suite_path, PROFILE), page)
    if has_full:
        write_page(session, session.store(), gather(session.store(), suite_path, "paper"), page)
    click.echo(f"\nfigure  {figure}\nreport  {page.resolve()}")
    if has_full:
        click.echo(f"quick   {quick_size}")


def _describe_backend(session: Session) -> str:
    """Say what computes, and what would use a GPU that is not used."""
    backend = session.backend()
    if backend.name == "cupy":
        return f"GPU: CuPy ({backend.reason})"
    version = _driver_version()
    if version is None:
        return "no GPU: NumPy"
    return f"NumPy ({backend.reason}); pip install 'cupy-cuda{version}x[ctk]' makes it use the NVIDIA GPU"


def _driver_version() -> str | None:
    """Find the CUDA version of an NVIDIA driver that answers, as far as there is an extra for it."""
    try:
        answer = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"CUDA Version: *(\d+)", answer)
    return str(min(13, int(found[1]))) if found and int(found[1]) >= 12 else None


def _print_beside(quick: Results, full: Results) -> None:
    """Print a line for each model: now at the quick size, as recorded at full size, and as published."""
    from thetarbm_cli.reporting.tables import variants_of

    rows: list[list[Cell]] = []
    measures = [MEASURES[ERROR], MEASURES[GAMMA_TEST]]
    for cell in quick.cells:
        recorded = next(each for each in full.cells if each.name == cell.name)
        for variant, words in variants_of(cell.model):
            row: list[Cell] = [cell.label + words]
            for results, shown in ((quick, cell), (full, recorded)):
                row += [each.text(results.value(shown, each.name, variant).mean) for each in measures]
            row += [each.text(recorded.published.get(each.name)) for each in measures]
            rows.append(row)
    print_text(f"\nThe four models at sparsity {SPARSITY}: made now, at full size, in the paper", style="bold")
    sources = [f"{each.source.dataset} {each.source.name}" for each in (quick, full)]
    recorded_on = "no runs yet" if full.is_empty else f"on {sources[1]}, as recorded"
    print_text(f"now: on {sources[0]} at a quick size; full: {recorded_on}; γ is that of test images", style="weak")
    headings = [f"{when}\n{what}" for when in ("now:", "full:", "paper:") for what in ("error %", "γ test")]
    print_table(["", *headings], rows)


def _draw(store: Store, suite: Suite) -> Path:
    """Draw the filters that were learned just now."""
    from thetarbm_cli import storage
    from thetarbm_cli.reporting.figures import encode, make
    from thetarbm_cli.reporting.figures.context import figure_context

    drawing = make(FIGURE, figure_context(suite, store, PROFILE))
    path = store.results / f"{FIGURE}.png"
    storage.write_bytes(path, encode(FIGURE, drawing, "png"))
    return path.resolve()
