"""``thetarbm perturb``: Table 3."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.completion import complete_sources
from thetarbm_cli.commands.session import Session, emit_json, json_option, pass_session
from thetarbm_cli.errors import InputError

if TYPE_CHECKING:
    from thetarbm_cli.experiments.execution.robustness import Robustness


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
    show_default=True,
    help="Largest errors of the orientation index.",
)
@click.option(
    "--p",
    "p_values",
    type=NumberList(float, 0.001, 0.999),
    default="0.1,0.2,0.3,0.4",
    show_default=True,
    help="Probabilities of the Binomial distribution.",
)
@click.option(
    "--scope",
    type=click.Choice(["train", "rbm", "all"]),
    default="train",
    show_default=True,
    help="Perturb training (RBM and SVM), the RBM's training only, or the test too.",
)
@click.option(
    "--profile",
    type=click.Choice(["paper", "quick", "tiny"]),
    default="paper",
    show_default=True,
    help="Size of the runs.",
)
@click.option("--source", default="generated", show_default=True, shell_complete=complete_sources, help="As for train.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="As for train.")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE", help="As for train.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Processes.")
@json_option
@pass_session
def command(
    session: Session,
    n_values: tuple[int, ...],
    p_values: tuple[float, ...],
    scope: str,
    profile: str,
    source: str,
    seed: int,
    assignments: tuple[str, ...],
    jobs: int,
    as_json: bool,
) -> None:
    """Table 3: the θ-RBM's test error when orientations are off by ±ε, ε ~ Binomial(n, p)."""
    from thetarbm_cli.experiments.execution.robustness import perturbation_table
    from thetarbm_cli.experiments.runs.settings import parse_assignments

    assigned = parse_assignments(assignments)
    if assigned.perturbation:
        raise InputError("the perturbation is set by --n, --p and --scope here, not by --set")
    table = perturbation_table(
        session.workplace(),
        n_values=n_values,
        p_values=p_values,
        scope=scope,
        profile=profile,
        data={"source": source, **assigned.data},
        parameters=assigned.parameters,
        seed=seed,
        processes=jobs,
        on_cell=session.say,
    )
    if as_json:
        emit_json(asdict(table))
    else:
        _show(table, n_values, p_values)


def _show(table: Robustness, n_values: tuple[int, ...], p_values: tuple[float, ...]) -> None:
    from thetarbm_cli.experiments.execution.robustness import published_table

    paper = published_table()
    errors = {(cell.n, cell.p): cell.test_error_percent for cell in table.cells}
    click.echo("test error in %, the paper's in brackets; * above the unperturbed error")
    click.echo("       " + "".join(f"p = {p:<12g}" for p in p_values))
    for n in n_values:
        words = []
        for p in p_values:
            ours = _starred(errors[n, p], table.unperturbed_error_percent, 2)
            published = paper.errors.get((n, p))
            beside = "" if published is None else f" ({_starred(published, paper.unperturbed, 1)})"
            words.append(f"{ours}{beside}".ljust(16))
        click.echo(f"n = {n}  " + "".join(words).rstrip())
    click.echo(f"unperturbed: {table.unperturbed_error_percent:.2f} ({paper.unperturbed})")


def _starred(error: float, unperturbed: float, digits: int) -> str:
    return f"{error:.{digits}f}{'*' if error > unperturbed else ''}"
