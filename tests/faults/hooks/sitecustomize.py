"""Imported by every Python that is started with this folder on its path: it is watched, and killed at a chosen moment.

``FAULT_LOG`` gets a line for each change of a file in ``FAULT_FOLDER``, and for each call to a network, which fails
unless ``FAULT_NETWORK`` is 1. When it has ``FAULT_KILL_AT`` lines, the first of the processes (not the workers that
it has started) is killed.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.chmod")
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg")

FOLDER = os.environ["FAULT_FOLDER"]
LOG = os.environ["FAULT_LOG"]
KILL_AT = int(os.environ.get("FAULT_KILL_AT", "0"))
HAS_NETWORK = os.environ.get("FAULT_NETWORK") == "1"
FIRST_PROCESS = int(os.environ.setdefault("FAULT_FIRST_PROCESS", str(os.getpid())))


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event in NETWORK:
        note(f"{event} {arguments[1:]}")
        if not HAS_NETWORK:
            raise ConnectionRefusedError("no network here")
    # An open file may stand for its path, as when a lock gets its permissions: it was seen when it was opened.
    if not arguments or not isinstance(arguments[0], str | os.PathLike):
        return
    if event in CHANGES or (event == "open" and arguments[2] & WRITING):
        path = os.path.abspath(arguments[1] if event == "os.rename" else arguments[0])
        makes_nothing = event == "os.mkdir" and os.path.isdir(path)
        if path.startswith(f"{FOLDER}{os.sep}") and not makes_nothing:
            note(f"{event} {os.path.relpath(path, FOLDER)}")


def note(line: str) -> None:
    # Opened anew each time: several processes write, each whole lines.
    with Path(LOG).open("a", encoding="utf-8") as log:
        log.write(f"{line}\n")
    if KILL_AT and len(Path(LOG).read_text(encoding="utf-8").splitlines()) >= KILL_AT:
        os.kill(FIRST_PROCESS, signal.SIGKILL)


sys.addaudithook(watch)
