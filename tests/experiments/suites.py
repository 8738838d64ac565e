"""Suites and records for tests: small ones that run, and records that were never run."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.experiments.runs import context_of
from thetarbm_cli.experiments.execution.plan import PlannedRun, make_plan
from thetarbm_cli.experiments.runs.record import MetricsPart, RunRecord, SuitePart
from thetarbm_cli.experiments.runs.settings import ALGORITHM, CHANGED_DEFAULTS, run_id
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.models import model_class

# Two models over two targets, and one more experiment that shares a run with the first.
SMALL = """\
format: 1
title: small
profiles:
  paper: {seeds: 2}
  tiny:
    seeds: 1
    data: {train: 300, valid: 100, test: 300}
    parameters: {hidden: 20, epochs: 3}
experiments:
  - name: rbm
    label: RBM
    model: rbm
    grid: {sparsity: [0.3, 0.1]}
    tables: ["1", "2"]
    published:
      - {at: {sparsity: 0.3}, test_error_percent: 15.41, gamma_train: 0.1746, gamma_test: 0.1775}
  - name: theta
    label: θ-RBM
    model: theta
    grid: {sparsity: [0.3, 0.1]}
    measures: [error]
    tables: ["1"]
  - name: again
    label: the same
    model: rbm
    parameters: {sparsity: 0.3}
    measures: [error]
"""

# The middle one of three diverges.
FAILING = """\
format: 1
title: failing
profiles:
  tiny:
    data: {train: 300, valid: 100, test: 300}
    parameters: {hidden: 10, epochs: 2}
experiments:
  - {name: first, label: first, model: rbm, measures: [error]}
  - {name: second, label: second, model: rbm, measures: [error], parameters: {learning_rate: 1000000.0}}
  - {name: third, label: third, model: rbm, measures: [error], parameters: {momentum: 0.5}}
"""

SHA = {"generated": "a" * 64, "official": "b" * 64, "leaves.npz": "c" * 64, "mnist": "d" * 64, "fashion-rot": "f" * 64}
SHA["bilinear"] = "e" * 64


# How records name the small suite.
SUITE = SuitePart(file="suite.yaml", title="small")


def write_suite(folder: Path, text: str = SMALL) -> Path:
    path = folder / "suite.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def planned_runs(small_data: Path, folder: Path, text: str = SMALL, seeds: int = 1) -> list[PlannedRun]:
    """The runs of a suite in a folder of its own, which has the results, too."""
    cells = load_suite(write_suite(folder, text)).cells("tiny")
    return make_plan(context_of(small_data, folder), cells, seeds=seeds, suite=SUITE)


def record_for(cell: Cell, seed: int = 0, *, source: str = "generated", **numbers: float) -> RunRecord:
    """A record as a run of the cell would leave it, with these numbers."""
    source = cell.at.get("source", source)
    # With the defaults of today, which some tests change.
    key = repr((cell, seed, source, CHANGED_DEFAULTS, model_class(cell.model).default_settings()))
    bare = _BARE.get(key) or _BARE.setdefault(key, _bare_record(cell, seed, source))
    # What a test may change is its own.
    own = {name: deepcopy(getattr(bare, name)) for name in ("seeds", "data", "environment", "history", "timings")}
    return bare.model_copy(update={**own, "metrics": MetricsPart.model_validate(metrics(**numbers))})


# Records without numbers: hundreds of tests ask for those of the whole suite, and an id is dear.
_BARE: dict[str, RunRecord] = {}


def _bare_record(cell: Cell, seed: int, source: str) -> RunRecord:
    settings = cell.settings()
    settings = settings.model_copy(update={"data": settings.data.model_copy(update={"source": source})})
    own = f"{settings.data.seed:064x}" if settings.data.seed else SHA[source]
    learned, tested = (SHA.get(dataset, own) for dataset in (settings.data.train_on, settings.data.tested_on))
    data = {
        "train": {"dataset": settings.data.train_on, "source": source, "sha256": learned},
        "test": {"dataset": settings.data.tested_on, "source": source, "sha256": tested},
    }
    return RunRecord(
        algorithm=ALGORITHM,
        run=run_id(settings, {"train": learned, "test": tested}, seed),
        state="done",
        settings=settings,
        parameters=settings.complete_parameters,
        seed=seed,
        seeds={},
        data=data,
        environment={},
        history=[],
        timings={"train_seconds": 10.0 if settings.model == "tirbm" else 1.0},
        peak_memory_megabytes=1.0,
        cells=[f"{cell.name}@{cell.profile}"],
        suite=SUITE,
    )


def metrics(**numbers: float) -> dict[str, Any]:
    """Metrics of a record by the names of the tables' columns."""
    aligned: dict[str, Any] = {}
    unaligned: dict[str, Any] = {}
    for name, number in numbers.items():
        target = unaligned if name.endswith("_unaligned") else aligned
        name = name.removesuffix("_unaligned")
        if name == "test_error_percent":
            target["svm"] = {name: number}
        else:
            target.setdefault("gamma", {"offset": 20.0})[name.removeprefix("gamma_")] = {"mean": number}
    return {**aligned, **({"unaligned": unaligned} if unaligned else {})}


def metrics_of(record: RunRecord) -> dict[str, Any]:
    """What was measured on a run, as its file has it."""
    return record.metrics.model_dump() if record.metrics else {}


def save(results: Path, *records: RunRecord) -> None:
    for record in records:
        RunStore(results).save(record)


def lasting(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what differs between two equal runs: times, memory and where they were made."""
    return {name: record[name] for name in record if name not in ("timings", "environment", "peak_memory_megabytes")}
