from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatch
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from tests.reporting.numbers import ALL, CELLS, FASHION, SUITE, Choose, as_published, results_on, trainings
from thetarbm_cli.measures.theory import Check, TheoryRecord
from thetarbm_cli.reporting.claims import CLAIMS, Verdict, evaluate_claims, interval, state_of
from thetarbm_cli.reporting.render import verdicts_page
from thetarbm_cli.reporting.tables import Section
from thetarbm_cli.results import Results
from thetarbm_cli.specs import ALGORITHM
from thetarbm_cli.store import Training
from thetarbm_cli.suite import Cell

NAMES = [claim.name for claim in CLAIMS if claim.on != "other data" and not claim.beyond]
PROVED = [claim.name for claim in CLAIMS if claim.proved]
ELSEWHERE = [claim.name for claim in CLAIMS if claim.on != "the paper's data" and not claim.beyond]


def theory(lemma: float = 0.0, theorem: float = 1e-7) -> TheoryRecord:
    checks = []
    for name, value, tolerance in (("Lemma 1: max", lemma, 0.0), ("Theorem 1: max", theorem, 1e-5)):
        exact: dict[str, Any] = {"rotation": "permutation", "tolerance": tolerance, "exact": True}
        checks.append(Check(name=name, value=value, passed=value <= tolerance, **exact))
        checks.append(Check(name=name, value=0.1, passed=True, rotation="bilinear", tolerance=None, exact=False))
    return TheoryRecord(algorithm=ALGORITHM, rotations=9, size=28, checks=checks)


def evaluated(results: Results, checks: TheoryRecord | None = None) -> list[Verdict]:
    return evaluate_claims(results, SUITE.interest, checks)


def judged(made: list[Training], checks: TheoryRecord | None = None) -> dict[str, str]:
    return {each.claim: each.verdict for each in evaluated(results_on(made=made), checks or theory())}


def verdicts(choose: Choose = as_published, seeds: int = 3, checks: TheoryRecord | None = None) -> dict[str, str]:
    return judged(trainings(choose, seeds), checks)


def changed(*changes: tuple[str, str, float]) -> Choose:
    """The paper's numbers but for these: patterns of cells and columns, and the number they have."""

    def choose(cell: Cell, column: str) -> float | None:
        for cells, columns, number in changes:
            if fnmatch(cell.name, cells) and fnmatch(column, columns):
                return number
        return as_published(cell, column)

    return choose


# What the rule says of the paper's own numbers: its Table 3 has errors well above the unperturbed one.
PAPERS = {
    **dict.fromkeys(NAMES, "reproduced"),
    **dict.fromkeys(PROVED, "verified under its assumptions"),
    "robust-to-errors": "not reproduced",
}


@pytest.mark.parametrize("seeds", [1, 3])
def test_the_papers_own_numbers_reproduce_the_paper_but_for_one_claim(seeds: int) -> None:
    assert verdicts(seeds=seeds) == PAPERS


@pytest.mark.parametrize(
    ("name", "cells", "columns", "number", "verdict"),
    [
        ("lowest-error", "theta/*", "*error*", 20.0, "not reproduced"),
        ("lowest-error", "orbm/*", "test_error_percent", 9.0, "not reproduced"),
        # As low as another is not the lowest.
        ("lowest-error", "tirbm/*", "*error*", 10.3, "not reproduced"),
        ("about-ten-percent", "theta/*", "*error*", 12.5, "not reproduced"),
        ("about-ten-percent", "theta/sparsity=0.1", "*error*", 12.5, "not reproduced"),
        ("highest-gamma", "tirbm/*", "*gamma*", 0.95, "not reproduced"),
        ("steady-gamma", "theta/sparsity=0.1", "gamma_train", 0.8, "not reproduced"),
        ("falling-gamma", "tirbm/*", "*gamma*", 0.8, "not reproduced"),
        ("oriented-no-better", "orbm/*", "test_error_percent", 9.4, "not reproduced"),
        ("oriented-no-better", "orbm/*", "*error*", 30.0, "reproduced"),
        ("kept-from-mnist", "mnist-theta", "gamma_test", 0.57, "not reproduced"),
        ("robust-to-errors", "perturbation/*", "*", 10.4, "reproduced"),
        ("robust-to-errors", "perturbation/*", "*", 5.0, "reproduced"),
    ],
)
def test_verdicts_follow_the_numbers(name: str, cells: str, columns: str, number: float, verdict: str) -> None:
    assert verdicts(changed((cells, columns, number)))[name] == verdict


