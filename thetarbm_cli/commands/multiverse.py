"""``thetarbm multiverse``: the paper's claims over all plausible readings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.options import jobs_option, json_option, suite_option
from thetarbm_cli.commands.run import executor_options, make_executor, show_outcome, show_step
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import EXIT_FAILED, EXIT_RUNS_MISSING
from thetarbm_cli.followup import command_line
from thetarbm_cli.ui import Cell as TableCell
from thetarbm_cli.ui import JobsDisplay, print_command, print_table, print_text, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.experiments.multiverse import Readings, Universe
    from thetarbm_cli.experiments.suite.schema import Suite

# Records are packed after so many runs, and at the end.
PACKED_EVERY = 40


@click.command("multiverse")
@click.option(
    "--universes",
    type=click.IntRange(min=1, max=10_000),
    help="Make the runs of so many universes in all: the default, every change of one option, and sampled ones.",
)
@click.option(
    "--design",
    type=click.Choice(["sobol", "one-at-a-time"]),
    help="sobol also samples universes in which all choices vary; given by itself, it makes runs, too.",
)
@click.option("--of", default="tables", help="Part of the paper: tables, perturbation, mnist or fashion.")
@click.option("--profile", default="survey", help="Size of the runs.")
@click.option("--universe", metavar="NAME", help="Print the settings of one universe: default, batch=50, s12, …")
@suite_option
@jobs_option
@click.option("-n", "--dry-run", is_flag=True, help="Only say how many runs are missing; exit code 3 if any.")
@click.option("--retry-failed", is_flag=True, help="Try runs again that failed before.")
@executor_options
@json_option
@pass_session
def command(
    session: Session,
    /,
    universes: int | None,
    design: str | None,
    of: str,
    profile: str,
    universe: str | None,
    suite_path: Path | None,
    dry_run: bool,
    retry_failed: bool,
    **where: Any,
) -> int:
    """Judge the paper's claims over all plausible readings of what it leaves open.

    Without --universes or --design, what is recorded is printed. With one, the runs that are missing are made first;
    the same call goes on after an interruption, and more universes keep those that are there:

    \b
    thetarbm multiverse
    thetarbm multiverse --universes 64 -j 2
    thetarbm multiverse --universe s12
    """  # noqa: D301  click takes \b as "keep these lines"
    from thetarbm_cli.experiments.multiverse import Readings
    from thetarbm_cli.experiments.suite.loader import load_suite

    suite = load_suite(suite_path, check_settings=False)
    readings = Readings(suite, of, profile)
    if universe is not None:
        return _print_universe(readings, readings.find(universe))
    if universes is not None or design is not None or dry_run:
        wanted = readings.universes(0 if design == "one-at-a-time" else universes or 0)
        code = _make_runs(session, suite, suite_path, readings, wanted, dry_run, retry_failed, **where)
        if dry_run or code:
            return code
    return _print_analysis(session, suite, readings, profile)


def _make_runs(
    session: Session,
    suite: Suite,
    suite_path: Path | None,
    readings: Readings,
    wanted: list[Universe],
    dry_run: bool,
    retry_failed: bool,
    jobs: int,
    **where: Any,
) -> int:
    """Make the missing runs; one that diverges is an outcome like any other."""
    from thetarbm_cli.experiments.execution.job import training_of
    from thetarbm_cli.experiments.execution.plan import make_plan, pending
    from thetarbm_cli.experiments.multiverse import multiverse_store, note_universes, pack, remove_weights
    from thetarbm_cli.experiments.suite.loader import suite_identity

    executor = make_executor(jobs, **where)
    context = session.run_context(multiverse_store(session.results))
    stages = readings.stages(wanted)
    plan = make_plan(
        context, [cell for stage in stages for cell in stage], seeds=1, suite=suite_identity(suite, suite_path)
    )
    due = pending(plan, retry_failed)
    session.say(f"{len(wanted)} universes, {len(plan)} different runs, {len(due)} of them to make")
    if dry_run:
        return EXIT_RUNS_MISSING if due else 0
    note_universes(session.results, readings, wanted)
    waiting = {run: training_of(run) for run in due}
    measured: dict[str, str] = {}
    lost = done = 0
    try:
        with JobsDisplay(len(due), session.quiet) as display:
            for stage in stages:
                names = {cell.name for cell in stage}
                runs = [run for run in due if run.cells[0] in names]
                for run, outcome in executor(context, runs, True, show_step(display)):
                    done += 1
                    show_outcome(display, run, outcome)
                    training = waiting.pop(run)
                    if outcome.run is not None:
                        measured[outcome.run] = training
                    diverged = (outcome.error or "").startswith("training diverged")
                    lost += outcome.state == "failed" and not diverged
                    if done % PACKED_EVERY == 0:
                        # What others are still to be measured with stays.
                        shared = set(waiting.values())
                        remove_weights(context.store, [name for name, key in measured.items() if key not in shared])
                        pack(session.results)
    finally:
        pack(session.results)
    remove_weights(context.store, measured)
    return EXIT_FAILED if lost else 0


def _print_analysis(session: Session, suite: Suite, readings: Readings, profile: str) -> int:
    """Print what the recorded universes say."""
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.reporting.multiverse import Analysis, find_universes, summary, tables

    found = find_universes(suite, session.results, readings.name, profile) or Analysis(readings, [])
    at_full_size = suite.cells("paper") if "paper" in suite.profiles else []
    output = found.output(at_full_size, RunStore(session.results).load_all())
    if session.print_json(output):
        return 0
    if not output.universes:
        print_text(f"no universe is recorded; {command_line('multiverse', '--universes', '64')} makes the runs")
        return 0
    print_text(summary(output))
    for table in tables(readings, output):
        click.echo("")
        rows = map(_claim_cells, table.rows) if table.name == "claims" else table.rows
        print_table(table.headings, list(rows), title=table.title)
        if table.note:
            print_text(f"\n{table.note}")
    return 0


def _claim_cells(row: list[str]) -> list[TableCell]:
    """Colour whether a claim holds by default, and keep the interval of its share in one piece."""
    claim, default, share, deciding = row
    return [claim, state_cell(default), share.replace(" (", "\n("), deciding]


def _print_universe(readings: Readings, universe: Universe) -> int:
    """Print the options of a universe, and the commands that train its models."""
    from thetarbm_cli.experiments.runs.loading import train_command

    default = readings.default.options
    for name, option in universe.options.items():
        mark = "" if option == default[name] else f"   (taken: {default[name]})"
        print_text(f"{name}: {option}{mark}\n    {readings.choices[name].options[option].why}", indent=4)
    click.echo("")
    for cell in readings.cells(universe):
        print_command("", train_command(cell.settings()))
    return 0
