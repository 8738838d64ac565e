"""The report page: what it gathers, what it shows, and that text in it stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tests.records import save, training_for
from tests.reporting.figured import draw
from tests.reporting.numbers import CELLS, FASHION, trainings
from tests.reporting.pages import Node, few_figures, page_of, read, store_in, two_figures
from tests.suites import write_suite
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.followup import CallOptions, repeating
from thetarbm_cli.reporting.figures import FIGURES, FigureEntry
from thetarbm_cli.reporting.figures.context import Drawing
from thetarbm_cli.reporting.html import pictures
from thetarbm_cli.reporting.html.content import MINUS, Content, environments, gather, signed
from thetarbm_cli.reporting.html.page import prose, render_page, words_of
from thetarbm_cli.store import MadeFor, Training
from thetarbm_cli.suite import load_suite, shipped_path

__all__ = ["two_figures"]

NUMBERS: dict[str, Any] = {"test_error_percent": 15.0, "gamma_train": 0.2, "gamma_test": 0.25}
HOSTILE = "<script>alert('1')</script><img src=x onerror=alert(1)>\"'&amp;</style></pre>"
SUITE = f"""\
format: 2
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


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path)


def gathered(results: Path, suite: Path, profile: str = "paper", source: str | None = None) -> Content:
    return gather(store_in(results), suite, profile, source)


def recorded(suite: Path, results: Path, *seeds: int, **changes: Any) -> list[Training]:
    """Trainings of the suite's first cell."""
    cell = load_suite(suite).cells()[0]
    made = [training_for(cell, seed, **NUMBERS).model_copy(update=changes) for seed in seeds]
    save(results, *made)
    return made


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Node:
    """The page of the shipped suite with the paper's own numbers."""
    results = tmp_path_factory.mktemp("results")
    save(results, *trainings())
    with few_figures():
        return read(page_of(gathered(results, shipped_path()), results))


# What is gathered


@given(number=st.floats(-100, 100), digits=st.integers(0, 4))
def test_a_difference_reads_as_the_number_rounded(number: float, digits: int) -> None:
    text = signed(number, digits)
    value = float(text.replace(MINUS, "-"))
    assert value == float(f"{number:.{digits}f}")
    assert text.startswith("+") == (value > 0)
    assert text.startswith(MINUS) == (value < 0)


@given(name=st.text())
def test_a_name_with_breaks_is_the_same_name(name: str) -> None:
    assert "".join(words_of(name)) == name


def test_a_cell_is_run_again_by_its_command(tmp_path: Path, suite: Path) -> None:
    first, second = recorded(suite, tmp_path, 0, 1, seconds=3.0)
    done, absent, *_ = gathered(tmp_path, suite).sections[0].reruns
    assert done.runs == [first.run, second.run]
    assert (done.count, done.seconds) == ("2", 3.0)
    name = "rbm/sparsity=0.3"
    assert done.command == f"thetarbm run {name} --force {name}"
    assert (absent.count, absent.seconds) == ("0 of 2", None)
    assert absent.command == "thetarbm run rbm/sparsity=0.1"
    # What is not the default is named.
    cell = load_suite(suite).cells("tiny", "official")[0]
    save(tmp_path, *(training_for(cell, seed, **NUMBERS) for seed in range(4)))
    (only,) = gathered(tmp_path, suite, "tiny", "official").sections
    words = f"thetarbm run {name} --seeds 4 --force {name} --profile tiny --source official"
    assert (only.source.name, only.reruns[0].command) == ("official", words)
    with pytest.raises(ThetaRBMError, match=r"thetarbm run --source bilinear makes them"):
        gathered(tmp_path, suite, source="bilinear")


def test_a_run_without_all_its_measures_does_not_count_and_one_that_diverged_tells_why(
    tmp_path: Path, suite: Path
) -> None:
    cell = load_suite(suite).cells()[0]
    save(tmp_path, training_for(cell, 0, test_error_percent=15.0))
    recorded(suite, tmp_path, 1, state="diverged", error="it diverged", weights_sha256=None, measurements=[])
    first = gathered(tmp_path, suite).sections[0].reruns[0]
    assert (first.cell.name, first.count, first.failures) == ("rbm/sparsity=0.3", "0 of 2", ["seed 1: it diverged"])


def test_environments_are_told_once_with_their_revisions(tmp_path: Path, suite: Path) -> None:
    pools = [{"library": name, "version": "1", "threads": count} for name, count in (("openblas", 1), ("mkl", 2))]
    machine = {"python": "3.11", "gpu": None, "blas": pools, "git": {"revision": "abc", "dirty": False}}
    recorded(suite, tmp_path, 0, environment=machine)
    recorded(suite, tmp_path, 1, environment={**machine, "blas": pools[::-1]})
    recorded(suite, tmp_path, 2, environment={**machine, "git": {"revision": "def", "dirty": True}})
    recorded(suite, tmp_path, 3, environment={**machine, "python": "3.12"})
    most, other = environments(list(gathered(tmp_path, suite).trainings.values()))
    blas = "library mkl, threads 2, version 1; library openblas, threads 1, version 1"
    assert most.facts == {"python": "3.11", "gpu": "none", "blas": blas}
    assert [(name, len(runs)) for name, runs in most.revisions] == [("abc", 2), ("def, changed", 1)]
    assert (most.runs, other.runs, other.facts["python"]) == (3, 1, "3.12")


