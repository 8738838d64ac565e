"""What changed between a recorded run and the settings that are wanted now, in words."""

from __future__ import annotations

from typing import Any

from thetarbm_cli.experiments.runs.settings import RunSettings
from thetarbm_cli.experiments.runs.store import RunRecord


def changes(record: RunRecord, settings: RunSettings) -> list[str]:
    """One sentence for each difference, as ``parameter floor changed from 0.0 to 0.1``."""
    wanted = settings.complete_parameters
    found = record.parameters
    differences = [
        _changed(f"parameter {name}", found.get(name), wanted.get(name))
        for name in dict.fromkeys((*wanted, *found))
        if found.get(name) != wanted.get(name)
    ]
    for section in ("data", "perturbation", "svm"):
        before, after = getattr(record.settings, section), getattr(settings, section)
        old: dict[str, Any] = before.model_dump() if before else {}
        new: dict[str, Any] = after.model_dump() if after else {}
        differences += [
            _changed(f"{section} {name}", old.get(name), new.get(name))
            for name in dict.fromkeys((*new, *old))
            if old.get(name) != new.get(name)
        ]
    if record.settings.model != settings.model:
        differences.insert(0, _changed("model", record.settings.model, settings.model))
    return differences


def _changed(what: str, before: Any, after: Any) -> str:
    return f"{what} changed from {_word(before)} to {_word(after)}"


def _word(value: Any) -> str:
    return "none" if value is None else str(value)
