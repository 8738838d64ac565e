"""The paper's claims, each a list of comparisons of measured numbers, and the verdicts that follow from them alone.

A claim is declared once, for every data set; whether a difference counts is decided by one of two comparators: `Welch`
over seeds, or `Margin` where a cell has one seed only. A claim is *reproduced* if all of its comparisons hold and *not
reproduced* if none does. Between the two, it is *partly* reproduced, but for a superlative ("the lowest"): that is *not
reproduced* if one comparison comes out the other way, and *undecided* if some are too close to tell. On another data
set than the paper's, a claim *carries over* instead.
"""

from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

from thetarbm_cli.experiments.execution.theory import TheoryRecord
from thetarbm_cli.outcomes import (
    DEFAULT,
    ERROR,
    GAMMA_TEST,
    GAMMA_TRAIN,
    MEASURES,
    NOT_ALIGNED,
    TABLES,
    column_name,
)
from thetarbm_cli.reporting.frame import PAPERS_DATASET, Numbers, Value

REPRODUCED, PARTLY, UNDECIDED, NOT, NO_DATA = "reproduced", "partly", "undecided", "not reproduced", "no data"
# What a verdict is called on another data set than the paper's.
ELSEWHERE = {REPRODUCED: "carries over", NOT: "does not carry over"}

# A difference counts if it would be seen by chance in fewer than one of twenty such comparisons.
LEVEL = 0.05
# With one seed, a difference counts if it is larger than the deviation over seeds of any cell on mnist-rot.
MARGINS = {ERROR: 0.5, GAMMA_TRAIN: 0.01, GAMMA_TEST: 0.01}
SPARSITIES = (0.3, 0.2, 0.1)
NEAR = {ERROR: 1.0, GAMMA_TRAIN: 0.05, GAMMA_TEST: 0.05}
STEADY_GAMMA = 0.02
KEPT_GAMMA = 0.05
SMALL_CHANCE = 0.2
BETTER_ERROR = 0.5  # points of percent

OTHERS = {
    ("rbm", DEFAULT): "RBM",
    ("orbm", NOT_ALIGNED): "O-RBM not aligned",
    ("orbm", DEFAULT): "O-RBM aligned",
    ("tirbm", DEFAULT): "TI-RBM",
}


class MissingError(Exception):
    """A number that a claim needs has not been measured."""


class OneSeedError(Exception):
    """A number that a claim needs has been measured with one seed, which has no spread."""


@dataclass(frozen=True)
class Comparison:
    """One comparison: whether it holds, its numbers in words, and with what it compares.

    Attributes
    ----------
    contradicted : whether it comes out the other way; else it may also be too close to tell
    with_what : comparisons with the same are summed up together
    """

    holds: bool
    words: str
    contradicted: bool
    with_what: str

    @property
    def outcome(self) -> str:
        """How it came out, in words."""
        return "holds" if self.holds else "does not hold" if self.contradicted else "too close to tell"


class Welch:
    """Differences against the noise of the seeds."""

    # Words for the rules: how differences are judged, also those from a stated limit, and what is added to a limit.
    _tested = f" (one-sided Welch t-test over seeds, p < {LEVEL:g})"
    words: ClassVar = {"error": _tested, "gamma": _tested, "tested": _tested, "spread": " plus one standard error"}

    def show(self, value: Value) -> str:
        """Mean ± standard error."""
        self._need_seeds(value)
        digits = _digits(value)
        return f"{_mean(value):{digits}} ± {_standard_error(value.values):{digits}}{_unit(value)}"

    def chance(self, lower: Value, higher: Value, by: float = 0.0) -> float:
        """One-sided p-value that the mean of `lower` is more than `by` below that of `higher`."""
        self._need_seeds(lower, higher)
        first = (_mean(lower) + by, lower.deviation or 0.0, len(lower.values))
        second = (_mean(higher), higher.deviation or 0.0, len(higher.values))
        if lower.deviation == higher.deviation == 0:
            # Without any spread, the means themselves decide.
            return float(first[0] >= second[0])
        from scipy.stats import ttest_ind_from_stats

        return float(ttest_ind_from_stats(*first, *second, equal_var=False, alternative="less").pvalue)

    def is_lower(self, lower: Value, higher: Value, by: float = 0.0) -> bool:
        """Whether a mean is below another beyond the noise."""
        return self.chance(lower, higher, by) < LEVEL

    def how_sure(self, lower: Value, higher: Value) -> str:
        """The p-value of a comparison in words."""
        chance = self.chance(lower, higher)
        return f" (p {'< 0.001' if chance < 0.001 else f'= {chance:.3f}'})"

    def is_within(self, distance: float, limit: float, *values: Value) -> bool:
        """Whether a distance between means is within a limit, up to their noise."""
        self._need_seeds(*values)
        return distance <= limit + math.hypot(*(_standard_error(value.values) for value in values))

    def _need_seeds(self, *values: Value) -> None:
        if any(len(value.values) < 2 for value in values):
            raise OneSeedError


