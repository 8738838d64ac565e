from __future__ import annotations

from pathlib import Path

from tests.experiments.runs import Command, files_in
from tests.experiments.suites import save, write_suite
from tests.reporting.figured import records
from tests.reporting.numbers import SUITE
from thetarbm_cli.reporting.figures import FIGURES

TINY = ("--profile", "tiny")
TWO_MODELS = """\
format: 1
title: two models
profiles:
  tiny:
    data: {train: 300, valid: 100, test: 300}
    parameters: {hidden: 40, epochs: 3}
experiments:
  - {name: rbm, label: RBM, model: rbm, grid: {sparsity: [0.3]}, tables: ["1", "2"]}
  - {name: theta, label: θ-RBM, model: theta, grid: {sparsity: [0.3, 0.1]}, tables: ["1", "2"]}
  - name: perturbed
    label: perturbed
    model: theta
    perturbation: {scope: train}
    grid: {n: [1], p: [0.1]}
    tables: ["3"]
"""


def test_all_that_can_be_drawn_is_drawn_and_the_rest_told(thetarbm: Command, results: Path, tmp_path: Path) -> None:
    suite = write_suite(tmp_path, TWO_MODELS)
    done = thetarbm("figures", *TINY, "--suite", str(suite))
    assert done.code == 0
    universes = tuple(figure.name for figure in FIGURES if figure.needs == "universes")
    left_out = ("table-3", "gamma-offset", "years", "floor", "orientation-estimators", *universes)
    paths = [results / "figures" / f"{name}-tiny.png" for name in FIGURES.names if name not in left_out]
    assert done.out.splitlines() == [str(path) for path in paths]
    assert {path.name for path in (results / "figures").iterdir()} == {path.name for path in paths}
    warnings = [line for line in done.err.splitlines() if line.startswith("warning: left out: ")]
    assert ", ".join(line.split(": ")[2] for line in warnings) == ", ".join(left_out)
    assert f"run perturbed --profile tiny --suite {suite} makes it" in warnings[0]
    (missing,) = (line for line in done.err.splitlines() if line.startswith("missing: "))
    assert missing.endswith(f" run theta/sparsity=0.1 --profile tiny --suite {suite} makes it")


def test_named_figures_in_another_format_elsewhere_with_json(thetarbm: Command, results: Path, tmp_path: Path) -> None:
    before = files_in(results)
    out = tmp_path / "out"
    done = thetarbm("figures", "filters", "table-1", "filters", "--format", "svg", "--out", str(out), "--json", *TINY)
    files = [str(out / "filters-tiny.svg"), str(out / "table-1-tiny.svg")]
    assert done.json == {
        "files": files,
        "figures": [
            {"name": name, "title": FIGURES[name].label, "file": path}
            for name, path in zip(("filters", "table-1"), files, strict=True)
        ],
        "left_out": [],
    }
    assert set(files_in(out)) == {"filters-tiny.svg", "table-1-tiny.svg"}
    units = ("figures", "filters-theta", "--units", "1,30", "--format", "svg", "--out", str(out), *TINY)
    assert thetarbm(*units).code == 0
    assert "<!-- unit 30 -->" in (out / "filters-theta-tiny.svg").read_text()
    assert files_in(results) == before


def test_the_paper_profile_has_plain_names(thetarbm: Command, tmp_path: Path) -> None:
    cells = [cell for cell in SUITE.cells() if cell.experiment in ("rbm", "theta")]
    save(tmp_path / "results", *records(cells, 1))
    done = thetarbm("figures", "table-1")
    assert done.out == f"{tmp_path / 'results' / 'figures' / 'table-1.png'}\n"
    assert f"{tmp_path / 'results'} run orbm makes it\n" in done.err
    assert thetarbm("--quiet", "figures", "table-1").err == ""


def test_a_source_without_records_is_told_with_the_command_that_makes_them(thetarbm: Command, results: Path) -> None:
    refused = thetarbm("figures", "table-1", *TINY, "--source", "official")
    refused.assert_refused(" run rbm orbm tirbm theta", "--profile tiny --source official", code=1)
    assert not (results / "figures").exists()
