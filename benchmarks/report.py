"""Describe what was measured: one JSON object, a page in Markdown, and a plot of how cost grows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import psutil
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from pydantic import BaseModel, ConfigDict, Field
from tabulate import tabulate

from benchmarks.timing import Comparison
from thetarbm_cli import storage
from thetarbm_cli.backend import Backend, cores
from thetarbm_cli.environment import describe_environment

# A change pays from here on: less is within what one machine differs from day to day.
PAYS = 1.1
REST = "everything else"


class _Model(BaseModel):
    """A JSON object whose fields are described by the line under them."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


class Ratio(_Model):
    """A figure of speed and its goal."""

    name: str
    value: float
    goal: float
    at_most: bool
    """Whether the value should be at most the goal, or at least."""
    unit: str
    met: bool
    note: str
    """What it was made of: two times, or a number of things."""

    @classmethod
    def of(
        cls, name: str, value: float, goal: float, *, at_most: bool = False, unit: str = "×", note: str = ""
    ) -> Self:
        """Hold a value against its goal."""
        met = value <= goal if at_most else value >= goal
        return cls(name=name, value=value, goal=goal, at_most=at_most, unit=unit, met=met, note=note)

    @classmethod
    def compared(
        cls, name: str, times: Comparison, goal: float, *, at_most: bool = False, parts: int = 1, note: str = ""
    ) -> Self:
        """Hold the ratio of two jobs, the second taken `parts` times, against its goal."""
        base = f"{times.base_seconds:.3g} s" if parts == 1 else f"({parts} × {times.base_seconds:.3g} s)"
        made_of = f"{times.seconds:.3g} s / {base}"
        note = f"{made_of}, {note}" if note else made_of
        return cls.of(name, times.ratio / parts, goal, at_most=at_most, note=note)

    def line(self) -> str:
        """Format it for a terminal."""
        sign, met = "<=" if self.at_most else ">=", "met" if self.met else "not met"
        note = f"({self.note})" if self.note else ""
        return f"{self.name:<46}{self.value:>8.2f} {self.unit:<3}  goal {sign} {self.goal:<5g} {met:<8} {note}".rstrip()


class Part(_Model):
    """How much of a job one of its parts takes, timed alone."""

    of: str
    name: str
    share: float

    @classmethod
    def all_of(cls, job: str, shares: Mapping[str, float]) -> list[Self]:
        """List a job's parts, largest first, then the rest: below 0 where a part alone is slower than in the job."""
        ordered = sorted(shares.items(), key=lambda part: part[1], reverse=True)
        return [cls(of=job, name=name, share=share) for name, share in [*ordered, (REST, 1 - sum(shares.values()))]]

    def line(self) -> str:
        """Format it for a terminal."""
        return f"{self.of:<12}{self.name:<34}{self.share:>8.0%}"


class Scaling(_Model):
    """Seconds and memory of an epoch as one size doubles."""

    axis: str
    values: list[int]
    seconds: list[Annotated[float, Field(ge=0)]]
    peak_megabytes: list[float]
    exponent: float
    """Slope of log seconds against log value."""

    def line(self) -> str:
        """Format it for a terminal."""
        points = "  ".join(f"{at}: {seconds:.3f} s" for at, seconds in zip(self.values, self.seconds, strict=True))
        return f"epoch against {self.axis:<10} ~ {self.axis}^{self.exponent:.2f}   {points}"


class Payoff(_Model):
    """What one change of the settings gains in speed."""

    change: str
    """batch, float16 or threads."""
    setting: str
    speedup: float
    """Time of an epoch before by that after."""
    memory: float
    """Size of the training set after by that before."""
    pays: bool

    @classmethod
    def of(cls, change: str, setting: str, speedup: float, memory: float = 1.0) -> Self:
        """Say whether a change is worth while for its speed."""
        return cls(change=change, setting=setting, speedup=speedup, memory=memory, pays=speedup >= PAYS)

    def line(self) -> str:
        """Format it for a terminal."""
        memory = "" if self.memory == 1 else f", training set {self.memory:g} ×"
        return f"{self.change:<8} {self.setting:<42} {self.speedup:>6.2f} × as fast{memory}"


class Bench(_Model):
    """``python -m benchmarks --json``."""

    machine: dict[str, Any]
    sizes: dict[str, Annotated[int, Field(ge=0)]]
    ratios: list[Ratio]
    left_out: list[str]
    """Figures that were not measured, with the reason."""
    parts: list[Part]
    """Where the time of an RBM's epoch and of a γ-score goes."""
    scaling: list[Scaling]
    payoffs: list[Payoff]
    conclusions: list[str]
    """Where a change begins to pay, in words."""


def describe_machine(threads: int) -> dict[str, Any]:
    """Describe the environment as a run's record does, with cores, memory, load and the BLAS threads in use."""
    return {
        **describe_environment(Backend()),
        "cores": cores(),
        "memory_megabytes": psutil.virtual_memory().total // 2**20,
        "load": round(psutil.getloadavg()[0], 2),
        "threads": threads,
    }