class Margin:
    """Differences against a fixed margin."""

    words: ClassVar = {
        "error": f" by more than {MARGINS[ERROR]:g} points (one seed has no spread)",
        "gamma": f" by more than {MARGINS[GAMMA_TEST]:g} (one seed has no spread)",
        "tested": "",
        "spread": "",
    }

    def show(self, value: Value) -> str:
        """The mean."""
        return f"{_mean(value):{_digits(value)}}{_unit(value)}"

    def is_lower(self, lower: Value, higher: Value, by: float = 0.0) -> bool:
        """Whether a mean is below another by more than the margin."""
        return _mean(lower) < _mean(higher) - max(by, MARGINS[lower.measure])

    def how_sure(self, lower: Value, higher: Value) -> str:
        """Nothing is known of that."""
        return ""

    def is_within(self, distance: float, limit: float, *values: Value) -> bool:
        """Whether a distance between means is within a limit."""
        return distance <= limit


Comparator = Welch | Margin


@dataclass(frozen=True)
class Measurements:
    """What a claim is compared on: the numbers of one source of images, and the checks of the mathematics."""

    numbers: Numbers
    theory: TheoryRecord | None
    by: Comparator

    @property
    def on_papers_data(self) -> bool:
        """Whether the paper has numbers to compare with."""
        return self.numbers.source.dataset == PAPERS_DATASET

    def of(self, model: str, measure: str, sparsity: float, variant: str = DEFAULT) -> Value:
        """Find a number of a model at a sparsity target."""
        tables = {kind.name for kind in TABLES.values() if kind.layout == "sparsity"}
        return self._find(
            [cell for cell in self.numbers.cells if tables & set(cell.tables) and cell.at == {"sparsity": sparsity}],
            model,
            measure,
            variant,
            f" at sparsity {sparsity:g}",
        )

    def from_mnist(self, model: str, measure: str) -> Value:
        """Find a number of a model that was trained on mnist."""
        return self._find(self.numbers.in_table("mnist"), model, measure, DEFAULT, " trained on mnist")

    def _find(self, cells: Sequence[Any], model: str, measure: str, variant: str, where: str) -> Value:
        values = (self.numbers.value(cell, measure, variant) for cell in cells if cell.model == model)
        found = next((value for value in values if value.values), None)
        if found is None:
            raise MissingError(f"{column_name(measure, variant)} of {model}{where}")
        return found

    def lower(self, lower: Value, higher: Value, words: str, with_what: str) -> Comparison:
        """Compare two means, of which the first should be the lower one."""
        return Comparison(
            self.by.is_lower(lower, higher),
            words + self.by.how_sure(lower, higher),
            self.by.is_lower(higher, lower),
            with_what,
        )

    def near(self, value: Value, place: str) -> Comparison:
        """Compare a mean with the paper's."""
        if value.published is None:
            raise MissingError(f"a published value for {value.cell.name}")
        limit = NEAR[value.measure]
        words = f"{place}: {self.by.show(value)}, the paper {value.published:g}"
        return self.limited(abs(_mean(value) - value.published), limit, words, "the paper's values", value)

    def limited(self, distance: float, limit: float, words: str, with_what: str, *values: Value) -> Comparison:
        """Compare a distance between means with a limit."""
        holds = self.by.is_within(distance, limit, *values)
        return Comparison(holds, words, not holds, with_what)


