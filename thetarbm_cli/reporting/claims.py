"""The paper's claims as comparisons of measured numbers. Each comparison holds or does not; none is typed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from thetarbm_cli.experiments.execution.theory import TheoryRecord
from thetarbm_cli.outcomes import DEFAULT, ERROR, GAMMA_TEST, GAMMA_TRAIN, NOT_ALIGNED, column_name
from thetarbm_cli.reporting.frame import Numbers, Value
from thetarbm_cli.reporting.noise import LEVEL, chance_of_lower, is_lower, standard_error

SPARSITIES = (0.3, 0.2, 0.1)
NEAR_ERROR = 1.0  # points of percent
NEAR_GAMMA = 0.05
STEADY_GAMMA = 0.02
KEPT_GAMMA = 0.05
SMALL_CHANCE = 0.2
BETTER_ERROR = 0.5  # points of percent

OTHERS = (("rbm", DEFAULT), ("orbm", NOT_ALIGNED), ("orbm", DEFAULT), ("tirbm", DEFAULT))
NAMES = {
    ("rbm", DEFAULT): "RBM",
    ("orbm", NOT_ALIGNED): "O-RBM not aligned",
    ("orbm", DEFAULT): "O-RBM aligned",
    ("tirbm", DEFAULT): "TI-RBM",
}


class MissingError(Exception):
    """A number that a claim needs has not been measured with two seeds."""


@dataclass(frozen=True)
class Part:
    """One comparison: whether it holds, and its numbers in words."""

    holds: bool
    words: str


def need(numbers: Numbers, experiment: str, column: str, variant: str = DEFAULT, **at: float) -> Value:
    """A value with at least two seeds."""
    value = numbers.of(experiment, column, variant, **at)
    if value is None or len(value.values) < 2:
        where = "/".join([experiment, *(f"{axis}={place:g}" for axis, place in at.items())])
        raise MissingError(f"{column_name(column, variant)} of {where} with two seeds or more")
    return value


def lowest_error(numbers: Numbers) -> Iterator[Part]:
    """The θ-RBM's error below that of every other model at every sparsity."""
    for sparsity in SPARSITIES:
        theta = need(numbers, "theta", ERROR, sparsity=sparsity)
        for model, ending in OTHERS:
            other = need(numbers, model, ERROR, ending, sparsity=sparsity)
            words = f"sparsity {sparsity:g}: θ-RBM {_percent(theta)}, {NAMES[model, ending]} {_percent(other)}"
            yield _lower(theta, other, words)


def about_ten_percent(numbers: Numbers) -> Iterator[Part]:
    """The θ-RBM's error near the published one."""
    for sparsity in SPARSITIES:
        yield _near(need(numbers, "theta", ERROR, sparsity=sparsity), NEAR_ERROR, f"sparsity {sparsity:g}", _percent)


def highest_gamma(numbers: Numbers) -> Iterator[Part]:
    """The θ-RBM's γ near the published one, and above every other model's."""
    for sparsity in SPARSITIES:
        for column in (GAMMA_TRAIN, GAMMA_TEST):
            place = f"sparsity {sparsity:g}, {_word(column)}"
            theta = need(numbers, "theta", column, sparsity=sparsity)
            yield _near(theta, NEAR_GAMMA, place, _gamma)
            for model, ending in OTHERS:
                other = need(numbers, model, column, ending, sparsity=sparsity)
                yield _lower(other, theta, f"{place}: {NAMES[model, ending]} {_gamma(other)}, θ-RBM {_gamma(theta)}")


def steady_gamma(numbers: Numbers) -> Iterator[Part]:
    """The θ-RBM's γ the same at every sparsity."""
    for column in (GAMMA_TRAIN, GAMMA_TEST):
        values = [need(numbers, "theta", column, sparsity=sparsity) for sparsity in SPARSITIES]
        low, high = min(values, key=_mean), max(values, key=_mean)
        noise = (standard_error(low.values) ** 2 + standard_error(high.values) ** 2) ** 0.5
        spread = _mean(high) - _mean(low)
        words = f"{_word(column)}: from {_gamma(low)} to {_gamma(high)}, {spread:.4f} apart"
        yield Part(spread <= STEADY_GAMMA + noise, words)


def falling_gamma(numbers: Numbers) -> Iterator[Part]:
    """The TI-RBM's γ falls with each lower sparsity target."""
    for column in (GAMMA_TRAIN, GAMMA_TEST):
        for more, less in pairwise(SPARSITIES):
            before = need(numbers, "tirbm", column, sparsity=more)
            after = need(numbers, "tirbm", column, sparsity=less)
            words = f"{_word(column)}: {_gamma(before)} at sparsity {more:g}, {_gamma(after)} at {less:g}"
            yield _lower(after, before, words)


