"""The paper's claims, each a list of comparisons of measured numbers, and the verdicts that follow from them alone.

One rule judges all of them. Numbers of one repetition, a draw of the data and a seed, are paired. The mean of the
differences and its 95 % interval, from Student's t, say how two numbers compare:

- *lower* or *higher*: the interval excludes 0, and the mean is beyond the smallest difference of interest;
- *level*: the whole interval lies within the difference of interest;
- *open*: neither.

A single repetition has no interval: its difference is beyond the difference of interest, or level. A claim is
*reproduced* if every comparison holds, *not reproduced* if one is decided against it, and *open* else. The differences
of interest are in the suite, and were written down before the runs that they judge.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
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
from thetarbm_cli.suite import Cell, Interest

REPRODUCED, NOT, OPEN, NO_DATA = "reproduced", "not reproduced", "open", "no data"
VERIFIED, NOT_VERIFIED = "verified under its assumptions", "not verified"

State = Literal["lower", "higher", "level", "open"]

# The level of intervals.
LEVEL = 0.05
# Of more comparisons that do not hold, their number is enough.
MOST_NAMED = 4
GAMMAS = (GAMMA_TRAIN, GAMMA_TEST)

# The models that the θ-RBM is compared with, by their evaluations.
OTHERS = {
    ("rbm", DEFAULT): "RBM",
    ("orbm", NOT_ALIGNED): "O-RBM not aligned",
    ("orbm", DEFAULT): "O-RBM aligned",
    ("tirbm", DEFAULT): "TI-RBM",
}
RIVALS = {"rbm": "RBM", "orbm": "O-RBM", "tirbm": "TI-RBM"}


class MissingError(Exception):
    """A number that a claim needs has not been measured."""


class Comparison(BaseModel):
    """One comparison: the difference of two numbers, how they compare, and whether that agrees with the claim."""

    words: str = Field(description="What is compared, and the numbers.")
    with_what: str = Field(description="By which comparisons are summed up.")
    differences: list[float] = Field(description="One for each repetition.")
    mean: float
    low: float | None = Field(description="95 % interval of the mean; null for a single repetition.")
    high: float | None
    interest: float = Field(description="The smallest difference of interest.")
    state: State = Field(description="Of the first number against the second.")
    agrees: list[State] = Field(description="The states in which the claim holds.")

    @property
    def holds(self) -> bool:
        """Whether it agrees with the claim."""
        return self.state in self.agrees

    @property
    def contradicted(self) -> bool:
        """Whether it is decided against the claim."""
        return not self.holds and self.state != "open"

    @property
    def outcome(self) -> str:
        """How it came out, in words."""
        return "holds" if self.holds else "does not hold" if self.contradicted else "open"


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
        """How many comparisons hold, and which do not or are open."""
        if not self.evidence:
            return MISSING
        sizes, words = Counter(each.with_what for each in self.evidence), [f"{self.holds} of {self.comparisons}"]
        for heading, chosen in (
            ("not", Counter(each.with_what for each in self.evidence if each.contradicted)),
            ("open", Counter(each.with_what for each in self.evidence if each.state == "open")),
        ):
            parts = [what if n == sizes[what] else f"{what} in {n} of {sizes[what]}" for what, n in chosen.items()]
            if len(parts) > MOST_NAMED:
                parts = [f"in {chosen.total()}"]
            words += [f"{heading} {', '.join(parts)}"] if parts else []
        return "; ".join(words)


def interval(numbers: Sequence[float]) -> tuple[float, float] | None:
    """Compute the 95 % interval of a mean by Student's t; None for a single number."""
    if len(numbers) < 2:
        return None
    # To import scipy.stats takes longer than all else that prints the tables.
    from scipy.special import stdtrit

    half = float(stdtrit(len(numbers) - 1, 1 - LEVEL / 2)) * statistics.stdev(numbers) / math.sqrt(len(numbers))
    mean = statistics.fmean(numbers)
    return mean - half, mean + half


def state_of(differences: Sequence[float], interest: float) -> State:
    """Say how two numbers compare, from their differences in each repetition."""
    mean, bounds = statistics.fmean(differences), interval(differences)
    low, high = bounds or (mean, mean)
    if bounds is None:
        return "lower" if mean < -interest else "higher" if mean > interest else "level"
    if high < 0 and mean < -interest:
        return "lower"
    if low > 0 and mean > interest:
        return "higher"
    return "level" if -interest <= low and high <= interest else "open"


