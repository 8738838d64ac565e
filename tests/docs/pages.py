"""The pages of the docs as tests read them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and text of every code block."""
    return FENCE.findall(page.read_text(encoding="utf-8"))


def without_code(page: Path) -> str:
    """A page without code blocks and code in the line."""
    return re.sub(r"`[^`\n]+`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def commands(page: Path) -> list[str]:
    """Every call of thetarbm in the code blocks, without the prompt before it; lines on usage are none."""
    lines = (line.removeprefix("$ ") for _, text in blocks(page) for line in text.splitlines())
    return [line for line in lines if line.startswith("thetarbm ") and "OPTIONS]" not in line]


def script(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """A module of the scripts."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module(name)
