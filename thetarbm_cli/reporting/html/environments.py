"""Where the runs of the page were made: each environment once, with the revisions of the code and their runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from thetarbm_cli.experiments.runs.store import RunRecord

REVISION = "git"


@dataclass(frozen=True)
class Environment:
    """What some runs have in common.

    Attributes
    ----------
    facts : names and values, in the order of the records
    revisions : each revision of the code with the ids of its runs, those with the most runs first
    """

    facts: list[tuple[str, str]]
    revisions: list[tuple[str, list[str]]]

    @property
    def count(self) -> int:
        """How many runs."""
        return sum(len(runs) for _, runs in self.revisions)


def environments(records: Sequence[RunRecord]) -> list[Environment]:
    """The environments of the records, the one with the most runs first."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        machine = {name: _ordered(value) for name, value in record.environment.items() if name != REVISION}
        groups.setdefault(json.dumps(machine, sort_keys=True), []).append(record)
    order = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return [
        Environment(
            [(name, words(_ordered(value))) for name, value in group[0].environment.items() if name != REVISION],
            _revisions(group),
        )
        for _, group in order
    ]


def _revisions(records: list[RunRecord]) -> list[tuple[str, list[str]]]:
    found: dict[str, list[str]] = {}
    for record in records:
        git = record.environment.get(REVISION) or {}
        name = git.get("revision") or "not recorded"
        found.setdefault(f"{name}{', changed' if git.get('dirty') else ''}", []).append(record.run)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _ordered(value: Any) -> Any:
    """Lists in one order: libraries are found in the order in which they were loaded."""
    if isinstance(value, list):
        return sorted(value, key=lambda each: json.dumps(each, sort_keys=True))
    return value


def words(value: Any) -> str:
    """A value of a record as people read it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{name} {words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(words, value))
    return str(value)
