"""Print the path of a Chromium that the browser tests can drive; where there is none, install one.

Looked at in turn: the variable CHROMIUM, the search path, Playwright's own. If there is none, Playwright downloads one,
or, for root on Debian and its kin, apt-get installs the package. ``make browser`` runs this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PATIENCE_SECONDS = 600


def find() -> str | None:
    """Path of a browser that starts, or None."""
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    places = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), own]
    return next((place for place in places if place and Path(place).is_file() and _starts(place)), None)


def _starts(path: str) -> bool:
    """Whether it is a browser, not a note that tells how to install one."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def install() -> None:
    """Try what may bring a browser, until one is there."""
    ways = [[sys.executable, "-m", "playwright", "install", "chromium"]]
    if shutil.which("apt-get") and os.geteuid() == 0:
        ways += [["apt-get", "update"], ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]]
    for command in ways:
        print(" ".join(command), file=sys.stderr, flush=True)
        try:
            # Stdout is for the path alone.
            subprocess.run(command, stdout=sys.stderr, timeout=PATIENCE_SECONDS, check=False)
        except (OSError, subprocess.SubprocessError) as error:
            print(error, file=sys.stderr)
        if find():
            return


def main() -> None:
    """Print the path, or leave with a sentence."""
    if not find():
        install()
    path = find()
    if path is None:
        sys.exit("there is no Chromium and none could be installed; install one and name it with CHROMIUM=PATH")
    print(path)


if __name__ == "__main__":
    main()
