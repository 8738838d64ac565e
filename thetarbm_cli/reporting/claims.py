"""The paper's claims, each a list of comparisons of measured numbers, and the verdicts that follow from them alone.

A claim is declared once, for every data set. Whether a difference counts is decided by Welch's test over seeds, or by a
margin where a cell has one seed only. A claim is *reproduced* if all of its comparisons hold and *not
reproduced* if none does. Between the two, it is *partly* reproduced, but for a superlative ("the lowest"): that is *not
reproduced* if one comparison comes out the other way, and *undecided* if some are too close to tell. On another data
set than the paper's, a claim *carries over* instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal

from thetarbm_cli import outputs
from thetarbm_cli.experiments.execution.theory import TheoryRecord
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import (
    DEFAULT,
    ERROR,
    GAMMA_TEST,
    GAMMA_TRAIN,
    MEASURES,
    MISSING,
    NOT_ALIGNED,
    TABLES,
    column_name,
)
from thetarbm_cli.reporting.frame import Numbers, Value, is_above

REPRODUCED, PARTLY, UNDECIDED, NOT, NO_DATA = "reproduced", "partly", "undecided", "not reproduced", "no data"
# What a verdict is called on another data set than the paper's.
ELSEWHERE = {REPRODUCED: "carries over", NOT: "does not carry over"}
HOLDS = (REPRODUCED, ELSEWHERE[REPRODUCED])

# A difference counts if it would be seen by chance in fewer than one of twenty such comparisons.
LEVEL = 0.05
# With one seed, a difference counts if it is larger than the deviation over seeds of any cell on mnist-rot.
MARGINS = {
    ERROR: 0.5,
    GAMMA_TRAIN: 0.01,
    GAMMA_TEST: 0.01,
    "goodfellow_test": 0.5,
    "zou_test": 0.01,
    "dosovitskiy_test": 0.01,
}
GAMMAS = (GAMMA_TRAIN, GAMMA_TEST)
NEAR = {ERROR: 1.0, GAMMA_TRAIN: 0.05, GAMMA_TEST: 0.05}
STEADY_GAMMA = 0.02
KEPT_GAMMA = 0.05
SMALL_CHANCE = 0.2
BETTER_ERROR = 0.5  # points of percent

# The models that the θ-RBM is compared with, by their evaluations.
OTHERS = {
    ("rbm", DEFAULT): "RBM",
    ("orbm", NOT_ALIGNED): "O-RBM not aligned",
    ("orbm", DEFAULT): "O-RBM aligned",
    ("tirbm", DEFAULT): "TI-RBM",
}
RIVALS = {"rbm": "RBM", "orbm": "O-RBM", "tirbm": "TI-RBM"}

# Words for the rules: how differences of a measure are judged, also those from a stated limit, and what is added to it.
_TESTED = f" (one-sided Welch t-test over seeds, p < {LEVEL:g})"
OVER_SEEDS = {**dict.fromkeys((*MARGINS, "tested"), _TESTED), "spread": " plus one standard error"}
OF_ONE_SEED = {
    **{
        measure: f" by more than {margin:g}{' points' if measure == ERROR else ''} (one seed has no spread)"
        for measure, margin in MARGINS.items()
    },
    "tested": "",
    "spread": "",
}


class MissingError(Exception):
    """A number that a claim needs has not been measured."""


class OneSeedError(Exception):
    """A number that a claim needs has been measured with one seed, which has no spread."""


class Comparison(outputs.Comparison):
    """One comparison: whether it holds, its numbers in words, and with what it compares, by which it is summed up."""

    with_what: str


class Verdict(outputs.Verdict):
    """What follows from the comparisons of a claim.

    Attributes
    ----------
    held : how many comparisons hold, and which do not
    compared : the numbers that they are made of, each by model and measure
    """

    held: str
    compared: set[tuple[str, str]]


def decided(holds: bool, words: str, with_what: str) -> Comparison:
    """Make a comparison that either holds or comes out the other way."""
    return Comparison(holds=holds, words=words, contradicted=not holds, with_what=with_what)


def chance_below(lower: Value, higher: Value, by: float = 0.0) -> float:
    """One-sided p-value of Welch's t-test that the mean of `lower` is more than `by` below that of `higher`."""
    errors = [(_standard_error(value), len(value.values) - 1) for value in (lower, higher)]
    difference = _mean(lower) + by - _mean(higher)
    noise = math.hypot(*(error for error, _ in errors))
    if not noise:
        # Without any spread, the means themselves decide.
        return float(difference >= 0)
    # The test is a line, and to import scipy.stats takes longer than all else that prints the tables.
    from scipy.special import stdtr

    freedom = 1 / sum((error / noise) ** 4 / others for error, others in errors)
    return float(stdtr(freedom, difference / noise))


