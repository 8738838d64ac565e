"""Write the JSON Schemas: of ``experiments.yaml``, and of what each command, and the benchmarks, print with ``--json``.

``make schema`` runs it. Each schema comes from the models that the package has anyway.
"""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import BaseModel

from benchmarks.report import Bench
from thetarbm_cli import storage
from thetarbm_cli.experiments.suite.schema import Suite
from thetarbm_cli.outputs import OUTPUTS

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schema"


def schema_text(model: type[BaseModel] = Suite) -> str:
    """The schema of a model as it stands in its file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def schemas() -> dict[Path, str]:
    """Content of every schema by its path."""
    models: dict[str, type[BaseModel]] = {"experiments": Suite, "bench": Bench, **OUTPUTS}
    return {FOLDER / f"{name}.schema.json": schema_text(model) for name, model in models.items()}


if __name__ == "__main__":
    for path, text in schemas().items():
        storage.write_text(path, text)
        print(path)
