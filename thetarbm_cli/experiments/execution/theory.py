"""The record of the numerical checks of the paper's mathematics: ``<results>/theory.json``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from thetarbm_cli import documents, storage
from thetarbm_cli.experiments.runs.record import CheckPart, load_document
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.suite.schema import Theory
from thetarbm_cli.outputs import SuiteRun

FORMAT = 1
NAME = "theory"


class TheoryRecord(BaseModel):
    """What ``theory.json`` holds."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    algorithm: int
    rotations: int
    size: int
    checks: list[CheckPart]


def load_theory(results: Path) -> TheoryRecord | None:
    """The record of the checks; None if there is none that can be used."""
    return load_document(TheoryRecord, results / f"{NAME}.json", FORMAT)


def why_due(results: Path, theory: Theory) -> str:
    """Why the checks are due; empty if they are recorded."""
    record = load_theory(results)
    if record is None:
        return "never run"
    if record.algorithm != ALGORITHM:
        return f"algorithm version changed from {record.algorithm} to {ALGORITHM}"
    for name in ("rotations", "size"):
        before, after = getattr(record, name), getattr(theory, name)
        if before != after:
            return f"{name} changed from {before} to {after}"
    return ""


def do_theory(results: Path, theory: Theory | None, on_start: Callable[[str], None]) -> SuiteRun | None:
    """Record the numerical checks if they are asked for and due."""
    if theory is None:
        return None
    reason = why_due(results, theory)
    if reason:
        on_start(reason)
        check_theory(results, theory)
    return theory_run("done" if reason else "cached", reason)


def theory_run(state: Literal["done", "cached", "pending"], reason: str) -> SuiteRun:
    """List the numerical checks among the runs."""
    return SuiteRun(run=NAME, experiment=NAME, cell=NAME, seed=0, state=state, reason=reason)


def check_theory(results: Path, theory: Theory) -> None:
    """Do the checks on the shipped digits and record them; if another process is at it, wait for what it records."""
    from thetarbm_cli.data.sources.mnist import sample_digits
    from thetarbm_cli.measures.theory import verify

    path = results / f"{NAME}.json"
    documents.refuse_newer(path, FORMAT)
    with storage.locked(path):
        if not why_due(results, theory):
            return
        checks = verify(sample_digits(1000, theory.size), rotations=theory.rotations)
        record = TheoryRecord(
            algorithm=ALGORITHM,
            rotations=theory.rotations,
            size=theory.size,
            checks=[CheckPart(**dict(check)) for check in checks],
        )
        documents.write(path, record.model_dump(mode="json"))
