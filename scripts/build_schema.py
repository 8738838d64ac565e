"""Write the JSON Schemas: of ``experiments.yaml``, and of what each command, and the benchmarks, print with ``--json``.

``make schema`` runs it. Each schema comes from the types that the package has anyway.
"""

from __future__ import annotations

import json
from functools import reduce
from importlib import import_module
from operator import or_
from pathlib import Path

from pydantic import TypeAdapter

from thetarbm_cli import storage

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"

# What each command prints: one of these types.
OUTPUTS: dict[str, list[str]] = {
    "prepare-data": ["thetarbm_cli.data.prepared:PreparedData", "thetarbm_cli.data.prepared:PreparedSets"],
    "train": ["thetarbm_cli.commands.runs:Trained"],
    "evaluate": ["thetarbm_cli.commands.runs:Evaluation"],
    "perturb": ["thetarbm_cli.commands.runs:Perturbed"],
    "run": ["thetarbm_cli.commands.suite:SuiteRuns"],
    "status": ["thetarbm_cli.commands.suite:SuiteStatus"],
    "tables": ["thetarbm_cli.reporting.tables:Tables"],
    "multiverse": ["thetarbm_cli.reporting.multiverse:Multiverse"],
    "report": ["thetarbm_cli.commands.report:WrittenPage"],
    "list": ["thetarbm_cli.reporting.runs:ListedRuns"],
    "show": ["thetarbm_cli.reporting.runs:ShownRun", "thetarbm_cli.reporting.runs:ComparedRuns"],
    "figures": ["thetarbm_cli.commands.figures:Figures"],
    "pack": ["thetarbm_cli.commands.records:Packed"],
    "clean": ["thetarbm_cli.commands.records:Cleaned"],
    "verify": ["thetarbm_cli.measures.theory:Verified"],
    "info": ["thetarbm_cli.environment:Info"],
}
OTHERS = {"experiments": ["thetarbm_cli.suite:Suite"], "bench": ["benchmarks.report:Bench"]}


def schema_text(kinds: list[str]) -> str:
    """Give the schema of one of some types, each named ``module:Type``, as it stands in its file."""
    named = [kind.split(":") for kind in kinds]
    union = reduce(or_, (getattr(import_module(module), name) for module, name in named))
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **TypeAdapter(union).json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def schemas() -> dict[Path, str]:
    """Give the content of every schema by its path."""
    return {FOLDER / f"{name}.schema.json": schema_text(kinds) for name, kinds in {**OTHERS, **OUTPUTS}.items()}


if __name__ == "__main__":
    for path, text in schemas().items():
        storage.write_text(path, text)
        print(path)
