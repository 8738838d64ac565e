"""The report in a real browser: `make test-browser` installs what this needs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.records import save, training_for
from tests.reporting.numbers import trainings
from tests.reporting.test_multiverse import SUITE as UNIVERSES
from tests.reporting.test_multiverse import trainings_of, usual
from tests.runs import call
from tests.suites import write_suite
from thetarbm_cli.suite import load_suite
from thetarbm_cli.universes import Readings, note_universes

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Request, Route

HOSTILE = "<script>window.harmed = true</script><img src=x onerror='window.harmed = true'>"
HOSTILE_SUITE = f"""\
format: 2
title: "{HOSTILE}"
assumptions:
  - {{name: open, reading: "{HOSTILE}", why: "{HOSTILE}"}}
profiles: {{paper: {{seeds: 1}}}}
experiments:
  - {{name: rbm, label: "{HOSTILE}", model: rbm, grid: {{sparsity: [0.3]}}, tables: ["1"]}}
"""


@dataclass
class Visit:
    """A page that was opened, what it said, and what it asked for beside itself."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Visit]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the shipped suite with the paper's own numbers and those figures that need records alone."""
    folder = tmp_path_factory.mktemp("report")
    save(folder / "results", *trainings())
    path = folder / "page.html"
    done = call(folder / "data", folder / "results", "report", "--out", str(path), "--json")
    assert done.code == 0
    assert "table-1" in done.json["figures"]
    return path


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page whose suite and record carry markup."""
    folder = tmp_path_factory.mktemp("hostile")
    suite = folder / "suite.yaml"
    suite.write_text(HOSTILE_SUITE, encoding="utf-8")
    cell = load_suite(suite).cells("paper")[0]
    numbers: dict[str, Any] = {"test_error_percent": 15.0, "gamma_train": 0.2, "gamma_test": 0.2}
    changes = {"environment": {"processor": HOSTILE}}
    save(folder / "results", training_for(cell, **numbers).model_copy(update=changes))
    path = folder / "page.html"
    assert call(folder, folder / "results", "report", "--suite", str(suite), "--out", str(path)).code == 0
    return path


@pytest.fixture(scope="session")
def universes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with universes of readings."""
    folder = tmp_path_factory.mktemp("universes")
    suite = write_suite(folder, UNIVERSES)
    readings = Readings(load_suite(suite))
    save(folder, *trainings_of(readings, usual))
    note_universes(folder, readings, readings.sampled(16))
    path = folder / "page.html"
    assert call(folder, folder, "report", "--suite", str(suite), "--out", str(path)).code == 0
    return path


@pytest.fixture
def visit(browser: Browser, report: Path) -> Iterator[Open]:
    """Open a page in a window of its own; whatever it asks for beside itself is noted and refused."""
    windows = []

    def go(path: Path = report, *, width: int = 1280, **options: Any) -> Visit:
        window = browser.new_context(viewport={"width": width, "height": 800}, **options)
        windows.append(window)
        opened = Visit(window.new_page())

        def meet(route: Route, request: Request) -> None:
            if request.url in (path.as_uri(), path.as_uri() + "#") or request.url.startswith("data:"):
                route.continue_()
            else:
                opened.requests.append(request.url)
                route.abort()

        window.route("**/*", meet)
        opened.page.on("console", lambda message: opened.messages.append(message.text))
        opened.page.on("pageerror", lambda error: opened.messages.append(str(error)))
        opened.page.goto(path.as_uri())
        return opened

    yield go
    for window in windows:
        window.close()
