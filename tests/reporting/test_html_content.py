from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure

from tests.experiments.suites import record_for, save, write_suite
from tests.reporting.figured import draw
from tests.reporting.pages import two_figures
from thetarbm_cli.experiments.runs.record import EnvironmentPart, MetricsPart, RunRecord
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.reporting.figures import FIGURES, FigureEntry
from thetarbm_cli.reporting.figures.context import Drawing
from thetarbm_cli.reporting.html import pictures
from thetarbm_cli.reporting.html.content import MINUS, Content, environments, gather, missing, signed
from thetarbm_cli.reporting.html.page import words_of
from thetarbm_cli.reporting.html.pictures import draw_pictures

__all__ = ["two_figures"]

NUMBERS = {"test_error_percent": 15.0, "gamma_train": 0.2, "gamma_test": 0.25}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path)


def recorded(suite: Path, results: Path, *seeds: int, **changes: Any) -> list[RunRecord]:
    """Records of the suite's first cell."""
    cell = gather(results, suite, "paper").parts[0].numbers.cells[0]
    made = [record_for(cell, seed, **NUMBERS).model_copy(update=changes) for seed in seeds]
    save(results, *made)
    return made


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
    (first, second) = recorded(suite, tmp_path, 0, 1, timings={"train_seconds": 3.0, "evaluate_seconds": 4.5})
    content = gather(tmp_path, suite, "paper")
    done, missing_one, *_ = content.parts[0].reruns
    assert done.runs == [first.run, second.run]
    assert (done.count, done.seconds) == ("2", 7.5)
    name = "rbm/sparsity=0.3"
    assert done.command == f"thetarbm run {name} --force {name}"
    assert (missing_one.count, missing_one.seconds) == ("0 of 2", None)
    assert missing_one.command == "thetarbm run rbm/sparsity=0.1"
    # What is not the default is named.
    cell = gather(tmp_path, suite, "tiny").parts[0].numbers.cells[0]
    save(tmp_path, *(record_for(cell, seed, source="official", **NUMBERS) for seed in range(4)))
    content = gather(tmp_path, suite, "tiny", "official")
    words = f"thetarbm run {name} --seeds 4 --force {name} --profile tiny --source official"
    assert content.parts[0].reruns[0].command == words


def test_a_run_without_all_its_measures_does_not_count_and_a_failed_one_tells_why(tmp_path: Path, suite: Path) -> None:
    recorded(suite, tmp_path, 0, metrics=MetricsPart.model_validate({"svm": {"test_error_percent": 15.0}}))
    recorded(suite, tmp_path, 1, state="failed", error="it diverged", metrics=None)
    content = gather(tmp_path, suite, "paper")
    cells = {each.cell.name: each for each in content.parts[0].reruns}
    assert (cells["rbm/sparsity=0.3"].count, cells["again"].count) == ("0 of 2", "1 of 2")
    assert cells["rbm/sparsity=0.3"].failures == ["seed 1: it diverged"]


def test_environments_are_told_once_with_their_revisions(tmp_path: Path, suite: Path) -> None:
    pools = [{"library": "openblas", "threads": 1}, {"library": "mkl", "threads": 2}]
    machine = {"python": "3.11", "gpu": None, "blas": pools, "git": {"revision": "abc", "dirty": False}}
    recorded(suite, tmp_path, 0, environment=EnvironmentPart(**machine))
    recorded(suite, tmp_path, 1, environment=EnvironmentPart(**{**machine, "blas": pools[::-1]}))
    recorded(suite, tmp_path, 2, environment=EnvironmentPart(**{**machine, "git": {"revision": "def", "dirty": True}}))
    recorded(suite, tmp_path, 3, environment=EnvironmentPart(**{**machine, "python": "3.12"}))
    most, other = environments(gather(tmp_path, suite, "paper").records)
    blas = "library mkl, threads 2; library openblas, threads 1"
    assert most.facts == {"python": "3.11", "gpu": "none", "blas": blas}
    assert [(name, len(runs)) for name, runs in most.revisions] == [("abc", 2), ("def, changed", 1)]
    assert (most.runs, other.runs, other.facts["python"]) == (3, 1, "3.12")


def drawn(content: Content, results: Path) -> dict[str, pictures.Picture]:
    draw_pictures(content, RunContext(results, RunStore(results)))
    return {each.figure.name: each for each in content.pictures}


def draw_noise(context: object) -> Drawing:
    figure = Figure(figsize=(4, 4))
    figure.figimage(np.random.default_rng(0).random((600, 600, 3)))
    return Drawing(figure)


def draw_odd(context: object) -> Drawing:
    raise KeyError("svm")


def entry(name: str) -> FigureEntry:
    return FigureEntry(name, f"tests.reporting.test_html_content:draw_{name.rstrip('0123')}", name.capitalize(), "")


@pytest.mark.usefixtures("two_figures")
def test_large_figures_become_pixels_or_are_left_out_so_that_the_page_is_below_5_megabytes(
    tmp_path: Path, suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIGURES.own, "noise", entry("noise"))
    content = gather(tmp_path, suite, "paper")
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
    content = gather(tmp_path, suite, "paper")
    shown = drawn(content, tmp_path)
    assert shown["odd"].missing == ["unexpected KeyError: 'svm'"]
    assert shown["dots"].image is not None
    assert "figure odd: unexpected KeyError: 'svm'" in caplog.text
    absent = {each.name: each.command for each in missing(content) if each.kind == "figure"}
    assert absent == {"lost": "thetarbm figures lost", "odd": "thetarbm figures odd"}


@pytest.mark.usefixtures("two_figures")
def test_a_figure_of_the_results_folder_stands_in_for_one_that_cannot_be_drawn(tmp_path: Path, suite: Path) -> None:
    content = gather(tmp_path, suite, "paper")
    context: Any = None
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "lost.png").write_bytes(draw("dots", context, "png"))
    lost = drawn(content, tmp_path)["lost"]
    assert lost.image is not None
    assert lost.image.size == drawn(content, tmp_path)["dots"].image.size  # type: ignore[union-attr]
    assert lost.drawn_before
    assert lost.missing == ["no weights are here; thetarbm train makes them"]
    (tmp_path / "figures" / "lost.png").write_bytes(b"no picture")
    assert drawn(content, tmp_path)["lost"].image is None