@dataclass(frozen=True)
class Measurements:
    """What a claim is compared on: the numbers of one source of images, and the checks of the mathematics.

    With `one_seed`, differences are held against fixed margins, not against the noise of the seeds. `compared` are the
    numbers that were asked for, by model and measure.
    """

    numbers: Numbers
    theory: TheoryRecord | None = None
    one_seed: bool = False
    compared: set[tuple[str, str]] = field(default_factory=set)

    @cached_property
    def _by_sparsity(self) -> list[Cell]:
        tables = {kind.name for kind in TABLES.values() if kind.layout == "sparsity"}
        return [cell for cell in self.numbers.cells if tables & set(cell.tables) and cell.at.keys() == {"sparsity"}]

    @property
    def sparsities(self) -> list[float]:
        """The sparsity targets of the tables, falling."""
        return sorted({cell.at["sparsity"] for cell in self._by_sparsity}, reverse=True)

    def of(self, model: str, measure: str, sparsity: float, variant: str = DEFAULT) -> Value:
        """Find a number of a model at a sparsity target."""
        cells = [cell for cell in self._by_sparsity if cell.at["sparsity"] == sparsity]
        return self._find(cells, model, measure, variant, f" at sparsity {sparsity:g}")

    def from_mnist(self, model: str, measure: str) -> Value:
        """Find a number of a model that was trained on mnist."""
        return self._find(self.numbers.in_table("mnist"), model, measure, DEFAULT, " trained on mnist")

    def value(self, cell: Cell, measure: str, variant: str = DEFAULT) -> Value:
        """Look up a number of a cell, which may have none."""
        self.compared.add((cell.model, measure))
        return self.numbers.value(cell, measure, variant)

    def _find(self, cells: Sequence[Cell], model: str, measure: str, variant: str, where: str) -> Value:
        values = (self.value(cell, measure, variant) for cell in cells if cell.model == model)
        found = next((value for value in values if value.values), None)
        if found is None:
            raise MissingError(f"{column_name(measure, variant)} of {model}{where}")
        return found

    def show(self, value: Value) -> str:
        """Write a mean, over several seeds with its standard error."""
        measure = MEASURES[value.measure]
        error = "" if self.one_seed else f" ± {measure.text(_standard_error(value))}"
        return f"{measure.text(_mean(value))}{error}{f' {measure.unit}' if measure.unit else ''}"

    def is_lower(self, lower: Value, higher: Value, by: float = 0.0) -> bool:
        """Whether a mean is below another, by more than the noise or the margin."""
        if self.one_seed:
            return _mean(lower) < _mean(higher) - max(by, MARGINS.get(lower.measure, 0.0))
        return chance_below(lower, higher, by) < LEVEL

    def lower(self, lower: Value, higher: Value, words: str, with_what: str) -> Comparison:
        """Compare two means, of which the first should be the lower one."""
        if not self.one_seed:
            chance = chance_below(lower, higher)
            words += f" (p {'< 0.001' if chance < 0.001 else f'= {chance:.3f}'})"
        holds, contradicted = self.is_lower(lower, higher), self.is_lower(higher, lower)
        return Comparison(holds=holds, words=words, contradicted=contradicted, with_what=with_what)

    def limited(self, distance: float, limit: float, words: str, with_what: str, *values: Value) -> Comparison:
        """Compare a distance between means with a limit, over several seeds up to their noise."""
        noise = 0.0 if self.one_seed else math.hypot(*map(_standard_error, values))
        return decided(distance <= limit + noise, words, with_what)


