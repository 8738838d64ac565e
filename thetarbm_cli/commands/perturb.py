"""``thetarbm perturb``: Table 3."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import click

from thetarbm_cli.commands.options import (
    images_option,
    jobs_option,
    json_option,
    profile_option,
    seed_option,
    set_option,
)
from thetarbm_cli.commands.progress import RunsDisplay
from thetarbm_cli.commands.session import Session, emit_json, pass_session
from thetarbm_cli.commands.terminal import Cell as TableCell
from thetarbm_cli.commands.terminal import print_table, print_text
from thetarbm_cli.errors import InputError, ThetaRBMError

if TYPE_CHECKING:
    from thetarbm_cli.experiments.execution.plan import PlannedRun
    from thetarbm_cli.experiments.runs.store import RunContext
    from thetarbm_cli.experiments.suite.schema import Cell
    from thetarbm_cli.outputs import Perturb

ERROR = "test_error_percent"


class NumberList(click.ParamType):  # type: ignore[type-arg]
    """Numbers with commas between them."""

    name = "numbers"

    def __init__(self, kind: type[int] | type[float], low: float, high: float) -> None:
        self.kind, self.low, self.high = kind, low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse and check ``1,2,3``."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(self.kind(word) for word in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of {self.kind.__name__} numbers such as {self.low:g},…", param, ctx)
        for number in numbers:
            if not self.low <= number <= self.high:
                self.fail(f"{number} is outside {self.low:g}…{self.high:g}", param, ctx)
        return numbers


@click.command("perturb")
@click.option(
    "--n",
    "n_values",
    type=NumberList(int, 1, 1000),
    default="1,2,3,4",
    help="Largest errors of the orientation index.",
)
@click.option(
    "--p",
    "p_values",
    type=NumberList(float, 0.001, 0.999),
    default="0.1,0.2,0.3,0.4",
    help="Probabilities of the Binomial distribution.",
)
@click.option(
    "--scope",
    type=click.Choice(["train", "rbm", "all"]),
    default="train",
    help="Perturb training (RBM and SVM), the RBM's training only, or the test too.",
)
@profile_option
@images_option
@seed_option
@set_option
@jobs_option
@json_option
@pass_session
def command(
    session: Session,
    n_values: tuple[int, ...],
    p_values: tuple[float, ...],
    scope: Literal["train", "rbm", "all"],
    profile: str,
    source: str,
    seed: int,
    assignments: tuple[str, ...],
    jobs: int,
    as_json: bool,
) -> None:
    """Make Table 3: the θ-RBM's test error when orientations are off by ±ε, ε ~ Binomial(n, p).

    Errors are read from the records; runs that are missing are made, as by thetarbm run perturbation.
    """
    from thetarbm_cli.experiments.execution.local import LocalExecutor
    from thetarbm_cli.experiments.execution.plan import make_plan, pending
    from thetarbm_cli.experiments.runs.images import require_images
    from thetarbm_cli.experiments.runs.settings import parse_assignments
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.experiments.suite_file import shipped_path
    from thetarbm_cli.outputs import Perturb, PerturbedCell

    assigned = parse_assignments(assignments)
    if assigned.perturbation.keys() & {"n", "p", "scope"}:
        raise InputError("n, p and scope of the perturbation are set by --n, --p and --scope here, not by --set")
    suite = load_suite(shipped_path(), check_settings=False)
    as_published = _unperturbed(suite.cells(profile))
    unperturbed = replace(
        as_published,
        name="unperturbed",
        data={**as_published.data, "source": source, **assigned.data},
        parameters={**as_published.parameters, **assigned.parameters},
        svm={**as_published.svm, **assigned.svm},
        **assigned.run,
        measures=("error",),
        offsets=(),
    )
    cells = {
        (n, p): replace(
            unperturbed,
            name=f"n = {n}, p = {p}",
            perturbation={**assigned.perturbation, "n": n, "p": p, "scope": scope},
        )
        for n in n_values
        for p in p_values
    }
    context = session.run_context()
    require_images(context.data_dir, unperturbed.settings().data)
    plan = make_plan(context, [unperturbed, *cells.values()], only_seed=seed)
    # Run and test error by the name of the cell.
    errors: dict[str, tuple[str, float]] = {}
    due = pending(plan, retry_failed=True)
    with RunsDisplay(session.quiet, due, jobs) as display:
        for run, outcome in LocalExecutor(jobs)(context, due, keep_going=False, on_report=display.working):
            if outcome.run is None or outcome.test_error_percent is None:
                raise ThetaRBMError(f"{run.cells[0]}: {outcome.error}")
            errors |= dict.fromkeys(run.cells, (outcome.run, outcome.test_error_percent))
            display.finished(run, outcome)
    for run in plan:
        if run not in due:
            errors |= dict.fromkeys(run.cells, _recorded(context, run))
    output = Perturb(scope=scope, seed=seed, unperturbed_error_percent=errors[unperturbed.name][1], cells=[])
    for (n, p), cell in cells.items():
        name, error = errors[cell.name]
        output.cells.append(PerturbedCell(n=n, p=p, test_error_percent=error, run=name))
    if as_json:
        emit_json(output)
    else:
        _show(output, suite.cells(), n_values, p_values)


def _unperturbed(cells: list[Cell]) -> Cell:
    """Find the cell that Table 3 is compared with."""
    found = next(cell for cell in cells if "3" in cell.tables).unperturbed(cells)
    assert found is not None
    return found


def _recorded(context: RunContext, run: PlannedRun) -> tuple[str, float]:
    """Read the name and the test error of a run that is done."""
    assert run.run is not None
    record = context.store.load(run.run)
    assert record is not None
    assert record.metrics is not None
    error = record.metrics.value(ERROR)
    if error is None:
        raise InputError(f"{record.settings.data.source} has no labels, which a test error needs")
    return run.run, error


def _show(table: Perturb, suite: list[Cell], n_values: tuple[int, ...], p_values: tuple[float, ...]) -> None:
    """Print the table with the paper's numbers in brackets."""
    paper = {(cell.at["n"], cell.at["p"]): cell.published[ERROR] for cell in suite if "3" in cell.tables}
    unperturbed, paper_unperturbed = table.unperturbed_error_percent, _unperturbed(suite).published[ERROR]
    errors = {(cell.n, cell.p): cell.test_error_percent for cell in table.cells}
    print_text(f"test error in % of seed {table.seed}, the paper's in brackets; * above the unperturbed error")
    rows: list[list[TableCell]] = []
    for n in n_values:
        rows.append([f"n = {n}"])
        for p in p_values:
            published = f"\n({_starred(paper[n, p], paper_unperturbed, 1)})" if (n, p) in paper else ""
            rows[-1].append(f"{_starred(errors[n, p], unperturbed, 2)}{published}")
    print_table(["", *(f"p = {p:g}" for p in p_values)], rows)
    print_text(f"unperturbed: {unperturbed:.2f} ({paper_unperturbed})")


def _starred(error: float, unperturbed: float, digits: int) -> str:
    return f"{error:.{digits}f}{'*' if error > unperturbed else ''}"
