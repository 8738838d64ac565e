"""One run at a glance: what ``thetarbm show`` knows of it, from its record, its folder and the suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thetarbm_cli import storage
from thetarbm_cli.experiments.runs.retraining import retrain_command
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunRecord, RunStore
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.reporting.layout import DIGITS, PUBLISHED_DIGITS
from thetarbm_cli.reporting.values import ERROR, GAMMA_TEST, GAMMA_TRAIN, UNALIGNED, measure

COLUMNS = (ERROR, GAMMA_TRAIN, GAMMA_TEST)
CURVES = ("reconstruction_error", "mean_activation")
THERE, MISSING, DAMAGED = "there", "missing", "damaged"


def glance(store: RunStore, record: RunRecord, suite: Suite) -> dict[str, Any]:
    """All of it as ``show --json`` tells it."""
    settings, metrics = record.settings, record.metrics or {}
    cells = cells_of(record, suite)
    gamma = metrics.get("gamma", {})
    return {
        "run": record.run,
        "model": settings.model,
        "state": record.state,
        "error": record.error,
        "algorithm": record.algorithm,
        "current": record.algorithm == ALGORITHM,
        "seed": record.seed,
        "settings": settings.parameters,
        "perturbation": settings.perturbation.model_dump() if settings.perturbation else None,
        "svm": settings.svm.model_dump(exclude_defaults=True),
        "data": {
            **record.data,
            "protocol": settings.data.protocol,
            "seed": settings.data.seed,
            "images": {name: getattr(settings.data, name) for name in ("train", "valid", "test")},
        },
        "cells": list(dict.fromkeys([*(f"{cell.name}@{cell.profile}" for cell in cells), *record.cells])),
        "metrics": [number for column in _columns(metrics) if (number := _number(record, column, cells))],
        "dead_units": gamma.get("test", {}).get("dead_units"),
        "grid_search": metrics.get("grid_search"),
        "epochs": len(record.history),
        "history": {curve: [epoch[curve] for epoch in record.history if curve in epoch] for curve in CURVES},
        "timings": record.timings,
        "peak_memory_megabytes": record.peak_memory_megabytes,
        "environment": record.environment,
        "path": str(store.path(record.run)),
        "files": _files(store.path(record.run)),
        "weights": _weights(store, record),
        "train_command": retrain_command(record),
    }


def cells_of(record: RunRecord, suite: Suite) -> list[Cell]:
    """The cells of the tables, in any profile, that a run belongs to; the user's own images are in none."""
    if record.data.get("test", {}).get("dataset") != "mnist-rot":
        return []
    return [
        cell
        for profile in suite.profiles
        for cell in suite.cells(profile, in_tables=True)
        if cell.fits(record, any_source=True)
    ]


def _columns(metrics: dict[str, Any]) -> list[str]:
    """Columns that a record may have; the O-RBM's on images that are not aligned come after its own."""
    return [*COLUMNS, *(f"{column}{UNALIGNED}" for column in COLUMNS if "unaligned" in metrics)]


def _number(record: RunRecord, column: str, cells: list[Cell]) -> dict[str, Any] | None:
    """A measured number beside the paper's, with the digits that each has in the tables."""
    value = measure(record, column)
    if value is None:
        return None
    plain = column.removesuffix(UNALIGNED)
    cell = next((cell for cell in cells if plain in cell.published), None)
    published = cell.published[plain] if cell else None
    return {
        "column": column,
        "value": value,
        "digits": DIGITS[plain],
        "published": published,
        "published_digits": min((PUBLISHED_DIGITS.get(table, DIGITS[plain]) for table in cell.tables), default=None)
        if cell
        else None,
        "difference": None if published is None else round(value - published, 6),
        "cell": cell.name if cell else None,
    }


def _files(folder: Path) -> list[dict[str, Any]]:
    """Files of a run, without locks and what is half written."""
    return [
        {"name": path.name, "bytes": path.stat().st_size}
        for path in sorted(folder.iterdir())
        if path.is_file() and not path.name.startswith(".") and path.suffix != ".lock"
    ]


def _weights(store: RunStore, record: RunRecord) -> str:
    path = store.weights_path(record.run)
    if not path.is_file():
        return MISSING
    return THERE if storage.sha256_of_file(path) == record.weights_sha256 else DAMAGED
