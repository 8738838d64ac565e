"""Pages that are made from code and records."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from tests.docs.pages import DOCS, script
from tests.experiments.suites import record_for, save
from tests.reporting.numbers import SUITE
from thetarbm_cli.cli import COMMANDS, root
from thetarbm_cli.models import model_class
from thetarbm_cli.registry import MODELS
from thetarbm_cli.reporting.claims import CLAIMS
from thetarbm_cli.reporting.render import outdated


@pytest.fixture
def build_docs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script(monkeypatch, "build_docs")


def test_the_pages_are_current(build_docs: ModuleType) -> None:
    made = build_docs.pages()
    assert set(made) == {
        DOCS.parent / "README.md",
        *(DOCS / f"{name}.md" for name in ("cli", "reproduction", "beyond")),
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
    for variable in ("DATA_DIR", "RESULTS", "BACKEND", "THREADS", "QUIET", "DEBUG"):
        assert f"`THETARBM_{variable}`" in sections["Global options"]
    assert re.findall(r"^\| (\d+) \|", sections["Exit codes"], re.MULTILINE) == ["0", "1", "2", "3", "130"]
    for name in {name for model in MODELS.own for name in model_class(model).default_settings()}:
        assert f"| `{name}` |" in sections["Settings"]
    assert "| `--seed INTEGER` | `0` |" in sections["Options of several commands"]
    assert (
        "| `--model rbm\\|orbm\\|tirbm\\|theta\\|theta-local\\|pixels\\|aligned-pixels` | **required** |"
        in sections["thetarbm train"]
    )


def test_every_assumption_is_on_the_page_once() -> None:
    text = (DOCS / "reproduction.md").read_text(encoding="utf-8")
    shown = re.findall(r"<!-- reading: ([a-z-]+) -->", text)
    assert sorted(shown) == sorted(assumption.name for assumption in SUITE.assumptions)
    for assumption in SUITE.assumptions:
        assert f"**Reading.** {assumption.reading} **Why.** {assumption.why} " in " ".join(text.split())
    # A block that is not closed would swallow the next one.
    assert len(re.findall(r"<!-- (?:reading|table): [a-z0-9-]+ -->", text)) == text.count("<!-- end -->")


def test_numbers_come_from_the_records(build_docs: ModuleType, tmp_path: Path) -> None:
    (cell,) = (cell for cell in SUITE.cells("paper") if cell.name == "theta/sparsity=0.3")
    numbers = {"test_error_percent": 12.5, "gamma_train": 0.5, "gamma_test": 0.625}
    save(tmp_path, record_for(cell, **numbers), record_for(cell, seed=1, **{**numbers, "test_error_percent": 13.5}))
    text = build_docs.pages(tmp_path)[DOCS / "reproduction.md"]
    lines = [line for line in text.splitlines() if line.startswith("| `theta/sparsity=0.3`")]
    assert lines
    for line in lines:
        words = [word.strip() for word in line.strip("|").split("|")]
        assert words[1:3] == ["13.00 ± 0.71 (10.31)", "0.6250 ± 0.0000 (0.9062)"]
        assert words[-1] == "2"


def test_tables_and_verdicts_come_from_the_records(build_docs: ModuleType, tmp_path: Path) -> None:
    (cell,) = (cell for cell in SUITE.cells("paper") if cell.name == "theta/sparsity=0.2")
    save(tmp_path, record_for(cell, test_error_percent=12.5, gamma_train=0.5, gamma_test=0.625))
    block = build_docs.block_maker(tmp_path)
    table = block("table", "1")
    assert table.startswith("### Table 1: test error")
    (line,) = (line for line in table.splitlines() if line.startswith("| θ-RBM"))
    assert [word.strip() for word in line.strip("|").split("|")] == [
        "θ-RBM",
        "— (10.31)",
        "**12.50** (10.08)",
        "— (10.85)",
    ]
    assert block("verdicts", "all").count("*no data*") == sum(claim.on != "other data" for claim in CLAIMS)
    # What is run on request may have no records.
    assert block("table", "fashion") == "No records yet: `thetarbm run fashion` makes them."


def test_text_outside_the_blocks_stays(build_docs: ModuleType) -> None:
    page = "before\n<!-- reading: a-b -->\nold\n<!-- end -->\nbetween\n<!-- table: c -->\n<!-- end -->\nafter\n"
    made = build_docs.filled(page, lambda kind, name: f"{kind} of {name} \\1")
    assert made == (
        "before\n<!-- reading: a-b -->\n\nreading of a-b \\1\n\n<!-- end -->\nbetween\n"
        "<!-- table: c -->\n\ntable of c \\1\n\n<!-- end -->\nafter\n"
    )
    assert build_docs.filled(made, lambda kind, name: f"{kind} of {name} \\1") == made


def test_check_finds_a_page_that_is_not_current(
    build_docs: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for page in ("cli.md", "reproduction.md"):
        shutil.copy(DOCS / page, tmp_path / page)
    monkeypatch.setattr(build_docs, "REFERENCE", tmp_path / "cli.md")
    monkeypatch.setattr(build_docs, "FILLED", (tmp_path / "reproduction.md",))
    monkeypatch.setattr(sys, "argv", ["build_docs.py"])
    assert build_docs.main() == 0
    right = (tmp_path / "cli.md").read_bytes()
    wrong = right.replace(b"--seed", b"--sead")
    (tmp_path / "cli.md").write_bytes(wrong)
    capsys.readouterr()

    monkeypatch.setattr(sys, "argv", ["build_docs.py", "--check"])
    assert build_docs.main() == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == f"{tmp_path / 'cli.md'} is not what code and records give; make docs writes it\n"
    assert (tmp_path / "cli.md").read_bytes() == wrong

    monkeypatch.setattr(sys, "argv", ["build_docs.py"])
    assert build_docs.main() == 0
    assert (tmp_path / "cli.md").read_bytes() == right
