"""``thetarbm show``: one run."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.options import json_option, suite_option
from thetarbm_cli.commands.session import Session, emit_json, pass_session
from thetarbm_cli.errors import InputError


@click.command("show")
@click.argument("run", shell_complete=complete_runs)
@suite_option
@json_option
@pass_session
def command(session: Session, run: str, suite_path: Path | None, as_json: bool) -> None:
    """Show one run: settings that differ from the defaults, numbers next to the paper's, history, times, files.

    RUN is an id, the beginning of one, or the path of its folder or of its run.json. Nothing is trained, measured or
    written.
    """
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.reporting.show import INDENT, summarise, to_sections

    store = RunStore(session.results)
    name = store.find(run)
    record = store.load(name, refuse_newer=True)
    if record is None:
        raise InputError(f"the record of {name} in {store.path(name)} cannot be used; train it again")
    shown = summarise(store, record, load_suite(suite_path, check_settings=False))
    if as_json:
        emit_json(shown)
        return
    color = False if os.environ.get("NO_COLOR") else None
    for section in to_sections(shown, unicode=_has_unicode()):
        label = click.style(f"{section.label:<{INDENT}}", bold=True, fg="red" if section.bad else None)
        for number, line in enumerate(section.lines):
            click.echo(f"{'' if number else label:<{INDENT}}{line}".rstrip(), color=color)


def _has_unicode() -> bool:
    """Say whether what reads stdout can take more than ASCII."""
    if os.environ.get("TERM") == "dumb":
        return False
    try:
        "▁█γ→".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