# Its pictures


def drawn(content: Content, results: Path) -> dict[str, pictures.Picture]:
    pictures.draw_pictures(content, store_in(results))
    return {each.figure.name: each for each in content.pictures}


def draw_noise(context: object) -> Drawing:
    figure = Figure(figsize=(4, 4))
    figure.figimage(np.random.default_rng(0).random((600, 600, 3)))
    return Drawing(figure)


def draw_odd(context: object) -> Drawing:
    raise KeyError("svm")


def entry(name: str) -> FigureEntry:
    return FigureEntry(name, f"tests.reporting.test_html_page:draw_{name.rstrip('0123')}", name.capitalize(), "")


@pytest.mark.usefixtures("two_figures")
def test_large_figures_become_pixels_or_are_left_out_so_that_the_page_is_below_5_megabytes(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIGURES.own, "noise", entry("noise"))
    content = gathered(tmp_path, suite)
    large = drawn(content, tmp_path)["noise"]
    assert large.image is None
    assert "too many for this page" in large.missing[0]
    monkeypatch.setattr(pictures, "LARGEST_FIGURE", 2_400_000)
    for number in range(4):
        monkeypatch.setitem(FIGURES.own, f"noise{number}", entry(f"noise{number}"))
    shown = [each.image for each in drawn(content, tmp_path).values() if each.image]
    assert [image.form for image in shown].count("png") in (1, 2, 3)
    assert sum(len(image.uri) for image in shown) < 4_500_000


@pytest.mark.usefixtures("two_figures")
def test_an_error_in_one_figure_does_not_cost_the_others(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(FIGURES.own, "odd", entry("odd"))
    shown = drawn(gathered(tmp_path, suite), tmp_path)
    assert shown["odd"].missing == ["unexpected KeyError: 'svm'"]
    assert shown["odd"].command == "thetarbm figures odd"
    assert shown["dots"].image is not None
    assert "figure odd: unexpected KeyError: 'svm'" in caplog.text


@pytest.mark.usefixtures("two_figures")
def test_a_figure_of_the_results_folder_stands_in_for_one_that_cannot_be_drawn(tmp_path: Path, suite: Path) -> None:
    content, context = gathered(tmp_path, suite), Any
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "lost.png").write_bytes(draw("dots", context, "png"))  # type: ignore[arg-type]
    shown = drawn(content, tmp_path)
    lost, dots = shown["lost"], shown["dots"]
    assert lost.image is not None
    assert dots.image is not None
    assert lost.image.size == dots.image.size
    assert lost.drawn_before
    assert lost.missing == ["no weights are here; thetarbm train makes them"]
    (tmp_path / "figures" / "lost.png").write_bytes(b"no picture")
    assert drawn(content, tmp_path)["lost"].image is None


# The page


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


def test_every_command_repeats_the_options_of_the_call(tmp_path: Path, suite: Path) -> None:
    with repeating(CallOptions(("--results", "elsewhere"))):
        page = read(render_page(gathered(tmp_path, suite, "tiny")))
    words = " ".join(page.one("section", id=name).words for name in ("verdicts", "reruns"))
    commands = re.findall(r"thetarbm (?:--results elsewhere )?run\b", words)
    assert len(commands) >= 5
    assert all("--results elsewhere" in each for each in commands)


