"""``thetarbm evaluate``: the RBF-SVM's error and the γ-score of runs."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.completion import complete_runs
from thetarbm_cli.commands.options import json_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.errors import EXIT_FAILED, InputError, StorageError, ThetaRBMError
from thetarbm_cli.outcomes import GAMMA_TEST, MEASURES, MISSING, split_column
from thetarbm_cli.ui import JobsDisplay, print_text

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.record import RunRecord
    from thetarbm_cli.experiments.runs.store import RunContext
    from thetarbm_cli.outputs import EvaluatedRun

logger = logging.getLogger("thetarbm")


@click.command("evaluate")
@click.argument("runs", nargs=-1, metavar="RUN…", shell_complete=complete_runs)
@click.option("--all", "every", is_flag=True, help="Every finished run in the results folder.")
@click.option("--offset", type=float, default=20.0, help="Δ of the γ-score's rotations, in degrees.")
@click.option("--grid-search", is_flag=True, help="Also choose C and γ of the SVM on the validation images.")
@click.option("--invariance", is_flag=True, help="Also take three other measures of invariance, on test images.")
@click.option("--force", is_flag=True, help="Measure again what the record has.")
@json_option
@pass_session
def command(
    session: Session,
    runs: tuple[str, ...],
    every: bool,
    offset: float,
    grid_search: bool,
    invariance: bool,
    force: bool,
) -> int:
    """Measure runs: RBF-SVM test error (C = 10, γ = 0.02) and γ-score on train and test.

    RUN is an id, the beginning of one, or the path of its folder or run.json. With --all, runs that have numbers are
    printed from their records, and others are measured; one that cannot be is passed over with a warning, and the exit
    code is 1.
    """
    with session.progress("runs"):
        # The libraries take a second.
        from thetarbm_cli.experiments.runs.evaluation import evaluate_run, summary
        from thetarbm_cli.experiments.runs.loading import load_checked
        from thetarbm_cli.experiments.runs.record import DEFAULT_OFFSET
        from thetarbm_cli.outputs import Evaluate

    context = session.run_context()
    if every and runs:
        raise InputError("--all is for every finished run: name runs, or use --all, not both")
    if not every and not runs:
        raise InputError("name the runs to evaluate, or use --all for every finished run")
    # A run that is named wrongly is refused before any is measured.
    named = [load_checked(context, context.store.find(name)) for name in runs]
    chosen, damaged = trained_runs(context) if every else (named, 0)
    # A run that was made for its error alone is complete, unless more is asked for.
    as_recorded = every and not (force or grid_search or invariance) and offset == DEFAULT_OFFSET
    more = ("invariance",) if invariance else ()
    output = Evaluate(runs=[])
    with JobsDisplay(len(chosen), session.quiet) as display:
        for each in chosen:
            try:
                record, cached = evaluate_run(
                    context,
                    each.run,
                    known=None if every else each,
                    measures=("error",) if as_recorded and each.is_measured else ("error", "gamma", *more),
                    offset=offset,
                    search=grid_search,
                    force=force,
                    display=partial(display.step, each.run),
                )
                output.runs.append(summary(record, cached, offset))
            except ThetaRBMError as error:
                # On a full disk no other run could be recorded either.
                if not every or isinstance(error, StorageError):
                    raise
                logger.warning("%s", error)
            display.finished(each.run)
    if not session.print_json(output):
        for measured in output.runs:
            _show(measured)
    return 0 if len(output.runs) == len(chosen) + damaged else EXIT_FAILED


def trained_runs(context: RunContext) -> tuple[list[RunRecord], int]:
    """Load all runs that are done; count those with a record that cannot be used, with a warning for each."""
    folder, runs = context.store.folder, context.store.identifiers()
    if not runs and not folder.is_dir():
        raise InputError(f"there are no runs: the folder {folder} does not exist; thetarbm train makes one")
    records = context.store.load_all()
    done = [record for record in records if record.state == "done"]
    damaged = len(runs) - len(records)
    if not done and not damaged:
        raise InputError(f"there is no finished run in {folder}; thetarbm train makes one")
    return done, damaged


def _show(run: EvaluatedRun) -> None:
    cached = " (cached)" if run.cached else ""
    sparsity = "" if run.sparsity is None else f"sparsity {run.sparsity}, "
    print_text(f"{run.run}{cached}  {sparsity}seed {run.seed}")
    unaligned = (run.test_error_percent_unaligned, run.gamma_train_unaligned, run.gamma_test_unaligned)
    twice = any(value is not None for value in unaligned)
    _show_numbers(" aligned" if twice else "", run.test_error_percent, run.gamma_train, run.gamma_test)
    if twice:
        _show_numbers(" not aligned", *unaligned)
    for name, value in run.more.items():
        measure = MEASURES[split_column(name)[0]]
        print_text(f"  {measure.with_unit}{', not aligned' * (measure.name != name)} {measure.text(value)}", indent=4)
    if run.dead_units:
        print_text(f"  {run.dead_units} dead units are left out of γ", indent=4)
    if found := run.grid_search:
        print_text(
            f"  grid search: C = {found.C:g}, γ = {found.gamma:g}, validation error "
            f"{found.validation_error_percent:.2f} %, test error {found.test_error_percent:.2f} %",
            indent=4,
        )


def _show_numbers(how: str, error: float | None, gamma_train: float | None, gamma_test: float | None) -> None:
    percent = f"{MISSING} (no labels)" if error is None else f"{error:.2f} %"
    show = MEASURES[GAMMA_TEST].text
    print_text(f"  test error{how} {percent}   γ train {show(gamma_train)}   γ test {show(gamma_test)}", indent=2)
