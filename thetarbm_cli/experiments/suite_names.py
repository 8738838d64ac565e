"""Names of runs, experiments, cells, tables and profiles, for who needs no more than these.

A shell that completes a word asks for them at every press of a key: nothing here imports NumPy or pydantic.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from thetarbm_cli.experiments.suite_file import MOST_CELLS, find_extras, find_suite, read_suite_text

# The parser in C is fifteen times as fast; without line numbers and checks it is all that names need.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class SuiteNames:
    """What a suite has by name.

    Attributes
    ----------
    experiments : what each is about, by its name
    cells : names of the cells of each experiment
    profiles : what each is about, by its name
    tables : the tables that its experiments stand in
    """

    experiments: dict[str, str]
    cells: dict[str, list[str]]
    profiles: dict[str, str]
    tables: tuple[str, ...]


NOTHING = SuiteNames({}, {}, {}, ())


def run_identifiers(folder: Path) -> list[str]:
    """Names of all runs in a folder of runs that have a record, sorted."""
    return sorted(path.parent.name for path in folder.glob("*/run.json"))


def cell_name(experiment: str, at: dict[str, Any]) -> str:
    """Name of a cell: ``theta/sparsity=0.3``, or the experiment's own name if it has one cell."""
    words = (f"{axis}={value:g}" if isinstance(value, float) else f"{axis}={value}" for axis, value in at.items())
    values = ",".join(words)
    return f"{experiment}/{values}" if values else experiment


def suite_names(given: Path | None = None) -> SuiteNames:
    """Names in a suite, which is read but not checked; one that cannot be read has none."""
    try:
        text = read_suite_text(find_suite(given))
        # The loader itself would follow aliases that grow, and nesting until its stack ends.
        if next(find_extras(text, LOADER), None) is not None:
            return NOTHING
        content = yaml.load(text, Loader=LOADER)
        experiments = {entry["name"]: entry for entry in content["experiments"]}
        return SuiteNames(
            {name: str(entry.get("about") or entry.get("label", "")) for name, entry in experiments.items()},
            {name: _cells(name, entry.get("grid", {})) for name, entry in experiments.items()},
            {name: str((profile or {}).get("about", "")) for name, profile in content["profiles"].items()},
            tuple(dict.fromkeys(str(table) for entry in experiments.values() for table in entry.get("tables", []))),
        )
    except (ValueError, yaml.YAMLError, KeyError, TypeError, AttributeError):
        return NOTHING


def _cells(experiment: str, grid: dict[str, list[Any]]) -> list[str]:
    if math.prod(len(values) for values in grid.values()) > MOST_CELLS:
        return []
    return [cell_name(experiment, dict(zip(grid, values, strict=True))) for values in itertools.product(*grid.values())]
