"""``thetarbm clean``: remove stale runs, or weights."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from thetarbm_cli.commands.options import json_option, suite_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import InputError
from thetarbm_cli.ui import print_text


@click.command("clean")
@click.option("--weights", is_flag=True, help="Remove the weights of measured runs too; their records stay.")
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be removed, and how much room it takes.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@suite_option
@json_option
@pass_session
def command(session: Session, weights: bool, dry_run: bool, yes: bool, suite_path: Path | None) -> None:
    """Remove runs that were made for the suite and that it no longer asks for.

    Runs made by hand, for another suite or before records named their suite stay. What goes is listed, and you are
    asked first.
    """
    from thetarbm_cli.experiments.execution.cleaning import all_weights, remove, stale_runs
    from thetarbm_cli.experiments.suite.loader import load_suite, suite_identity
    from thetarbm_cli.outputs import Clean

    context = session.run_context()
    suite = load_suite(suite_path)
    removals = stale_runs(context, suite, suite_identity(suite, suite_path))
    if weights:
        stale = {removal.run for removal in removals}
        removals += [removal for removal in all_weights(context) if removal.run not in stale]
    size = sum(removal.bytes for removal in removals)
    if not session.as_json:
        for removal in removals:
            print_text(f"{removal.path}: {removal.reason}", indent=2)
    question = f"remove {len(removals)} of these, {size / 1e6:.1f} MB?"
    removes = not dry_run and bool(removals) and (yes or _is_confirmed(question))
    if removes:
        remove(removals)
    output = Clean(removed=removals if removes else [], bytes=size if removes else 0)
    if dry_run:
        output.would_remove, output.would_free_bytes = removals, size
    if session.print_json(output):
        return
    if not removals:
        click.echo("nothing to remove")
    elif removes:
        click.echo(f"{len(removals)} removed, {size / 1e6:.1f} MB")
    elif dry_run:
        click.echo(f"{len(removals)} would be removed, {size / 1e6:.1f} MB")
    else:
        click.echo("nothing removed")


def _is_confirmed(question: str) -> bool:
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise InputError("nobody is there to answer, and nothing was removed; --yes removes without asking") from None