@dataclass(frozen=True)
class Judge:
    """Look up the numbers that a claim compares, and compare them.

    `compared` are the numbers that were asked for, by model and measure.
    """

    results: Results
    interests: Mapping[str, Interest]
    theory: TheoryRecord | None = None
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

    def measured(self, cell: Cell, measure: str) -> Value:
        """Look up a number of a cell that has one."""
        value = self.value(cell, measure)
        if not value.values:
            raise MissingError(f"{measure} of {cell.name}")
        return value

    def _find(self, cells: Sequence[Cell], model: str, measure: str, variant: str, where: str) -> Value:
        values = (self.value(cell, measure, variant) for cell in cells if cell.model == model)
        found = next((value for value in values if value.values), None)
        if found is None:
            raise MissingError(f"{column_name(measure, variant)} of {model}{where}")
        return found

    def compare(
        self, first: tuple[str, Value], second: tuple[str, Value], agrees: Sequence[State], where: str, with_what: str
    ) -> Comparison:
        """Compare two numbers, each with its name, by the repetitions that both have."""
        (name, one), (other_name, other) = first, second
        ours, theirs = (dict(zip(each.seeds, each.values, strict=True)) for each in (one, other))
        shared = [seed for seed in ours if seed in theirs]
        if not shared:
            raise MissingError(f"a repetition that {one.cell.name} and {other.cell.name} have in common")
        measure = MEASURES[one.measure]
        means = [statistics.fmean(each[seed] for seed in shared) for each in (ours, theirs)]
        unit = f" {measure.unit}" if measure.unit else ""
        numbers = f"{name} {measure.text(means[0])}{unit}, {other_name} {measure.text(means[1])}{unit}"
        differences = [ours[seed] - theirs[seed] for seed in shared]
        interest = self._interest(one.measure).difference
        return _comparison(differences, interest, agrees, f"{where}{numbers}", with_what, measure.text)

    def against_published(self, value: Value, where: str, with_what: str) -> Comparison:
        """Compare a number with the paper's, of which the interval should be level."""
        if value.published is None:
            raise MissingError(f"a published value for {value.cell.name}")
        published, measure = value.published, MEASURES[value.measure]
        words = f"{where}{measure.text(statistics.fmean(value.values))}, the paper {published:g}"
        differences = [number - published for number in value.values]
        near = self._interest(value.measure).near
        if near is None:
            raise MissingError(f"a width around the paper's {value.measure} in the suite")
        return _comparison(differences, near, ["level"], words, with_what, measure.text)

    def _interest(self, measure: str) -> Interest:
        if measure not in self.interests:
            raise MissingError(f"a smallest difference of interest for {measure} in the suite")
        return self.interests[measure]


def _comparison(
    differences: list[float],
    interest: float,
    agrees: Sequence[State],
    words: str,
    with_what: str,
    text: Callable[[float], str],
) -> Comparison:
    differences = [round(each, 6) for each in differences]
    bounds, mean = interval(differences), statistics.fmean(differences)
    shown = f"difference {text(mean)}" + (f" ({text(bounds[0])} to {text(bounds[1])})" if bounds else "")
    low, high = bounds or (None, None)
    return Comparison(
        words=f"{words}; {shown}",
        with_what=with_what,
        differences=differences,
        mean=round(mean, 6),
        low=None if low is None else round(low, 6),
        high=None if high is None else round(high, 6),
        interest=interest,
        state=state_of(differences, interest),
        agrees=list(agrees),
    )


Compare = Callable[[Judge], Iterator[Comparison]]


@dataclass(frozen=True)
class Claim:
    """What the paper says, and when it holds.

    Attributes
    ----------
    rule : which comparisons must come out how
    on : the data sets that it is about
    beyond : whether it is none of the paper's own: where its numbers were not measured, nobody misses it
    proved : whether it is a theorem, which is verified and not reproduced
    """

    name: str
    text: str
    rule: str
    compare: Compare
    on: Literal["any data", "the paper's data", "other data"] = "any data"
    beyond: bool = False
    proved: bool = False

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
            better: State = "lower" if MEASURES[measure].best == "lowest" else "higher"
            for (model, variant), name in rivals.items():
                other = judge.of(model, measure, sparsity, variant)
                where = f"sparsity {sparsity:g}{_role(measure, ', ')}: "
                yield judge.compare(("θ-RBM", theta), (name, other), [better], where, f"{verb} {name}")


def theta_as_published(judge: Judge, measures: Sequence[str]) -> Iterator[Comparison]:
    """Compare the θ-RBM's numbers with the published ones at every sparsity."""
    for sparsity in judge.sparsities:
        for measure in measures:
            where = f"sparsity {sparsity:g}{_role(measure, ', ')}: "
            yield judge.against_published(judge.of("theta", measure, sparsity), where, "near the paper's values")


