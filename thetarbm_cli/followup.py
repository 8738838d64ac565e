"""Build the commands that messages suggest, so that a shell does with them what the call that printed them meant.

A suggestion repeats the global options and the suite of the call. Who builds one names the command and what is its
own; the options of the call are set once, where the command line is read, and are none in Python.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

SUITE_COMMANDS = ("clean", "figures", "multiverse", "perturb", "report", "run", "show", "status", "tables")


@dataclass(frozen=True)
class CallOptions:
    """The options of a call that a suggested command repeats.

    Attributes
    ----------
    words : global options as they stand before the command
    suite : the file of ``--suite``, or None
    """

    words: tuple[str, ...] = ()
    suite: Path | None = None


_options: ContextVar[CallOptions] = ContextVar("options", default=CallOptions())  # noqa: B039  it is frozen


def call_options() -> CallOptions:
    """Give the options of this call."""
    return _options.get()


@contextmanager
def repeating(options: CallOptions) -> Iterator[None]:
    """Let commands that are suggested in the block repeat these options."""
    token = _options.set(options)
    try:
        yield
    finally:
        _options.reset(token)


def repeat(options: CallOptions) -> None:
    """Let commands that are suggested from now on repeat these options."""
    _options.set(options)


def command_line(
    command: str, *words: str, profile: str = "paper", source: str | None = None, backend: str | None = None
) -> str:
    """Build a command for the shell, with the options of this call.

    Parameters
    ----------
    command : name of the command, such as "run"
    words : its arguments and options
    profile : size of the runs; "paper" is every command's default and left out
    source : source of the images; None where the command's default is right
    backend : instead of the one of this call; None where that will do
    """
    options = call_options()
    # Of an option that is there twice, the later one counts.
    line = ["thetarbm", *options.words, *(["--backend", backend] if backend else []), command, *words]
    line += [] if profile == "paper" else ["--profile", profile]
    line += [] if source is None else ["--source", source]
    line += ["--suite", str(options.suite)] if options.suite and command in SUITE_COMMANDS else []
    return shlex.join(line)
