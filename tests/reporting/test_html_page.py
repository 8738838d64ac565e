from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.experiments.suites import metrics_of, record_for, save, write_suite
from tests.reporting.numbers import ALL, CELLS, FASHION, records
from tests.reporting.pages import Node, few_figures, page_of, read, two_figures
from thetarbm_cli.experiments.runs.record import DataPart, EnvironmentPart
from thetarbm_cli.experiments.runs.settings import CHANGED_DEFAULTS
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite_file import shipped_path
from thetarbm_cli.followup import CallOptions, repeating
from thetarbm_cli.reporting.html.content import gather
from thetarbm_cli.reporting.html.page import prose, render_page

__all__ = ["two_figures"]

HOSTILE = "<script>alert('1')</script><img src=x onerror=alert(1)>\"'&amp;</style></pre>"
SUITE = f"""\
format: 1
title: {json.dumps(HOSTILE)}
paper: {{title: {json.dumps(HOSTILE)}, authors: {json.dumps(HOSTILE)}, year: 2016}}
assumptions:
  - {{name: open, reading: {json.dumps(HOSTILE)}, why: {json.dumps(HOSTILE)}}}
profiles: {{paper: {{seeds: 1, about: {json.dumps(HOSTILE)}}}}}
experiments:
  - name: rbm
    label: {json.dumps(HOSTILE)}
    model: rbm
    grid: {{sparsity: [0.3]}}
    tables: ["1"]
  - name: pixels
    label: pixels
    model: pixels
    tables: ["1"]
    measures: [error]
    context: {json.dumps(HOSTILE)}
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """The page of the shipped suite with the paper's own numbers."""
    results = tmp_path_factory.mktemp("results")
    save(results, *records())
    with few_figures():
        return read(page_of(gather(results, shipped_path(), "paper"), results))


