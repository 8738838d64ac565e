"""The scripts of the make targets about dependencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import script

KNOWN: dict[str, Any] = {"name": "numpy", "version": "2.0", "vulns": []}
UNKNOWN: dict[str, Any] = {"name": "scipy", "skip_reason": "not found"}
WEAK: dict[str, Any] = {"name": "jinja2", "version": "3.1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.3"]}]}


def test_every_requirement_has_a_lowest_version(monkeypatch: pytest.MonkeyPatch) -> None:
    constraints = set(script(monkeypatch, "lowest_versions").lowest(["test", "cluster"]))
    assert {"numpy==1.26", "dask==2024.5"} <= constraints
    assert len(constraints) == len({constraint.split("==")[0] for constraint in constraints})


def test_a_requirement_without_a_lowest_version_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    module = script(monkeypatch, "lowest_versions")
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["numpy<3"]\n')
    monkeypatch.setattr(module, "PYPROJECT", tmp_path / "pyproject.toml")
    with pytest.raises(SystemExit, match=r"numpy<3 in pyproject\.toml has no lower bound"):
        list(module.lowest([]))


@pytest.mark.parametrize(
    ("told", "code", "words"),
    [
        ([KNOWN], 0, "0 known vulnerabilities; 1 of 1 packages were audited"),
        ([KNOWN, WEAK], 1, "jinja2 3.1.0: PYSEC-1, mended in 3.1.3"),
        ([UNKNOWN, WEAK], 1, "1 known vulnerabilities; 1 of 2 packages were audited"),
        ([KNOWN, UNKNOWN], 2, "the others are not audited"),
        ([UNKNOWN], 2, "0 known vulnerabilities; 0 of 1 packages were audited"),
        ([], 2, "not audited"),
    ],
)
def test_what_was_not_audited_is_never_taken_for_fine(
    monkeypatch: pytest.MonkeyPatch, told: list[dict[str, Any]], code: int, words: str
) -> None:
    found, sentences = script(monkeypatch, "audit").judge(told)
    assert found == code
    assert words in sentences
