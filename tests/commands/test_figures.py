from __future__ import annotations

import re
from pathlib import Path

from tests.records import save
from tests.reporting.figured import trainings
from tests.reporting.numbers import SUITE
from tests.runs import Command, files_in
from tests.suites import write_suite
from thetarbm_cli.reporting.figures import FIGURES

TINY = ("--profile", "tiny")
TWO_MODELS = """\
format: 2
title: two models
profiles:
  tiny:
    set: {hidden: 40, epochs: 3, data.train: 300, data.valid: 100, data.test: 300}
experiments:
  - {name: rbm, label: RBM, model: rbm, grid: {sparsity: [0.3]}, tables: ["1", "2"]}
  - {name: theta, label: θ-RBM, model: theta, grid: {sparsity: [0.3, 0.1]}, tables: ["1", "2"]}
  - {name: perturbed, label: perturbed, model: theta, grid: {n: [1], p: [0.1]}, tables: ["3"]}
"""


def test_all_that_can_be_drawn_is_drawn_and_the_rest_told(thetarbm: Command, results: Path, tmp_path: Path) -> None:
    suite = write_suite(tmp_path, TWO_MODELS)
    done = thetarbm("figures", *TINY, "--suite", str(suite))
    assert done.code == 0
    universes = tuple(figure.name for figure in FIGURES if figure.needs == "universes")
    left_out = ("table-3", "gamma-offset", "years", *universes)
    paths = [results / "figures" / f"{name}-tiny.png" for name in FIGURES.names if name not in left_out]
    assert done.out.splitlines() == [str(path) for path in paths]
    assert {path.name for path in (results / "figures").iterdir()} == {path.name for path in paths}
    warnings = [line for line in done.err.splitlines() if line.startswith("warning: left out: ")]
    assert ", ".join(line.split(": ")[2] for line in warnings) == ", ".join(left_out)
    assert f"run perturbed --profile tiny --suite {suite} makes it" in warnings[0]
    (missing,) = (line for line in done.err.splitlines() if line.startswith("missing: "))
    assert missing.endswith(f" run theta/sparsity=0.1 --profile tiny --suite {suite} makes it")


def test_named_figures_in_another_format_elsewhere_with_json(thetarbm: Command, results: Path, tmp_path: Path) -> None:
    before, out = files_in(results), tmp_path / "out"
    elsewhere = ("--format", "svg", "--out", str(out), *TINY)
    done = thetarbm("figures", "orientations", "table-1", "orientations", "--json", *elsewhere)
    files = {name: str(out / f"{name}-tiny.svg") for name in ("orientations", "table-1")}
    assert done.json == {
        "files": [*files.values()],
        "figures": [{"name": name, "title": FIGURES[name].label, "file": path} for name, path in files.items()],
        "left_out": [],
    }
    assert {str(out / name) for name in files_in(out)} == {*files.values()}
    assert thetarbm("figures", "filters-theta", "--units", "1,30", *elsewhere).code == 0
    assert "<!-- unit 30 -->" in (out / "filters-theta-tiny.svg").read_text()
    thetarbm("figures", "filters-theta", "--units", "40", *elsewhere).assert_refused("no hidden unit 40")
    assert files_in(results) == before


def test_a_picture_of_the_recorded_weights_is_not_replaced_by_one_of_others(thetarbm: Command, results: Path) -> None:
    assert thetarbm("figures", "filters-theta", *TINY).code == 0
    picture = results / "figures" / "filters-theta-tiny.png"
    picture.write_bytes(b"as it was")
    (weights,) = results.glob("runs/theta-*/weights.npz")
    recorded = weights.read_bytes()
    # A whole archive of other bytes.
    weights.write_bytes(repacked(recorded))
    done = thetarbm("figures", "filters-theta", *TINY)
    assert (done.code, picture.read_bytes()) == (0, b"as it was")
    assert "the recorded weights are not here" in done.err


def repacked(archive: bytes) -> bytes:
    """The same arrays, compressed."""
    import io

    import numpy as np

    stream = io.BytesIO()
    with np.load(io.BytesIO(archive)) as arrays:
        np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def test_the_paper_profile_has_plain_names_and_other_sources_are_told(thetarbm: Command, tmp_path: Path) -> None:
    results = tmp_path / "results"
    save(results, *trainings([cell for cell in SUITE.cells() if cell.experiment in ("rbm", "theta")], 1))
    done = thetarbm("figures", "table-1")
    assert done.out == f"{results / 'figures' / 'table-1.png'}\n"
    assert re.search(rf"{results}( --backend \w+)? run orbm makes it\n", done.err)
    assert "--source" not in done.err
    save(results, *trainings([cell for cell in SUITE.cells("paper", "official") if cell.experiment == "rbm"], 1))
    (line,) = (line for line in thetarbm("figures", "table-1").err.splitlines() if "--source" in line)
    assert line.index("mnist-rot generated") < line.index("--source") < line.index("mnist-rot official")
    assert thetarbm("--quiet", "figures", "table-1").err == ""


def test_a_source_without_records_is_told_with_the_command_that_makes_them(thetarbm: Command, results: Path) -> None:
    refused = thetarbm("figures", "table-1", *TINY, "--source", "official")
    refused.assert_refused(" run rbm orbm tirbm theta", "--profile tiny --source official", code=1)
    assert not (results / "figures").exists()