def test_noise_leaves_a_claim_open_and_pairing_takes_what_repetitions_share_out_of_it() -> None:
    """Errors that move by points from one repetition to the next, of all models alike or of each by itself."""
    moves = (-2.0, 0.0, 2.0)

    def moved(alike: bool) -> str:
        made = trainings()
        for each in made:
            move = moves[(each.spec.seed + (0 if alike else len(each.spec.model))) % 3]
            for measured in each.measurements:
                values = measured.values
                if values.get("test_error_percent") is not None:
                    values["test_error_percent"] += move  # type: ignore[operator]
        return judged(made)["lowest-error"]

    assert moved(alike=True) == "reproduced"
    assert moved(alike=False) == "open"


def test_a_theta_rbm_of_more_operations_does_not_train_faster() -> None:
    made = trainings()
    for each in made:
        # However long it took.
        each.seconds = 20.0 if each.spec.model == "theta" else 10.0
    assert judged(made)["faster"] == "reproduced"
    for each in made:
        each.products = 2 * 10**9 if each.spec.model == "theta" else 10**9
    assert judged(made)["faster"] == "not reproduced"


def test_other_measures_of_invariance_have_verdicts_where_they_were_taken() -> None:
    def chosen(cell: Cell, column: str) -> float | None:
        better = {"theta": 3.0, "tirbm": 2.0}.get(cell.model, 1.0)
        own = {"goodfellow_test": 10 * better, "zou_test": 1 / better, "dosovitskiy_test": 0.9 - 0.1 * better}
        return own.get(column.removesuffix("_unaligned")) or as_published(cell, column)

    found = judged(trainings(chosen, cells=[*CELLS, *(cell for cell in ALL if "invariance" in cell.tables)]))
    assert (found["highest-goodfellow"], found["highest-zou"]) == ("reproduced", "reproduced")
    assert found["highest-dosovitskiy"] == "not reproduced"
    assert "highest-zou" not in verdicts()


def test_another_training_of_a_model_does_not_stand_for_it() -> None:
    """The table of the universes nearest to the paper has an O-RBM whose images are rotated the wrong way."""
    cells = [cell for cell in ALL if cell.experiment != "orbm" and (cell in CELLS or "nearest" in cell.tables)]
    assert judged(trainings(cells=cells))["oriented-no-better"] == "no data"


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ([("tirbm/sparsity=0.2", "*error*", 5.0)], "11 of 12; not below TI-RBM in 1 of 3"),
        ([("tirbm/*", "*error*", 5.0)], "9 of 12; not below TI-RBM"),
        (
            [("*bm/*", "*error*", 5.0)],
            "0 of 12; not below RBM, below O-RBM not aligned, below O-RBM aligned, below TI-RBM",
        ),
    ],
)
def test_what_does_not_hold_is_named(changes: list[tuple[str, str, float]], held: str) -> None:
    (found, *_) = evaluated(results_on(made=trainings(changed(("theta/*", "*error*", 10.3), *changes))))
    assert (found.claim, found.held) == ("lowest-error", held)


def test_theory() -> None:
    assert verdicts(checks=theory(lemma=0.1))["rotated-filters"] == "not verified"
    assert verdicts(checks=theory(theorem=0.1))["gamma-of-one"] == "not verified"


def test_the_page_has_each_claim_with_rule_numbers_and_verdict() -> None:
    found = results_on(made=trainings())
    all_of_them = evaluated(found, theory())
    page = verdicts_page([Section(found, [], all_of_them)])
    for each in all_of_them:
        assert f"| {each.text} | *{PAPERS[each.claim]}* |" in page
        assert f"Rule: {each.rule}" in page.replace("\n", " ")
    assert re.search(
        r"^- holds: sparsity 0.3: θ-RBM 10.31 %, RBM 15.41 %; difference -5.1\d \(-5.1\d to -5.0\d\)$",
        page,
        re.MULTILINE,
    )


# Numbers of another data set under which every claim holds.
ERRORS = {"rbm": 25.0, "orbm": 25.2, "tirbm": 22.0, "theta": 20.0, "pixels": 24.0, "aligned-pixels": 18.0}
GAMMAS = {"rbm": 0.2, "orbm": 0.21, "tirbm": 0.7, "theta": 0.9}


