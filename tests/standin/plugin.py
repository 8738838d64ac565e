"""Run other tests on the stand-in: ``python -m pytest -p tests.standin.plugin tests/models``.

Models whose backend is ``auto``, the default, then take the stand-in as they would take a GPU, and draw the
random numbers that they draw on NumPy.
"""

from __future__ import annotations

import pytest

from tests.standin.modules import install


def pytest_configure() -> None:
    """Let ``import cupy`` find the stand-in from the start of the session."""
    install(pytest.MonkeyPatch())