def oriented_no_better(numbers: Numbers) -> Iterator[Part]:
    """The O-RBM's error not clearly below the RBM's, on images as they are and on aligned ones."""
    for ending in (NOT_ALIGNED, DEFAULT):
        for sparsity in SPARSITIES:
            plain = need(numbers, "rbm", ERROR, sparsity=sparsity)
            oriented = need(numbers, "orbm", ERROR, ending, sparsity=sparsity)
            words = f"sparsity {sparsity:g}: {NAMES['orbm', ending]} {_percent(oriented)}, RBM {_percent(plain)}"
            better = is_lower([error + BETTER_ERROR for error in oriented.values], plain.values)
            yield Part(not better, words)


def kept_from_mnist(numbers: Numbers) -> Iterator[Part]:
    """Trained on mnist, the θ-RBM keeps its γ on mnist-rot, the TI-RBM's falls, and is the lower one."""
    theta = [need(numbers, "mnist-theta", column) for column in (GAMMA_TRAIN, GAMMA_TEST)]
    other = [need(numbers, "mnist-tirbm", column) for column in (GAMMA_TRAIN, GAMMA_TEST)]
    noise = sum(standard_error(value.values) ** 2 for value in theta) ** 0.5
    fall = _mean(theta[0]) - _mean(theta[1])
    yield Part(fall <= KEPT_GAMMA + noise, f"θ-RBM keeps its γ: train {_gamma(theta[0])}, test {_gamma(theta[1])}")
    drop = is_lower([value + KEPT_GAMMA for value in other[1].values], other[0].values)
    yield Part(drop, f"TI-RBM's falls: train {_gamma(other[0])}, test {_gamma(other[1])}")
    yield _lower(other[1], theta[1], f"test: TI-RBM {_gamma(other[1])}, θ-RBM {_gamma(theta[1])}")


def robust_to_errors(numbers: Numbers) -> Iterator[Part]:
    """For small p, the error is not above the unperturbed one wherever the paper's is not."""
    cells = numbers.in_table("3")
    base = cells[0].unperturbed(numbers.cells) if cells else None
    if base is None:
        raise MissingError("an unperturbed cell for Table 3")
    unperturbed = need(numbers, base.experiment, ERROR, **base.at)
    for cell in cells:
        if cell.at["p"] > SMALL_CHANCE:
            continue
        value = need(numbers, cell.experiment, ERROR, **cell.at)
        if (
            value.published is not None
            and unperturbed.published is not None
            and value.published > unperturbed.published
        ):
            continue
        words = f"n = {cell.at['n']}, p = {cell.at['p']:g}: {_percent(value)}, unperturbed {_percent(unperturbed)}"
        yield Part(not is_lower(unperturbed.values, value.values), words)


def rotated_filters(theory: TheoryRecord) -> Iterator[Part]:
    """Lemma 1 to the last bit under exact rotations; under bilinear ones the deviation is told."""
    yield _exact(theory, "Lemma 1", "largest |W_s' - R_θ(W_s)|")


def gamma_of_one(theory: TheoryRecord) -> Iterator[Part]:
    """Theorem 1 to rounding under exact rotations; under bilinear ones the deviation is told."""
    yield _exact(theory, "Theorem 1", "largest |γ - 1|")


def _exact(theory: TheoryRecord, name: str, what: str) -> Part:
    checks = [each for each in theory.checks if each["name"].startswith(name)]
    exact = next((each for each in checks if each["exact"] and each["tolerance"] is not None), None)
    bilinear = next((each for each in checks if each["rotation"] == "bilinear"), None)
    if exact is None or bilinear is None:
        raise MissingError(f"the check of {name}")
    words = f"{what}: {exact['value']:.2g} under exact rotations (allowed {exact['tolerance']:g})"
    return Part(bool(exact["passed"]), f"{words}, {bilinear['value']:.2g} under bilinear ones")


def _lower(lower: Value, higher: Value, words: str) -> Part:
    chance = chance_of_lower(lower.values, higher.values)
    return Part(chance < LEVEL, f"{words} (p {'< 0.001' if chance < 0.001 else f'= {chance:.3f}'})")


def _near(value: Value, margin: float, place: str, show: Callable[[Value], str]) -> Part:
    if value.published is None:
        raise MissingError(f"a published value for {value.cell.name}")
    distance = abs(_mean(value) - value.published)
    words = f"{place}: {show(value)}, the paper {value.published:g}"
    return Part(distance <= margin + standard_error(value.values), words)


def _mean(value: Value) -> float:
    assert value.mean is not None
    return value.mean


def _percent(value: Value) -> str:
    return f"{_mean(value):.2f} ± {standard_error(value.values):.2f} %"


def _gamma(value: Value) -> str:
    return f"{_mean(value):.4f} ± {standard_error(value.values):.4f}"


def _word(column: str) -> str:
    return column.removeprefix("gamma_")