Compare = Callable[[Measurements], Iterator[Comparison]]


@dataclass(frozen=True)
class Claim:
    """What the paper says, and when it holds.

    Attributes
    ----------
    rule : where it names a measure, ``{tested}`` or ``{spread}`` in braces, it says how differences are judged
    superlative : whether one comparison that comes out the other way refutes it
    on : the data sets that it is about
    beyond : whether it is none of the paper's own: where its numbers were not measured, nobody misses it
    """

    name: str
    text: str
    rule: str
    compare: Compare
    superlative: bool = False
    on: Literal["any data", "the paper's data", "other data"] = "any data"
    beyond: bool = False

    def is_about(self, numbers: Numbers) -> bool:
        """Whether it is a claim on data of this kind."""
        return self.on != ("other data" if numbers.source.is_papers else "the paper's data")


def theta_is_best(
    measured: Measurements, measures: Sequence[str], verb: str, rivals: Mapping[tuple[str, str], str] = OTHERS
) -> Iterator[Comparison]:
    """The θ-RBM better than every other model at every sparsity."""
    for sparsity in measured.sparsities:
        for measure in measures:
            theta = measured.of("theta", measure, sparsity)
            for (model, variant), name in rivals.items():
                other = measured.of(model, measure, sparsity, variant)
                shown = [(theta, f"θ-RBM {measured.show(theta)}"), (other, f"{name} {measured.show(other)}")]
                (low, first), (high, second) = shown if MEASURES[measure].best == "lowest" else reversed(shown)
                words = f"sparsity {sparsity:g}{_role(measure, ', ')}: {first}, {second}"
                yield measured.lower(low, high, words, f"{verb} {name}")


def theta_as_published(measured: Measurements, measures: Sequence[str]) -> Iterator[Comparison]:
    """The θ-RBM's means near the published ones at every sparsity."""
    for sparsity in measured.sparsities:
        for measure in measures:
            value = measured.of("theta", measure, sparsity)
            if value.published is None:
                raise MissingError(f"a published value for {value.cell.name}")
            place = f"sparsity {sparsity:g}{_role(measure, ', ')}"
            words = f"{place}: {measured.show(value)}, the paper {value.published:g}"
            distance = abs(_mean(value) - value.published)
            yield measured.limited(distance, NEAR[measure], words, "the paper's values", value)


def highest_gamma(measured: Measurements) -> Iterator[Comparison]:
    """The θ-RBM's γ near the published one, where there is one, and above every other model's."""
    if measured.numbers.source.is_papers:
        yield from theta_as_published(measured, GAMMAS)
    yield from theta_is_best(measured, GAMMAS, "above")


def steady_gamma(measured: Measurements) -> Iterator[Comparison]:
    """The θ-RBM's γ the same at every sparsity."""
    for measure in GAMMAS:
        values = [measured.of("theta", measure, sparsity) for sparsity in measured.sparsities]
        if len(values) < 2:
            return  # one target moves nothing
        low, high = min(values, key=_mean), max(values, key=_mean)
        spread = _mean(high) - _mean(low)
        words = f"from {measured.show(low)} to {measured.show(high)}, {spread:.4f} apart"
        role = _role(measure)
        yield measured.limited(spread, STEADY_GAMMA, f"{role}: {words}", f"on {role} images", low, high)


def falling_gamma(measured: Measurements) -> Iterator[Comparison]:
    """The TI-RBM's γ falls with each lower sparsity target."""
    for measure in GAMMAS:
        for more, less in pairwise(measured.sparsities):
            before, after = (measured.of("tirbm", measure, sparsity) for sparsity in (more, less))
            numbers = f"{measured.show(before)} at sparsity {more:g}, {measured.show(after)} at {less:g}"
            yield measured.lower(after, before, f"{_role(measure)}: {numbers}", f"from {more:g} to {less:g}")