Compare = Callable[[Measurements], Iterator[Comparison]]


@dataclass(frozen=True)
class Claim:
    """What the paper says, and when it holds.

    Attributes
    ----------
    rule : with the words of the comparator where it has ``{error}``, ``{gamma}``, ``{tested}`` or ``{spread}``
    superlative : whether one comparison that comes out the other way refutes it
    on : the data sets that it is about
    """

    name: str
    text: str
    rule: str
    compare: Compare
    superlative: bool = False
    on: Literal["any data", "the paper's data", "other data"] = "any data"


@dataclass(frozen=True)
class Verdict:
    """A claim, its rule on these numbers, and what follows.

    Attributes
    ----------
    parts : the comparisons
    missing : what it needs and lacks; empty if all is there
    """

    claim: Claim
    verdict: str
    rule: str
    parts: list[Comparison]
    missing: str = ""

    @property
    def held(self) -> str:
        """How many comparisons hold, and which do not."""
        if not self.parts:
            return "—"
        count = f"{sum(part.holds for part in self.parts)} of {len(self.parts)}"
        groups: dict[str, list[bool]] = {}
        for part in self.parts:
            groups.setdefault(part.with_what, []).append(part.holds)
        failing = [
            f"{with_what} only in {sum(holds)} of {len(holds)}" if any(holds) else f"not {with_what}"
            for with_what, holds in groups.items()
            if not all(holds)
        ]
        return f"{count}: {'; '.join(failing)}" if failing and any(part.holds for part in self.parts) else count


def lowest_error(measured: Measurements) -> Iterator[Comparison]:
    """The θ-RBM's error below that of every other model at every sparsity."""
    for sparsity in SPARSITIES:
        theta = measured.of("theta", ERROR, sparsity)
        for (model, variant), name in OTHERS.items():
            other = measured.of(model, ERROR, sparsity, variant)
            words = f"sparsity {sparsity:g}: θ-RBM {measured.by.show(theta)}, {name} {measured.by.show(other)}"
            yield measured.lower(theta, other, words, f"below {name}")


def about_ten_percent(measured: Measurements) -> Iterator[Comparison]:
    """The θ-RBM's error near the published one."""
    for sparsity in SPARSITIES:
        yield measured.near(measured.of("theta", ERROR, sparsity), f"sparsity {sparsity:g}")


def highest_gamma(measured: Measurements) -> Iterator[Comparison]:
    """The θ-RBM's γ near the published one, where there is one, and above every other model's."""
    for sparsity in SPARSITIES:
        for measure in (GAMMA_TRAIN, GAMMA_TEST):
            place = f"sparsity {sparsity:g}, {_role(measure)}"
            theta = measured.of("theta", measure, sparsity)
            if measured.on_papers_data:
                yield measured.near(theta, place)
            for (model, variant), name in OTHERS.items():
                other = measured.of(model, measure, sparsity, variant)
                words = f"{place}: {name} {measured.by.show(other)}, θ-RBM {measured.by.show(theta)}"
                yield measured.lower(other, theta, words, f"above {name}")


def steady_gamma(measured: Measurements) -> Iterator[Comparison]:
    """The θ-RBM's γ the same at every sparsity."""
    for measure in (GAMMA_TRAIN, GAMMA_TEST):
        values = [measured.of("theta", measure, sparsity) for sparsity in SPARSITIES]
        low, high = min(values, key=_mean), max(values, key=_mean)
        spread = _mean(high) - _mean(low)
        words = f"from {measured.by.show(low)} to {measured.by.show(high)}, {spread:.4f} apart"
        role = _role(measure)
        yield measured.limited(spread, STEADY_GAMMA, f"{role}: {words}", f"on {role} images", low, high)


