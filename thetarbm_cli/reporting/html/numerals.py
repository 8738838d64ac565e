"""One number of the page: ours, the paper's, the difference, and the runs behind it."""

from __future__ import annotations

from dataclasses import dataclass

from thetarbm_cli.outcomes import MEASURES, variants_of
from thetarbm_cli.reporting.entries import MISSING
from thetarbm_cli.reporting.frame import Numbers, Value

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class RunLine:
    """What one run gave."""

    seed: int
    run: str
    text: str


@dataclass(frozen=True)
class Numeral:
    """A measure of a cell as it is shown; numbers beside texts are for sorting, with full precision.

    Attributes
    ----------
    name : unique in the page
    difference : ours minus the paper's
    runs : by seed
    """

    name: str
    value: Value
    measure: str
    text: str
    deviation: str
    difference: float | None
    difference_text: str
    runs: list[RunLine]


def numeral(numbers: Numbers, value: Value, name: str) -> Numeral:
    """A value with the runs that it is the mean of."""
    digits = MEASURES[value.measure].digits
    difference = None if value.mean is None or value.published is None else value.mean - value.published
    return Numeral(
        name=name,
        value=value,
        measure=measure_words(value.measure, value.variant, value.cell.model),
        text=MISSING if value.mean is None else f"{value.mean:.{digits}f}",
        deviation="" if value.deviation is None else f"{value.deviation:.{digits}f}",
        difference=difference,
        difference_text="" if difference is None else signed(difference, digits),
        runs=[RunLine(record.seed, record.run, f"{number:.10g}") for record, number in numbers.runs_of(value)],
    )


def measure_words(measure: str, variant: str, model: str) -> str:
    """What was measured; of the O-RBM also on which images."""
    return MEASURES[measure].with_unit + dict(variants_of(model))[variant]


def signed(number: float, digits: int) -> str:
    """A difference with its sign; one that is rounded to nothing has none."""
    text = f"{abs(number):.{digits}f}"
    if not text.strip("0."):
        return text
    return f"{MINUS if number < 0 else '+'}{text}"
