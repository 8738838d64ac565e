from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.suites import save
from tests.reporting.numbers import FASHION, fashion_numbers, records
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.experiments.suite_file import shipped_path
from thetarbm_cli.reporting.carried import judge_carried, to_markdown
from thetarbm_cli.reporting.files import make_report
from thetarbm_cli.reporting.frame import collect
from thetarbm_cli.reporting.layout import TABLES
from thetarbm_cli.reporting.markdown import to_markdown as table_to_markdown
from thetarbm_cli.reporting.tables import build

ERRORS = {"rbm": 25.0, "orbm": 25.2, "tirbm": 22.0, "theta": 20.0, "pixels": 24.0, "aligned-pixels": 18.0}
GAMMAS = {"rbm": 0.2, "orbm": 0.21, "tirbm": 0.7, "theta": 0.9}


def as_the_paper(cell: Cell, column: str) -> float | None:
    """Numbers under which every claim holds."""
    if column.startswith("test_error"):
        return ERRORS[cell.model]
    if cell.model not in GAMMAS:
        return None
    return GAMMAS[cell.model] + (0.5 * cell.at["sparsity"] if cell.model == "tirbm" else 0.0) - 0.1


def verdicts(choose: object = as_the_paper) -> dict[str, str]:
    return {each.claim.name: each.verdict for each in judge_carried(fashion_numbers(choose))}  # type: ignore[arg-type]


def test_all_claims_carry_over_where_all_comparisons_hold() -> None:
    assert set(verdicts().values()) == {"carries over"}


@pytest.mark.parametrize(
    ("model", "column", "number", "claim", "verdict"),
    [
        # Within the margin is not below.
        ("theta", "test_error_percent", 21.6, "lowest-error", "partly"),
        ("theta", "test_error_percent", 30.0, "lowest-error", "does not carry over"),
        ("tirbm", "gamma_train", 0.795, "highest-gamma", "partly"),
        ("theta", "gamma_test", 0.05, "highest-gamma", "partly"),
        ("tirbm", "gamma_test", 0.7, "falling-gamma", "partly"),
        ("orbm", "test_error_percent", 20.0, "oriented-no-better", "partly"),
        ("rbm", "test_error_percent", 30.0, "oriented-no-better", "does not carry over"),
    ],
)
def test_each_claim_depends_on_its_numbers(model: str, column: str, number: float, claim: str, verdict: str) -> None:
    def changed(cell: Cell, asked: str) -> float | None:
        return number if (cell.model, asked) == (model, column) else as_the_paper(cell, asked)

    assert verdicts(changed)[claim] == verdict


def test_a_gamma_that_moves_is_not_steady() -> None:
    def moving(cell: Cell, column: str) -> float | None:
        if cell.model == "theta" and column.startswith("gamma"):
            return 0.8 + 0.11 * cell.at["sparsity"]
        return as_the_paper(cell, column)

    assert verdicts(moving)["steady-gamma"] == "does not carry over"


def test_missing_cells_are_no_data() -> None:
    (empty,) = collect(FASHION, [], "fashion-rot")
    judged = judge_carried(empty)
    assert {each.verdict for each in judged} == {"no data"}
    assert "missing: test_error_percent of theta at sparsity 0.3" in to_markdown(empty, judged, "paper")


def test_the_table_has_both_measures_and_the_claims() -> None:
    table = build("fashion", fashion_numbers(as_the_paper))
    assert [row.label for row in table.rows] == [
        "RBM",
        "O-RBM, not aligned",
        "O-RBM, aligned",
        "TI-RBM",
        "θ-RBM",
        "pixels",
        "aligned pixels",
    ]
    best = {row.label: [entry is not None and entry.best for entry in row.entries] for row in table.rows}
    assert all(best["θ-RBM"])
    assert not any(any(marks) for label, marks in best.items() if label != "θ-RBM")
    text = table_to_markdown(table)
    assert "fashion-rot generated (sha256 ffffffffffff…)" in text
    assert "the paper's value" not in text
    assert "The θ-RBM has the lowest test error. Carries over: 12 of 12 comparisons hold." in text


def test_it_stands_beside_the_papers_tables_and_only_if_there_are_records(tmp_path: Path) -> None:
    suite = load_suite(shipped_path(), check_settings=False)
    save(tmp_path, *records())
    plain = make_report(tmp_path, suite, "paper", TABLES)
    usual = [name for name in TABLES if name not in ("fashion", "choice", "beyond")]
    assert [table.name for tables in plain.tables.values() for table in tables] == usual
    assert not plain.carried
    assert any(
        "thetarbm run fashion-rbm" in line for line in make_report(tmp_path, suite, "paper", ["fashion"]).missing()
    )
    save(tmp_path, *records(as_the_paper, 1, cells=FASHION))
    both = make_report(tmp_path, suite, "paper", TABLES)
    assert [table.name for tables in both.tables.values() for table in tables] == [*usual, "fashion"]
    assert both.verdicts == plain.verdicts
    names = {path.name for path in both.files(tmp_path / "tables", tmp_path, ["markdown"])}
    assert {"table1.md", "fashion.md", "verdicts.md", "verdicts-fashion.md"} <= names
    assert not any("missing" in line for line in both.missing())
