"""``thetarbm bench``: how fast, against what, how cost grows, and what would pay."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli.commands.session import Session, emit_json, json_option, pass_session

if TYPE_CHECKING:
    from thetarbm_cli.benchmarks.goals import Ratio
    from thetarbm_cli.benchmarks.parts import Part
    from thetarbm_cli.benchmarks.payoffs import Payoff
    from thetarbm_cli.benchmarks.scaling import Scaling


@click.command("bench")
@click.option("--quick", is_flag=True, help="Small sizes: a look, not a record.")
@click.option("--against", metavar="PEERS", help="sklearn, torch, learnergy, with commas [default: those installed].")
@click.option(
    "--run-log",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="What `run --seeds 1 -j 2 --json` printed, for the time of the reproduction [default: the records' times].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Also write bench.json, bench.md and a plot here.",
)
@json_option
@pass_session
def command(
    session: Session, quick: bool, against: str | None, run_log: Path | None, out: Path | None, as_json: bool
) -> None:
    """Measure speed as ratios, side by side in one process, on real digits.

    Each figure stands beside its goal. Peers that are not installed are left out by name. Then where the time goes, how
    that of an epoch grows with each size, and what a bigger batch, float16 storage or a second thread would gain.
    """
    from thetarbm_cli.benchmarks.goals import Sizes
    from thetarbm_cli.benchmarks.machine import describe_machine
    from thetarbm_cli.benchmarks.parts import measure_parts
    from thetarbm_cli.benchmarks.payoffs import measure_payoffs
    from thetarbm_cli.benchmarks.peers import choose_peers, left_out_peers
    from thetarbm_cli.benchmarks.ratios import measure_ratios
    from thetarbm_cli.benchmarks.report import bench_report, check_plotting, write_report
    from thetarbm_cli.benchmarks.scaling import measure_scaling
    from thetarbm_cli.data.prepared import prepare

    chosen = choose_peers(against)
    if out is not None:
        check_plotting()
    reproduction, missing = _reproduction(session, run_log)
    left_out = left_out_peers(chosen) + missing
    for what in left_out:
        session.say(f"left out: {what}")
    machine = describe_machine(session.threads)
    data = prepare(session.data_dir)
    (train, labels), (test, _) = data.part("train"), data.part("test")
    sizes = Sizes.quick() if quick else Sizes()
    show: dict[str, Any] = {} if as_json else {"on_ratio": _show_ratio}
    ratios = measure_ratios(train, labels, test, sizes, chosen, session.threads, **show)
    if reproduction is not None:
        ratios.append(reproduction)
        if not as_json:
            _show_ratio(reproduction)
    images = train[: sizes.images]
    parts = measure_parts(images, test, sizes, on_part=None if as_json else _show_part)
    scaling = measure_scaling(images, rounds=sizes.scaling_rounds, on_axis=None if as_json else _show_scaling)
    payoffs = measure_payoffs(images, sizes, on_payoff=None if as_json else _show_payoff)
    report = bench_report(machine, sizes, ratios, parts, scaling, payoffs, left_out, images.shape[1])
    if not as_json:
        click.echo("\n".join(report["conclusions"]))
    if out is not None:
        for path in write_report(report, out):
            session.say(f"wrote {path}")
    if as_json:
        emit_json(report)


def _reproduction(session: Session, run_log: Path | None) -> tuple[Ratio | None, list[str]]:
    """The time of the whole reproduction, or why it is left out."""
    from thetarbm_cli.benchmarks.reproduction import logged_time, recorded_times
    from thetarbm_cli.experiments.suite.loader import load_suite

    if run_log is not None:
        return logged_time(run_log), []
    recorded = recorded_times(session.workplace(), load_suite(None))
    ratio = recorded.ratio()
    if ratio is not None:
        return ratio, []
    return None, [
        f"one-seed reproduction ({recorded.runs} of {recorded.wanted} runs are recorded in {session.results})"
    ]


def _show_ratio(ratio: Ratio) -> None:
    sign = "<=" if ratio.at_most else ">="
    met = "met" if ratio.met else "not met"
    note = f"({ratio.note})" if ratio.note else ""
    line = f"{ratio.name:<46}{ratio.value:>8.2f} {ratio.unit:<3}  goal {sign} {ratio.goal:<5g} {met:<8} {note}"
    click.echo(line.rstrip())


def _show_part(part: Part) -> None:
    click.echo(f"{part.of:<12}{part.name:<34}{part.share:>8.0%}")


def _show_scaling(scaling: Scaling) -> None:
    points = "  ".join(
        f"{value}: {seconds:.3f} s" for value, seconds in zip(scaling.values, scaling.seconds, strict=True)
    )
    click.echo(f"epoch against {scaling.axis:<10} ~ {scaling.axis}^{scaling.exponent:.2f}   {points}")


def _show_payoff(payoff: Payoff) -> None:
    memory = "" if payoff.memory == 1 else f", training set {payoff.memory:g} ×"
    click.echo(f"{payoff.change:<8} {payoff.setting:<42} {payoff.speedup:>6.2f} × as fast{memory}")