def highest_gamma(judge: Judge) -> Iterator[Comparison]:
    """Compare the θ-RBM's γ with the published one, where there is one, and with every other model's."""
    if judge.results.source.is_papers:
        yield from theta_as_published(judge, GAMMAS)
    yield from theta_is_best(judge, GAMMAS, "above")


def steady_gamma(judge: Judge) -> Iterator[Comparison]:
    """Compare the θ-RBM's γ at each two sparsities."""
    for measure in GAMMAS:
        for more, less in combinations(judge.sparsities, 2):
            pair = [(f"at {target:g}", judge.of("theta", measure, target)) for target in (less, more)]
            yield judge.compare(pair[0], pair[1], ["level"], f"{_role(measure)}: ", f"from {more:g} to {less:g}")


def falling_gamma(judge: Judge) -> Iterator[Comparison]:
    """Compare the TI-RBM's γ at the lowest sparsity target with that at the highest."""
    for measure in GAMMAS if len(judge.sparsities) > 1 else ():
        more, less = judge.sparsities[0], judge.sparsities[-1]
        pair = [(f"at {target:g}", judge.of("tirbm", measure, target)) for target in (less, more)]
        yield judge.compare(pair[0], pair[1], ["lower"], f"{_role(measure)}: ", f"on {_role(measure)} images")


def oriented_no_better(judge: Judge) -> Iterator[Comparison]:
    """Compare the O-RBM's error with the RBM's, on images as they are and on aligned ones."""
    for variant, images in ((NOT_ALIGNED, "images as they are"), (DEFAULT, "aligned images")):
        for sparsity in judge.sparsities:
            oriented, plain = judge.of("orbm", ERROR, sparsity, variant), judge.of("rbm", ERROR, sparsity)
            pair = (OTHERS["orbm", variant], oriented), ("RBM", plain)
            yield judge.compare(*pair, ["level", "higher"], f"sparsity {sparsity:g}: ", f"on {images}")


def faster(judge: Judge) -> Iterator[Comparison]:
    """Compare the operations that the training of the θ-RBM and of the TI-RBM takes."""
    for sparsity in judge.sparsities:
        theta, other = (judge.of(model, "train_gigaflops", sparsity) for model in ("theta", "tirbm"))
        yield judge.compare(("θ-RBM", theta), ("TI-RBM", other), ["lower"], f"sparsity {sparsity:g}: ", "by operations")


def kept_from_mnist(judge: Judge) -> Iterator[Comparison]:
    """Compare γ on mnist and mnist-rot of a θ-RBM and a TI-RBM that are trained on mnist."""
    theta, other = (
        [("on mnist", judge.from_mnist(model, GAMMA_TRAIN)), ("on mnist-rot", judge.from_mnist(model, GAMMA_TEST))]
        for model in ("theta", "tirbm")
    )
    yield judge.compare(theta[1], theta[0], ["level", "higher"], "θ-RBM: ", "that the θ-RBM keeps its γ")
    yield judge.compare(other[1], other[0], ["lower"], "TI-RBM: ", "that the TI-RBM's falls")
    pair = ("TI-RBM", other[1][1]), ("θ-RBM", theta[1][1])
    yield judge.compare(*pair, ["lower"], "on mnist-rot: ", "that the TI-RBM's is the lower one")


def robust_to_errors(judge: Judge) -> Iterator[Comparison]:
    """Compare the error under every perturbation with the unperturbed one."""
    cells = judge.results.in_table("3")
    base = cells[0].unperturbed(judge.results.cells) if cells else None
    if base is None:
        raise MissingError("an unperturbed cell for Table 3")
    unperturbed = judge.measured(base, ERROR)
    for cell in cells:
        place = f"n = {cell.at['n']}, p = {cell.at['p']:g}"
        pair = ("perturbed", judge.measured(cell, ERROR)), ("unperturbed", unperturbed)
        yield judge.compare(*pair, ["level", "lower"], f"{place}: ", f"for {place}")


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
    yield Comparison(
        words=words,
        with_what=name,
        differences=[exact.value],
        mean=exact.value,
        low=None,
        high=None,
        interest=exact.tolerance or 0.0,
        state="level" if exact.passed else "higher",
        agrees=["level"],
    )


