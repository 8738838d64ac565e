"""Print the lowest versions that `pyproject.toml` allows, as constraints for pip: ``make test-lowest`` installs them.

Only what the project names itself is held down; what those packages need in turn is as new as they take it.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"
# name, extras, the one bound, perhaps a marker
REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?>=([0-9.]+)(?:;.*)?")


def lowest(extras: list[str]) -> Iterator[str]:
    """One constraint for each requirement of the project and of some of its extras."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    requirements: list[str] = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    for requirement in dict.fromkeys(requirements):
        found = REQUIREMENT.fullmatch(requirement)
        if found is None:
            sys.exit(f"{requirement} in {PYPROJECT.name} has no lower bound of the form name>=version")
        yield f"{found[1]}=={found[2]}"


if __name__ == "__main__":
    print("\n".join(dict.fromkeys(lowest(sys.argv[1:]))))