def falling_gamma(measured: Measurements) -> Iterator[Comparison]:
    """The TI-RBM's γ falls with each lower sparsity target."""
    for measure in (GAMMA_TRAIN, GAMMA_TEST):
        for more, less in pairwise(SPARSITIES):
            before, after = (measured.of("tirbm", measure, sparsity) for sparsity in (more, less))
            numbers = f"{measured.by.show(before)} at sparsity {more:g}, {measured.by.show(after)} at {less:g}"
            yield measured.lower(after, before, f"{_role(measure)}: {numbers}", f"from {more:g} to {less:g}")


def oriented_no_better(measured: Measurements) -> Iterator[Comparison]:
    """The O-RBM's error not clearly below the RBM's, on images as they are and on aligned ones."""
    for variant, images in ((NOT_ALIGNED, "images as they are"), (DEFAULT, "aligned images")):
        for sparsity in SPARSITIES:
            plain = measured.of("rbm", ERROR, sparsity)
            oriented = measured.of("orbm", ERROR, sparsity, variant)
            numbers = f"{OTHERS['orbm', variant]} {measured.by.show(oriented)}, RBM {measured.by.show(plain)}"
            better = measured.by.is_lower(oriented, plain, BETTER_ERROR)
            yield Comparison(not better, f"sparsity {sparsity:g}: {numbers}", better, f"on {images}")


def kept_from_mnist(measured: Measurements) -> Iterator[Comparison]:
    """Trained on mnist, the θ-RBM keeps its γ on mnist-rot, the TI-RBM's falls, and is the lower one."""
    theta = [measured.from_mnist("theta", measure) for measure in (GAMMA_TRAIN, GAMMA_TEST)]
    other = [measured.from_mnist("tirbm", measure) for measure in (GAMMA_TRAIN, GAMMA_TEST)]
    show = measured.by.show
    words = f"θ-RBM keeps its γ: train {show(theta[0])}, test {show(theta[1])}"
    yield measured.limited(_mean(theta[0]) - _mean(theta[1]), KEPT_GAMMA, words, "that the θ-RBM keeps its γ", *theta)
    falls = measured.by.is_lower(other[1], other[0], KEPT_GAMMA)
    words = f"TI-RBM's falls: train {show(other[0])}, test {show(other[1])}"
    yield Comparison(falls, words, not falls, "that the TI-RBM's falls")
    words = f"test: TI-RBM {show(other[1])}, θ-RBM {show(theta[1])}"
    yield measured.lower(other[1], theta[1], words, "that the TI-RBM's is the lower one")


def robust_to_errors(measured: Measurements) -> Iterator[Comparison]:
    """For small p, the error is not above the unperturbed one wherever the paper's is not."""
    numbers = measured.numbers
    cells = numbers.in_table("3")
    base = cells[0].unperturbed(numbers.cells) if cells else None
    if base is None:
        raise MissingError("an unperturbed cell for Table 3")
    unperturbed = numbers.value(base, ERROR)
    for cell in cells:
        value = numbers.value(cell, ERROR)
        papers_rises = None not in (value.published, unperturbed.published) and (
            (value.published or 0.0) > (unperturbed.published or 0.0)
        )
        if cell.at["p"] > SMALL_CHANCE or papers_rises:
            continue
        for each in (value, unperturbed):
            if not each.values:
                raise MissingError(f"{ERROR} of {each.cell.name}")
        rises = measured.by.is_lower(unperturbed, value)
        place = f"n = {cell.at['n']}, p = {cell.at['p']:g}"
        words = f"{place}: {measured.by.show(value)}, unperturbed {measured.by.show(unperturbed)}"
        yield Comparison(not rises, words, rises, f"for {place}")


def rotated_filters(measured: Measurements) -> Iterator[Comparison]:
    """Lemma 1 to the last bit under exact rotations; under bilinear ones, the deviation."""
    yield _exact(measured.theory, "Lemma 1", "largest |W_s' - R_θ(W_s)|")