def oriented_no_better(measured: Measurements) -> Iterator[Comparison]:
    """The O-RBM's error not clearly below the RBM's, on images as they are and on aligned ones."""
    for variant, images in ((NOT_ALIGNED, "images as they are"), (DEFAULT, "aligned images")):
        for sparsity in measured.sparsities:
            plain = measured.of("rbm", ERROR, sparsity)
            oriented = measured.of("orbm", ERROR, sparsity, variant)
            numbers = f"{OTHERS['orbm', variant]} {measured.show(oriented)}, RBM {measured.show(plain)}"
            better = measured.is_lower(oriented, plain, BETTER_ERROR)
            yield decided(not better, f"sparsity {sparsity:g}: {numbers}", f"on {images}")


def faster(measured: Measurements) -> Iterator[Comparison]:
    """The θ-RBM trains in less time, and with fewer products, than the TI-RBM."""
    for measure, what in (("train_seconds", "time"), ("train_gigaflops", "products")):
        for sparsity in measured.sparsities:
            try:
                theta, other = (measured.of(model, measure, sparsity) for model in ("theta", "tirbm"))
            except MissingError:
                # Records from before products were counted have the time alone.
                if what == "products":
                    return
                raise
            words = f"sparsity {sparsity:g}: θ-RBM {measured.show(theta)}, TI-RBM {measured.show(other)}"
            yield measured.lower(theta, other, words, f"by {what}")


def kept_from_mnist(measured: Measurements) -> Iterator[Comparison]:
    """Trained on mnist, the θ-RBM keeps its γ on mnist-rot, the TI-RBM's falls, and is the lower one."""
    theta = [measured.from_mnist("theta", measure) for measure in GAMMAS]
    other = [measured.from_mnist("tirbm", measure) for measure in GAMMAS]
    show = measured.show
    words = f"θ-RBM keeps its γ: train {show(theta[0])}, test {show(theta[1])}"
    yield measured.limited(_mean(theta[0]) - _mean(theta[1]), KEPT_GAMMA, words, "that the θ-RBM keeps its γ", *theta)
    falls = measured.is_lower(other[1], other[0], KEPT_GAMMA)
    words = f"TI-RBM's falls: train {show(other[0])}, test {show(other[1])}"
    yield decided(falls, words, "that the TI-RBM's falls")
    words = f"test: TI-RBM {show(other[1])}, θ-RBM {show(theta[1])}"
    yield measured.lower(other[1], theta[1], words, "that the TI-RBM's is the lower one")


def robust_to_errors(measured: Measurements) -> Iterator[Comparison]:
    """For small p, the error is not above the unperturbed one wherever the paper's is not."""
    numbers = measured.numbers
    cells = numbers.in_table("3")
    base = cells[0].unperturbed(numbers.cells) if cells else None
    if base is None:
        raise MissingError("an unperturbed cell for Table 3")
    unperturbed = measured.value(base, ERROR)
    for cell in cells:
        value = measured.value(cell, ERROR)
        if cell.at["p"] > SMALL_CHANCE or is_above(value.published, unperturbed.published):
            continue
        for each in (value, unperturbed):
            if not each.values:
                raise MissingError(f"{ERROR} of {each.cell.name}")
        rises = measured.is_lower(unperturbed, value)
        place = f"n = {cell.at['n']}, p = {cell.at['p']:g}"
        words = f"{place}: {measured.show(value)}, unperturbed {measured.show(unperturbed)}"
        yield decided(not rises, words, f"for {place}")


def exact_in_theory(measured: Measurements, name: str, what: str) -> Iterator[Comparison]:
    """A theorem to the last bit or to rounding under exact rotations; under bilinear ones, the deviation."""
    if measured.theory is None:
        raise MissingError("the numerical checks: thetarbm run theory")
    checks = [each for each in measured.theory.checks if each.name.startswith(name)]
    exact = next((each for each in checks if each.exact and each.tolerance is not None), None)
    bilinear = next((each for each in checks if each.rotation == "bilinear"), None)
    if exact is None or bilinear is None:
        raise MissingError(f"the check of {name}")
    words = f"{what}: {exact.value:.2g} under exact rotations (allowed {exact.tolerance:g})"
    words += f", {bilinear.value:.2g} under bilinear ones"
    yield decided(exact.passed, words, name)


