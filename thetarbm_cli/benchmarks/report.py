"""The record of a benchmark: figures, machine, and a plot of how cost grows."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from thetarbm_cli import storage
from thetarbm_cli.backend import NumpyBackend
from thetarbm_cli.benchmarks.ratios import Ratio, Sizes
from thetarbm_cli.benchmarks.scaling import Scaling
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.environment import describe_environment


def bench_report(threads: int, sizes: Sizes, ratios: list[Ratio], scaling: list[Scaling]) -> dict[str, Any]:
    """One plain object with everything that was measured and where."""
    return {
        "machine": {**describe_environment(NumpyBackend()), "threads": threads},
        "sizes": asdict(sizes),
        "ratios": [{**asdict(ratio), "met": ratio.met} for ratio in ratios],
        "scaling": [asdict(axis) for axis in scaling],
    }


def write_report(report: dict[str, Any], folder: Path) -> list[Path]:
    """Write ``bench.json`` and ``scaling.png``; the paths."""
    record, plot = folder / "bench.json", folder / "scaling.png"
    storage.write_text(record, json.dumps(report, indent=1, ensure_ascii=False) + "\n")
    with storage.replacing(plot) as temporary:
        _plot(report["scaling"], temporary)
    return [record, plot]


def _plot(scaling: list[dict[str, Any]], path: Path) -> None:
    """One panel a size: seconds of an epoch, and memory beside it."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("the plot needs matplotlib: install the extra bench, or leave out --out") from error
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    for axes, result in zip(figure.subplots(1, len(scaling)), scaling, strict=True):
        axes.loglog(result["values"], result["seconds"], "o-", color="#0072b2", label="seconds")
        axes.set_xticks(result["values"], [str(value) for value in result["values"]])
        axes.minorticks_off()
        axes.set_xlabel(result["axis"])
        axes.set_ylabel("seconds an epoch")
        axes.set_title(f"exponent {result['exponent']:.2f}")
        memory = axes.twinx()
        memory.plot(result["values"], result["peak_megabytes"], "s--", color="#d55e00", label="peak MB")
        memory.set_ylabel("peak MB")
        memory.set_ylim(bottom=0)
    FigureCanvasAgg(figure).print_png(path)
