"""``thetarbm run``: the runs of the suite."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.completion import complete_names
from thetarbm_cli.commands.options import (
    jobs_option,
    json_option,
    profile_option,
    seeds_option,
    source_option,
    suite_option,
)
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import EXIT_FAILED, EXIT_RUNS_MISSING, InputError, ThetaRBMError
from thetarbm_cli.ui import JobsDisplay, duration, print_text, say

if TYPE_CHECKING:
    from thetarbm_cli.experiments.execution.job import Executor, Outcome, RunReport
    from thetarbm_cli.experiments.execution.plan import PlannedRun
    from thetarbm_cli.experiments.runs.store import RunContext
    from thetarbm_cli.outputs import Run, SuiteRun

EXECUTOR_OPTIONS = (
    click.option(
        "--executor",
        type=click.Choice(["local", "dask"]),
        default="local",
        help="Processes of this machine, or a Dask cluster.",
    ),
    click.option("--scheduler", metavar="ADDRESS", help="Dask: the scheduler's address [default: a local cluster]."),
    click.option(
        "--no-shared-folder",
        is_flag=True,
        help="Dask: workers hand records back even if they see the results folder.",
    ),
)


def executor_options(function: Any) -> Any:
    """Add the options that `make_executor` takes beside the number of jobs."""
    for option in reversed(EXECUTOR_OPTIONS):
        function = option(function)
    return function


@click.command("run")
@click.argument("names", nargs=-1, metavar="[NAME]…", shell_complete=complete_names)
@suite_option
@profile_option
@seeds_option
@source_option
@jobs_option
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be run, and why; exit code 3 if anything.")
@click.option("--keep-going", is_flag=True, help="Start other runs after one has failed.")
@click.option(
    "--force",
    multiple=True,
    metavar="NAME",
    shell_complete=complete_names,
    help="Run this experiment or cell again.",
)
@click.option("--retry-failed", is_flag=True, help="Try runs again that failed before.")
@executor_options
@json_option
@pass_session
def command(
    session: Session,
    /,
    names: tuple[str, ...],
    suite_path: Path | None,
    profile: str,
    seeds: int | None,
    source: str | None,
    dry_run: bool,
    keep_going: bool,
    force: tuple[str, ...],
    retry_failed: bool,
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
        from thetarbm_cli.experiments.execution.plan import choose_cells, final_states, make_plan, pending
        from thetarbm_cli.experiments.execution.theory import do_theory, theory_run, why_due
        from thetarbm_cli.experiments.suite.loader import load_suite, suite_identity

        executor = make_executor(**where)
        suite = load_suite(suite_path)
        context = session.run_context()
        cells = suite.cells(profile, source)
        wanted = [name for name in names if name != "theory"]
        chosen = choose_cells(cells, wanted) if wanted or not names else []
        for name in force:
            if not {cell.name for cell in choose_cells(cells, [name])} & {cell.name for cell in chosen}:
                raise InputError(
                    f"--force {name} is not among the runs of this call: name it before the options as well"
                )
        theory = suite.theory if not names or "theory" in names else None
        plan = make_plan(context, chosen, seeds=seeds, forced=force, suite=suite_identity(suite, suite_path))
        due = pending(plan, retry_failed)
    if dry_run:
        reason = why_due(session.results, theory) if theory is not None else ""
        runs = [theory_run("pending", reason)] if reason else []
        return _print_due(session, _output(runs + final_states(plan, {}, retry_failed)))
    started = time.perf_counter()
    session.say(f"{len(due)} run{'' if len(due) == 1 else 's'} to make" if due else "nothing to run")
    checked = do_theory(session.results, theory, lambda why: session.say(f"theory: {why}"))
    finished = {}
    with JobsDisplay(len(due), session.quiet) as display:
        for run, outcome in executor(context, due, keep_going, show_step(display)):
            finished[run] = outcome
            show_outcome(display, run, outcome)
    runs = ([checked] if checked else []) + final_states(plan, finished, retry_failed)
    return _print_end(session, _output(runs, time.perf_counter() - started))


def make_all(session: Session, context: RunContext, runs: list[PlannedRun], jobs: int) -> dict[PlannedRun, Outcome]:
    """Make runs in processes of this machine; the first that fails is an error."""
    from thetarbm_cli.experiments.execution.local import LocalExecutor

    outcomes = {}
    with JobsDisplay(len(runs), session.quiet) as display:
        for run, outcome in LocalExecutor(jobs)(context, runs, keep_going=False, on_report=show_step(display)):
            if outcome.state == "failed":
                raise ThetaRBMError(f"{run.cells[0]}: {outcome.error}")
            outcomes[run] = outcome
            show_outcome(display, run, outcome)
    return outcomes


def show_step(display: JobsDisplay) -> RunReport:
    """Give what shows how far each run is."""
    return lambda run, step, done, total: display.update(run.name, step, done, total)


def show_outcome(display: JobsDisplay, run: PlannedRun, outcome: Outcome) -> None:
    """Show how a run ended, with the traceback of one that failed if that is asked for."""
    if outcome.state == "failed":
        debug = click.get_current_context().find_root().params["debug"]
        hint = "; --debug with --retry-failed shows the traceback" if outcome.traceback and not debug else ""
        display.finished(run.name, f"{outcome.error}{hint}", failed=True)
        if outcome.traceback and debug:
            say(outcome.traceback.rstrip())
        return
    error = "no labels" if outcome.test_error_percent is None else f"{outcome.test_error_percent:.2f} %"
    gamma = "" if outcome.gamma_test is None else f", γ {outcome.gamma_test:.4f}"
    display.finished(run.name, f"{error}{gamma}, {duration(outcome.seconds)}")


def make_executor(jobs: int, executor: str, scheduler: str | None, no_shared_folder: bool) -> Executor:
    """Make the executor that the options ask for."""
    from thetarbm_cli.experiments.execution.local import LocalExecutor

    if executor == "local":
        if scheduler is not None or no_shared_folder:
            raise InputError("--scheduler and --no-shared-folder are for --executor dask")
        return LocalExecutor(jobs)
    from thetarbm_cli.experiments.execution.dask import DaskExecutor

    return DaskExecutor(scheduler, workers=jobs, shared=not no_shared_folder)


def _print_due(session: Session, output: Run) -> int:
    """Print what is to be done, and why."""
    due = [run for run in output.runs if run.state == "pending"]
    if not session.print_json(output):
        for run in output.runs:
            if run.state != "cached":
                print_text(f"{run.cell} seed {run.seed}: {run.reason}", indent=2)
        session.say(f"{len(due)} runs to do, {output.cached} done")
    return EXIT_RUNS_MISSING if due else 0


def _print_end(session: Session, output: Run) -> int:
    """Print how many runs ended in which way, and those that failed or were not started."""
    unfinished = [run for run in output.runs if run.state in ("failed", "pending")]
    if not session.print_json(output):
        print_text(f"{output.done} done, {output.cached} cached, {output.failed} failed, {output.seconds:.0f} s")
        for run in unfinished:
            print_text(f"  {run.state}: {run.cell} seed {run.seed}: {run.reason}", indent=4)
    return EXIT_FAILED if unfinished else 0


def _output(runs: list[SuiteRun], seconds: float = 0.0) -> Run:
    """Count the runs by their states."""
    from thetarbm_cli.outputs import Run

    states = [run.state for run in runs]
    return Run(
        done=states.count("done"),
        cached=states.count("cached"),
        failed=states.count("failed"),
        seconds=round(seconds, 3),
        runs=runs,
    )