def test_headings_names_and_tables_are_what_a_screen_reader_needs(page: Node) -> None:
    assert [node.attributes["id"] for node in page.all("section")] == [
        *("verdicts", "tables", "figures", "suite", "environments", "reruns")
    ]
    assert len(page.all("h1")) == 1
    levels = [int(node.tag[1]) for node in page.walk() if re.fullmatch("h[1-6]", node.tag)]
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    ids = [node.attributes["id"] for node in page.walk() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    named = [node.attributes[name] for node in page.walk() for name in ("aria-labelledby", "aria-describedby")
             if name in node.attributes]  # fmt: skip
    links = [node.attributes["href"].removeprefix("#") for node in page.all("a")]
    assert set(named) | set(links) <= set(ids)
    for table in page.all("table"):
        assert table.one("caption").words
        assert all(cell.attributes["scope"] in ("col", "row", "colgroup") for cell in table.all("th"))
    assert all(image.attributes["alt"] for image in page.all("img"))
    assert page.one("html").attributes["lang"] == "en"


def test_nothing_comes_from_elsewhere(page: Node) -> None:
    for node in page.walk():
        for name, value in node.attributes.items():
            assert not name.startswith("on"), (node.tag, name)
            assert name not in ("style", "srcset", "action", "formaction", "ping")
            if name in ("src", "href"):
                assert value.startswith(("data:", "#")), value
    assert not {node.tag for node in page.walk()} & {"iframe", "object", "embed", "base", "form", "audio", "video"}
    style, script = page.one("style").text, page.one("script").text
    assert not re.search(r"url\(|@import|https?:", style)
    assert not re.search(r"fetch|XMLHttpRequest|WebSocket|sendBeacon|import\(|eval|https?:|innerHTML", script)


def test_the_policy_allows_this_style_and_this_script_alone(page: Node) -> None:
    policy = page.one("meta", **{"http-equiv": "Content-Security-Policy"}).attributes["content"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["img-src"] == "data:"
    for kind in ("style", "script"):
        digest = hashlib.sha256(page.one(kind).text.encode()).digest()
        assert rules[f"{kind}-src"] == f"'sha256-{base64.b64encode(digest).decode()}'"


def test_verdicts_are_told_by_words_with_their_evidence(page: Node) -> None:
    section = page.one("section", id="verdicts")
    first = section.all("details")[0]
    assert first.one("span", class_="badge good").words == "✓ reproduced"
    assert first.one("span", class_="held").words == "12 of 12 hold"
    assert len(first.one("ul", class_="evidence").all("li")) == 12
    counts = [int(item.one("b").text) for item in section.one("ul", class_="counts").all("li")]
    assert sum(counts) == len(section.one("ol", class_="verdicts").all("details")) > 8
    assert "thetarbm run theory" in section.words


def test_every_command_repeats_the_options_of_the_call(tmp_path: Path) -> None:
    with repeating(CallOptions(("--results", "elsewhere"))):
        page = read(render_page(gather(tmp_path, write_suite(tmp_path), "tiny")))
    words = " ".join(page.one("section", id=name).words for name in ("verdicts", "reruns"))
    commands = re.findall(r"thetarbm (?:--results elsewhere )?run\b", words)
    assert len(commands) >= 5
    assert all("--results elsewhere" in each for each in commands)


def test_a_number_tells_its_runs_and_seeds(page: Node) -> None:
    cell = page.one("table", id="source0-table1").all("tr")[5].all("td")[0]
    assert cell.one("button").words == "10.31 ± 0.01"
    assert cell.one("div", class_="paper").words == "paper 10.31 0.00"
    made = [record for record in records() if record.cells == ["theta/sparsity=0.3@paper"]]
    runs = page.one("div", id=cell.one("button").attributes["aria-describedby"])
    assert "hidden" in runs.attributes
    assert [item.words for item in runs.all("li")] == [
        f"seed {record.seed}: {metrics_of(record)['svm']['test_error_percent']:.10g} {record.run}" for record in made
    ]


def test_the_suite_is_there_letter_by_letter_with_its_assumptions_and_cells(page: Node) -> None:
    text = shipped_path().read_text(encoding="utf-8")
    assert page.one("code", id="suite-text").text == text
    assert page.one("table", class_="words").all("tr")
    cells = page.one("section", id="reruns").one("tbody").all("tr")
    listed = [row.one("th").text.removesuffix(" on request") for row in cells]
    assert {cell.name for cell in CELLS} < set(listed)
    assert len(listed) == len(set(listed))


def test_sentences_have_code_and_indices_are_escaped_and_keep_names_and_numbers_whole() -> None:
    text = prose("`a_b` W_s and φ_s of <b> & `<i>`, not x_y or MAX_SIZE")
    code, symbol = '<code class="whole">{}</code>'.format, "{}<sub>s</sub>".format
    assert text == (
        f"{code('a_b')} {symbol('W')} and {symbol('φ')} of &lt;b&gt; &amp; {code('&lt;i&gt;')}, not x_y or MAX_SIZE"
    )
    space = "\N{NO-BREAK SPACE}"
    assert prose("The theta-RBM's n = 4") == f'The <span class="whole">θ-RBM</span>&#39;s n{space}={space}4'
    assert prose("10 %, 0.1 ± 0.2") == f"10{space}%, 0.1{space}±{space}0.2"


@pytest.mark.usefixtures("two_figures")
def test_runs_made_by_hand_the_date_and_the_revision_are_shown(tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    cell = load_suite(suite).cells("paper")[0]
    made = record_for(cell, 7, test_error_percent=12.5)
    environment = EnvironmentPart(git={"revision": "abcdef0123456789", "dirty": False})
    settings = made.settings.model_copy(update={"parameters": {**CHANGED_DEFAULTS["rbm"], "hidden": 77}})
    update = {"settings": settings, "parameters": {**made.parameters, "hidden": 77}, "cells": [], "run": "rbm-by-hand"}
    save(tmp_path, record_for(cell).model_copy(update={"environment": environment}), made.model_copy(update=update))
    page = read(render_page(gather(tmp_path, suite, "paper"), "2026-01-31"))
    row = page.one("section", id="others").one("tbody").one("tr")
    assert row.one("th").words == "rbm-by-hand"
    assert [cell.words for cell in row.all("td")] == ["hidden 77", "mnist-rot generated", "7", "12.50", "", ""]
    assert page.one("header").one("time").text == "2026-01-31"
    assert page.one("header").one("code").text == "abcdef0123"


def test_figures_are_inside_and_missing_ones_are_named(page: Node) -> None:
    section = page.one("section", id="figures")
    image = section.one("img")
    kind, _, content = image.attributes["src"].partition(";base64,")
    assert kind == "data:image/svg+xml"
    assert base64.b64decode(content).lstrip().startswith(b"<?xml")
    assert int(image.attributes["width"]) > int(image.attributes["height"]) > 100
    lost = section.one("ul", class_="absent").one("li")
    assert lost.words.startswith("Lost: no weights are here; thetarbm train makes them")
    assert lost.one("code").text == "thetarbm figures lost"


@pytest.mark.usefixtures("two_figures")
def test_text_of_suite_and_records_stays_text(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, SUITE)
    cell = gather(tmp_path, suite, "paper").parts[0].numbers.cells[0]
    name = "<script>alert(1)"
    machine = {"platform": HOSTILE, HOSTILE: [HOSTILE], "git": {"revision": HOSTILE, "dirty": True}}
    environment = EnvironmentPart(**machine)
    good = record_for(cell, test_error_percent=15.0, gamma_train=0.2, gamma_test=0.2)
    bad = record_for(cell, 1).model_copy(update={"state": "failed", "error": HOSTILE, "metrics": None})
    data = DataPart(**{role: {**each, "source": HOSTILE} for role, each in good.data.model_dump().items()})
    update = {"environment": environment, "data": data}
    save(tmp_path, good.model_copy(update={**update, "run": name}), bad.model_copy(update=update))
    page = read(page_of(gather(tmp_path, suite, "paper"), tmp_path))
    assert len(page.all("script")) == len(page.all("style")) == len(page.all("pre")) == 1
    assert len(page.all("img")) == 1
    assert not [name for node in page.walk() for name in node.attributes if name.startswith("on")]
    assert page.one("title").text == f"Report: {HOSTILE}"
    assert page.one("h1").text == HOSTILE
    assert page.one("table", id="source0-table1").all("th", scope="row")[0].text == HOSTILE
    assert page.one("code", id="suite-text").text == SUITE
    assert [cell.text for cell in page.one("table", class_="words").all("td")] == [HOSTILE, HOSTILE]
    assert any(node.text == name for node in page.one("section", id="environments").all("code"))
    assert any(HOSTILE in node.text for node in page.one("section", id="environments").all("dd"))
    assert HOSTILE in page.one("p", class_="failure").text


@pytest.mark.usefixtures("two_figures")
def test_each_source_of_images_has_its_part_and_the_same_records_give_the_same_bytes(tmp_path: Path) -> None:
    suite = write_suite(tmp_path)
    cells = load_suite(suite).cells("paper")[:4]
    made = [
        record_for(cell, seed, source=source, test_error_percent=error, gamma_train=0.5, gamma_test=0.5)
        for source, error in (("generated", 5.0), ("official", 6.0))
        for cell in cells
        for seed in (0, 1)
    ]
    pages = []
    for name, several in (("a", made), ("b", reversed(made))):
        save(tmp_path / name, *several)
        pages.append(page_of(gather(tmp_path / name, suite, "paper"), tmp_path / name))
    assert pages[0] == pages[1]
    page = read(pages[0])
    assert [node.words for node in page.one("section", id="tables").all("h3")] == [
        "mnist-rot generated sha256 aaaaaaaaaaaa…",
        "mnist-rot official sha256 bbbbbbbbbbbb…",
    ]
    assert page.one("table", id="source1-table1").all("td")[0].attributes["data-value"] == "6.0"
    (only,) = gather(tmp_path / "a", suite, "paper", "official").parts
    assert only.source.name == "official"


@pytest.mark.usefixtures("two_figures")
def test_another_data_set_has_its_table_and_claims_but_no_figures(tmp_path: Path) -> None:
    measured = {"test_error_percent": 20.0, "gamma_train": 0.5, "gamma_test": 0.5}
    save(
        tmp_path,
        *records(),
        *records(lambda cell, column: measured[column.removesuffix("_unaligned")], seeds=1, cells=FASHION),
        *records(seeds=1, cells=[cell for cell in ALL if cell.experiment == "best-optdigits-pixels"]),
    )
    page = read(page_of(gather(tmp_path, shipped_path(), "paper"), tmp_path))
    headings = ["mnist-rot generated sha256 aaaaaaaaaaaa…", "fashion-rot generated sha256 ffffffffffff…"]
    # Without the θ-RBM there is nothing to claim.
    also = "optdigits-rot generated sha256 aaaaaaaaaaaa…"
    for section, shown in (("verdicts", headings), ("tables", [*headings, also]), ("reruns", [*headings, also])):
        assert [node.words for node in page.one("section", id=section).all("h3")] == shown
    assert [node.words for node in page.one("section", id="figures").all("h3")] == headings[:1]
    assert page.one("table", id="source1-tablefashion").all("td")[0].attributes["data-value"] == "20.0"
    counts = page.one("section", id="verdicts").all("ul", class_="counts")[1]
    # All models alike: none is the best, no γ moves, and the O-RBM is no better than the RBM.
    assert [node.words for node in counts.all("li")] == [
        *("3 ✓ carries over", "0 ◐ partly", "2 ≈ undecided", "1 ✗ does not carry over", "0 – no data")
    ]
    assert "The paper has no numbers on fashion-rot." in page.one("section", id="verdicts").words
