from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.records import training_for
from tests.reporting.numbers import ALL, CELLS, FASHION, SUITE, as_published, results_on, table_of, trainings
from tests.reporting.test_claims import as_the_paper
from tests.suites import write_suite
from thetarbm_cli.reporting.render import files_of, to_csv, to_markdown
from thetarbm_cli.reporting.tables import Section, Table, build, make_sections, missing_lines
from thetarbm_cli.results import collect
from thetarbm_cli.store import Training
from thetarbm_cli.suite import Cell, load_suite


def sections_of(given: list[Training], only: str | None = None) -> list[Section]:
    return make_sections(SUITE, "paper", given, None, only)


def shown_in(section: Section) -> dict[str, Table]:
    return {table.name: table for table in section.tables}


def lines_of(table: Table, heading: str) -> list[list[str]]:
    """Cells of the Markdown table whose first line has this heading."""
    lines = [
        [word.strip() for word in line.strip("|").split("|")]
        for line in to_markdown(table).splitlines()
        if line.startswith("|")
    ]
    start = next(number for number, line in enumerate(lines) if heading in line)
    rows = []
    for line in lines[start + 2 :]:
        if len(line) != len(lines[start]):
            break
        rows.append(line)
    return rows


def test_tables_1_and_2_have_the_papers_rows_and_columns() -> None:
    table = table_of("1")
    assert "(3 seeds)" in table.caption
    rows = lines_of(table, "sparsity 0.3")
    assert [row[0] for row in rows] == ["RBM", "O-RBM, not aligned", "O-RBM, aligned", "TI-RBM", "θ-RBM"]
    assert rows[0][1:] == ["15.41 ± 0.02 (15.41)", "16.04 ± 0.02 (16.04)", "16.39 ± 0.02 (16.39)"]
    assert rows[4][1:] == ["**10.31 ± 0.01** (10.31)", "**10.08 ± 0.01** (10.08)", "**10.85 ± 0.01** (10.85)"]
    assert sum(cell.startswith("**") for row in rows for cell in row) == 3
    controls = [row[0] for row in lines_of(table, "also measured")]
    assert controls == ["pixels", "aligned pixels", "RBM on rotated copies"]
    table = table_of("2")
    assert max(len(line) for line in to_markdown(table).splitlines() if line.startswith("|")) <= 100
    rows = lines_of(table, "sparsity")
    assert len(rows) == 5 * 3
    assert rows[9] == ["TI-RBM", "0.3", "0.8434 ± 0.0008 (0.8434)", "0.8295 ± 0.0008 (0.8295)"]
    assert rows[14] == ["θ-RBM", "0.1", "**0.9103 ± 0.0009** (0.9103)", "**0.9093 ± 0.0009** (0.9093)"]


def test_table_3_has_the_papers_stars() -> None:
    table = table_of("3")
    rows = lines_of(table, "p = 0.1")
    starred = {(row + 1, column) for row, line in enumerate(rows) for column, cell in enumerate(line) if "*" in cell}
    assert starred == {(2, 4), (3, 4), (4, 2), (4, 3), (4, 4)}
    assert rows[3][4] == "16.10 ± 0.02* (16.1*)"
    assert lines_of(table, "also measured") == [["unperturbed", "10.31 ± 0.01 (10.31)"]]
    # Ours against our own unperturbed error.
    worse = trainings(lambda cell, column: 12.0 if cell.name == "theta/sparsity=0.3" else as_published(cell, column))
    rows = lines_of(table_of("3", results_on(made=worse)), "p = 0.1")
    assert (rows[1][4], rows[2][4]) == ("11.00 ± 0.01 (11.0*)", "13.40 ± 0.01* (13.4*)")


def test_both_evaluations_of_the_oriented_model_one_seed_and_none() -> None:
    def measured(cell: Cell, column: str) -> float | None:
        if cell.experiment == "theta":
            return None
        if cell.model == "orbm" and column.startswith("test_error"):
            return 21.0 if column.endswith("_unaligned") else 9.4
        return as_published(cell, column)

    cells = [cell for cell in CELLS if "1" in cell.tables]
    rows = lines_of(table_of("1", results_on(made=trainings(measured, 1, cells=cells))), "sparsity 0.3")
    assert [row[1] for row in rows[1:]] == ["21.00 (15.61)", "**9.40** (15.61)", "14.07 (14.07)", "— (10.31)"]


