"""The record of the numerical checks of the paper's mathematics: ``<results>/theory.json``."""

from __future__ import annotations

import logging
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from thetarbm_cli import documents, storage
from thetarbm_cli.experiments.runs.record import CheckPart, validated
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.suite.schema import Theory

FORMAT = 1
NAME = "theory"

logger = logging.getLogger("thetarbm")


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
    path = results / f"{NAME}.json"
    try:
        content = documents.read(path)
        documents.check_format(content, FORMAT)
        return validated(TheoryRecord, content)
    except FileNotFoundError:
        return None
    except ValueError as error:
        logger.warning("%s is not used: %s", path, error)
        return None


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


def check_theory(results: Path, theory: Theory) -> None:
    """Do the checks on the shipped digits and record them; if another process is at it, wait for what it records."""
    documents.refuse_newer(results / f"{NAME}.json", FORMAT)
    with storage.locked(results / f"{NAME}.json"):
        if why_due(results, theory):
            _check(results, theory)


def _check(results: Path, theory: Theory) -> None:
    from thetarbm_cli.data.sources.mnist import sample_digits
    from thetarbm_cli.measures.theory import verify

    checks = verify(sample_digits(1000, theory.size), rotations=theory.rotations)
    record = TheoryRecord(
        algorithm=ALGORITHM,
        rotations=theory.rotations,
        size=theory.size,
        checks=[CheckPart(**dict(check)) for check in checks],
    )
    documents.write(results / f"{NAME}.json", record.model_dump(mode="json"))