CLAIMS = (
    Claim(
        "lowest-error",
        "The θ-RBM has the lowest test error.",
        "At each sparsity, its error is below that of every other model{test_error_percent}; the O-RBM counts in both "
        "evaluations.",
        partial(theta_is_best, measures=[ERROR], verb="below"),
        superlative=True,
    ),
    Claim(
        "about-ten-percent",
        "The θ-RBM's test error is about 10 %.",
        f"At each sparsity, its mean is within {NEAR[ERROR]:g} point{{spread}} of the paper's.",
        partial(theta_as_published, measures=[ERROR]),
        on="the paper's data",
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is about 0.9 and the highest of all.",
        f"At each sparsity, on train and test, its mean is within {NEAR[GAMMA_TEST]:g}{{spread}} of the paper's, and "
        "above that of every other model{gamma_test}.",
        highest_gamma,
        superlative=True,
        on="the paper's data",
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is the highest of all.",
        "At each sparsity, on train and test, it is above that of every other model{gamma_test}.",
        highest_gamma,
        superlative=True,
        on="other data",
    ),
    *(
        Claim(
            f"highest-{measure.partition('_')[0]}",
            f"The θ-RBM is the most invariant of all by the measure of {authors}.",
            f"At each sparsity, on test, its {what} than every other model's{{{measure}}}.",
            partial(theta_is_best, measures=[measure], verb="better than"),
            superlative=True,
            beyond=True,
        )
        for measure, authors, what in (
            ("goodfellow_test", "Goodfellow et al. (2009)", "score is higher"),
            ("zou_test", "Zou et al. (2012)", "distance is lower"),
            ("dosovitskiy_test", "Dosovitskiy et al. (2014)", "agreement is higher"),
        )
    ),
    Claim(
        "steady-gamma",
        "The sparsity target does not move the θ-RBM's γ.",
        f"On train and test, the means at all targets are no more than {STEADY_GAMMA:g}{{spread}} apart.",
        steady_gamma,
    ),
    Claim(
        "falling-gamma",
        "The TI-RBM loses invariance with a lower sparsity target.",
        "On train and test, its γ falls from each target to the next lower one{gamma_test}.",
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
        "faster",
        "The θ-RBM trains faster than the TI-RBM.",
        "At each sparsity, its training takes less time and fewer products{tested}.",
        faster,
    ),
    Claim(
        "kept-from-mnist",
        "Trained on mnist, the θ-RBM keeps its γ on mnist-rot, where the TI-RBM's falls.",
        f"The θ-RBM's γ falls by no more than {KEPT_GAMMA:g}{{spread}}; the TI-RBM's falls by more than "
        f"{KEPT_GAMMA:g}{{tested}}; on mnist-rot the TI-RBM's is the lower one{{gamma_test}}.",
        kept_from_mnist,
        on="the paper's data",
    ),
    Claim(
        "robust-to-errors",
        "Orientation errors of up to n = 4 leave the test error unaffected for small p.",
        f"For p up to {SMALL_CHANCE:g}, wherever the paper's own value is not above its unperturbed one, "
        "ours is not above our unperturbed one{test_error_percent}.",
        robust_to_errors,
        on="the paper's data",
    ),
    Claim(
        "rotated-filters",
        "The filters in a column of the tensor are rotations of each other (Lemma 1).",
        "After training all slices under exact rotations, each slice is the rotation of every other to the last bit.",
        partial(exact_in_theory, name="Lemma 1", what="largest |W_s' - R_θ(W_s)|"),
        on="the paper's data",
    ),
    Claim(
        "gamma-of-one",
        "In theory, γ = 1 (Theorem 1).",
        "After training under exact rotations, γ of every unit over the support set is 1 to rounding.",
        partial(exact_in_theory, name="Theorem 1", what="largest |γ - 1|"),
        on="the paper's data",
    ),
)
# Of universes alone: the comparisons that "the lowest error" and "the highest γ" are made of, each as a claim.
OF_UNIVERSES = (
    *(
        Claim(
            f"{short}-against-{rival}",
            f"The θ-RBM's {what} is {verb} the {label}'s.",
            "",
            partial(theta_is_best, measures=measures, verb=verb, rivals={(rival, DEFAULT): label}),
            superlative=True,
        )
        for rival, label in RIVALS.items()
        for short, what, verb, measures in (("error", "error", "below", [ERROR]), ("gamma", "γ", "above", GAMMAS))
    ),
    Claim(
        "about-nine-tenths",
        "The θ-RBM's γ is about 0.9.",
        "",
        partial(theta_as_published, measures=GAMMAS),
        on="the paper's data",
    ),
)


