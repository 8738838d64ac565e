from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.records import save, training_for
from tests.runs import Command
from tests.suites import write_suite
from thetarbm_cli.commands import suite as demo
from thetarbm_cli.suite import load_suite

SUITE = """\
format: 2
title: four models
profiles:
  paper: {seeds: 1}
  quick: {seeds: 1, set: {data.train: 300, data.test: 300, hidden: 20, epochs: 1}}
experiments:"""
EXPERIMENT = """
  - name: NAME
    label: NAME-RBM
    model: NAME
    grid: {sparsity: [0.3]}
    tables: ["1", "2"]
    published: [{at: {sparsity: 0.3}, test_error_percent: 10.0, gamma_train: 0.5, gamma_test: 0.5}]
"""


def test_the_demo_ends_in_numbers_of_every_model_a_figure_and_a_report(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo.os, "cpu_count", lambda: 1)
    monkeypatch.setattr(demo, "_driver_version", lambda: None)
    text = SUITE + "".join(EXPERIMENT.replace("NAME", model) for model in demo.MODELS)
    out = tmp_path / "demo"
    done = thetarbm("demo", "--suite", str(write_suite(tmp_path, text)), "--out", str(out), "--backend", "numpy")
    assert done.code == 0
    assert "no GPU: NumPy" in done.err
    lines = [line for line in done.out.splitlines() if "RBM" in line][:5]
    assert len(lines) == 5
    for line in lines:
        numbers = [cell.strip() for cell in line.split("|")[2:4]]
        assert all(re.fullmatch(r"\d+\.\d+", number) for number in numbers)
    assert (out / "filters-theta.png").is_file()
    # Without any at full size, the page is of the runs that were made just now.
    page = (out / "report.html").read_text(encoding="utf-8")
    runs = [path.name for path in (out / "runs").iterdir()]
    assert len(runs) == 4
    assert all(run in page for run in runs)
    assert f"--results {out}" in page
    # With them, it has no holes.
    suite = load_suite(tmp_path / "suite.yaml")
    numbers = {"test_error_percent": 12.34, "gamma_train": 0.5, "gamma_test": 0.5}
    recorded = [training_for(cell, 0, **numbers) for cell in suite.cells("paper")]
    save(tmp_path / "results", *recorded)
    done = thetarbm("demo", "--suite", str(tmp_path / "suite.yaml"), "--out", str(out), "--backend", "numpy")
    assert done.code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert all(record.run in page for record in recorded)
    assert not any(run in page for run in runs)
    assert re.search(rf"quick   thetarbm .*--results {out} report --open .*--profile quick", done.out)


def test_the_extra_is_that_of_the_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo._driver_version() is None
    script = tmp_path / "nvidia-smi"
    for version, extra in (("12.4", "12"), ("20.1", "13"), ("11.8", None)):
        script.write_text(f"#!/bin/sh\necho '| NVIDIA-SMI 550.1   Driver Version: 550.1   CUDA Version: {version} |'\n")
        script.chmod(0o755)
        assert demo._driver_version() == extra