def test_a_number_tells_its_runs_and_seeds(page: Node) -> None:
    cell = page.one("table", id="source0-table1").all("tr")[5].all("td")[0]
    assert cell.one("button").words == "10.31 ± 0.01"
    assert cell.one("div", class_="paper").words == "paper 10.31 0.00"
    made = [each for each in trainings() if each.made_for.cells == ("theta/sparsity=0.3",)]
    runs = page.one("div", id=cell.one("button").attributes["aria-describedby"])
    assert "hidden" in runs.attributes
    assert [item.words for item in runs.all("li")] == [
        f"seed {each.spec.seed}: {each.values['test_error_percent']:.10g} {each.run}" for each in made
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
def test_runs_made_by_hand_the_date_and_the_revision_are_shown(tmp_path: Path, suite: Path) -> None:
    recorded(suite, tmp_path, 0, environment={"git": {"revision": "abcdef0123456789", "dirty": False}})
    made = training_for(load_suite(suite).cells()[0], 7, test_error_percent=12.5)
    by_hand = made.spec.model_copy(update={"parameters": {**made.spec.parameters, "hidden": 77}})
    measured = [each.model_copy(update={"run": "rbm-by-hand"}) for each in made.measurements]
    changes = {"run": "rbm-by-hand", "spec": by_hand, "made_for": MadeFor(), "measurements": measured}
    save(tmp_path, made.model_copy(update=changes))
    page = read(render_page(gathered(tmp_path, suite), "2026-01-31"))
    row = page.one("section", id="others").one("tbody").one("tr")
    assert row.one("th").words == "rbm-by-hand"
    assert [cell.words for cell in row.all("td")] == ["hidden 77", "mnist-rot generated", "7", "12.50", "", ""]
    assert page.one("header").one("time").text == "2026-01-31"
    assert page.one("header").one("code").text == "abcdef0123"


@pytest.mark.usefixtures("two_figures")
def test_text_of_suite_and_records_stays_text(tmp_path: Path) -> None:
    suite = write_suite(tmp_path, SUITE)
    machine = {"platform": HOSTILE, HOSTILE: [HOSTILE], "git": {"revision": HOSTILE, "dirty": True}}
    file = "<img src=x onerror=alert(1)>.npz"
    recorded(suite, tmp_path, 0, environment=machine)
    save(tmp_path, training_for(load_suite(suite).cells("paper", file)[0], **NUMBERS))
    recorded(suite, tmp_path, 1, state="diverged", error=HOSTILE, weights_sha256=None, measurements=[])
    page = read(page_of(gathered(tmp_path, suite), tmp_path))
    assert len(page.all("script")) == len(page.all("style")) == len(page.all("pre")) == 1
    assert len(page.all("img")) == 1
    assert not [name for node in page.walk() for name in node.attributes if name.startswith("on")]
    assert page.one("title").text == f"Report: {HOSTILE}"
    assert page.one("h1").text == HOSTILE
    assert page.one("table", id="source0-table1").all("th", scope="row")[0].text == HOSTILE
    assert page.one("code", id="suite-text").text == SUITE
    assert [cell.text for cell in page.one("table", class_="words").all("td")] == [HOSTILE, HOSTILE]
    assert file in page.one("section", id="tables").all("h3")[1].text
    section = page.one("section", id="environments")
    assert any(HOSTILE in node.text for node in section.all("code"))
    assert any(HOSTILE in node.text for node in section.all("dd"))
    assert HOSTILE in page.one("p", class_="failure").text


@pytest.mark.usefixtures("two_figures")
def test_each_source_of_images_has_its_section_and_the_same_records_give_the_same_bytes(
    tmp_path: Path, suite: Path
) -> None:
    sources = {"generated": 5.0, "official": 6.0}
    made = [
        training_for(cell, seed, test_error_percent=error, gamma_train=0.5, gamma_test=0.5)
        for source, error in sources.items()
        for cell in load_suite(suite).cells("paper", source)[:4]
        for seed in (0, 1)
    ]
    pages = []
    for name, several in (("a", made), ("b", reversed(made))):
        save(tmp_path / name, *several)
        pages.append(page_of(gathered(tmp_path / name, suite), tmp_path / name))
    assert pages[0] == pages[1]
    page = read(pages[0])
    checksums = [made[0].images_sha256, made[-1].images_sha256]
    assert [node.words for node in page.one("section", id="tables").all("h3")] == [
        f"mnist-rot {source} sha256 {sha256[:12]}…" for source, sha256 in zip(sources, checksums, strict=True)
    ]
    assert page.one("table", id="source1-table1").all("td")[0].attributes["data-value"] == "6.0"


@pytest.mark.usefixtures("two_figures")
def test_another_data_set_has_its_table_and_claims_but_no_figures(tmp_path: Path) -> None:
    alike = {"test_error_percent": 20.0, "gamma_train": 0.5, "gamma_test": 0.5}
    on_fashion = trainings(lambda cell, column: alike.get(column.removesuffix("_unaligned")), seeds=1, cells=FASHION)
    save(tmp_path, *trainings(), *on_fashion)
    page = read(page_of(gathered(tmp_path, shipped_path()), tmp_path))
    names = ["mnist-rot generated", "fashion-rot generated"]
    for section, shown in (("verdicts", names), ("tables", names), ("reruns", names), ("figures", names[:1])):
        headings = [node.words.partition(" sha256")[0] for node in page.one("section", id=section).all("h3")]
        assert headings == shown
    assert page.one("table", id="source1-tablefashion").all("td")[0].attributes["data-value"] == "20.0"
    counts = page.one("section", id="verdicts").all("ul", class_="counts")[1]
    # All models alike: none is the best, no γ moves, and the O-RBM is no better than the RBM.
    assert [int(node.one("b").text) for node in counts.all("li")] == [3, 0, 3, 0]
    assert "The paper has no numbers on fashion-rot" in page.one("section", id="verdicts").words