def gamma_of_one(measured: Measurements) -> Iterator[Comparison]:
    """Theorem 1 to rounding under exact rotations; under bilinear ones, the deviation."""
    yield _exact(measured.theory, "Theorem 1", "largest |γ - 1|")


def _exact(theory: TheoryRecord | None, name: str, what: str) -> Comparison:
    if theory is None:
        raise MissingError("the numerical checks: thetarbm run theory")
    checks = [each for each in theory.checks if each.name.startswith(name)]
    exact = next((each for each in checks if each.exact and each.tolerance is not None), None)
    bilinear = next((each for each in checks if each.rotation == "bilinear"), None)
    if exact is None or bilinear is None:
        raise MissingError(f"the check of {name}")
    words = f"{what}: {exact.value:.2g} under exact rotations (allowed {exact.tolerance:g})"
    words += f", {bilinear.value:.2g} under bilinear ones"
    return Comparison(exact.passed, words, not exact.passed, name)


CLAIMS = (
    Claim(
        "lowest-error",
        "The θ-RBM has the lowest test error.",
        "At each sparsity, its error is below that of every other model{error}; the O-RBM counts in both evaluations.",
        lowest_error,
        superlative=True,
    ),
    Claim(
        "about-ten-percent",
        "The θ-RBM's test error is about 10 %.",
        f"At each sparsity, its mean is within {NEAR[ERROR]:g} point{{spread}} of the paper's.",
        about_ten_percent,
        on="the paper's data",
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is about 0.9 and the highest of all.",
        f"At each sparsity, on train and test, its mean is within {NEAR[GAMMA_TEST]:g}{{spread}} of the paper's, and "
        "above that of every other model{gamma}.",
        highest_gamma,
        superlative=True,
        on="the paper's data",
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is the highest of all.",
        "At each sparsity, on train and test, it is above that of every other model{gamma}.",
        highest_gamma,
        superlative=True,
        on="other data",
    ),
    Claim(
        "steady-gamma",
        "The sparsity target does not move the θ-RBM's γ.",
        f"On train and test, the means at the three targets are no more than {STEADY_GAMMA:g}{{spread}} apart.",
        steady_gamma,
    ),
    Claim(
        "falling-gamma",
        "The TI-RBM loses invariance with a lower sparsity target.",
        "On train and test, its γ falls from 0.3 to 0.2 and from 0.2 to 0.1{gamma}.",
        falling_gamma,
    ),
    Claim(
        "oriented-no-better",
        "Aligning the images beforehand (O-RBM) is no better than an RBM.",
        f"At each sparsity, its error is not more than {BETTER_ERROR:g} points below the RBM's{{tested}}, neither on "
        "images as they are nor on aligned ones.",
        oriented_no_better,
    ),
    Claim(
        "kept-from-mnist",
        "Trained on mnist, the θ-RBM keeps its γ on mnist-rot, where the TI-RBM's falls.",
        f"The θ-RBM's γ falls by no more than {KEPT_GAMMA:g}{{spread}}; the TI-RBM's falls by more than "
        f"{KEPT_GAMMA:g}{{tested}}; on mnist-rot the TI-RBM's is the lower one{{gamma}}.",
        kept_from_mnist,
        on="the paper's data",
    ),
    Claim(
        "robust-to-errors",
        "Orientation errors of up to n = 4 leave the test error unaffected for small p.",
        f"For p up to {SMALL_CHANCE:g}, wherever the paper's own value is not above its unperturbed one, "
        "ours is not above our unperturbed one{error}.",
        robust_to_errors,
        on="the paper's data",
    ),
    Claim(
        "rotated-filters",
        "The filters in a column of the tensor are rotations of each other (Lemma 1).",
        "After training all slices under exact rotations, each slice is the rotation of every other to the last bit.",
        rotated_filters,
        on="the paper's data",
    ),
    Claim(
        "gamma-of-one",
        "In theory, γ = 1 (Theorem 1).",
        "After training under exact rotations, γ of every unit over the support set is 1 to rounding.",
        gamma_of_one,
        on="the paper's data",
    ),
)


