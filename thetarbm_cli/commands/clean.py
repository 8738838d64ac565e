"""``thetarbm clean``: remove stale runs, or weights."""

from __future__ import annotations

from pathlib import Path

import click

from thetarbm_cli.commands.session import Session, emit_json, json_option, pass_session
from thetarbm_cli.commands.suite_options import suite_option


@click.command("clean")
@click.option("--weights", is_flag=True, help="Remove the weights of measured runs too; their records stay.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@suite_option
@json_option
@pass_session
def command(session: Session, weights: bool, yes: bool, suite_path: Path | None, as_json: bool) -> None:
    """Remove runs that were made for the suite and that it no longer asks for.

    Runs made by hand stay. What goes is listed, and you are asked first.
    """
    from thetarbm_cli.experiments.execution.cleaning import all_weights, remove, stale_runs
    from thetarbm_cli.experiments.suite.loader import load_suite

    place = session.workplace()
    removals = stale_runs(place, load_suite(suite_path))
    if weights:
        stale = {removal.run for removal in removals}
        removals += [removal for removal in all_weights(place) if removal.run not in stale]
    size = sum(removal.bytes for removal in removals)
    rows = [{"run": each.run, "path": str(each.path), "reason": each.reason} for each in removals]
    if not as_json:
        for removal in removals:
            click.echo(f"{removal.path}: {removal.reason}")
    if removals and not yes:
        click.confirm(f"remove {len(removals)} of these, {size / 1e6:.1f} MB?", abort=True, err=True)
    remove(removals)
    if as_json:
        emit_json({"removed": rows, "bytes": size})
    else:
        click.echo(f"{len(removals)} removed, {size / 1e6:.1f} MB" if removals else "nothing to remove")