CLAIMS = (
    Claim(
        "lowest-error",
        "The θ-RBM has the lowest test error.",
        "At each sparsity, its error is lower than that of every other model; the O-RBM counts in both evaluations.",
        partial(theta_is_best, measures=[ERROR], verb="below"),
    ),
    Claim(
        "about-ten-percent",
        "The θ-RBM's test error is about 10 %.",
        "At each sparsity, it is level with the paper's.",
        partial(theta_as_published, measures=[ERROR]),
        on="the paper's data",
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is about 0.9 and the highest of all.",
        "At each sparsity, on train and test, it is level with the paper's, and higher than that of every other model.",
        highest_gamma,
        on="the paper's data",
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is the highest of all.",
        "At each sparsity, on train and test, it is higher than that of every other model.",
        highest_gamma,
        on="other data",
    ),
    *(
        Claim(
            f"highest-{measure.partition('_')[0]}",
            f"The θ-RBM is the most invariant of all by the measure of {authors}.",
            f"At each sparsity, on test, its {what} than every other model's.",
            partial(theta_is_best, measures=[measure], verb="better than"),
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
        "On train and test, it is level at each two targets.",
        steady_gamma,
    ),
    Claim(
        "falling-gamma",
        "The TI-RBM loses invariance with a lower sparsity target.",
        "On train and test, its γ is lower at the lowest target than at the highest.",
        falling_gamma,
    ),
    Claim(
        "oriented-no-better",
        "Aligning the images beforehand (O-RBM) is no better than an RBM.",
        "At each sparsity, its error is level with the RBM's or higher, on images as they are and on aligned ones.",
        oriented_no_better,
    ),
    Claim(
        "faster",
        "The θ-RBM trains faster than the TI-RBM.",
        "At each sparsity, its training takes fewer operations, which no load of a machine changes.",
        faster,
    ),
    Claim(
        "kept-from-mnist",
        "Trained on mnist, the θ-RBM keeps its γ on mnist-rot, where the TI-RBM's falls.",
        "The θ-RBM's γ on mnist-rot is level with that on mnist, or higher; the TI-RBM's is lower, and on mnist-rot "
        "lower than the θ-RBM's.",
        kept_from_mnist,
        on="the paper's data",
    ),
    Claim(
        "robust-to-errors",
        "Even with a large probability of error, and up to n = 4, wrong orientations do not affect the test error.",
        "For every n and p, the error is level with the unperturbed one, or lower.",
        robust_to_errors,
        on="the paper's data",
    ),
    Claim(
        "rotated-filters",
        "The filters in a column of the tensor are rotations of each other (Lemma 1).",
        "After training all slices under exact rotations, each slice is the rotation of every other to the last bit.",
        partial(exact_in_theory, name="Lemma 1", what="largest |W_s' - R_θ(W_s)|"),
        on="the paper's data",
        proved=True,
    ),
    Claim(
        "gamma-of-one",
        "In theory, γ = 1 (Theorem 1).",
        "After training under exact rotations, γ of every unit over the support set is 1 to rounding.",
        partial(exact_in_theory, name="Theorem 1", what="largest |γ - 1|"),
        on="the paper's data",
        proved=True,
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


def evaluate_claims(
    results: Results, interests: Mapping[str, Interest], theory: TheoryRecord | None = None
) -> list[Verdict]:
    """Compare all that the paper claims with what was measured on images of one source."""
    verdicts = [(claim, evaluate(claim, results, interests, theory)) for claim in CLAIMS if claim.is_about(results)]
    return [verdict for claim, verdict in verdicts if verdict.evidence or not claim.beyond]


def multiverse_claims(results: Results) -> list[Claim]:
    """Give the claims that a universe is judged by: on measured numbers, and superlatives against each rival alone."""
    return [claim for claim in (*CLAIMS, *OF_UNIVERSES) if claim.is_about(results)]


def evaluate(
    claim: Claim, results: Results, interests: Mapping[str, Interest], theory: TheoryRecord | None = None
) -> Verdict:
    """Compare one claim with what was measured."""
    judge = Judge(results, interests, theory)
    try:
        evidence = list(claim.compare(judge))
        missing = "" if evidence else "nothing in the suite to compare"
    except MissingError as error:
        evidence, missing = [], str(error)
    verdict = NO_DATA
    if evidence:
        words = (VERIFIED, NOT_VERIFIED) if claim.proved else (REPRODUCED, NOT)
        verdict = words[0] if all(each.holds for each in evidence) else OPEN
        verdict = words[1] if any(each.contradicted for each in evidence) else verdict
    return Verdict(
        dataset=results.source.dataset,
        source=results.source.name,
        claim=claim.name,
        text=claim.text,
        rule=claim.rule,
        verdict=verdict,
        holds=sum(each.holds for each in evidence),
        comparisons=len(evidence),
        evidence=evidence,
        missing=missing,
        compared=judge.compared,
    )


def _role(measure: str, before: str = "") -> str:
    """Name the images that a γ is of, train or test; nothing for other measures."""
    return f"{before}{measure.removeprefix('gamma_')}" if measure in GAMMAS else ""
