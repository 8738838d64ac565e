"""``thetarbm verify``: the paper's lemma and theorem, in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.common import Session, json_option, pass_session
from thetarbm_cli.errors import EXIT_FAILED
from thetarbm_cli.ui import print_table, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.measures.theory import Check


@click.command("verify")
@click.option("--rotations", type=click.IntRange(2, 72), default=9, help="S of the support set.")
@click.option("--size", type=click.IntRange(4, 40), default=28, help="Side of the images.")
@json_option
@pass_session
def command(session: Session, rotations: int, size: int) -> int:
    """Check the paper's mathematics numerically, on the shipped digits.

    Under exact (permutation) rotations every claim must hold to rounding; for bilinear and nearest ones the
    measured deviation is shown. Exit code 1 if an exact claim fails.
    """
    from thetarbm_cli.data.sources.mnist import sample_digits
    from thetarbm_cli.measures.theory import TOLERANCES, Verified, verify
    from thetarbm_cli.parameters import ROTATION_KINDS

    checks: list[Check] = []
    with session.progress("checking") as progress:

        def note(check: Check) -> None:
            checks.append(check)
            progress(len(checks), len(ROTATION_KINDS) * len(TOLERANCES))

        verify(sample_digits(1000, size), rotations=rotations, on_check=note)
    output = Verified(passed=all(check.passed for check in checks), checks=checks)
    if not session.print_json(output):
        rows = [(check.rotation, check.name, f"{check.value:.3g}", state_cell(_verdict(check))) for check in checks]
        print_table(("rotation", "check", "deviation", "verdict"), rows)
        click.echo("every exact claim holds" if output.passed else "an exact claim fails")
    return 0 if output.passed else EXIT_FAILED


def _verdict(check: Check) -> str:
    return "measured" if not check.exact else "pass" if check.passed else "FAIL"
