from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Any

import pytest

from tests.records import save, training_for
from tests.reporting.numbers import trainings
from tests.reporting.pages import Node, read, two_figures
from tests.runs import Command
from tests.suites import write_suite
from thetarbm_cli.measures import MEASURES, split_column
from thetarbm_cli.reporting.figures import FIGURES
from thetarbm_cli.reporting.tables import variants_of
from thetarbm_cli.suite import load_suite

__all__ = ["two_figures"]

TABLE_1 = FIGURES["table-1"]  # before the fixture leaves two figures


pytestmark = pytest.mark.usefixtures("two_figures")


def page_in(path: Path) -> Node:
    return read(path.read_text(encoding="utf-8"))


def test_the_page_is_written_and_opened_and_its_path_printed(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a real figure among the two, and a damaged record, of which there is one warning."""
    monkeypatch.setitem(FIGURES.own, "table-1", TABLE_1)
    made = trainings()
    save(tmp_path / "results", *made)
    (tmp_path / "results" / "runs" / made[0].run / "run.json").write_text("{")
    asked: list[str] = []
    monkeypatch.setattr(webbrowser, "open", asked.append)
    done = thetarbm("report", "--open")
    path = tmp_path / "results" / "report.html"
    assert (done.code, done.out, asked) == (0, f"{path}\n", [path.as_uri()])
    assert "no browser could be started" in done.err
    assert "lost; no weights are here; thetarbm train makes them\n" in done.err
    assert done.err.count(made[0].run) == 1
    assert path.stat().st_size < 5_000_000
    assert len(page_in(path).all("img")) == 2


def test_every_number_is_that_of_the_tables(thetarbm: Command, tmp_path: Path) -> None:
    save(tmp_path / "results", *trainings(lambda cell, column: 1 / (3 + len(cell.name) + len(column))))
    sheet = thetarbm("tables", "--json").json["tables"]
    assert thetarbm("report").code == 0
    page = page_in(tmp_path / "results" / "report.html")
    for table, rows in sheet.items():
        cells = [cell for cell in page.one("table", id=f"source0-table{table}").all("td") if cell.children]
        assert [cell.attributes.get("data-value") for cell in cells] == [
            None if row["mean"] is None else repr(row["mean"]) for row in rows
        ]
        digits = ["4" if row["column"].startswith("gamma") else "2" for row in rows]
        for cell, row, places in zip(cells, rows, digits, strict=True):
            assert cell.one("button").words.startswith("—" if row["mean"] is None else f"{row['mean']:.{places}f}")
    listed = {}
    for line in page.one("table", id="source0-numbers").one("tbody").all("tr"):
        name, *numbers = line.all("td")
        listed[line.one("th").text, name.text] = [each.attributes.get("data-value") for each in numbers]
    for row in (row for rows in sheet.values() for row in rows):
        measure, variant = split_column(row["column"])
        found = listed[row["cell"], MEASURES[measure].with_unit + dict(variants_of(row["model"]))[variant]]
        mean, deviation, published = (row[key] for key in ("mean", "std", "published"))
        difference = None if published is None or mean is None else mean - published
        wanted = [mean, deviation, published, difference, row["seeds"]]
        assert found == [None if number is None else repr(number) for number in wanted]


def test_json_says_where_it_is_and_what_is_missing(thetarbm: Command, tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    numbers: dict[str, Any] = {"test_error_percent": 1.0, "gamma_train": 0.5, "gamma_test": 0.5}
    cells = load_suite(suite).cells("paper")[:2]
    save(tmp_path / "results", *(training_for(cell, seed, **numbers) for cell in cells for seed in (0, 1)))
    out = tmp_path / "elsewhere" / "page.html"
    told = thetarbm("report", "--suite", str(suite), "--out", str(out), "--json").json
    assert (told["path"], told["bytes"], told["figures"]) == (str(out), out.stat().st_size, ["dots"])
    # What is in no table is not missed.
    assert {gap["name"] for gap in told["missing"]} == {"theta/sparsity=0.3", "theta/sparsity=0.1", "lost"}
    assert not (tmp_path / "results" / "report.html").exists()


def test_other_profiles_and_sources_have_files_of_their_own(thetarbm: Command, tmp_path: Path) -> None:
    """Of the profile there are no records, so that everything is a dash; a source without any is refused."""
    suite, results = write_suite(tmp_path), tmp_path / "results"
    official = ("report", "--suite", str(suite), "--source", "official")
    thetarbm(*official).assert_refused("run --source official", code=1)
    save(results, training_for(load_suite(suite).cells("paper", "official")[0], test_error_percent=7.0))
    assert thetarbm(*official).code == 0
    assert thetarbm("report", "--suite", str(suite), "--profile", "tiny").code == 0
    assert {path.name for path in results.glob("*.html")} == {"report-tiny.html", "report-official.html"}
    page = page_in(results / "report-tiny.html")
    assert {node.words for node in page.one("table", id="source0-table1").all("button", class_="number")} == {"—"}


def test_a_page_that_cannot_be_written(thetarbm: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    inside = ("--suite", str(write_suite(tmp_path)), "--out", str(tmp_path / "file" / "page.html"))
    thetarbm("report", *inside).assert_refused("page.html", code=1)
    assert not (tmp_path / "results").exists()
