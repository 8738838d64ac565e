"""The paper's claims, each a list of comparisons of measured numbers, and the verdicts that follow from them alone.

A claim is declared once, for every data set. Whether a difference counts is decided by Welch's test over seeds, or by a
margin where a cell has one seed only. A claim is *reproduced* if all of its comparisons hold and *not
reproduced* if none does. Between the two, it is *partly* reproduced, but for a superlative ("the lowest"): that is *not
reproduced* if one comparison comes out the other way, and *undecided* if some are too close to tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import Literal

from pydantic import BaseModel, Field

from thetarbm_cli.measures import (
    DEFAULT,
    ERROR,
    GAMMA_TEST,
    GAMMA_TRAIN,
    MEASURES,
    MISSING,
    NOT_ALIGNED,
    column_name,
)
from thetarbm_cli.measures.theory import TheoryRecord
from thetarbm_cli.results import Results, Value
from thetarbm_cli.suite import Cell

REPRODUCED, PARTLY, UNDECIDED, NOT, NO_DATA = "reproduced", "partly", "undecided", "not reproduced", "no data"

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


class Comparison(BaseModel):
    """One comparison: whether it holds, its numbers in words, and with what it compares, by which it is summed up."""

    holds: bool
    words: str
    contradicted: bool = Field(
        description="Whether it comes out the other way; else, if it does not hold, it is too close to tell."
    )
    with_what: str

    @property
    def outcome(self) -> str:
        """How it came out, in words."""
        return "holds" if self.holds else "does not hold" if self.contradicted else "too close to tell"


class Verdict(BaseModel):
    """What follows from the comparisons of a claim, on images of one source.

    `compared` are the numbers that the comparisons are made of, each by model and measure.
    """

    dataset: str
    source: str
    claim: str
    text: str
    rule: str
    verdict: str
    holds: int = Field(description="Comparisons that hold.")
    comparisons: int
    evidence: list[Comparison]
    missing: str = Field(description="What it needs; empty if all is there.")
    compared: set[tuple[str, str]] = Field(default=set(), exclude=True)

    @property
    def held(self) -> str:
        """How many comparisons hold, and which do not."""
        if not self.evidence:
            return MISSING
        groups: dict[str, list[bool]] = {}
        for each in self.evidence:
            groups.setdefault(each.with_what, []).append(each.holds)
        failing = [
            f"{with_what} only in {sum(holds)} of {len(holds)}" if any(holds) else f"not {with_what}"
            for with_what, holds in groups.items()
            if not all(holds)
        ]
        count = f"{self.holds} of {self.comparisons}"
        return f"{count}: {'; '.join(failing)}" if failing and self.holds else count


def is_above(number: float | None, limit: float | None) -> bool:
    """Whether both are known and the first is the larger one."""
    return number is not None and limit is not None and number > limit


def decided(holds: bool, words: str, with_what: str) -> Comparison:
    """Make a comparison that either holds or comes out the other way."""
    return Comparison(holds=holds, words=words, contradicted=not holds, with_what=with_what)


def chance_below(lower: Value, higher: Value, by: float = 0.0) -> float:
    """Give the one-sided p-value of Welch's t-test that the mean of `lower` is more than `by` below `higher`'s."""
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
class Judge:
    """Look up the numbers that a claim compares, and compare them.

    With `one_seed`, differences are held against fixed margins, not against the noise of the seeds. `compared` are the
    numbers that were asked for, by model and measure.
    """

    results: Results
    theory: TheoryRecord | None = None
    one_seed: bool = False
    compared: set[tuple[str, str]] = field(default_factory=set)

    @cached_property
    def _by_sparsity(self) -> list[Cell]:
        return [cell for cell in self.results.cells if cell.tables and cell.at.keys() == {"sparsity"}]

    @property
    def sparsities(self) -> list[float]:
        """The sparsity targets of the tables, falling."""
        return sorted({cell.at["sparsity"] for cell in self._by_sparsity}, reverse=True)

    def of(self, model: str, measure: str, sparsity: float, variant: str = DEFAULT) -> Value:
        """Find a number of a model at a sparsity target: of its first cell, or another of the same training."""
        cells = [cell for cell in self._by_sparsity if (cell.model, cell.at["sparsity"]) == (model, sparsity)]
        same = [cell for cell in cells if cell.train_spec() == cells[0].train_spec()]
        return self._find(same, model, measure, variant, f" at sparsity {sparsity:g}")

    def from_mnist(self, model: str, measure: str) -> Value:
        """Find a number of a model that was trained on mnist."""
        return self._find(self.results.in_table("mnist"), model, measure, DEFAULT, " trained on mnist")

    def value(self, cell: Cell, measure: str, variant: str = DEFAULT) -> Value:
        """Look up a number of a cell, which may have none."""
        self.compared.add((cell.model, measure))
        return self.results.value(cell, measure, variant)

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


Compare = Callable[[Judge], Iterator[Comparison]]


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

    def is_about(self, results: Results) -> bool:
        """Whether it is a claim on data of this kind."""
        return self.on != ("other data" if results.source.is_papers else "the paper's data")


def theta_is_best(
    judge: Judge, measures: Sequence[str], verb: str, rivals: Mapping[tuple[str, str], str] = OTHERS
) -> Iterator[Comparison]:
    """Compare the θ-RBM with every other model at every sparsity."""
    for sparsity in judge.sparsities:
        for measure in measures:
            theta = judge.of("theta", measure, sparsity)
            for (model, variant), name in rivals.items():
                other = judge.of(model, measure, sparsity, variant)
                shown = [(theta, f"θ-RBM {judge.show(theta)}"), (other, f"{name} {judge.show(other)}")]
                (low, first), (high, second) = shown if MEASURES[measure].best == "lowest" else reversed(shown)
                words = f"sparsity {sparsity:g}{_role(measure, ', ')}: {first}, {second}"
                yield judge.lower(low, high, words, f"{verb} {name}")


def theta_as_published(judge: Judge, measures: Sequence[str]) -> Iterator[Comparison]:
    """Compare the θ-RBM's means with the published ones at every sparsity."""
    for sparsity in judge.sparsities:
        for measure in measures:
            value = judge.of("theta", measure, sparsity)
            if value.published is None:
                raise MissingError(f"a published value for {value.cell.name}")
            place = f"sparsity {sparsity:g}{_role(measure, ', ')}"
            words = f"{place}: {judge.show(value)}, the paper {value.published:g}"
            distance = abs(_mean(value) - value.published)
            yield judge.limited(distance, NEAR[measure], words, "the paper's values", value)


