"""Commands in a pseudo-terminal, as people see them."""

from __future__ import annotations

import contextlib
import os
import re
import struct
import threading
from dataclasses import dataclass
from multiprocessing import resource_tracker

import pytest

from tests.runs import PATIENCE_SECONDS, process_as_before
from thetarbm_cli.cli import main

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True)
class Seen:
    """What a terminal got from stdout and stderr, in their order, and the exit code."""

    raw: str
    code: int

    @property
    def lines(self) -> list[str]:
        """Every line that was ever on the screen, also those written over, without colours."""
        return [line for line in re.split(r"[\r\n]+", CONTROL.sub("", self.raw)) if line]


def in_terminal(*arguments: str, columns: int = 80, **variables: str) -> Seen:
    """Call the command line in this process, with a pseudo-terminal of so many columns for its streams."""
    import fcntl
    import pty
    import termios

    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    parts: list[bytes] = []

    def read() -> None:
        # Linux answers with an error when the last writer has gone.
        with contextlib.suppress(OSError):
            while part := os.read(parent, 65536):
                parts.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    # It lives as long as this process, and would keep the terminal open if it were started with it.
    resource_tracker.ensure_running()
    # rich asks the process' own streams for the width, unless it is told.
    variables = {"TERM": "xterm-256color", "COLUMNS": str(columns), **variables}
    with (
        process_as_before(),
        open(child, "w", encoding="utf-8") as out,
        open(os.ttyname(child), "w", encoding="utf-8") as err,
    ):
        for name in ("NO_COLOR", "LINES"):
            os.environ.pop(name, None)
        os.environ.update(variables)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as left:
            main(list(arguments))
    reader.join(PATIENCE_SECONDS)
    assert not reader.is_alive(), "someone keeps the terminal open"
    os.close(parent)
    return Seen(b"".join(parts).decode(), int(left.value.code or 0))
