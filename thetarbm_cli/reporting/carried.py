"""Whether the paper's claims carry over to another data set than its own.

There the paper has no numbers, and one seed has no spread. So a difference counts if it is larger than a margin, which
is larger than the standard deviation over seeds of any cell on mnist-rot. What the claims are stands in `CLAIMS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from thetarbm_cli.outcomes import DEFAULT, ERROR, GAMMA_TEST, GAMMA_TRAIN, NOT_ALIGNED
from thetarbm_cli.reporting.claims import BETTER_ERROR, NAMES, OTHERS, SPARSITIES, STEADY_GAMMA, MissingError, Part
from thetarbm_cli.reporting.frame import Numbers
from thetarbm_cli.reporting.verdicts import NO_DATA, Claim, Verdict, summary

TABLE = "fashion"
CARRIES, PARTLY, NOT = "carries over", "partly", "does not carry over"
ERROR_MARGIN = BETTER_ERROR  # points of percent
GAMMA_MARGIN = 0.01


def lowest_error(numbers: Numbers) -> Iterator[Part]:
    """The θ-RBM's error below that of every other model at every sparsity."""
    for sparsity in SPARSITIES:
        theta = _mean(numbers, "theta", ERROR, sparsity)
        for model, ending in OTHERS:
            other = _mean(numbers, model, ERROR, sparsity, ending)
            words = f"sparsity {sparsity:g}: θ-RBM {theta:.2f} %, {NAMES[model, ending]} {other:.2f} %"
            yield Part(theta < other - ERROR_MARGIN, words)


def highest_gamma(numbers: Numbers) -> Iterator[Part]:
    """The θ-RBM's γ above that of every other model at every sparsity."""
    for sparsity in SPARSITIES:
        for column in (GAMMA_TRAIN, GAMMA_TEST):
            theta = _mean(numbers, "theta", column, sparsity)
            for model, ending in OTHERS:
                other = _mean(numbers, model, column, sparsity, ending)
                place = f"sparsity {sparsity:g}, {_word(column)}"
                words = f"{place}: θ-RBM {theta:.4f}, {NAMES[model, ending]} {other:.4f}"
                yield Part(theta > other + GAMMA_MARGIN, words)


def steady_gamma(numbers: Numbers) -> Iterator[Part]:
    """The θ-RBM's γ the same at every sparsity."""
    for column in (GAMMA_TRAIN, GAMMA_TEST):
        values = [_mean(numbers, "theta", column, sparsity) for sparsity in SPARSITIES]
        low, high = min(values), max(values)
        words = f"{_word(column)}: from {low:.4f} to {high:.4f}, {high - low:.4f} apart"
        yield Part(high - low <= STEADY_GAMMA, words)


def falling_gamma(numbers: Numbers) -> Iterator[Part]:
    """The TI-RBM's γ falls with each lower sparsity target."""
    for column in (GAMMA_TRAIN, GAMMA_TEST):
        for more, less in pairwise(SPARSITIES):
            before, after = (_mean(numbers, "tirbm", column, sparsity) for sparsity in (more, less))
            words = f"{_word(column)}: {before:.4f} at sparsity {more:g}, {after:.4f} at {less:g}"
            yield Part(after < before - GAMMA_MARGIN, words)


def oriented_no_better(numbers: Numbers) -> Iterator[Part]:
    """The O-RBM's error not clearly below the RBM's, on images as they are and on aligned ones."""
    for ending in (NOT_ALIGNED, DEFAULT):
        for sparsity in SPARSITIES:
            plain = _mean(numbers, "rbm", ERROR, sparsity)
            oriented = _mean(numbers, "orbm", ERROR, sparsity, ending)
            words = f"sparsity {sparsity:g}: {NAMES['orbm', ending]} {oriented:.2f} %, RBM {plain:.2f} %"
            yield Part(oriented >= plain - ERROR_MARGIN, words)


CLAIMS = (
    Claim(
        "lowest-error",
        "The θ-RBM has the lowest test error.",
        f"At each sparsity, its error is more than {ERROR_MARGIN:g} points below that of every other model; "
        "the O-RBM counts in both evaluations.",
        lowest_error,
    ),
    Claim(
        "highest-gamma",
        "The θ-RBM's γ is the highest of all.",
        f"At each sparsity, on train and test, it is more than {GAMMA_MARGIN:g} above that of every other model.",
        highest_gamma,
    ),
    Claim(
        "steady-gamma",
        "The sparsity target does not move the θ-RBM's γ.",
        f"On train and test, the values at the three targets are no more than {STEADY_GAMMA:g} apart.",
        steady_gamma,
    ),
    Claim(
        "falling-gamma",
        "The TI-RBM loses invariance with a lower sparsity target.",
        f"On train and test, its γ falls by more than {GAMMA_MARGIN:g} from 0.3 to 0.2 and from 0.2 to 0.1.",
        falling_gamma,
    ),
    Claim(
        "oriented-no-better",
        "Aligning the images beforehand (O-RBM) is no better than an RBM.",
        f"At each sparsity, its error is not more than {ERROR_MARGIN:g} points below the RBM's, neither on images as "
        "they are nor on aligned ones.",
        oriented_no_better,
    ),
)


def judge_carried(numbers: Numbers) -> list[Verdict]:
    """Each claim on what was measured on another data set."""
    return [_judge(claim, numbers) for claim in CLAIMS]


def to_markdown(numbers: Numbers, verdicts: list[Verdict], profile: str) -> str:
    """All of it as a page: a table, then each claim with its rule and numbers."""
    lines = [
        f"# The paper's claims on {numbers.source.dataset}",
        "",
        f"Computed by `thetarbm tables` from the records on {numbers.source.dataset} {numbers.source}, profile "
        f"{profile}. The paper has no numbers on this data set. A claim is a list of comparisons: it *carries over* if "
        "all hold, *does not carry over* if none does, *partly* else. Few seeds have no usable spread, so a difference "
        "counts only if it is larger than the margin in the rule.",
        "",
        summary(verdicts),
    ]
    for verdict in verdicts:
        lines += ["", f"## {verdict.claim.text}", "", f"**{verdict.verdict}**. Rule: {verdict.claim.rule}", ""]
        lines += [f"- {'holds' if part.holds else 'does not hold'}: {part.words}" for part in verdict.parts]
        lines += [f"- missing: {verdict.missing}"] if verdict.missing else []
    return "\n".join(lines) + "\n"


def _judge(claim: Claim, numbers: Numbers) -> Verdict:
    assert claim.parts is not None
    try:
        parts = list(claim.parts(numbers))
    except MissingError as missing:
        return Verdict(claim, NO_DATA, [], str(missing))
    holding = sum(part.holds for part in parts)
    return Verdict(claim, CARRIES if holding == len(parts) else PARTLY if holding else NOT, parts)


def _mean(numbers: Numbers, model: str, column: str, sparsity: float, variant: str = DEFAULT) -> float:
    """Mean over the seeds of the table's cell of a model."""
    for cell in numbers.in_table(TABLE):
        if cell.model == model and cell.at == {"sparsity": sparsity}:
            mean = numbers.value(cell, column, variant).mean
            if mean is not None:
                return mean
    raise MissingError(f"{column} of {model} at sparsity {sparsity:g}")


def _word(column: str) -> str:
    return column.removeprefix("gamma_")
