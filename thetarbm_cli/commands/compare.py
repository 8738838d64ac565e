"""``thetarbm compare``: where runs differ."""

from __future__ import annotations

from typing import Any

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.options import json_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import InputError
from thetarbm_cli.ui import print_table


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN…", shell_complete=complete_runs)
@json_option
@pass_session
def command(session: Session, runs: tuple[str, ...]) -> None:
    """Show the settings and numbers in which runs differ.

    RUN is an id or the beginning of one; thetarbm list shows them.
    """
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.reporting.listing import compare_runs

    store = RunStore(session.results)
    names = list(dict.fromkeys(store.find(run) for run in runs))
    if len(names) < 2:
        raise InputError("name at least two different runs; thetarbm list shows them")
    output = compare_runs([store.require(name) for name in names])
    if session.print_json(output):
        return
    rows = [
        [name, *(_word(value) for value in values)]
        for part in (output.settings, output.measures)
        for name, values in part.items()
    ]
    print_table(["", *output.runs], rows)


def _word(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return "—" if value is None else str(value)
