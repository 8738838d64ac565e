"""``thetarbm show``: one run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.options import json_option, suite_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.ui import print_fields, terminal_width

if TYPE_CHECKING:
    from thetarbm_cli.outputs import Show, UnfinishedRun


@click.command("show")
@click.argument("run", shell_complete=complete_runs)
@suite_option
@json_option
@pass_session
def command(session: Session, run: str, suite_path: Path | None) -> None:
    """Show one run: settings that differ from the defaults, numbers next to the paper's, history, times, files.

    RUN is as for evaluate. Of a run that is being trained, its settings and how far it is are shown. Nothing is
    trained, measured or written.
    """
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.reporting.show import summarise, summarise_unfinished

    store = RunStore(session.results)
    name = store.find(run, unfinished=True)
    shown: Show | UnfinishedRun
    if name in store.unfinished():
        shown = summarise_unfinished(store, name)
    else:
        shown = summarise(store, store.require(name), load_suite(suite_path, check_settings=False))
    if not session.print_json(shown):
        _print(shown)


def _print(run: Show | UnfinishedRun) -> None:
    """Print labels and lines; what went wrong is red, what is going on has a colour of its own."""
    from thetarbm_cli.reporting.show import to_sections

    print_fields(
        ("" if number else section.label, (line, section.style))
        for section in to_sections(run, width=terminal_width(), unicode=_has_unicode())
        for number, line in enumerate(section.lines)
    )


def _has_unicode() -> bool:
    """Say whether what reads stdout can take more than ASCII."""
    if os.environ.get("TERM") == "dumb":
        return False
    try:
        "▁█γ→".encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
