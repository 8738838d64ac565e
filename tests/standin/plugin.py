"""Run tests on the stand-in: ``python -m pytest -p tests.standin.plugin tests/models``, as ``make test`` does.

Models whose backend is ``auto``, the default, then take the stand-in as they would take a GPU, and draw the
random numbers that they draw on NumPy. A test fails here, too, if it brought nothing back from the device or made a
copy that no one asked for: so none only seems to run on the device. Tests that have nothing to do with it say so
by the marker ``no_device`` and are left out.
"""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.standin.array import LEDGER, Ledger
from tests.standin.modules import install

# Whether a device answers is asked for each model, whether an operator's indices are sorted when it is made.
EXPECTED = {"item", "canonical format"}


def fault(copies: Ledger) -> str | None:
    """What is wrong with the copies of a test, or None."""
    unexpected = sorted(copies.hidden().keys() - EXPECTED)
    if unexpected:
        return f"copies between host and device that no one asked for: {', '.join(unexpected)}"
    if not copies.to_host["get"]:
        return "nothing came back from the device: mark the test no_device and say why, or let it use select_backend()"
    return None


def pytest_configure() -> None:
    """Let ``import cupy`` find the stand-in from the start of the session."""
    install(pytest.MonkeyPatch())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is marked ``no_device``."""
    left_out = [item for item in items if item.get_closest_marker("no_device")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("no_device")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Judge the copies of a test that passed."""
    LEDGER.clear()
    yield
    message = fault(LEDGER)
    if message is not None:
        pytest.fail(message)
