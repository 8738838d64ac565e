"""``thetarbm status``: what of the suite is done, and why the rest is not."""

from __future__ import annotations

from pathlib import Path

import click

from thetarbm_cli.commands.completion import complete_names
from thetarbm_cli.commands.options import json_option, profile_option, seeds_option, source_option, suite_option
from thetarbm_cli.commands.session import Session, emit_json, pass_session
from thetarbm_cli.errors import EXIT_RUNS_MISSING


@click.command("status")
@click.argument("names", nargs=-1, metavar="[NAME]…", shell_complete=complete_names)
@suite_option
@profile_option
@seeds_option
@source_option
@json_option
@pass_session
def command(
    session: Session,
    names: tuple[str, ...],
    suite_path: Path | None,
    profile: str,
    seeds: int | None,
    source: str | None,
    as_json: bool,
) -> int:
    """Say of each cell whether it is done, missing, failed, stale or running, and why.

    Exit code 3 if runs are missing. NAME is as for run.
    """
    from thetarbm_cli.experiments.execution.plan import suite_status
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.outputs import Status

    suite = load_suite(suite_path)
    cells = suite_status(session.run_context(), session.results, suite, names, profile, seeds=seeds, source=source)
    output = Status(due=sum(cell.state != "done" for cell in cells), cells=cells)
    if not session.results.is_dir():
        session.say(f"the results folder {session.results} does not exist: nothing was run yet")
    if as_json:
        emit_json(output)
    else:
        width = max((len(cell.cell) for cell in cells), default=0)
        for cell in cells:
            reason = f"  {cell.reason}" if cell.reason else ""
            click.echo(f"{cell.cell:<{width}}  {cell.done}/{cell.seeds}  {cell.state:<8}{reason}".rstrip())
        session.say(f"{output.due} of {len(cells)} cells lack runs" if output.due else "all runs are done")
    return EXIT_RUNS_MISSING if output.due else 0
