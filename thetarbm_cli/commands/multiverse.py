"""``thetarbm multiverse``: the paper's claims over all plausible readings."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.common import Session, jobs_option, json_option, pass_session, suite_option
from thetarbm_cli.commands.suite import cluster_options, executor_options, make_jobs
from thetarbm_cli.errors import EXIT_FAILED, EXIT_RUNS_MISSING
from thetarbm_cli.followup import command_line
from thetarbm_cli.ui import Cell as TableCell
from thetarbm_cli.ui import print_command, print_table, print_text, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.suite import Suite
    from thetarbm_cli.universes import Readings, Universe


@click.command("multiverse")
@click.option(
    "--universes",
    type=click.IntRange(min=1, max=999),
    help="Make the runs of so many sampled universes, beside the default and every change of one option.",
)
@click.option(
    "--design",
    type=click.Choice(["balanced", "one-at-a-time"]),
    help="balanced also samples universes in which all choices vary; given by itself, it makes runs, too.",
)
@click.option("--of", default="tables", help="Part of the paper: tables, perturbation, mnist or fashion.")
@click.option("--profile", default="survey", help="Size of the runs.")
@click.option("--universe", metavar="NAME", help="Print the settings of one universe: default, batch=50, u12, …")
@suite_option
@jobs_option
@click.option("-n", "--dry-run", is_flag=True, help="Only say how many runs are missing; exit code 3 if any.")
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
    jobs: int,
    dry_run: bool,
    **where: Any,
) -> int:
    """Judge the paper's claims over all plausible readings of what it leaves open.

    Without --universes or --design, what is recorded is printed. With one, the runs that are missing are made first;
    the same call goes on after an interruption, and more universes keep those that are there:

    \b
    thetarbm multiverse
    thetarbm multiverse --universes 48 -j 2
    thetarbm multiverse --universe u12
    """  # noqa: D301  click takes \b as "keep these lines"
    from thetarbm_cli.suite import find_suite, load_suite
    from thetarbm_cli.universes import Readings, noted_universes

    suite = load_suite(suite_path, check_settings=False)
    readings = Readings(suite, of, profile)
    if universe is not None:
        return _print_universe(readings, readings.find(universe, noted_universes(session.results, readings)))
    if universes is not None or design is not None or dry_run:
        on_cluster = cluster_options(**where)
        wanted = readings.universes(0 if design == "one-at-a-time" else universes or 0)
        code = _make_runs(session, readings, wanted, find_suite(suite_path).name, jobs, dry_run, **on_cluster)
        if dry_run or code:
            return code
    return _print_analysis(session, suite, readings, profile)


def _make_runs(
    session: Session,
    readings: Readings,
    wanted: list[Universe],
    suite: str,
    jobs: int,
    dry_run: bool,
    **on_cluster: Any,
) -> int:
    """Make the missing runs, stage by stage; one that diverges is an outcome like any other."""
    from thetarbm_cli.schedule import plan
    from thetarbm_cli.store import WEIGHTS
    from thetarbm_cli.universes import note_universes, pack_path, remove_weights

    store, stages = session.store(), readings.stages(wanted)
    planned = plan(store, [cell for stage in stages for cell in stage], seeds=1, suite=suite)
    due = [job for job in planned if job.state not in ("done", "failed")]
    session.say(f"{len(wanted)} universes, {len(planned)} different runs, {len(due)} of them to make")
    if dry_run:
        return EXIT_RUNS_MISSING if due else 0
    note_universes(session.results, readings, wanted)
    runs = {job.run for job in planned if job.run is not None}
    # Weights that were there before are somebody's.
    kept = {run for run in runs if store.path(run, WEIGHTS).exists()}
    lost = 0
    try:
        for stage in stages:
            names = {cell.name for cell in stage}
            own = [job for job in due if job.cells[0] in names]
            finished = make_jobs(session, store, own, jobs, keep_going=True, **on_cluster)
            for done in finished.values():
                training = store.load(done.run) if done.run else None
                lost += done.state == "failed" and (training is None or training.state != "diverged")
                runs.add(done.run or "")
            remove_weights(store, {done.run for done in finished.values() if done.run} - kept)
    finally:
        if due:
            store.pack(pack_path(session.results), runs.intersection(store.identifiers()), slim=True)
    return EXIT_FAILED if lost else 0


def _print_analysis(session: Session, suite: Suite, readings: Readings, profile: str) -> int:
    """Print what the recorded universes say."""
    from thetarbm_cli.reporting.multiverse import analyse, summary, tables
    from thetarbm_cli.universes import noted_universes

    trainings = session.store().trainings()
    output = analyse(readings, trainings, noted_universes(session.results, readings)).output()
    if session.print_json(output):
        return 0
    if not output.universes:
        print_text(f"no universe is recorded; {command_line('multiverse', '--universes', '48')} makes the runs")
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
    claim, default, share, *others = row
    return [claim, state_cell(default), share.replace(" (", "\n(").replace("), ", "),\n"), *others]


def _print_universe(readings: Readings, universe: Universe) -> int:
    """Print the options of a universe, and the commands that train its models and measure them."""
    from thetarbm_cli.specs import measure_settings, measuring

    default = readings.default.options
    for name, option in universe.options.items():
        mark = "" if option == default[name] else f"   (taken: {default[name]})"
        print_text(f"{name}: {option}{mark}\n    {readings.choices[name].options[option].why}", indent=4)
    click.echo("")
    measured: dict[str, list[str]] = {}
    for cell in readings.cells(universe):
        print_command("", command_line("train", *cell.train_spec().words()))
        named = {name: value for name, value in cell.given.items() if name in measure_settings()}
        settings = [
            ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
            for name, value in named.items()
            if measuring({name: value}) != measuring({})
        ]
        measured.setdefault(command_line("evaluate", "RUN", *itertools.chain(*settings)), []).append(cell.model)
    for words, models in measured.items():
        print_text(f"then, of {', '.join(dict.fromkeys(models))}:")
        print_command("", words)
    return 0