def conclusions(payoffs: list[Payoff], pixels: int, memory_megabytes: int) -> list[str]:
    """Say of each change, in a sentence, whether it pays and from where on.

    Parameters
    ----------
    payoffs : list of Payoff
    pixels : int
        V, of an image.
    memory_megabytes : int
        Of the machine.
    """
    sentences = []
    for change, words in (("batch", "A bigger batch"), ("threads", "A second BLAS thread")):
        tried = [payoff for payoff in payoffs if payoff.change == change]
        paying = [payoff.setting for payoff in tried if payoff.pays]
        if tried:
            verdict = f"pays at: {'; '.join(paying)}" if paying else "does not pay at any size tried"
            sentences.append(f"{words} {verdict}.")
    for payoff in payoffs:
        if payoff.change == "float16":
            speed = "is faster too" if payoff.pays else "gains no speed"
            fits = memory_megabytes * 2**20 // (4 * pixels)
            sentences.append(
                f"Images stored in float16 take half of the memory, which {speed} (×{payoff.speedup:.2f}): "
                f"it pays from about {fits:,} images on, whose float32 fills this machine's memory."
            )
    return sentences


def write_report(report: Bench, folder: Path) -> list[Path]:
    """Write ``bench.json``, ``bench.md`` and ``scaling.png``; return the paths."""
    record, text, plot = folder / "bench.json", folder / "bench.md", folder / "scaling.png"
    with storage.replacing(plot) as temporary:
        _plot(report.scaling, temporary)
    storage.write_text(text, page(report) + "\n![How cost grows](scaling.png)\n")
    storage.write_text(record, report.model_dump_json(indent=1) + "\n")
    return [record, text, plot]


def page(report: Bench) -> str:
    """Format a report as Markdown: the machine, what was measured, and what follows."""
    sizes = report.sizes
    sections = [
        "# Benchmark",
        _machine(report.machine),
        "## Figures",
        f"{sizes['images']:,} training images, {sizes['hidden']} hidden units, batches of {sizes['batch']}; "
        f"medians over {sizes['rounds']} rounds of jobs that take turns, fewer for the long ones.",
        _table(["figure", "measured", "goal", "", "from"], [_ratio(ratio) for ratio in report.ratios]),
        *(["Left out: " + "; ".join(report.left_out) + "."] if report.left_out else []),
        "## Where the time goes",
        _table(
            ["job", "part, alone", "share of the job"],
            [[part.of, part.name, f"{part.share:.0%}"] for part in report.parts],
        ),
        "## How cost grows",
        "Seconds an epoch of the tied θ-RBM takes, and its peak memory, as one size doubles.",
        _table(["size", "exponent", "seconds (peak MB) at each value"], [_axis(axis) for axis in report.scaling]),
        "## What would pay",
        _table(
            ["change", "tried", "speed", "training set"],
            [[each.change, each.setting, f"{each.speedup:.2f} ×", f"{each.memory:g} ×"] for each in report.payoffs],
        ),
        " ".join(report.conclusions),
    ]
    return "\n\n".join(sections) + "\n"


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


def _ratio(ratio: Ratio) -> list[str]:
    goal = f"{'≤' if ratio.at_most else '≥'} {ratio.goal:g}"
    return [ratio.name, f"{ratio.value:.2f} {ratio.unit}", goal, "met" if ratio.met else "**not met**", ratio.note]


def _axis(axis: Scaling) -> list[str]:
    points = zip(axis.values, axis.seconds, axis.peak_megabytes, strict=True)
    return [
        axis.axis,
        f"{axis.exponent:.2f}",
        ", ".join(f"{value:,}: {seconds:.3g} ({megabytes:.0f})" for value, seconds, megabytes in points),
    ]


def _table(headings: list[str], lines: list[list[str]]) -> str:
    return tabulate(lines, headings, tablefmt="pipe", disable_numparse=True)


def _plot(scaling: list[Scaling], path: Path) -> None:
    """Draw one panel per size: seconds of an epoch, and its memory."""
    figure = Figure(figsize=(3.2 * len(scaling), 3.2), layout="constrained")
    # One scale of seconds for all panels: a flat line is a size that costs nothing.
    panels = figure.subplots(1, len(scaling), squeeze=False, sharey=True)[0]
    highest = max(megabytes for result in scaling for megabytes in result.peak_megabytes)
    for axes, result in zip(panels, scaling, strict=True):
        axes.loglog(result.values, result.seconds, "o-", color="#0072b2")
        axes.set_xticks(result.values, [f"{value:,}" for value in result.values])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
        axes.set_xlabel(result.axis)
        axes.set_title(f"seconds ~ {result.axis}^{result.exponent:.2f}", fontsize="medium")
        memory = axes.twinx()
        memory.plot(result.values, result.peak_megabytes, "s--", color="#d55e00")
        memory.set_ylim(0, 1.1 * highest)
        if axes is not panels[-1]:
            memory.set_yticklabels([])
    panels[0].set_ylabel("seconds per epoch", color="#0072b2")
    memory.set_ylabel("peak MB", color="#d55e00")
    FigureCanvasAgg(figure).print_png(path)
