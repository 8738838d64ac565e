"""A benchmark as a page in Markdown."""

from __future__ import annotations

from typing import Any

from tabulate import tabulate


def page(report: dict[str, Any]) -> str:
    """The report of `bench_report` for people: the machine, what was measured, and what follows."""
    parts = [
        "# Benchmark",
        _machine(report["machine"]),
        "## Figures",
        _sizes(report["sizes"]),
        _grid(["figure", "measured", "goal", "", "from"], [_ratio(ratio) for ratio in report["ratios"]]),
    ]
    if report["left_out"]:
        parts.append("Left out: " + "; ".join(report["left_out"]) + ".")
    lines = [[part["of"], part["name"], f"{part['share']:.0%}"] for part in report["parts"]]
    parts += ["## Where the time goes", _grid(["job", "part, alone", "share of the job"], lines)]
    parts += [
        "## How cost grows",
        "Seconds an epoch of the tied θ-RBM takes, and its peak memory, as one size doubles.",
    ]
    parts += [_grid(["size", "exponent", "seconds (peak MB) at each value"], [_axis(a) for a in report["scaling"]])]
    parts += ["## What would pay"]
    lines = [
        [payoff["change"], payoff["setting"], f"{payoff['speedup']:.2f} ×", f"{payoff['memory']:g} ×"]
        for payoff in report["payoffs"]
    ]
    parts.append(_grid(["change", "tried", "speed", "training set"], lines))
    parts += [" ".join(report["conclusions"])]
    return "\n\n".join(parts) + "\n"


def _machine(machine: dict[str, Any]) -> str:
    libraries = ", ".join(f"{name} {version}" for name, version in machine["libraries"].items())
    blas = ", ".join(sorted({f"{pool['library']} {pool['version']}" for pool in machine["blas"]}))
    git = machine["git"]
    revision = f", revision {git['revision'][:12]}{' with changes' if git['dirty'] else ''}" if git else ""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_megabytes'] / 1024:.0f} GB, "
        f"{machine['platform']}; Python {machine['python']}, {libraries}; {blas}, {machine['threads']} thread"
        f"{'' if machine['threads'] == 1 else 's'}; load {machine['load']:g} at the start; "
        f"thetarbm {machine['version']}{revision}."
    )


def _sizes(sizes: dict[str, int]) -> str:
    return (
        f"{sizes['images']:,} training images, {sizes['hidden']} hidden units, batches of {sizes['batch']}; "
        f"medians over {sizes['rounds']} rounds of jobs that take turns, fewer for the long ones."
    )


def _ratio(ratio: dict[str, Any]) -> list[str]:
    goal = f"{'≤' if ratio['at_most'] else '≥'} {ratio['goal']:g}"
    value = f"{ratio['value']:.2f} {ratio['unit']}"
    return [ratio["name"], value, goal, "met" if ratio["met"] else "**not met**", ratio["note"]]


def _axis(axis: dict[str, Any]) -> list[str]:
    points = zip(axis["values"], axis["seconds"], axis["peak_megabytes"], strict=True)
    return [
        axis["axis"],
        f"{axis['exponent']:.2f}",
        ", ".join(f"{value:,}: {seconds:.3g} ({megabytes:.0f})" for value, seconds, megabytes in points),
    ]


def _grid(headings: list[str], lines: list[list[str]]) -> str:
    return tabulate(lines, headings, tablefmt="pipe", disable_numparse=True)
