"""Output of ``bench``."""

from __future__ import annotations

from typing import Any

from thetarbm_cli.commands.outputs.base import Count, Output, Seconds


class Ratio(Output):
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


class Part(Output):
    """How much of a job one of its parts takes, timed alone."""

    of: str
    name: str
    share: float


class Scaling(Output):
    """Seconds and memory of an epoch as one size doubles."""

    axis: str
    values: list[int]
    seconds: list[Seconds]
    peak_megabytes: list[float]
    exponent: float
    """Slope of log seconds against log value."""


class Payoff(Output):
    """What one change of the settings gains in speed."""

    change: str
    """batch, float16 or threads."""
    setting: str
    speedup: float
    """Time of an epoch before by that after."""
    memory: float
    """Size of the training set after by that before."""
    pays: bool


class Bench(Output):
    """``thetarbm bench --json``."""

    machine: dict[str, Any]
    sizes: dict[str, Count]
    ratios: list[Ratio]
    left_out: list[str]
    """Figures that were not measured, with the reason."""
    parts: list[Part]
    """Where the time of an RBM's epoch and of a γ-score goes."""
    scaling: list[Scaling]
    payoffs: list[Payoff]
    conclusions: list[str]
    """Where a change begins to pay, in words."""
