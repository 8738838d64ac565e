from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.experiments.suites import record_for, save
from tests.reporting.numbers import (
    BEYOND,
    CELLS,
    COMPARED,
    FASHION,
    SUITE,
    as_published,
    numbers,
    numbers_of,
    records,
)
from tests.reporting.test_claims import as_the_paper
from thetarbm_cli.experiments.runs.record import DataPart, EnvironmentPart
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import TABLES
from thetarbm_cli.reporting.frame import collect
from thetarbm_cli.reporting.render import report_files, to_csv, to_markdown
from thetarbm_cli.reporting.tables import build, make_report


def lines_of(table: str, heading: str) -> list[list[str]]:
    """Cells of the Markdown table whose first line has this heading."""
    lines = [
        [word.strip() for word in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")
    ]
    start = next(number for number, line in enumerate(lines) if heading in line)
    rows = []
    for line in lines[start + 2 :]:
        if len(line) != len(lines[start]):
            break
        rows.append(line)
    return rows


def test_tables_1_and_2_have_the_papers_rows_and_columns() -> None:
    text = to_markdown(build("1", numbers()))
    assert "(3 seeds)" in text
    rows = lines_of(text, "sparsity 0.3")
    assert [row[0] for row in rows] == ["RBM", "O-RBM, not aligned", "O-RBM, aligned", "TI-RBM", "θ-RBM"]
    assert rows[0][1:] == ["15.41 ± 0.02 (15.41)", "16.04 ± 0.02 (16.04)", "16.39 ± 0.02 (16.39)"]
    assert rows[4][1:] == ["**10.31 ± 0.01** (10.31)", "**10.08 ± 0.01** (10.08)", "**10.85 ± 0.01** (10.85)"]
    assert sum(cell.startswith("**") for row in rows for cell in row) == 3
    assert [row[0] for row in lines_of(text, "also measured")] == ["pixels", "aligned pixels"]
    text = to_markdown(build("2", numbers()))
    assert max(len(line) for line in text.splitlines() if line.startswith("|")) <= 100
    rows = lines_of(text, "sparsity")
    assert len(rows) == 5 * 3
    assert rows[9] == ["TI-RBM", "0.3", "0.8434 ± 0.0008 (0.8434)", "0.8295 ± 0.0008 (0.8295)"]
    assert rows[14] == ["θ-RBM", "0.1", "**0.9103 ± 0.0009** (0.9103)", "**0.9093 ± 0.0009** (0.9093)"]


def test_table_3_has_the_papers_stars() -> None:
    text = to_markdown(build("3", numbers()))
    rows = lines_of(text, "p = 0.1")
    starred = {(row + 1, column) for row, line in enumerate(rows) for column, cell in enumerate(line) if "*" in cell}
    assert starred == {(2, 4), (3, 4), (4, 2), (4, 3), (4, 4)}
    assert rows[3][4] == "16.10 ± 0.02* (16.1*)"
    assert lines_of(text, "also measured") == [["unperturbed", "10.31 ± 0.01 (10.31)"]]
    # Ours against our own unperturbed error.
    worse = numbers(lambda cell, column: 12.0 if cell.name == "theta/sparsity=0.3" else as_published(cell, column))
    rows = lines_of(to_markdown(build("3", worse)), "p = 0.1")
    assert (rows[1][4], rows[2][4]) == ("11.00 ± 0.01 (11.0*)", "13.40 ± 0.01* (13.4*)")


def test_both_evaluations_of_the_oriented_model_one_seed_and_none() -> None:
    def measured(cell: Cell, column: str) -> float | None:
        if cell.experiment == "theta":
            return None
        if cell.model == "orbm" and column.startswith("test_error"):
            return 21.0 if column.endswith("_unaligned") else 9.4
        return as_published(cell, column)

    rows = lines_of(to_markdown(build("1", numbers(measured, seeds=1))), "sparsity 0.3")
    assert [row[1] for row in rows[1:]] == ["21.00 (15.61)", "**9.40** (15.61)", "14.07 (14.07)", "— (10.31)"]


@pytest.mark.parametrize("name", TABLES)
def test_csv_has_every_value_with_full_precision(name: str) -> None:
    table = build(name, numbers_of(name))
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [float(row["mean"]) for row in rows] == [value.mean for value in table.values]
    assert [float(row["published"]) if row["published"] else None for row in rows] == [
        value.published for value in table.values
    ]


def test_sources_are_told_apart_by_checksum(tmp_path: Path) -> None:
    save(tmp_path, *records(), *records(lambda cell, column: 6.0, source="official"))
    report = make_report(tmp_path, SUITE, "paper")
    assert [str(part.source) for part in report.parts] == [
        "generated (sha256 aaaaaaaaaaaa…)",
        "official (sha256 bbbbbbbbbbbb…)",
    ]
    files = report_files(report, tmp_path / "tables", tmp_path, ["markdown"])
    assert "10.31 ± 0.01" in files[tmp_path / "tables" / "table1.md"]
    assert "**6.00 ± 0.01** (10.31)" in files[tmp_path / "tables" / "table1-official.md"]
    assert tmp_path / "verdicts.md" in files


def test_making_and_draw_of_the_data_are_compared_beside_the_usual_source(tmp_path: Path) -> None:
    def by_data(cell: Cell, column: str) -> float:
        return {"bilinear": 20.0, "generated": 10.0}[cell.data["source"]] + cell.data["seed"]

    cells = [cell for cell in CELLS if cell.experiment == "rbm"]
    usual, elsewhere = records(as_published, cells=cells), records(as_published, 1, "bilinear", cells)
    others = [cell for cell in COMPARED if cell.experiment in ("making-rbm", "draws-rbm")]
    # Data seed 0 is that of Table 1, whose runs are there.
    new = [cell for cell in others if cell.at.get("data_seed") != 0]
    save(tmp_path, *usual, *elsewhere, *records(by_data, seeds=1, cells=new))
    report = make_report(tmp_path, SUITE, "paper", ["1", "3", "making", "draws"])
    first, bilinear = (part.tables for part in report.parts)
    # Data seeds are no contents of their own, what compares sources stands once, and an empty Table 3 as well.
    assert first.pop(1).name == "3"
    assert [table.name for table in first] == ["1", "making", "draws"]
    assert [table.name for table in bilinear] == ["1"]
    row = lines_of(to_markdown(first[1]), "error in %, source bilinear")[0]
    assert row[:3] == ["RBM, sparsity 0.3", "10.00", "20.00"]
    row = lines_of(to_markdown(first[2]), "error in %, data seed 0")[0]
    assert row[1].startswith("15.41 ± 0.02")
    assert row[2:4] == ["11.00", "12.00"]
    assert any("thetarbm run making-theta makes it" in line for line in report.missing())


def test_two_contents_of_one_source_do_not_mix(tmp_path: Path) -> None:
    other = record_for(CELLS[0], test_error_percent=50.0)
    data = DataPart(**{role: {**each, "sha256": "c" * 64} for role, each in other.data.model_dump().items()})
    save(tmp_path, *records(), other.model_copy(update={"data": data, "run": "rbm-other"}))
    report = make_report(tmp_path, SUITE, "paper", ["1"])
    names = {path.name for path in report_files(report, tmp_path, tmp_path, ["csv"])}
    assert names == {"table1-generated-aaaaaaaa.csv", "table1-generated-cccccccc.csv", "verdicts.md"}


def test_records_that_do_not_count(tmp_path: Path) -> None:
    good = record_for(CELLS[0], 0, test_error_percent=10.0)
    older = record_for(CELLS[0], 1, test_error_percent=90.0).model_copy(update={"algorithm": 0})
    failed = record_for(CELLS[0], 2, test_error_percent=90.0).model_copy(update={"state": "failed"})
    tiny = SUITE.cells("tiny")[0]
    (found,) = collect(CELLS, [good, older, failed, record_for(tiny, 3, test_error_percent=90.0)])
    assert found.value(CELLS[0], "test_error_percent").values == (10.0,)


def test_missing_cells_are_told_with_the_command_that_makes_them(tmp_path: Path) -> None:
    held = [record for record in records() if record.settings.model != "orbm"]
    kept = [record for record in held if record.settings.perturbation is None or record.settings.perturbation.n != 4]
    save(tmp_path, *kept)
    lines = make_report(tmp_path, SUITE, "paper").missing()
    assert lines[0] == "missing: orbm; thetarbm run orbm makes it"
    cells = " ".join(f"perturbation/n=4,p=0.{p}" for p in (1, 2, 3, 4))
    scopes = "missing: ablation-scope; thetarbm run ablation-scope makes it"
    assert lines[1:] == [f"missing: {cells}; thetarbm run perturbation makes it", scopes]


def test_markup_in_labels_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "format: 1\ntitle: t\nprofiles: {paper: {}}\nexperiments:\n"
        "  - {name: x, label: '<b>|*&%', model: rbm, grid: {sparsity: [0.3]}, tables: ['1']}\n"
    )
    (found,) = collect(load_suite(path).cells(), [])
    table = build("1", found)
    assert r"&lt;b>\|\*&%" in to_markdown(table)


