"""``thetarbm evaluate``: the RBF-SVM's error and the γ-score of runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.options import json_option
from thetarbm_cli.commands.session import Session, emit_json, pass_session
from thetarbm_cli.errors import EXIT_FAILED, InputError, StorageError, ThetaRBMError

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.record import RunRecord
    from thetarbm_cli.experiments.runs.store import RunContext
    from thetarbm_cli.outputs import EvaluatedRun

logger = logging.getLogger("thetarbm")


@click.command("evaluate")
@click.argument("runs", nargs=-1, metavar="RUN…", shell_complete=complete_runs)
@click.option("--all", "every", is_flag=True, help="Every finished run in the results folder.")
@click.option("--offset", type=float, default=20.0, show_default=True, help="Δ of the γ-score's rotations, in degrees.")
@click.option("--grid-search", is_flag=True, help="Also choose C and γ of the SVM on the validation images.")
@click.option("--force", is_flag=True, help="Measure again what the record has.")
@json_option
@pass_session
def command(
    session: Session,
    runs: tuple[str, ...],
    every: bool,
    offset: float,
    grid_search: bool,
    force: bool,
    as_json: bool,
) -> int:
    """Measure runs: RBF-SVM test error (C = 10, γ = 0.02) and γ-score on train and test.

    RUN is an id, the beginning of one, or the path of its folder or run.json. With --all, runs that have numbers are
    printed from their records, and others are measured; one that cannot be is passed over with a warning, and the exit
    code is 1.
    """
    from thetarbm_cli.experiments.runs.evaluation import DEFAULT_OFFSET, evaluate_run, summary
    from thetarbm_cli.outputs import Evaluate

    context = session.run_context()
    if every and runs:
        raise InputError("--all is for every finished run: name runs, or use --all, not both")
    if not every and not runs:
        raise InputError("name the runs to evaluate, or use --all for every finished run")
    chosen, damaged = trained_runs(context) if every else (named_runs(context, runs), 0)
    # A run that was made for its error alone is complete, unless more is asked for.
    as_recorded = every and not (force or grid_search) and offset == DEFAULT_OFFSET
    output = Evaluate(runs=[])
    for each in chosen:
        try:
            record, cached = evaluate_run(
                context,
                each.run,
                known=None if every else each,
                with_gamma=not (as_recorded and each.is_measured),
                offset=offset,
                search=grid_search,
                force=force,
                display=lambda step, run=each.run: session.progress(f"{run}: {step}"),  # type: ignore[misc]
            )
        except ThetaRBMError as error:
            # On a full disk no other run could be recorded either.
            if not every or isinstance(error, StorageError):
                raise
            logger.warning("%s", error)
            continue
        output.runs.append(summary(record, cached, offset))
    if as_json:
        emit_json(output)
    else:
        for measured in output.runs:
            _show(measured)
    return 0 if len(output.runs) == len(chosen) + damaged else EXIT_FAILED


def trained_runs(context: RunContext) -> tuple[list[RunRecord], int]:
    """Load all runs that are done; count those with a record that cannot be used, with a warning for each."""
    folder = context.store.folder
    if not folder.is_dir():
        raise InputError(f"there are no runs: the folder {folder} does not exist; thetarbm train makes one")
    records = [context.store.load(run) for run in context.store.identifiers()]
    done = [record for record in records if record is not None and record.state == "done"]
    damaged = records.count(None)
    if not done and not damaged:
        raise InputError(f"there is no finished run in {folder}; thetarbm train makes one")
    return done, damaged


def named_runs(context: RunContext, names: tuple[str, ...]) -> list[RunRecord]:
    """Load the runs that a user names; a wrong one is refused before any is measured."""
    from thetarbm_cli.experiments.runs.loading import load_checked

    return [load_checked(context, context.store.find(name)) for name in names]


def _show(run: EvaluatedRun) -> None:
    cached = " (cached)" if run.cached else ""
    sparsity = "" if run.sparsity is None else f"sparsity {run.sparsity}, "
    click.echo(f"{run.run}{cached}  {sparsity}seed {run.seed}")
    unaligned = run.test_error_percent_unaligned
    aligned = "" if unaligned is None else " aligned"
    _show_numbers(aligned, run.test_error_percent, run.gamma_train, run.gamma_test)
    if unaligned is not None:
        _show_numbers(" not aligned", unaligned, run.gamma_train_unaligned, run.gamma_test_unaligned)
    if run.dead_units:
        click.echo(f"  {run.dead_units} dead units are left out of γ")
    if found := run.grid_search:
        click.echo(
            f"  grid search: C = {found.C:g}, γ = {found.gamma:g}, validation error "
            f"{found.validation_error_percent:.2f} %, test error {found.test_error_percent:.2f} %"
        )


def _show_numbers(how: str, error: float, gamma_train: float | None, gamma_test: float | None) -> None:
    click.echo(f"  test error{how} {error:.2f} %   γ train {_gamma(gamma_train)}   γ test {_gamma(gamma_test)}")


def _gamma(value: float | None) -> str:
    return "—" if value is None else f"{value:.4f}"
