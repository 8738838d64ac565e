"""Write the JSON Schemas: of ``experiments.yaml``, and of what each command, and the benchmarks, print with ``--json``.

``make schema`` runs it. Each schema comes from the types that the package has anyway.
"""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from thetarbm_cli import storage

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"
# What each command prints, as module:Type; several where it depends on the call.
TYPES = {
    "experiments": ("thetarbm_cli.suite:Suite",),
    "bench": ("benchmarks.report:Bench",),
    "bench-launches": ("benchmarks.launches:Launches",),
    "prepare-data": ("thetarbm_cli.data.prepared:PreparedData", "thetarbm_cli.data.prepared:PreparedSets"),
    "train": ("thetarbm_cli.commands.runs:Trained",),
    "evaluate": ("thetarbm_cli.commands.runs:EvaluatedRuns",),
    "perturb": ("thetarbm_cli.commands.runs:Perturbed",),
    "run": ("thetarbm_cli.commands.suite:SuiteRuns",),
    "status": ("thetarbm_cli.commands.suite:SuiteStatus",),
    "tables": ("thetarbm_cli.reporting.tables:Tables",),
    "multiverse": ("thetarbm_cli.reporting.multiverse:Multiverse",),
    "report": ("thetarbm_cli.commands.report:WrittenPage",),
    "figures": ("thetarbm_cli.commands.figures:Figures",),
    "list": ("thetarbm_cli.reporting.runs:ListedRuns",),
    "show": ("thetarbm_cli.reporting.runs:ShownRun", "thetarbm_cli.reporting.runs:ComparedRuns"),
    "pack": ("thetarbm_cli.commands.records:Packed",),
    "clean": ("thetarbm_cli.commands.records:Cleaned",),
    "verify": ("thetarbm_cli.measures.theory:Verified",),
    "info": ("thetarbm_cli.environment:Info",),
}


def schema_text(*targets: str) -> str:
    """Write the schema of a type, or of one of several, as it stands in its file."""
    kinds = []
    for target in targets:
        module, _, name = target.partition(":")
        kinds.append(getattr(importlib.import_module(module), name))
    union: Any = kinds[0]
    for kind in kinds[1:]:
        union = union | kind
    # What is None by default is left out of the output.
    schema = TypeAdapter(union).json_schema(mode="validation")
    return (
        json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}, indent=2, ensure_ascii=False)
        + "\n"
    )


def schemas() -> dict[Path, str]:
    """Give the content of every schema by its path."""
    return {FOLDER / f"{name}.schema.json": schema_text(*targets) for name, targets in TYPES.items()}


if __name__ == "__main__":
    for path, text in schemas().items():
        storage.write_text(path, text)
        print(path)
