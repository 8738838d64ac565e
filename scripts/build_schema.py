"""Write the JSON Schemas: of ``experiments.yaml``, and of what each command, and the benchmarks, print with ``--json``.

``make schema`` runs it. Each schema comes from the types that the package has anyway.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import TypeAdapter

from thetarbm_cli import storage

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"


<<<<<<< HEAD

def schema_text(kinds: list[str]) -> str:
    """Give the schema of one of some types, each named ``module:Type``, as it stands in its file."""
    named = [kind.split(":") for kind in kinds]
    union = reduce(or_, (getattr(import_module(module), name) for module, name in named))
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **TypeAdapter(union).json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
=======
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
>>>>>>> w-cli


def schemas() -> dict[Path, str]:
    """Give the content of every schema by its path."""
<<<<<<< HEAD
    return {FOLDER / f"{name}.schema.json": schema_text(kinds) for name, kinds in {**OTHERS, **OUTPUTS}.items()}
=======
    return {FOLDER / f"{name}.schema.json": schema_text(*targets) for name, targets in TYPES.items()}
>>>>>>> w-cli


if __name__ == "__main__":
    for path, text in schemas().items():
        storage.write_text(path, text)
        print(path)