@pytest.mark.parametrize("name", SUITE.tables)
def test_csv_has_every_value_with_full_precision(name: str) -> None:
    table = table_of(name)
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert [float(row["mean"]) for row in rows] == [value.mean for value in table.values]
    assert [float(row["published"]) if row["published"] else None for row in rows] == [
        value.published for value in table.values
    ]


def test_sources_are_told_apart_by_name_and_checksum(tmp_path: Path) -> None:
    sections = sections_of([*trainings(), *trainings(lambda cell, column: 6.0, source="official")])
    assert [section.source.name for section in sections] == ["generated", "official"]
    assert sections[0].source.sha256[:12] in str(sections[0].source)
    files = files_of(sections, "paper", tmp_path / "tables", tmp_path, ["markdown"])
    assert "10.31 ± 0.01" in files[tmp_path / "tables" / "table1.md"]
    assert "**6.00 ± 0.01** (10.31)" in files[tmp_path / "tables" / "table1-official.md"]
    assert tmp_path / "verdicts.md" in files
    # Two contents of one source do not mix.
    other = training_for(CELLS[0], images="c" * 64, test_error_percent=50.0)
    files = files_of(sections_of([*trainings(), other], "1"), "paper", tmp_path, tmp_path, ["csv"])
    own = sections[0].source.sha256[:8]
    assert {path.name for path in files} == {
        f"table1-generated-{own}.csv",
        "table1-generated-cccccccc.csv",
        "claims.json",
        "verdicts.md",
    }


def test_making_and_draw_of_the_data_are_compared_beside_the_usual_source() -> None:
    def by_data(cell: Cell, column: str) -> float:
        return {"bilinear": 20.0, "generated": 10.0}[cell.given["data.source"]] + float(cell.given["data.seed"])

    cells = [cell for cell in CELLS if cell.experiment == "rbm"]
    usual, elsewhere = trainings(cells=cells), trainings(seeds=1, source="bilinear", cells=cells)
    # Data seed 0 is that of Table 1, whose trainings are there.
    compared = [
        cell for cell in ALL if cell.experiment in ("making-rbm", "draws-rbm") and cell.at.get("data_seed") != 0
    ]
    sections = sections_of([*usual, *elsewhere, *trainings(by_data, 1, cells=compared)])
    # Data seeds are no contents of their own, and what compares sources stands once.
    first, bilinear = map(shown_in, sections)
    assert {"1", "3", "making", "draws"} <= set(first)
    assert list(bilinear) == ["1", "2"]
    assert lines_of(first["making"], "error in %, source bilinear")[0][:3] == ["RBM, sparsity 0.3", "10.00", "20.00"]
    row = lines_of(first["draws"], "error in %, data seed 0")[0]
    assert row[1] == "15.41 ± 0.02 (15.41)"
    assert row[2:4] == ["11.00", "12.00"]
    lines = missing_lines(sections_of([*usual, *elsewhere], "making"))
    assert any("thetarbm run making-theta makes it" in line for line in lines)


def test_what_does_not_count() -> None:
    good, older, diverged = (training_for(CELLS[0], seed, test_error_percent=10.0 + seed) for seed in range(3))
    older.spec = older.spec.model_copy(update={"algorithm": 0})
    diverged.state = "diverged"
    tiny = training_for(SUITE.cells("tiny")[0], 3, test_error_percent=90.0)
    results = results_on(made=[good, older, diverged, tiny])
    assert results.value(CELLS[0], "test_error_percent").values == (10.0,)


def test_a_cell_takes_either_random_numbers_and_no_mean_has_both() -> None:
    """Records of trainings that drew PCG64 stand until there are as many of those that draw Philox."""
    older, newer = (
        [training_for(CELLS[0], seed, test_error_percent=number + seed) for seed in range(3)] for number in (10.0, 20.0)
    )
    for each in older:
        each.spec = each.spec.model_copy(update={"random": "pcg64"})
        each.run += "0"
    for made, expected in (
        (older, (10.0, 11.0, 12.0)),
        ([*older, *newer[:2]], (10.0, 11.0, 12.0)),
        ([*older[:2], *newer[:2]], (20.0, 21.0)),
        ([*older, *newer], (20.0, 21.0, 22.0)),
    ):
        assert results_on(made=made).value(CELLS[0], "test_error_percent").values == expected


