from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.runs import evaluated, process_as_before, small_data, thetarbm, trained
from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.data.prepare import Prepared, prepare
from thetarbm_cli.errors import InputError

# Fixtures of runs, for all folders.
__all__ = ["evaluated", "small_data", "thetarbm", "trained"]

# An example may wait for a busy machine: how long it takes says nothing about the code. The same examples are tried
# each time, so that what fails is of the change; who looks for new ones sets THETARBM_EXPLORE, as make test-slow does.
settings.register_profile(
    "patient",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="THETARBM_EXPLORE" not in os.environ,
)
settings.load_profile("patient")

# What the caller's terminal is: tests that ask for one say which.
for variable in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CLICOLOR_FORCE"):
    os.environ.pop(variable, None)

# Tests in this process need not wait for the disk; what survives a crash is tried in processes of their own, and that
# it is asked for before a file gets its name in test_storage.py.
os.fsync = os.fstat  # type: ignore[assignment]

# A shell lets what it starts in the background ignore SIGINT; so would every process that a test starts and interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name a test by the argument, not by a long content: what is packed differs from one process to the next."""
    return argname if isinstance(val, bytes | str) and len(val) > 60 else None


def pytest_sessionstart() -> None:
    """End a session that asks for CuPy and would get NumPy."""
    if os.environ.get("THETARBM_BACKEND") == "cupy":
        try:
            select_backend("cupy")
        except InputError as error:
            pytest.exit(f"THETARBM_BACKEND=cupy asks for tests on CuPy, and there would be none: {error}", returncode=3)


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which mnist-rot, generated from seed 0, is prepared. Tests only add to it.

    The worker processes of pytest-xdist share it: who comes first prepares, the others wait for the lock.
    """
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "data"
    prepare(folder)
    return folder


@pytest.fixture(scope="session")
def mnist_rot(data_dir: Path) -> Prepared:
    return prepare(data_dir)


@pytest.fixture
def device() -> Backend:
    """CuPy on a device; for tests marked ``cupy``."""
    return select_backend("cupy")


@pytest.fixture(autouse=True)
def undone() -> Iterator[None]:
    """Undo what the command line does to its process, as tests call it in theirs."""
    with process_as_before():
        yield