def evaluate_claims(numbers: Numbers, theory: TheoryRecord | None = None) -> list[Verdict]:
    """Compare all that the paper claims with what was measured on images of one source."""
    verdicts = [(claim, evaluate(claim, numbers, theory)) for claim in CLAIMS if claim.is_about(numbers)]
    return [verdict for claim, verdict in verdicts if verdict.evidence or not claim.beyond]


def multiverse_claims(numbers: Numbers) -> list[Claim]:
    """The claims that a universe is judged by: those on measured numbers, and superlatives against each rival alone."""
    return [claim for claim in (*CLAIMS, *OF_UNIVERSES) if claim.is_about(numbers)]


def evaluate(claim: Claim, numbers: Numbers, theory: TheoryRecord | None = None) -> Verdict:
    """Compare one claim with what was measured."""
    words, measured = OVER_SEEDS, Measurements(numbers, theory)
    try:
        try:
            parts = list(claim.compare(measured))
        except OneSeedError:
            words, measured = OF_ONE_SEED, Measurements(numbers, theory, one_seed=True)
            parts = list(claim.compare(measured))
        missing = "" if parts else "nothing in the suite to compare"
    except MissingError as error:
        parts, missing = [], str(error)
    verdict = _verdict(parts, superlative=claim.superlative)
    return Verdict(
        source=numbers.source.name,
        claim=claim.name,
        text=claim.text,
        rule=claim.rule.format(**words),
        verdict=verdict if numbers.source.is_papers else ELSEWHERE.get(verdict, verdict),
        holds=sum(part.holds for part in parts),
        comparisons=len(parts),
        evidence=[*parts],
        missing=missing,
        held=_held(parts),
        compared=measured.compared,
    )


def _verdict(parts: Sequence[Comparison], *, superlative: bool) -> str:
    """What follows from comparisons."""
    if not parts:
        return NO_DATA
    if all(part.holds for part in parts):
        return REPRODUCED
    if superlative:
        return NOT if any(part.contradicted for part in parts) else UNDECIDED
    return PARTLY if any(part.holds for part in parts) else NOT


def _held(parts: Sequence[Comparison]) -> str:
    """Say how many comparisons hold, and which do not."""
    if not parts:
        return MISSING
    groups: dict[str, list[bool]] = {}
    for part in parts:
        groups.setdefault(part.with_what, []).append(part.holds)
    failing = [
        f"{with_what} only in {sum(holds)} of {len(holds)}" if any(holds) else f"not {with_what}"
        for with_what, holds in groups.items()
        if not all(holds)
    ]
    holding = sum(part.holds for part in parts)
    count = f"{holding} of {len(parts)}"
    return f"{count}: {'; '.join(failing)}" if failing and holding else count


def _mean(value: Value) -> float:
    assert value.mean is not None
    return value.mean


def _standard_error(value: Value) -> float:
    if value.deviation is None:
        raise OneSeedError
    return value.deviation / math.sqrt(len(value.values))


def _role(measure: str, before: str = "") -> str:
    """The images that a γ is of, train or test; nothing for other measures."""
    return f"{before}{measure.removeprefix('gamma_')}" if measure in GAMMAS else ""
