"""The record of the numerical checks of the paper's mathematics: ``<results>/theory.json``."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from thetarbm_cli import storage
from thetarbm_cli.experiments.settings import ALGORITHM
from thetarbm_cli.experiments.suite import Theory

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
    checks: list[dict[str, Any]]

    def value(self, name: str, rotation: str) -> float:
        """The number of the check whose name begins so, under one kind of rotation."""
        return next(
            float(check["value"])
            for check in self.checks
            if check["name"].startswith(name) and check["rotation"] == rotation
        )


def load_theory(results: Path) -> TheoryRecord | None:
    """The record of the checks; None if there is none that can be used."""
    path = results / f"{NAME}.json"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content.get("format") != FORMAT:
            raise ValueError(f"it has format {content.get('format')}")
        return TheoryRecord.model_validate(content)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        logger.warning("%s is damaged and not used: %s", path, reason)
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


def check_theory(results: Path, theory: Theory) -> TheoryRecord:
    """Do the checks on the shipped digits and record them."""
    from thetarbm_cli.data.samples import sample_digits
    from thetarbm_cli.measures.theorem import verify

    checks = verify(sample_digits(1000, theory.size), rotations=theory.rotations)
    record = TheoryRecord(
        algorithm=ALGORITHM,
        rotations=theory.rotations,
        size=theory.size,
        checks=[{**asdict(check), "value": float(check.value)} for check in checks],
    )
    text = json.dumps(record.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
    storage.write_text(results / f"{NAME}.json", text + "\n")
    return record
