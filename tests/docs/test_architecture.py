"""The page on the architecture names what is there."""

from __future__ import annotations

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, blocks

PAGE = DOCS / "architecture.md"


def test_every_module_is_in_the_tree_with_a_line_of_its_own() -> None:
    shown, folders = [], []
    for line in blocks(PAGE)[0][1].splitlines():
        name, depth = line.split()[0], (len(line) - len(line.lstrip())) // 2
        folders[depth:] = [name.rstrip("/")]
        if name.endswith(".py"):
            shown.append(Path(*folders))
            assert len(line.split()) > 1, f"{name} has no description"
    modules = (path.relative_to(ROOT) for path in (ROOT / "thetarbm_cli").rglob("*.py"))
    assert sorted(shown) == sorted(path for path in modules if not path.name.startswith("__"))


@pytest.mark.parametrize("page", [PAGE, DOCS / "performance.md", DOCS / "extending.md"], ids=lambda page: page.name)
def test_every_name_of_the_code_exists(page: Path) -> None:
    named = re.findall(r"`([\w/]+)\.py: ([\w.]+)`", page.read_text(encoding="utf-8"))
    for path, name in named:
        module = importlib.import_module(f"thetarbm_cli.{path.replace('/', '.')}")
        assert reduce(getattr, name.split("."), module) is not None


def test_lines_are_short() -> None:
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
            assert len(line) < 120 or line.startswith("|"), f"{page.name}:{number}"
