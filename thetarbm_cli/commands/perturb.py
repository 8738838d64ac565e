"""``thetarbm perturb``: Table 3."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import click

from thetarbm_cli.commands.options import (
    NumberList,
    images_option,
    jobs_option,
    json_option,
    profile_option,
    seed_option,
    set_option,
)
from thetarbm_cli.commands.run import make_all
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.commands.tables import print_paper_table
from thetarbm_cli.errors import InputError
from thetarbm_cli.outcomes import ERROR
from thetarbm_cli.ui import print_text

if TYPE_CHECKING:
    from thetarbm_cli.experiments.runs.record import RunRecord
    from thetarbm_cli.experiments.runs.settings import Sections
    from thetarbm_cli.experiments.suite.schema import Cell
    from thetarbm_cli.outputs import Perturb


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
) -> None:
    """Make Table 3: the θ-RBM's test error when orientations are off by ±ε, ε ~ Binomial(n, p).

    Errors are read from the records; runs that are missing are made, as by thetarbm run perturbation.
    """
    from thetarbm_cli.experiments.execution.plan import make_plan, pending
    from thetarbm_cli.experiments.runs.images import require_images
    from thetarbm_cli.experiments.runs.settings import by_section, lay_over, parse_assignments
    from thetarbm_cli.outputs import Perturb, PerturbedCell

    assigned = parse_assignments(assignments)
    if assigned.keys() & {"perturbation.n", "perturbation.p", "perturbation.scope"}:
        raise InputError("n, p and scope of the perturbation are set by --n, --p and --scope here, not by --set")
    given = lay_over({"data": {"source": source}}, by_section(assigned))
    unperturbed, *perturbed = _cells(profile, given, n_values, p_values, scope)
    context = session.run_context()
    require_images(context.data_dir, unperturbed.settings().data)
    plan = make_plan(context, [unperturbed, *perturbed], only_seed=seed)
    made = make_all(session, context, pending(plan, retry_failed=True), jobs)
    names = {run: made[run].run if run in made else run.run for run in plan}
    records = {cell: context.store.require(str(name)) for run, name in names.items() for cell in run.cells}
    errors = {cell: _error(record) for cell, record in records.items()}
    output = Perturb(
        scope=scope,
        seed=seed,
        unperturbed_error_percent=errors[unperturbed.name],
        cells=[
            PerturbedCell(**cell.at, test_error_percent=errors[cell.name], run=records[cell.name].run)
            for cell in perturbed
        ],
    )
    if not session.print_json(output):
        _show(output, [unperturbed, *perturbed], records)


def _cells(
    profile: str, given: Sections, n_values: tuple[int, ...], p_values: tuple[float, ...], scope: str
) -> list[Cell]:
    """Lay what was asked for over the suite's cell that Table 3 is compared with: it, then one for each n and p."""
    from thetarbm_cli.experiments.suite.loader import load_suite
    from thetarbm_cli.experiments.suite_file import shipped_path

    suite = load_suite(shipped_path(), check_settings=False).cells(profile)
    published = {(cell.at["n"], cell.at["p"]): cell.published for cell in suite if "3" in cell.tables}
    usual = next(cell for cell in suite if "3" in cell.tables).unperturbed(suite)
    assert usual is not None
    asked = replace(usual, measures=("error",), offsets=()).with_settings(given)
    unperturbed = replace(asked, name="unperturbed", perturbation=None)
    return [
        unperturbed,
        *(
            replace(
                asked,
                name=f"n = {n}, p = {p}",
                at={"n": n, "p": p},
                tables=("3",),
                published=published.get((n, p), {}),
            ).with_settings({"perturbation": {"n": n, "p": p, "scope": scope}})
            for n in n_values
            for p in p_values
        ),
    ]


def _error(record: RunRecord) -> float:
    error = record.metrics.value(ERROR) if record.metrics else None
    if error is None:
        raise InputError(f"{record.settings.data.source} has no labels, which a test error needs")
    return error


def _show(output: Perturb, cells: list[Cell], records: dict[str, RunRecord]) -> None:
    """Print Table 3 as thetarbm tables does."""
    from thetarbm_cli.reporting.frame import Numbers, Source
    from thetarbm_cli.reporting.tables import build

    images = records[cells[0].name].data.test
    source = Source(images.source, images.sha256, images.dataset)
    print_paper_table(build("3", Numbers(source, cells, {name: [record] for name, record in records.items()})))
    print_text(f"All runs have seed {output.seed} and --scope {output.scope}.")
