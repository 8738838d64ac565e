"""``thetarbm list``: every record."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.completion import complete_settings
from thetarbm_cli.commands.options import RegistryChoice, json_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES
from thetarbm_cli.registry import MODELS
from thetarbm_cli.ui import Cell, print_table, print_text, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.record import RunRecord
    from thetarbm_cli.outputs import ListedRun


@click.command("list")
@click.option("--model", "models", type=RegistryChoice(MODELS), multiple=True, help="Only runs of this model.")
@click.option(
    "--where",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_settings,
    help="Only runs with this setting, as sparsity=0.3.",
)
@click.option("--sort", default="run", metavar="KEY", help="Setting or number to sort by; -KEY: largest first.")
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print all settings and numbers as CSV.")
@pass_session
def command(session: Session, models: tuple[str, ...], where: tuple[str, ...], sort: str, as_csv: bool) -> None:
    """List every record: the settings that set it apart from the defaults, and its main numbers.

    KEY is a setting as --set names it, or model, seed, state, dataset, source, cells, or a number as
    test_error_percent; --sort also takes error and gamma. Of several --where all must hold. Runs that have no
    record yet are in the table alone.
    """
    from thetarbm_cli.experiments.runs.store import RunStore
    from thetarbm_cli.outputs import List
    from thetarbm_cli.reporting.listing import list_runs

    if session.as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other.")
    store = RunStore(session.results)
    records = [record for record in store.load_all() if not models or record.settings.model in models]
    output = List(runs=list_runs(records, where, sort))
    if session.print_json(output):
        return
    if as_csv:
        by_run = {record.run: record for record in records}
        _print_csv([by_run[line.run] for line in output.runs])
        return
    # A run that has no record yet has neither settings nor numbers to choose it by.
    begun = [] if where else [run for run in store.unfinished() if not models or run.rpartition("-")[0] in models]
    if not output.runs and not begun:
        if not session.results.is_dir():
            session.say(f"the results folder {session.results} does not exist: nothing was run yet")
        else:
            session.say(f"no record in {session.results} fits" if models or where else f"no run in {session.results}")
    else:
        # On a terminal, what all have is said once, as room is scarce.
        shared = _shared(output.runs) if sys.stdout.isatty() else {}
        rows = [_row(run, shared) for run in output.runs]
        rows += [[run, *"————", state_cell("running" if store.is_held(run) else "interrupted")] for run in begun]
        print_table(["run", "seed", "error %", "γ train", "γ test", "settings"], rows, last_below=True)
        if shared:
            print_text(f"all that have a record: {_words(shared)}", style="weak")
        if any(run.differs.get("data.protocol") == "choice" for run in output.runs):
            session.say("with data.protocol=choice, error and γ test are those of the validation images")
        session.say(f"{len(rows)} run{'' if len(rows) == 1 else 's'}")


def _shared(runs: Sequence[ListedRun]) -> dict[str, Any]:
    """Give the settings that all of several runs have."""
    if len(runs) < 2:
        return {}
    return {
        name: value
        for name, value in runs[0].differs.items()
        if all(name in run.differs and run.differs[name] == value for run in runs)
    }


def _words(settings: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def _row(run: ListedRun, shared: dict[str, Any]) -> list[Cell]:
    numbers = [MEASURES[name].text(getattr(run, name)) for name in (ERROR, GAMMA_TRAIN, GAMMA_TEST)]
    words = _words({name: value for name, value in run.differs.items() if name not in shared})
    settings: Cell = words if run.state == "done" else (f"failed {words}", "bad")
    return [run.run, str(run.seed), *numbers, settings]


def _print_csv(records: Sequence[RunRecord]) -> None:
    from thetarbm_cli.reporting.listing import columns_of, settings_of

    lines: list[dict[str, Any]] = [
        {**settings_of(record), "cells": " ".join(record.cells), **columns_of(record)} for record in records
    ]
    names = list(dict.fromkeys(name for line in lines for name in line)) or ["run"]
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
