"""Write the JSON Schema of ``experiments.yaml`` from the model that checks it; ``make schema`` runs it."""

from __future__ import annotations

import json
from pathlib import Path

from thetarbm_cli import storage
from thetarbm_cli.experiments.suite import Suite

TARGET = Path(__file__).resolve().parent.parent / "docs" / "schema" / "experiments.schema.json"


def schema_text() -> str:
    """The schema as it stands in the file."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **Suite.model_json_schema()}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    storage.write_text(TARGET, schema_text())
    print(TARGET)
