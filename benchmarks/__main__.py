"""Run the benchmarks: ``python -m benchmarks`` from the project's root, or ``make bench``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click
import platformdirs
from threadpoolctl import threadpool_limits

from benchmarks.calls import command_times, thread_ratio
from benchmarks.epochs import (
    Sizes,
    choose_peers,
    epoch_parts,
    left_out_peers,
    peer_ratios,
    products_of,
    training_ratios,
)
from benchmarks.measures import gamma_parts, measure_ratios
from benchmarks.report import Bench, Part, Payoff, Ratio, Scaling, conclusions, describe_machine, write_report
from benchmarks.reproduction import logged_time, products_ratio, recorded_times
from benchmarks.scaling import measure_payoffs, measure_scaling
from benchmarks.timing import seconds_of
from thetarbm_cli.data.prepare import prepare
from thetarbm_cli.errors import InputError
from thetarbm_cli.store import Store
from thetarbm_cli.suite import load_suite

Result = TypeVar("Result", Ratio, Part, Scaling, Payoff)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    envvar="THETARBM_DATA_DIR",
    help="Folder of prepared data [default: user cache].",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path),
    default=Path("results"),
    envvar="THETARBM_RESULTS",
    help="Folder of runs [default: ./results].",
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="BLAS threads.")
def main(
    quick: bool,
    against: str | None,
    run_log: Path | None,
    out: Path | None,
    as_json: bool,
    data_dir: Path | None,
    results: Path,
    threads: int,
) -> None:
    """Measure speed as ratios, side by side in one process, on real digits.

    Each figure is printed with its goal. Peers that are not installed are left out by name. Then where the time goes,
    how that of an epoch grows with each size, and what a bigger batch, float16 storage or a second thread would gain.
    """
    data_dir = data_dir or platformdirs.user_cache_path("thetarbm")
    try:
        peers = choose_peers(against)
        reproduction, missing = _reproduction(data_dir, results, run_log)
    except InputError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
    left_out = left_out_peers(peers) + missing
    for what in left_out:
        click.echo(f"left out: {what}", err=True)
    sizes = Sizes.quick() if quick else Sizes()
    with threadpool_limits(threads, user_api="blas"):
        report = _measure(data_dir, results, sizes, peers, reproduction, left_out, threads, as_json)
    click.echo(report.model_dump_json(indent=2) if as_json else "\n".join(report.conclusions))
    if out is not None:
        for path in write_report(report, out):
            click.echo(f"wrote {path}", err=True)


def _measure(
    data_dir: Path,
    results: Path,
    sizes: Sizes,
    peers: list[str],
    reproduction: list[Ratio],
    left_out: list[str],
    threads: int,
    quiet: bool,
) -> Bench:
    """Measure everything, one figure after the other, printing each as it is known unless `quiet`."""

    def shown(results: Iterable[Result]) -> list[Result]:
        known = []
        for result in results:
            known.append(result)
            if not quiet:
                click.echo(result.line())
        return known

    machine = describe_machine(threads)
    data = prepare(data_dir)
    (train, labels), (test, _) = data.part("train"), data.part("test")
    images, labels = train[: sizes.images], labels[: sizes.images]
    ratios = [
        *shown(training_ratios(images, sizes)),
        *shown(peer_ratios(images, sizes, peers, threads)),
        *shown(measure_ratios(images, labels, test, sizes)),
        *shown(command_times(data_dir, results, sizes.rounds)),
        *shown(iter([thread_ratio()])),
        *shown(reproduction),
    ]
    if reproduction:
        epoch = products_of(images, 500, sizes.batch)
        each = min(seconds_of(epoch) for _ in range(sizes.rounds)) / (5 * len(images))
        ratios += shown([products_ratio(reproduction[0].value, load_suite(None), each)])
    parts = [*shown(epoch_parts(images, sizes)), *shown(gamma_parts(images, test[: sizes.gamma_parts], sizes))]
    scaling = shown(measure_scaling(images, sizes))
    payoffs = shown(measure_payoffs(images, sizes))
    return Bench(
        machine=machine,
        sizes=asdict(sizes),
        ratios=ratios,
        left_out=left_out,
        parts=parts,
        scaling=scaling,
        payoffs=payoffs,
        conclusions=conclusions(payoffs, images.shape[1], machine["memory_megabytes"]),
    )


def _reproduction(data_dir: Path, results: Path, run_log: Path | None) -> tuple[list[Ratio], list[str]]:
    """Find the time of the whole reproduction, or why it is left out."""
    if run_log is not None:
        return [logged_time(run_log)], []
    recorded = recorded_times(Store(results, data_dir), load_suite(None))
    ratio = recorded.ratio()
    if ratio is not None:
        return [ratio], []
    return [], [f"one-seed reproduction ({recorded.runs} of {recorded.wanted} runs are recorded in {results})"]


if __name__ == "__main__":
    main()