def evaluate_claims(numbers: Numbers, theory: TheoryRecord | None = None) -> list[Verdict]:
    """Compare all that the paper claims with what was measured on images of one source."""
    other = "the paper's data" if numbers.source.dataset != PAPERS_DATASET else "other data"
    return [_evaluate(claim, numbers, theory) for claim in CLAIMS if claim.on != other]


def _evaluate(claim: Claim, numbers: Numbers, theory: TheoryRecord | None) -> Verdict:
    comparator: Comparator = Welch()
    try:
        try:
            parts = list(claim.compare(Measurements(numbers, theory, comparator)))
        except OneSeedError:
            comparator = Margin()
            parts = list(claim.compare(Measurements(numbers, theory, comparator)))
        missing = "" if parts else "nothing in the suite to compare"
    except MissingError as error:
        parts, missing = [], str(error)
    rule = claim.rule.format(**comparator.words)
    verdict = verdict_of(parts, superlative=claim.superlative)
    if numbers.source.dataset != PAPERS_DATASET:
        verdict = ELSEWHERE.get(verdict, verdict)
    return Verdict(claim, verdict, rule, parts, missing)


def verdict_of(parts: Sequence[Comparison], *, superlative: bool) -> str:
    """What follows from comparisons."""
    if not parts:
        return NO_DATA
    if all(part.holds for part in parts):
        return REPRODUCED
    if superlative:
        return NOT if any(part.contradicted for part in parts) else UNDECIDED
    return PARTLY if any(part.holds for part in parts) else NOT


def summary(verdicts: Sequence[Verdict]) -> str:
    """Each claim with its verdict, as a Markdown table."""
    lines = ["| claim | verdict | comparisons that hold |", "| :-- | :-- | :-- |"]
    lines += [f"| {each.claim.text} | *{each.verdict}* | {each.held} |" for each in verdicts]
    return "\n".join(lines)


def to_markdown(evaluated: Sequence[tuple[Numbers, list[Verdict]]], profile: str) -> str:
    """Write a page: for each source of a data set a table, then each claim with its rule and numbers."""
    dataset = evaluated[0][0].source.dataset
    if dataset == PAPERS_DATASET:
        title, yes, no, note = "Verdicts", f"is *{REPRODUCED}*", f"is *{NOT}*", ""
    else:
        title, yes, no = f"The paper's claims on {dataset}", f"*{ELSEWHERE[REPRODUCED]}*", f"*{ELSEWHERE[NOT]}*"
        note = "The paper has no numbers on this data set. "
    lines = [
        f"# {title}",
        "",
        _wrapped(
            f"Computed by `thetarbm tables` from the records; none is typed by hand. {note}A claim is a list of "
            f"comparisons: it {yes} if all hold, {no} if none does, *{PARTLY}* else. A superlative, as the lowest "
            f"error, is never partly so: it {no} if one comparison comes out the other way, and is *{UNDECIDED}* "
            f"if some are too close to tell. *{NO_DATA}*: a run is missing. Numbers are means ± standard errors over "
            "seeds, or plain values where there is one seed."
        ),
    ]
    for numbers, verdicts in evaluated:
        lines += ["", f"## {numbers.source.described}, profile {profile}", "", summary(verdicts)]
        for each in verdicts:
            words = _wrapped(f"**{each.verdict}** ({each.held}). Rule: {each.rule}")
            lines += ["", f"### {each.claim.text}", "", words, ""]
            lines += [f"- {part.outcome}: {part.words}" for part in each.parts]
            lines += [f"- missing: {each.missing}"] if each.missing else []
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def _mean(value: Value) -> float:
    assert value.mean is not None
    return value.mean


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


def _digits(value: Value) -> str:
    return f".{MEASURES[value.measure].digits}f"


def _unit(value: Value) -> str:
    unit = MEASURES[value.measure].unit
    return f" {unit}" if unit else ""


def _role(measure: str) -> str:
    return measure.removeprefix("gamma_")