def highest_gamma(judge: Judge) -> Iterator[Comparison]:
    """Compare the θ-RBM's γ with the published one, where there is one, and with every other model's."""
    if judge.results.source.is_papers:
        yield from theta_as_published(judge, GAMMAS)
    yield from theta_is_best(judge, GAMMAS, "above")


def steady_gamma(judge: Judge) -> Iterator[Comparison]:
    """Compare the θ-RBM's γ at all sparsities."""
    for measure in GAMMAS:
        values = [judge.of("theta", measure, sparsity) for sparsity in judge.sparsities]
        if len(values) < 2:
            return  # one target moves nothing
        low, high = min(values, key=_mean), max(values, key=_mean)
        spread = _mean(high) - _mean(low)
        words = f"from {judge.show(low)} to {judge.show(high)}, {spread:.4f} apart"
        role = _role(measure)
        yield judge.limited(spread, STEADY_GAMMA, f"{role}: {words}", f"on {role} images", low, high)


def falling_gamma(judge: Judge) -> Iterator[Comparison]:
    """Compare the TI-RBM's γ at each sparsity target with the next lower one."""
    for measure in GAMMAS:
        for more, less in pairwise(judge.sparsities):
            before, after = (judge.of("tirbm", measure, sparsity) for sparsity in (more, less))
            numbers = f"{judge.show(before)} at sparsity {more:g}, {judge.show(after)} at {less:g}"
            yield judge.lower(after, before, f"{_role(measure)}: {numbers}", f"from {more:g} to {less:g}")


def oriented_no_better(judge: Judge) -> Iterator[Comparison]:
    """Compare the O-RBM's error with the RBM's, on images as they are and on aligned ones."""
    for variant, images in ((NOT_ALIGNED, "images as they are"), (DEFAULT, "aligned images")):
        for sparsity in judge.sparsities:
            plain = judge.of("rbm", ERROR, sparsity)
            oriented = judge.of("orbm", ERROR, sparsity, variant)
            numbers = f"{OTHERS['orbm', variant]} {judge.show(oriented)}, RBM {judge.show(plain)}"
            better = judge.is_lower(oriented, plain, BETTER_ERROR)
            yield decided(not better, f"sparsity {sparsity:g}: {numbers}", f"on {images}")


def faster(judge: Judge) -> Iterator[Comparison]:
    """Compare the time and the products that the θ-RBM and the TI-RBM need to train."""
    for measure, what in (("train_seconds", "time"), ("train_gigaflops", "products")):
        for sparsity in judge.sparsities:
            try:
                theta, other = (judge.of(model, measure, sparsity) for model in ("theta", "tirbm"))
            except MissingError:
                # Records from before products were counted have the time alone.
                if what == "products":
                    return
                raise
            words = f"sparsity {sparsity:g}: θ-RBM {judge.show(theta)}, TI-RBM {judge.show(other)}"
            yield judge.lower(theta, other, words, f"by {what}")