def as_the_paper(cell: Cell, column: str) -> float | None:
    if column.startswith("test_error"):
        return ERRORS[cell.model]
    if cell.model not in GAMMAS or not column.startswith("gamma"):
        return None
    return GAMMAS[cell.model] + (0.5 * cell.at["sparsity"] if cell.model == "tirbm" else 0.0) - 0.1


def on_fashion(choose: Choose = as_the_paper, seeds: int = 1) -> dict[str, str]:
    results = results_on("fashion-rot", trainings(choose, seeds, cells=FASHION))
    return {each.claim: each.verdict for each in evaluated(results)}


@pytest.mark.parametrize("seeds", [1, 3])
def test_all_claims_are_reproduced_on_other_images_where_all_comparisons_hold(seeds: int) -> None:
    assert on_fashion(seeds=seeds) == dict.fromkeys(ELSEWHERE, "reproduced")


@pytest.mark.parametrize(
    ("model", "column", "number", "claim", "verdict"),
    [
        # Within the difference of interest is not below.
        ("theta", "test_error_percent", 21.6, "lowest-error", "not reproduced"),
        ("theta", "test_error_percent", 30.0, "lowest-error", "not reproduced"),
        ("tirbm", "gamma_train", 0.795, "highest-gamma", "not reproduced"),
        ("tirbm", "gamma_test", 0.7, "falling-gamma", "not reproduced"),
    ],
)
def test_each_claim_depends_on_its_numbers(model: str, column: str, number: float, claim: str, verdict: str) -> None:
    def choose(cell: Cell, asked: str) -> float | None:
        return number if (cell.model, asked) == (model, column) else as_the_paper(cell, asked)

    assert on_fashion(choose)[claim] == verdict


def test_one_sparsity_target_says_nothing_of_a_steady_gamma() -> None:
    results = results_on(made=trainings())
    only = replace(results, cells=[cell for cell in CELLS if cell.name == "theta/sparsity=0.3"])
    assert {each.claim: each.verdict for each in evaluated(only)}["steady-gamma"] == "no data"


@pytest.mark.parametrize("dataset", ["mnist-rot", "fashion-rot"])
def test_missing_cells_are_no_data(dataset: str) -> None:
    empty = results_on(dataset, [])
    found = evaluated(empty)
    assert {each.verdict for each in found} == {"no data"}
    page = verdicts_page([Section(empty, [], found)])
    assert "missing: test_error_percent of theta at sparsity 0.3" in page


numbers = st.lists(st.integers(-1000, 1000).map(lambda number: number / 8), min_size=1, max_size=6)


@given(numbers, st.integers(0, 400).map(lambda number: number / 8))
def test_the_state_of_differences_is_the_rule(differences: list[float], interest: float) -> None:
    """By SciPy's confidence interval; and what is lower one way is higher the other way."""
    state, mean = state_of(differences, interest), float(np.mean(differences))
    opposite = {"lower": "higher", "higher": "lower"}
    assert state_of([-each for each in differences], interest) == opposite.get(state, state)
    if len(differences) == 1:
        assert state == ("level" if abs(mean) <= interest else "lower" if mean < 0 else "higher")
        return
    if len(set(differences)) == 1:
        low = high = mean
    else:
        low, high = ttest_1samp(differences, 0).confidence_interval()
    assert interval(differences) == pytest.approx((low, high))
    if any(abs(bound - limit) < 1e-9 for bound in (low, high, mean) for limit in (0, interest, -interest)):
        return  # rounding decides
    if high < 0 and mean < -interest:
        assert state == "lower"
    elif low > 0 and mean > interest:
        assert state == "higher"
    else:
        assert state == ("level" if -interest <= low and high <= interest else "open")


def test_only_repetitions_that_both_have_are_compared() -> None:
    made = [each for each in trainings() if each.spec.model != "tirbm" or each.spec.seed in (1, 2)]
    (found, *_) = evaluated(results_on(made=made))
    assert {each.with_what: len(each.differences) for each in found.evidence} == {
        "below RBM": 3, "below O-RBM not aligned": 3, "below O-RBM aligned": 3, "below TI-RBM": 2,
    }  # fmt: skip
    made = [each for each in made if each.spec.seed != (0 if each.spec.model == "theta" else 3)]
    apart = [each for each in made if each.spec.seed == (1 if each.spec.model == "theta" else 2)]
    (found, *_) = evaluated(results_on(made=apart))
    assert (found.verdict, "in common" in found.missing) == ("no data", True)
