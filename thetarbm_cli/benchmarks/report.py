"""The record of a benchmark: figures, machine, and a plot of how cost grows."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from thetarbm_cli import storage
from thetarbm_cli.benchmarks.goals import Ratio, Sizes
from thetarbm_cli.benchmarks.page import page
from thetarbm_cli.benchmarks.parts import Part
from thetarbm_cli.benchmarks.payoffs import Payoff, conclusions
from thetarbm_cli.benchmarks.scaling import Scaling
from thetarbm_cli.errors import InputError


def bench_report(
    machine: dict[str, Any],
    sizes: Sizes,
    ratios: list[Ratio],
    parts: list[Part],
    scaling: list[Scaling],
    payoffs: list[Payoff],
    left_out: list[str],
    pixels: int,
) -> dict[str, Any]:
    """One plain object with everything that was measured, where, and what was left out."""
    return {
        "machine": machine,
        "sizes": asdict(sizes),
        "ratios": [{**asdict(ratio), "met": ratio.met} for ratio in ratios],
        "left_out": left_out,
        "parts": [asdict(part) for part in parts],
        "scaling": [asdict(axis) for axis in scaling],
        "payoffs": [{**asdict(payoff), "pays": payoff.pays} for payoff in payoffs],
        "conclusions": conclusions(payoffs, pixels),
    }


def check_plotting() -> None:
    """Raise an `InputError` if there is no matplotlib, before minutes are spent on measuring."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise InputError("the plot needs matplotlib: install the extra bench, or leave out --out") from error


def write_report(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write ``bench.json``, ``bench.md`` and ``scaling.png``; the paths."""
    record, text, plot = folder / "bench.json", folder / "bench.md", folder / "scaling.png"
    with storage.replacing(plot) as temporary:
        _plot(report["scaling"], temporary)
    storage.write_text(text, page(report) + "\n![How cost grows](scaling.png)\n")
    storage.write_text(record, json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return [record, text, plot]


def _plot(scaling: list[dict[str, Any]], path: Path) -> None:
    """One panel a size: seconds of an epoch, and memory beside it."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    figure = Figure(figsize=(3.2 * len(scaling), 3.2), layout="constrained")
    # One scale of seconds for all panels: a flat line is a size that costs nothing.
    panels = figure.subplots(1, len(scaling), squeeze=False, sharey=True)[0]
    highest = max(megabytes for result in scaling for megabytes in result["peak_megabytes"])
    for axes, result in zip(panels, scaling, strict=True):
        axes.loglog(result["values"], result["seconds"], "o-", color="#0072b2")
        axes.set_xticks(result["values"], [f"{value:,}" for value in result["values"]])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
        axes.set_xlabel(result["axis"])
        axes.set_title(f"exponent {result['exponent']:.2f}")
        memory = axes.twinx()
        memory.plot(result["values"], result["peak_megabytes"], "s--", color="#d55e00")
        memory.set_ylim(0, 1.1 * highest)
        if axes is not panels[-1]:
            memory.set_yticklabels([])
    panels[0].set_ylabel("seconds an epoch", color="#0072b2")
    memory.set_ylabel("peak MB", color="#d55e00")
    FigureCanvasAgg(figure).print_png(path)
