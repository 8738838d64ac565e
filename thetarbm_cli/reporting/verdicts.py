"""Verdicts: each claim of the paper, its rule, the numbers, and what follows.

A claim is a list of comparisons. It is *reproduced* if all hold, *not reproduced* if none does, *partly* reproduced
else; with fewer than two seeds of any cell that it needs there is *no data*.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from thetarbm_cli.experiments.execution.theory import TheoryRecord
from thetarbm_cli.reporting import claims
from thetarbm_cli.reporting.frame import Numbers
from thetarbm_cli.reporting.noise import LEVEL

REPRODUCED, PARTLY, NOT, NO_DATA = "reproduced", "partly", "not reproduced", "no data"


@dataclass(frozen=True)
class Claim:
    """What the paper says, and when we say that it holds."""

    name: str
    text: str
    rule: str
    parts: Callable[[Numbers], Iterable[claims.Part]] | None = None
    theory: Callable[[TheoryRecord], Iterable[claims.Part]] | None = None


@dataclass(frozen=True)
class Verdict:
    """A claim judged."""

    claim: Claim
    verdict: str
    parts: list[claims.Part]
    missing: str = ""

    def as_json(self) -> dict[str, Any]:
        """As ``tables --json`` tells it."""
        return {
            "claim": self.claim.name,
            "text": self.claim.text,
            "rule": self.claim.rule,
            "verdict": self.verdict,
            "holds": sum(part.holds for part in self.parts),
            "comparisons": len(self.parts),
            "evidence": [{"holds": part.holds, "words": part.words} for part in self.parts],
            "missing": self.missing,
        }


WELCH = f"(one-sided Welch t-test over seeds, p < {LEVEL:g})"
CLAIMS = (
    Claim(
        "lowest-error",
        "The θ-RBM has the lowest test error.",
        f"At each sparsity, its error is below that of every other model {WELCH}; "
        "the O-RBM counts in both evaluations.",
        claims.lowest_error,
    ),
    Claim(
        "about-ten-percent",
        "The θ-RBM's test error is about 10 %.",
        f"At each sparsity, its mean is within {claims.NEAR_ERROR:g} point plus one standard error of the paper's.",
        claims.about_ten_percent,
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is about 0.9 and the highest of all.",
        f"At each sparsity, on train and test, its mean is within {claims.NEAR_GAMMA:g} plus one standard error of the "
        f"paper's, and above that of every other model {WELCH}.",
        claims.highest_gamma,
    ),
    Claim(
        "steady-gamma",
        "The sparsity target does not move the θ-RBM's γ.",
        f"On train and test, the means at the three targets are no more than {claims.STEADY_GAMMA:g} apart, plus one "
        "standard error of the difference.",
        claims.steady_gamma,
    ),
    Claim(
        "falling-gamma",
        "The TI-RBM loses invariance with a lower sparsity target.",
        f"On train and test, its γ falls from 0.3 to 0.2 and from 0.2 to 0.1 {WELCH}.",
        claims.falling_gamma,
    ),
    Claim(
        "oriented-no-better",
        "Aligning the images beforehand (O-RBM) is no better than an RBM.",
        f"At each sparsity, its error is not more than {claims.BETTER_ERROR:g} points below the RBM's {WELCH}, "
        "neither on images as they are nor on aligned ones.",
        claims.oriented_no_better,
    ),
    Claim(
        "kept-from-mnist",
        "Trained on mnist, the θ-RBM keeps its γ on mnist-rot, where the TI-RBM's falls.",
        f"The θ-RBM's γ falls by no more than {claims.KEPT_GAMMA:g} plus one standard error; the TI-RBM's falls by "
        f"more than {claims.KEPT_GAMMA:g} {WELCH}; on mnist-rot the TI-RBM's is the lower one {WELCH}.",
        claims.kept_from_mnist,
    ),
    Claim(
        "robust-to-errors",
        "Orientation errors of up to n = 4 leave the test error unaffected for small p.",
        f"For p up to {claims.SMALL_CHANCE:g}, wherever the paper's own value is not above its unperturbed one, "
        f"ours is not above our unperturbed one {WELCH}.",
        claims.robust_to_errors,
    ),
    Claim(
        "rotated-filters",
        "The filters in a column of the tensor are rotations of each other (Lemma 1).",
        "After training all slices under exact rotations, each slice is the rotation of every other to the last bit.",
        theory=claims.rotated_filters,
    ),
    Claim(
        "gamma-of-one",
        "In theory, γ = 1 (Theorem 1).",
        "After training under exact rotations, γ of every unit over the support set is 1 to rounding.",
        theory=claims.gamma_of_one,
    ),
)


def judge(numbers: Numbers, theory: TheoryRecord | None) -> list[Verdict]:
    """All verdicts on what was measured on images of one source."""
    return [_judge(claim, numbers, theory) for claim in CLAIMS]


def _judge(claim: Claim, numbers: Numbers, theory: TheoryRecord | None) -> Verdict:
    try:
        if claim.theory is not None:
            if theory is None:
                raise claims.MissingError("the numerical checks: thetarbm run theory")
            parts = list(claim.theory(theory))
        else:
            assert claim.parts is not None
            parts = list(claim.parts(numbers))
    except claims.MissingError as missing:
        return Verdict(claim, NO_DATA, [], str(missing))
    holding = sum(part.holds for part in parts)
    if not parts:
        return Verdict(claim, NO_DATA, [], "nothing in the suite to compare")
    return Verdict(claim, REPRODUCED if holding == len(parts) else PARTLY if holding else NOT, parts)


def summary(verdicts: list[Verdict]) -> str:
    """Each claim with its verdict, as a Markdown table."""
    lines = ["| claim | verdict | comparisons that hold |", "| :-- | :-- | --: |"]
    for verdict in verdicts:
        held = f"{sum(part.holds for part in verdict.parts)} of {len(verdict.parts)}" if verdict.parts else "—"
        lines.append(f"| {verdict.claim.text} | *{verdict.verdict}* | {held} |")
    return "\n".join(lines)


def to_markdown(judged: list[tuple[Numbers, list[Verdict]]], profile: str) -> str:
    """All verdicts as a page: a table, then each claim with its rule and numbers."""
    lines = [
        "# Verdicts",
        "",
        "Computed by `thetarbm tables` from the records; none is typed by hand. A claim is a list of comparisons: "
        "*reproduced* if all hold, *not reproduced* if none does, *partly* else, and *no data* if a cell has fewer "
        "than two seeds. Numbers are means ± standard errors over seeds.",
    ]
    for numbers, verdicts in judged:
        lines += [
            "",
            f"## {numbers.source.described}, profile {profile}",
            "",
            summary(verdicts),
        ]
        for verdict in verdicts:
            lines += ["", f"### {verdict.claim.text}", "", f"**{verdict.verdict}**. Rule: {verdict.claim.rule}", ""]
            lines += [f"- {'holds' if part.holds else 'does not hold'}: {part.words}" for part in verdict.parts]
            lines += [f"- missing: {verdict.missing}"] if verdict.missing else []
    return "\n".join(lines) + "\n"
