from __future__ import annotations

from pathlib import Path

from tests.experiments.runs import Command, files_in
from tests.experiments.suites import save, write_suite
from tests.reporting.numbers import FASHION, records


def test_tables_are_printed_and_written(thetarbm: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    save(results, *records())
    done = thetarbm("tables")
    assert (done.code, done.err) == (0, f"files in {results / 'tables'}, verdicts in {results}\n")
    tables = ("table1", "table2", "table3", "mnist", "ablation")
    names = {f"{table}.{ending}" for table in tables for ending in ("md", "tex", "csv")}
    assert {path.name for path in (results / "tables").iterdir()} == names
    assert done.out == "\n".join((results / "tables" / f"{name}.md").read_text() for name in tables)
    assert "*reproduced*" in (results / "verdicts.md").read_text()
    elsewhere = thetarbm("tables", "--table", "3", "--format", "latex", "--out", str(tmp_path / "out"))
    assert elsewhere.out.startswith("\\documentclass")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"table3.tex", "verdicts.md"}


def test_json_has_every_cell(thetarbm: Command, tmp_path: Path) -> None:
    save(tmp_path / "results", *records())
    sheet = thetarbm("tables", "--json").json
    assert {name: len(rows) for name, rows in sheet["tables"].items()} == {
        "1": 17,
        "2": 30,
        "3": 17,
        "mnist": 4,
        "ablation": 54,
    }
    row = next(row for row in sheet["tables"]["1"] if (row["model"], row["sparsity"]) == ("theta", 0.2))
    assert abs(row["mean"] - 10.08) < 1e-9
    assert (row["column"], row["seeds"], row["published"]) == ("test_error_percent", 3, 10.08)
    cell = next(row for row in sheet["tables"]["3"] if (row["n"], row["p"]) == (4, 0.4))
    assert cell["published"] == 16.1
    assert len(sheet["verdicts"]) == 10


def test_another_data_set_is_a_further_key(thetarbm: Command, tmp_path: Path) -> None:
    save(tmp_path / "results", *records(), *records(seeds=1, cells=FASHION))
    sheet = thetarbm("tables", "--json").json
    assert len(sheet["tables"]["fashion"]) == 3 * 15 + 2
    assert {row["published"] for row in sheet["tables"]["fashion"]} == {None}
    assert len(sheet["tables"]["1"]) == 17
    assert (len(sheet["verdicts"]), len(sheet["carried"])) == (10, 5)
    assert thetarbm("tables", "--check").code == 0


def test_own_images_leave_the_paper_s_files_as_they_are(thetarbm: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    save(results, *records())
    assert thetarbm("tables").code == 0
    papers = files_in(results / "tables") | {"verdicts.md": (results / "verdicts.md").read_bytes()}
    save(results, *records(seeds=1, source="leaves.npz"))
    # Their tables need not be there, and are checked as soon as they are.
    assert thetarbm("tables", "--check").code == 0
    sheet = thetarbm("tables", "--json").json
    found = files_in(results / "tables") | {"verdicts.md": (results / "verdicts.md").read_bytes()}
    assert {name: found[name] for name in papers} == papers
    assert (results / "verdicts-leaves.md").is_file()
    assert {row["published"] for row in sheet["tables"]["1"] if row["source"] == "leaves.npz"} == {None}
    assert thetarbm("tables", "--check").code == 0
    (results / "tables" / "table1-leaves.md").write_text("10.31")
    assert thetarbm("tables", "--check").code == 1


def test_check_compares_files_with_records(thetarbm: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    save(results, *records())
    assert thetarbm("tables").code == 0
    before = files_in(results)
    assert thetarbm("tables", "--check").code == 0
    table = results / "tables" / "table1.md"
    table.write_text("10.31")
    wrong = thetarbm("tables", "--check")
    assert wrong.code == 1
    assert str(table) in wrong.err
    assert wrong.err.endswith(f" --results {results} tables writes it\n")
    assert thetarbm("tables").code == 0
    assert files_in(results) == before


def test_missing_cells_are_dashes_and_the_command_is_named(thetarbm: Command, tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    done = thetarbm("tables", "--table", "1", "--profile", "tiny", "--suite", str(suite))
    assert done.code == 0
    assert "— (15.41)" in done.out
    assert f"run rbm --profile tiny --suite {suite} makes it\n" in done.err
    thetarbm("tables", "--table", "3", "--suite", str(suite)).assert_refused("table 3")
    assert not (tmp_path / "results").exists()


def test_a_damaged_record_is_left_out_with_a_warning(thetarbm: Command, tmp_path: Path) -> None:
    made = records(seeds=1)
    save(tmp_path / "results", *made)
    (tmp_path / "results" / "runs" / made[0].run / "run.json").write_text("{")
    done = thetarbm("tables", "--table", "1")
    assert done.code == 0
    assert "— (15.41)" in done.out
    assert "warning: " in done.err
