"""Every call of the program that the docs show must be one that it takes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click
import pytest

from tests.docs.pages import PAGES, commands
from thetarbm_cli.cli import COMMANDS, root
from thetarbm_cli.registry import MODELS, ModelEntry
from thetarbm_cli.specs import measuring, parse_assignments, train_spec


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The calls that were understood, none of which is carried out."""
    made: list[tuple[str, dict[str, Any]]] = []
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        # A call sets these for its process, which is the tests' here.
        monkeypatch.setenv(variable, "1")
    # The plug-in of extending.md, which is not installed here.
    averaged = ModelEntry("averaged", "thetarbm_cli.models:RBM", "averaged")
    monkeypatch.setitem(vars(MODELS), "_plugins", {averaged.name: averaged})
    for name in COMMANDS:
        command = root.get_command(click.Context(root), name)
        assert command is not None
        monkeypatch.setattr(command, "callback", lambda *_, name=name, **options: made.append((name, options)))
    return made


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda page: page.name)
def test_commands_in_the_docs_are_understood(page: Path, calls: list[tuple[str, dict[str, Any]]]) -> None:
    lines = commands(page)
    for line in lines:
        root.main(shlex.split(line, comments=True)[1:], prog_name="thetarbm", standalone_mode=False)
    assert len(calls) == len(lines)
    for name, options in calls:
        if name == "train" and options["model"] in MODELS.own:
            assigned = parse_assignments(options["assignments"])
            given = {each: options[each] for each in ("sparsity", "tensor", "rotation", "epochs", "hidden")}
            named = {**{key: value for key, value in given.items() if value is not None}, **assigned}
            train_spec(options["model"], named)
        elif name == "evaluate":
            measuring(parse_assignments(options["assignments"]))