def test_what_is_run_on_request_has_its_table_only_with_records_of_its_own(tmp_path: Path) -> None:
    save(tmp_path, *records())
    shown = [table.name for table in make_report(tmp_path, SUITE, "paper").tables]
    # The first lines of "beyond" are runs of the paper's tables: they alone do not make a table.
    assert not {"choice", "beyond"} & set(shown)
    assert [table.name for table in make_report(tmp_path, SUITE, "paper", ["beyond"]).tables] == ["beyond"]
    save(tmp_path, *records(cells=[cell for cell in BEYOND if cell.experiment == "best"]))
    built = make_report(tmp_path, SUITE, "paper").tables
    text = next(to_markdown(table) for table in built if table.name == "beyond")
    assert "Published elsewhere on mnist-rot" in text
    errors = {row[0]: row[1] for row in lines_of(text, "γ test")}
    assert errors["+ all 12,000 images"].startswith("11.80 ± ")
    assert errors["+ local filters, pooled"] == "—"


def test_no_mean_is_over_two_backends(caplog: pytest.LogCaptureFixture) -> None:
    cell = CELLS[0]
    found = [record_for(cell, seed, test_error_percent=10.0 + seed) for seed in range(3)]
    elsewhere = {"environment": EnvironmentPart(backend="cupy"), "run": "gpu"}
    on_gpu = [record.model_copy(update=elsewhere) for record in found[:2]]
    (numbers,) = collect([cell], [*found[:2], *on_gpu, found[2]])
    assert numbers.value(cell, "test_error_percent").values == (10.0, 11.0, 12.0)
    (numbers,) = collect([cell], [*found[:1], *on_gpu])
    assert [record.backend for record in numbers.records[cell.name]] == ["cupy", "cupy"]
    assert "several backends" in caplog.text


def test_another_data_set_is_shown_only_if_there_are_records(tmp_path: Path) -> None:
    save(tmp_path, *records())
    plain = make_report(tmp_path, SUITE, "paper")
    usual = [name for name in TABLES if name not in ("making", "draws", "fashion", "choice", "beyond")]
    assert [table.name for table in plain.tables] == usual
    assert [part.source.dataset for part in plain.parts] == ["mnist-rot"]
    asked_for = make_report(tmp_path, SUITE, "paper", ["fashion"])
    assert any("thetarbm run fashion-rbm" in line for line in asked_for.missing())
    save(tmp_path, *records(as_the_paper, 1, cells=FASHION))
    both = make_report(tmp_path, SUITE, "paper")
    assert [table.name for table in both.tables] == [*usual, "fashion"]
    assert both.parts[0].verdicts == plain.parts[0].verdicts
    files = {path.name: text for path, text in report_files(both, tmp_path, tmp_path, ["markdown"]).items()}
    assert {"table1.md", "verdicts.md", "verdicts-fashion.md"} <= set(files)
    assert "the paper's value" not in files["fashion.md"]
    assert "The θ-RBM has the lowest test error. Carries over: 12 of 12 comparisons hold." in files["fashion.md"]
    assert both.missing() == []
