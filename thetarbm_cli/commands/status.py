"""``thetarbm status``: what of the suite is done, and why the rest is not."""

from __future__ import annotations

from pathlib import Path

import click

from thetarbm_cli.commands.completion import complete_names
from thetarbm_cli.commands.options import json_option, profile_option, seeds_option, source_option, suite_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import EXIT_RUNS_MISSING
from thetarbm_cli.ui import print_table, state_cell


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
) -> int:
    """Say of each cell whether it is done, missing, failed, stale or running, and why.

    Exit code 3 if runs are missing. NAME is as for run.
    """
    from thetarbm_cli.experiments.execution.plan import RecordedRuns, recorded_sources, suite_status
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.experiments.suite_file import find_suite, shipped_path
    from thetarbm_cli.outputs import Status

    suite = load_suite(suite_path, check_settings=False)
    # Models, whose import takes long, are asked about the settings of a user's suite; the shipped one is right.
    is_shipped = find_suite(suite_path).samefile(shipped_path())
    check = (lambda: None) if is_shipped else lambda: load_suite(suite_path)
    recorded = RecordedRuns(session.run_context())
    cells = suite_status(recorded, suite, names, profile, seeds=seeds, source=source, check=check)
    output = Status(due=sum(cell.state != "done" for cell in cells), cells=cells)
    if not session.results.is_dir() and not any(cell.done for cell in cells):
        session.say(f"the results folder {session.results} does not exist: nothing was run yet")
    if not session.print_json(output):
        rows = [
            (cell.cell, f"{cell.done}/{cell.seeds}", state_cell(cell.state), (cell.reason, "weak")) for cell in cells
        ]
        # A column of reasons that nobody gives would only be in the way.
        width = 4 if any(cell.reason for cell in cells) else 3
        print_table(("cell", "seeds", "state", "why")[:width], [row[:width] for row in rows])
        told = f"{output.due} of {len(cells)} cells lack runs" if output.due else "all runs are done"
        due = [cell.cell for cell in cells if cell.state != "done"] if source is None else []
        for other, count in (recorded_sources(recorded, suite, due, profile, seeds=seeds) if due else {}).items():
            told += f"; {'all' if count == output.due else count} are recorded for --source {other}"
        session.say(told)
    return EXIT_RUNS_MISSING if output.due else 0