def test_the_newest_of_several_trainings_counts_and_is_noted() -> None:
    first, second = (training_for(CELLS[0], test_error_percent=number) for number in (10.0, 12.0))
    second.run += "-2"
    table = table_of("1", results_on(made=[first, second]))
    assert table.values[0].values == (12.0,)
    assert any(first.run in note and second.run not in note for note in table.notes)
    assert table_of("1", results_on(made=[first])).notes == table.notes[:-1]


def test_the_caption_names_the_profile_of_the_cells() -> None:
    tiny = [training_for(cell, test_error_percent=10.0) for cell in SUITE.cells("tiny") if cell.experiment == "rbm"]
    for profile, runs in (("tiny", "(1 seed)"), ("paper", "(no runs yet)")):
        (table,) = make_sections(SUITE, profile, tiny, None, "1")[0].tables
        assert f"profile {profile}, " in table.caption
        assert runs in table.caption


def test_missing_cells_are_told_with_the_command_that_makes_them() -> None:
    held = [each for each in trainings() if each.spec.model != "orbm"]
    kept = [each for each in held if each.spec.perturbation is None or each.spec.perturbation.n != 4]
    cells = " ".join(f"perturbation/n=4,p=0.{p}" for p in (1, 2, 3, 4))
    assert missing_lines(sections_of(kept)) == [
        "missing: orbm; thetarbm run orbm makes it",
        f"missing: {cells}; thetarbm run perturbation makes it",
        "missing: ablation-scope; thetarbm run ablation-scope makes it",
    ]
    (line,) = missing_lines(sections_of([training_for(CELLS[0], test_error_percent=10.0)]))
    assert line.endswith("thetarbm run makes them")


def test_markup_in_labels_stays_text(tmp_path: Path) -> None:
    suite = load_suite(
        write_suite(
            tmp_path,
            "format: 2\ntitle: t\nexperiments:\n"
            "  - {name: x, label: '<b>|*&%', model: rbm, grid: {sparsity: [0.3]}, tables: ['1']}\n",
        )
    )
    (found,) = collect(suite, "paper", [])
    assert r"&lt;b>\|\*&%" in to_markdown(build("1", suite.tables["1"], found))


def test_what_is_run_on_request_has_its_table_only_with_measurements_of_its_own() -> None:
    # The first lines of "beyond" are trainings of the paper's tables: they alone do not make a table.
    assert not {"choice", "beyond", "invariance"} & set(shown_in(sections_of(trainings())[0]))
    assert list(shown_in(sections_of(trainings(), "beyond")[0])) == ["beyond"]
    beyond = [cell for cell in ALL if cell.experiment == "best"]
    invariance = [cell for cell in ALL if "invariance" in cell.tables]
    built = shown_in(sections_of(trainings(cells=[*CELLS, *beyond, *invariance]))[0])
    assert {"beyond", "invariance"} <= set(built)
    assert "Published elsewhere on mnist-rot" in to_markdown(built["beyond"])
    errors = {row[0]: row[1] for row in lines_of(built["beyond"], "γ test")}
    assert errors["+ all 12,000 images"].startswith("11.80 ± ")
    assert errors["+ local filters, pooled"] == "—"


def test_measurements_of_other_sizes_do_not_make_a_source() -> None:
    """The trainings of a survey are those of the paper's profile, measured on fewer images."""
    survey = [cell for cell in SUITE.cells("survey", "bilinear") if cell.experiment == "rbm"]
    given = [*trainings(), *(training_for(cell, test_error_percent=10.0) for cell in survey)]
    assert [section.source.name for section in sections_of(given)] == ["generated"]


def test_another_data_set_is_shown_only_if_there_are_records(tmp_path: Path) -> None:
    (plain,) = sections_of(trainings())
    assert plain.source.dataset == "mnist-rot"
    assert any("thetarbm run fashion-rbm" in line for line in missing_lines(sections_of(trainings(), "fashion")))
    both = sections_of([*trainings(), *trainings(as_the_paper, 1, cells=FASHION)])
    assert [table.name for section in both for table in section.tables] == [*shown_in(plain), "fashion"]
    assert both[0].verdicts == plain.verdicts
    assert {verdict.dataset for verdict in both[1].verdicts} == {"fashion-rot"}
    files = {path.name: text for path, text in files_of(both, "paper", tmp_path, tmp_path, ["markdown"]).items()}
    assert {"table1.md", "verdicts.md", "verdicts-fashion.md"} <= set(files)
    assert "the paper's value" not in files["fashion.md"]
    assert "The θ-RBM has the lowest test error. Reproduced: 12 of 12 comparisons hold." in files["fashion.md"]
    assert missing_lines(both) == []
