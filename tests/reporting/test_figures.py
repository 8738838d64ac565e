"""Figures as a whole: names, formats, equal bytes, and what is said of what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest

from tests.experiments.runs import PATIENCE_SECONDS
from tests.experiments.suites import record_for, save
from tests.reporting.figured import context_of, draw
from tests.reporting.numbers import SUITE
from thetarbm_cli.experiments.runs.record import DataPart
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.reporting.figures import FIGURES, make
from thetarbm_cli.reporting.figures.context import FigureContext, FigureMissing, figure_context, missing_lines

OF_NUMBERS = tuple(figure.name for figure in FIGURES if figure.needs == "records")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> FigureContext:
    return context_of(tmp_path_factory.mktemp("made-up"))


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_text_is_readable_in_print_and_axes_have_names(context: FigureContext, name: str) -> None:
    figure = make(name, context).figure
    # A column or a page of a paper, in inches.
    assert figure.get_figwidth() in (3.5, 7.16)
    texts = [text for text in figure.findobj(matplotlib.text.Text) if text.get_text().strip()]
    assert min(text.get_fontsize() for text in texts) >= 7
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert all(axes.get_ylabel() for axes in bars)
    assert any(axes.get_xlabel() for axes in figure.axes if axes not in bars)


@pytest.mark.parametrize(("form", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_the_same_records_give_the_same_bytes_whatever_a_user_set(
    context: FigureContext, form: str, start: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = draw("floor", context, form)
    assert content.startswith(start)
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 20)
    assert draw("floor", context, form) == content
    assert matplotlib.rcParams["font.size"] == 20


def test_another_process_gives_the_same_bytes_and_imports_matplotlib_only_to_draw(context: FigureContext) -> None:
    script = f"""
import sys
from pathlib import Path
from types import SimpleNamespace
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite_file import shipped_path
from thetarbm_cli.reporting.figures import encode, make
from thetarbm_cli.reporting.figures.context import figure_context
run_context = SimpleNamespace(store=RunStore(Path({str(context.run_context.store.folder.parent)!r})))
context = figure_context(load_suite(shipped_path(), check_settings=False), run_context)
assert "matplotlib" not in sys.modules
sys.stdout.buffer.write(encode("gamma-offset", make("gamma-offset", context), "svg"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=PATIENCE_SECONDS, check=True)
    assert done.stdout == draw("gamma-offset", context, "svg")


def test_missing_cells_are_left_out_and_named_with_the_command(tmp_path: Path) -> None:
    absent = ("tirbm", "rbm/sparsity=0.2", "perturbation/n=4,p=0.4")
    context = context_of(tmp_path, without=lambda cell: bool({cell.experiment, cell.name} & set(absent)), seeds=1)
    drawings = [make(name, context) for name in ("table-1", "table-2", "table-3", "learning-curves")]
    assert missing_lines(context, drawings) == [
        f"missing: {name}; thetarbm run {name} makes it" for name in (absent[1], absent[0], absent[2])
    ]
    assert len(drawings[0].figure.axes[0].containers) == 4
    assert [text.get_text() for text in drawings[2].figure.axes[0].texts][-1] == "—"


@pytest.mark.parametrize(
    ("name", "experiments"),
    [
        *((name, ".*") for name in OF_NUMBERS),
        ("table-3", "perturbation"),
        ("gamma-offset", "offset-rbm offset-orbm offset-tirbm offset-theta"),
    ],
)
def test_without_records_the_reason_names_the_command(tmp_path: Path, name: str, experiments: str) -> None:
    empty = figure_context(SUITE, RunContext(tmp_path / "data", RunStore(tmp_path / "results"), "numpy"))
    with pytest.raises(FigureMissing, match=f"^no run with .* in .*; thetarbm run {experiments} makes it$"):
        draw(name, empty)


def test_one_cell_of_an_ablation_compares_nothing_and_many_cells_are_one_command(tmp_path: Path) -> None:
    context = context_of(
        tmp_path, without=lambda cell: cell.at.get("floor", 0.0) > 0 or cell.at.get("n", 0) > 1, seeds=1
    )
    assert context.numbers.records["ablation-floor/floor=0"]
    with pytest.raises(FigureMissing, match="thetarbm run ablation-floor makes it"):
        make("floor", context)
    (line,) = missing_lines(context, [make("table-3", context)])
    assert line.startswith("missing: perturbation/n=2,p=0.1 perturbation/n=2,p=0.2 ")
    assert line.endswith("; thetarbm run perturbation makes it")


def test_a_suite_without_the_experiments(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(
        "format: 1\ntitle: t\nprofiles: {paper: {}}\nexperiments:\n"
        "  - {name: x, label: '$\\alpha <b> \\', model: rbm, grid: {sparsity: [0.3]}, tables: ['1']}\n"
    )
    suite = load_suite(path)
    save(tmp_path, record_for(suite.cells()[0], test_error_percent=5.0))
    context = figure_context(suite, RunContext(tmp_path, RunStore(tmp_path), "numpy"))
    with pytest.raises(FigureMissing, match="the suite has no experiment with the numbers of Table 3"):
        draw("table-3", context)
    with pytest.raises(FigureMissing, match="the suite has no experiment"):
        draw("filters-theta", context)
    assert draw("table-1", context)


def test_one_source_is_shown(tmp_path: Path) -> None:
    cell = SUITE.cells()[0]
    run_context = RunContext(tmp_path, RunStore(tmp_path), "numpy")
    save(tmp_path, record_for(cell, source="official", test_error_percent=5.0))
    assert figure_context(SUITE, run_context).numbers.source.name == "official"
    save(tmp_path, record_for(cell, source="generated", test_error_percent=5.0))
    usual, official, own = (figure_context(SUITE, run_context, "paper", each) for each in (None, "official", "own.npz"))
    assert [each.numbers.source.name for each in (usual, official, own)] == ["generated", "official", "own.npz"]
    assert [each.suffix for each in (usual, official, own)] == ["", "-official", "-own"]
    with pytest.raises(FigureMissing, match=r"thetarbm run .* --source own\.npz makes it"):
        draw("table-1", own)
    with pytest.raises(FigureMissing, match=r"official.* thetarbm prepare-data --source official makes it"):
        draw("orientations", official)


def test_of_two_contents_the_one_with_more_records_is_shown(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, second = SUITE.cells()[:2]
    other = record_for(first, test_error_percent=50.0)
    data = DataPart(**{role: {**each, "sha256": "c" * 64} for role, each in other.data.model_dump().items()})
    save(tmp_path, other.model_copy(update={"data": data, "run": "rbm-other"}))
    save(tmp_path, *(record_for(cell, test_error_percent=5.0) for cell in (first, second)))
    context = figure_context(SUITE, RunContext(tmp_path, RunStore(tmp_path), "numpy"))
    assert context.numbers.source.sha256 == "a" * 64
    assert "records of 2 contents of mnist-rot generated" in caplog.text
