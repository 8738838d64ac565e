"""The command line as a user meets it, mostly in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from tests.runs import PATIENCE_SECONDS, Command, Outcome, call
from thetarbm_cli import __version__
from thetarbm_cli.cli import COMMANDS
from thetarbm_cli.commands.common import Session, pass_session


def try_command(body: str) -> ModuleType:
    """A module with a command that does what it is given."""

    @click.command("try")
    @pass_session
    @click.pass_context
    def command(ctx: click.Context, session: Session) -> None:
        exec(compile(body, "<try>", "exec"), {"session": session, "ctx": ctx})

    module = ModuleType("try")
    module.command = command
    return module


def thetarbm(*arguments: str, stdout: int = subprocess.PIPE, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    return subprocess.run(
        [sys.executable, "-m", "thetarbm_cli", *arguments],
        env={**clean, "PYTHONIOENCODING": "utf-8", **variables},
        stdout=stdout,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=PATIENCE_SECONDS,
        check=False,
    )


@pytest.fixture
def attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line in this process, with one more command that does what it is given."""

    def call_try(body: str, *options: str, **variables: str) -> Outcome:
        monkeypatch.setitem(sys.modules, "thetarbm_cli.commands.try", try_command(body))
        monkeypatch.setitem(COMMANDS, "try", ("try", ""))
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return call(tmp_path, tmp_path, *options, "try")

    return call_try


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, tmp_path: Path) -> None:
    done = call(tmp_path, tmp_path, name, "-h")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"Usage: thetarbm {name}")
    assert call(tmp_path, tmp_path, "help", name) == done


def test_console_script_and_module_are_the_same_and_show_the_help_without_arguments() -> None:
    script = Path(sys.executable).with_name("thetarbm")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == thetarbm("--version").stdout == f"thetarbm, version {__version__}\n"
    bare = thetarbm()
    assert (bare.returncode, bare.stdout) == (0, thetarbm("--help").stdout)
    assert all(re.search(rf"^  {name} ", bare.stdout, re.MULTILINE) for name in COMMANDS)


def test_global_options_have_variables_and_the_option_wins(tmp_path: Path) -> None:
    def info(*words: str) -> list[Any]:
        sheet = json.loads(thetarbm(*words, **variables).stdout)
        return [sheet[name] for name in ("data_dir", "results_dir", "backend_reason", "threads")]

    data, results, other = (str(tmp_path / name) for name in ("data", "results", "other"))
    variables = {"THETARBM_DATA_DIR": data, "THETARBM_RESULTS": results, "THETARBM_THREADS": "2"}
    variables["THETARBM_BACKEND"] = "numpy"
    assert json.loads(thetarbm("info", "--json").stdout)["results_dir"] == str(Path("results").resolve())
    assert info("info", "--json") == info("--json", "info") == [data, results, "asked for", 2]
    # Before the command or after it.
    changed = [other, results, "asked for", 1]
    assert info("--data-dir", other, "--threads", "1", "info", "--json") == changed
    assert info("info", "--json", f"--data-dir={other}", "--quiet", "--threads", "1") == changed


MESSAGES = """
import logging
session.say("said")
logging.getLogger("thetarbm").info("informed")
logging.getLogger("thetarbm").warning("warned")
print("result")
"""


def test_messages_go_to_stderr_and_quiet_leaves_results_and_warnings(attempt: Command) -> None:
    assert attempt(MESSAGES) == Outcome(0, "result\n", "said\ninformed\nwarning: warned\n")
    for options, variables in ((["--quiet"], {}), ([], {"THETARBM_QUIET": "1"})):
        assert attempt(MESSAGES, *options, **variables) == Outcome(0, "result\n", "warning: warned\n")


@pytest.mark.parametrize(
    ("body", "code", "fact"),
    [
        ("from thetarbm_cli.errors import InputError; raise InputError('bad input')", 2, "bad input"),
        ("from thetarbm_cli.errors import ThetaRBMError; raise ThetaRBMError('it failed')", 1, "it failed"),
        ("open('/no/such/file')", 1, "/no/such/file"),
        ("raise MemoryError", 1, "--hidden"),
        ("raise ValueError('two\\nlines')", 1, "ValueError: two lines"),
        # Click takes an EOFError for Ctrl-D at a prompt; here it is a file that ends too early.
        ("raise EOFError('short file')", 1, "EOFError: short file"),
    ],
)
def test_errors_are_one_sentence(attempt: Command, body: str, code: int, fact: str) -> None:
    done = attempt(body)
    assert (done.code, done.out, done.err.count("\n")) == (code, "", 1)
    assert done.err.startswith("error: ")
    assert fact in done.err


def test_debug_shows_the_traceback_before_the_sentence(attempt: Command) -> None:
    first, *_, last = attempt("raise ValueError('why')", "--debug").err.splitlines()
    assert first == "Traceback (most recent call last):"
    assert last.startswith("error: unexpected ValueError: why")


def test_reader_that_went_away_gets_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = thetarbm("--debug", "info", "--json", stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_a_code_page_without_greek_gets_question_marks() -> None:
    done = thetarbm("tables", "--table", "γ", PYTHONIOENCODING="cp1252", PYTHONUTF8="0")
    assert (done.returncode, "there is no table '?'" in done.stderr) == (2, True)
