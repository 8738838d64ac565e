"""Pages that are made from code and records."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import click
import pytest

from tests.docs.pages import DOCS, script
from tests.records import save, training_for
from thetarbm_cli.cli import COMMANDS, root
from thetarbm_cli.parameters import declared
from thetarbm_cli.registry import MODELS
from thetarbm_cli.reporting.claims import CLAIMS
from thetarbm_cli.reporting.render import outdated
from thetarbm_cli.suite import load_suite, shipped_path

SUITE = load_suite(shipped_path(), check_settings=False)


@pytest.fixture
def build_docs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script(monkeypatch, "build_docs")


def test_the_pages_are_current(build_docs: ModuleType) -> None:
    made = build_docs.pages()
    assert set(made) == {
        DOCS.parent / "README.md",
        *(DOCS / f"{name}.md" for name in ("cli", "reproduction", "beyond", "multiverse", "mnist-rot", "gpu")),
    }
    assert outdated(made) == [], "run make docs"


def test_the_reference_has_every_command_and_option() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option):
                assert option.help, f"{name} {option.opts[0]} has no help"
                for word in option.opts:
                    assert f"`{word}" in sections[f"thetarbm {name}"]
    for option in root.params:
        assert f"`{option.opts[0]}" in sections["Global options"]
    assert re.findall(r"^\| (\d+) \|", sections["Exit codes"], re.MULTILINE) == ["0", "1", "2", "3", "130"]
    for name in {name for model in MODELS.own for name in declared(model)}:
        assert f"- `{name}` (" in sections["Settings"]


def test_every_assumption_is_on_the_page_once_and_its_settings_in_the_reference() -> None:
    text, reference = ((DOCS / f"{name}.md").read_text(encoding="utf-8") for name in ("reproduction", "cli"))
    shown = re.findall(r"<!-- reading: ([a-z-]+) -->", text)
    assert sorted(shown) == sorted(assumption.name for assumption in SUITE.assumptions)
    for paragraph in re.findall(r"\*Settings:\*(.+?)\n\n", text, re.DOTALL):
        for name in re.findall(r"`([\w.]+)`", paragraph):
            assert f"- `{name}` (" in reference


def test_numbers_come_from_the_records(build_docs: ModuleType, tmp_path: Path) -> None:
    first, second = (
        next(cell for cell in SUITE.cells("paper") if cell.name == f"theta/sparsity={target}") for target in (0.3, 0.2)
    )
    for cell, seed, error in ((first, 0, 12.5), (first, 1, 13.5), (second, 0, 12.5)):
        save(tmp_path, training_for(cell, seed, test_error_percent=error, gamma_train=0.5, gamma_test=0.625))

    def words(text: str, beginning: str) -> list[str]:
        line = next(line for line in text.splitlines() if line.startswith(beginning))
        return [word.strip() for word in line.strip("|").split("|")]

    block = build_docs.block_maker(tmp_path)
    errors = words(block("table", "1"), "| θ-RBM")
    assert errors == ["θ-RBM", "13.00 ± 0.71 (10.31)", "12.50 (10.08)", "— (10.85)"]
    evidence = words(build_docs.pages(tmp_path)[DOCS / "reproduction.md"], "| `theta/sparsity=0.3`")
    assert (evidence[1], evidence[-1]) == ("13.00 ± 0.71 (10.31)", "2")
    assert "0.6250 ± 0.0000 (0.9062)" in evidence
    # With runs at two of three targets, no claim has all it needs.
    assert block("verdicts", "all").count("*no data*") == sum(
        claim.on != "other data" and not claim.beyond for claim in CLAIMS
    )
    # What is run on request may have no records.
    assert block("table", "fashion") == "No records yet: `thetarbm run fashion` makes them."
    assert block("launches", "all") == "No record yet: `make bench-launches` makes it."
