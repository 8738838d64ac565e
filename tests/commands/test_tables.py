from __future__ import annotations

import re
from pathlib import Path

from tests.commands.terminals import in_terminal
from tests.records import save, training_for
from tests.reporting.numbers import FASHION, trainings
from tests.reporting.test_claims import as_the_paper
from tests.runs import Command, files_in
from tests.suites import SMALL, write_suite
from thetarbm_cli.reporting.claims import CLAIMS
from thetarbm_cli.suite import load_suite


def test_tables_are_printed_written_and_checked(thetarbm: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    save(results, *trainings())
    done = thetarbm("tables")
    assert (done.code, done.err) == (0, f"files in {results / 'tables'}, verdicts in {results}\n")
    tables = ("table1", "table2", "table3", "mnist", "ablation")
    names = {f"{table}.{ending}" for table in tables for ending in ("md", "tex", "csv")}
    assert {path.name for path in (results / "tables").iterdir()} == names
    assert done.out == "\n".join((results / "tables" / f"{name}.md").read_text() for name in tables)
    assert "*reproduced*" in (results / "verdicts.md").read_text()
    before = files_in(results)
    assert thetarbm("tables", "--check").code == 0
    (results / "tables" / "table1.md").write_text("10.31")
    wrong = thetarbm("tables", "--check")
    assert (wrong.code, str(results / "tables" / "table1.md") in wrong.err) == (1, True)
    assert re.search(rf" --results {results}( --backend \w+)? tables writes it\n$", wrong.err)
    assert thetarbm("tables").code == 0
    assert files_in(results) == before


def test_one_table_in_another_format_elsewhere(thetarbm: Command, tmp_path: Path) -> None:
    save(tmp_path / "results", *trainings(seeds=1))
    elsewhere = thetarbm("tables", "--table", "3", "--format", "latex", "--out", str(tmp_path / "out"))
    assert elsewhere.out.count("\\begin{table}") == 1
    assert set(files_in(tmp_path / "out")) == {"table3.tex", "verdicts.md", "claims.json"}
    assert (tmp_path / "out" / "table3.tex").read_text() == elsewhere.out
    done = thetarbm("tables", "--table", "invariance")
    assert (done.code, "no file is written of what has no number yet: invariance\n" in done.err) == (0, True)
    assert not (tmp_path / "results" / "tables").exists()


def test_a_suite_has_tables_of_its_own(thetarbm: Command, tmp_path: Path) -> None:
    text = SMALL.replace("title: small", "title: small\ntables: {speed: {title: How fast, measures: [train_seconds]}}")
    suite = write_suite(tmp_path, text.replace('tables: ["1"]', 'tables: ["1", speed]'))
    cells = [cell for cell in load_suite(suite).cells() if cell.experiment == "theta"]
    save(tmp_path / "results", *(training_for(cell, train_seconds=7.25, test_error_percent=9.0) for cell in cells))
    done = thetarbm("tables", "--table", "speed", "--suite", str(suite))
    assert done.out.startswith("## How fast\n")
    assert done.out.count(" 7.2 |") == len(cells)
    assert (tmp_path / "results" / "tables" / "speed.tex").is_file()
    sheet = thetarbm("tables", "--json", "--suite", str(suite)).json
    assert [row["mean"] for row in sheet["tables"]["speed"]] == [7.25] * len(cells)
    thetarbm("tables", "--table", "sped", "--suite", str(suite)).assert_refused("no table 'sped'", "speed")


def test_json_has_every_cell(thetarbm: Command, tmp_path: Path) -> None:
    save(tmp_path / "results", *trainings())
    sheet = thetarbm("tables", "--json").json
    assert {name: len(rows) for name, rows in sheet["tables"].items() if name in "123"} == {"1": 17, "2": 30, "3": 17}
    row = next(row for row in sheet["tables"]["1"] if (row["model"], row["sparsity"]) == ("theta", 0.2))
    assert abs(row["mean"] - 10.08) < 1e-9
    assert (row["column"], row["seeds"], row["published"]) == ("test_error_percent", 3, 10.08)
    cell = next(row for row in sheet["tables"]["3"] if (row["n"], row["p"]) == (4, 0.4))
    assert cell["published"] == 16.1
    told = [row["claim"] for row in sheet["verdicts"]]
    assert len(told) == len(set(told)) > 5
    assert set(told) <= {claim.name for claim in CLAIMS}
    save(tmp_path / "results", *trainings(as_the_paper, 1, cells=FASHION))
    verdicts = thetarbm("tables", "--json").json["verdicts"]
    assert {row["dataset"] for row in verdicts} == {"mnist-rot", "fashion-rot"}
    assert [row for row in verdicts if row["dataset"] == "mnist-rot"] == sheet["verdicts"]


def test_own_images_leave_the_paper_s_files_as_they_are(thetarbm: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    save(results, *trainings())
    assert thetarbm("tables").code == 0
    papers = files_in(results / "tables") | {"verdicts.md": (results / "verdicts.md").read_bytes()}
    save(results, *trainings(seeds=1, source="leaves.npz"))
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


def test_missing_cells_are_dashes_and_the_command_is_named(thetarbm: Command, tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    done = thetarbm("tables", "--table", "1", "--profile", "tiny", "--suite", str(suite))
    assert done.code == 0
    assert "— (15.41)" in done.out
    assert f"run rbm --profile tiny --suite {suite} makes it\n" in done.err
    assert not (tmp_path / "results").exists()


def test_a_terminal_gets_one_line_on_what_has_no_verdict_and_one_on_what_is_missing(tmp_path: Path) -> None:
    save(tmp_path, trainings()[0])
    seen = in_terminal("--results", str(tmp_path), "tables", columns=300)
    assert sum(line.startswith("missing: ") for line in seen.lines) == 1
    assert any(line.startswith("No verdicts yet on mnist-rot") for line in seen.lines)
    assert not any("no data" in line for line in seen.lines)
