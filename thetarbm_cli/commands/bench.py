"""``thetarbm bench``: how fast, against what, and how cost grows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.session import Session, emit_json, json_option, pass_session

if TYPE_CHECKING:
    from thetarbm_cli.benchmarks.ratios import Ratio
    from thetarbm_cli.benchmarks.scaling import Scaling


@click.command("bench")
@click.option("--quick", is_flag=True, help="Small sizes: a look, not a record.")
@click.option("--against", metavar="PEERS", help="sklearn, torch, learnergy, with commas [default: those installed].")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Also write bench.json and a plot here.")
@json_option
@pass_session
def command(session: Session, quick: bool, against: str | None, out: Path | None, as_json: bool) -> None:
    """Measure speed as ratios, side by side in one process, on real digits.

    Each figure stands beside its goal. Peers that are not installed are left out by name.
    """
    from thetarbm_cli.benchmarks.peers import PEERS, choose_peers
    from thetarbm_cli.benchmarks.ratios import Sizes, measure_ratios
    from thetarbm_cli.benchmarks.report import bench_report, write_report
    from thetarbm_cli.benchmarks.scaling import measure_scaling
    from thetarbm_cli.data.prepared import prepare

    chosen = choose_peers(against)
    for name in PEERS.keys() - set(chosen):
        session.say(f"left out: {name}{'' if against else ' (not installed)'}")
    data = prepare(session.data_dir)
    (train, labels), (test, _) = data.part("train"), data.part("test")
    sizes = Sizes.quick() if quick else Sizes()
    ratios = measure_ratios(
        train, labels, test, sizes, chosen, session.threads, on_ratio=None if as_json else _show_ratio
    )
    scaling = measure_scaling(train[: sizes.images], on_axis=None if as_json else _show_scaling)
    report: dict[str, Any] = bench_report(session.threads, sizes, ratios, scaling)
    if out is not None:
        for path in write_report(report, out):
            session.say(f"wrote {path}")
    if as_json:
        emit_json(report)


def _show_ratio(ratio: Ratio) -> None:
    sign = "<=" if ratio.at_most else ">="
    met = "met" if ratio.met else "not met"
    click.echo(f"{ratio.name:<48}{ratio.value:>8.2f} {ratio.unit}   goal {sign} {ratio.goal:<6g}{met}")


def _show_scaling(scaling: Scaling) -> None:
    points = "  ".join(
        f"{value}: {seconds:.3f} s" for value, seconds in zip(scaling.values, scaling.seconds, strict=True)
    )
    click.echo(f"epoch against {scaling.axis:<10} ~ {scaling.axis}^{scaling.exponent:.2f}   {points}")