def kept_from_mnist(judge: Judge) -> Iterator[Comparison]:
    """Compare γ on mnist and mnist-rot of a θ-RBM and a TI-RBM that are trained on mnist."""
    theta = [judge.from_mnist("theta", measure) for measure in GAMMAS]
    other = [judge.from_mnist("tirbm", measure) for measure in GAMMAS]
    show = judge.show
    words = f"θ-RBM keeps its γ: train {show(theta[0])}, test {show(theta[1])}"
    yield judge.limited(_mean(theta[0]) - _mean(theta[1]), KEPT_GAMMA, words, "that the θ-RBM keeps its γ", *theta)
    falls = judge.is_lower(other[1], other[0], KEPT_GAMMA)
    words = f"TI-RBM's falls: train {show(other[0])}, test {show(other[1])}"
    yield decided(falls, words, "that the TI-RBM's falls")
    words = f"test: TI-RBM {show(other[1])}, θ-RBM {show(theta[1])}"
    yield judge.lower(other[1], theta[1], words, "that the TI-RBM's is the lower one")


def robust_to_errors(judge: Judge) -> Iterator[Comparison]:
    """Compare the error for small p with the unperturbed one, wherever the paper's is not above its own."""
    cells = judge.results.in_table("3")
    base = cells[0].unperturbed(judge.results.cells) if cells else None
    if base is None:
        raise MissingError("an unperturbed cell for Table 3")
    unperturbed = judge.value(base, ERROR)
    for cell in cells:
        value = judge.value(cell, ERROR)
        if cell.at["p"] > SMALL_CHANCE or is_above(value.published, unperturbed.published):
            continue
        for each in (value, unperturbed):
            if not each.values:
                raise MissingError(f"{ERROR} of {each.cell.name}")
        rises = judge.is_lower(unperturbed, value)
        place = f"n = {cell.at['n']}, p = {cell.at['p']:g}"
        words = f"{place}: {judge.show(value)}, unperturbed {judge.show(unperturbed)}"
        yield decided(not rises, words, f"for {place}")


def exact_in_theory(judge: Judge, name: str, what: str) -> Iterator[Comparison]:
    """Check a theorem under exact rotations, to the last bit or to rounding; show the deviation under bilinear ones."""
    if judge.theory is None:
        raise MissingError("the numerical checks: thetarbm run theory")
    checks = [each for each in judge.theory.checks if each.name.startswith(name)]
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


def evaluate_claims(results: Results, theory: TheoryRecord | None = None) -> list[Verdict]:
    """Compare all that the paper claims with what was measured on images of one source."""
    verdicts = [(claim, evaluate(claim, results, theory)) for claim in CLAIMS if claim.is_about(results)]
    return [verdict for claim, verdict in verdicts if verdict.evidence or not claim.beyond]


def multiverse_claims(results: Results) -> list[Claim]:
    """Give the claims that a universe is judged by: on measured numbers, and superlatives against each rival alone."""
    return [claim for claim in (*CLAIMS, *OF_UNIVERSES) if claim.is_about(results)]


def evaluate(claim: Claim, results: Results, theory: TheoryRecord | None = None) -> Verdict:
    """Compare one claim with what was measured."""
    words, judge = OVER_SEEDS, Judge(results, theory)
    try:
        try:
            evidence = list(claim.compare(judge))
        except OneSeedError:
            words, judge = OF_ONE_SEED, Judge(results, theory, one_seed=True)
            evidence = list(claim.compare(judge))
        missing = "" if evidence else "nothing in the suite to compare"
    except MissingError as error:
        evidence, missing = [], str(error)
    return Verdict(
        dataset=results.source.dataset,
        source=results.source.name,
        claim=claim.name,
        text=claim.text,
        rule=claim.rule.format(**words),
        verdict=_verdict(evidence, superlative=claim.superlative),
        holds=sum(each.holds for each in evidence),
        comparisons=len(evidence),
        evidence=evidence,
        missing=missing,
        compared=judge.compared,
    )


def _verdict(evidence: Sequence[Comparison], *, superlative: bool) -> str:
    """Say what follows from comparisons."""
    if not evidence:
        return NO_DATA
    if all(each.holds for each in evidence):
        return REPRODUCED
    if superlative:
        return NOT if any(each.contradicted for each in evidence) else UNDECIDED
    return PARTLY if any(each.holds for each in evidence) else NOT


def _mean(value: Value) -> float:
    assert value.mean is not None
    return value.mean


def _standard_error(value: Value) -> float:
    if value.deviation is None:
        raise OneSeedError
    return value.deviation / math.sqrt(len(value.values))


def _role(measure: str, before: str = "") -> str:
    """Name the images that a γ is of, train or test; nothing for other measures."""
    return f"{before}{measure.removeprefix('gamma_')}" if measure in GAMMAS else ""
