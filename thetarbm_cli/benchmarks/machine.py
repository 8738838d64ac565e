"""The machine that a benchmark ran on."""

from __future__ import annotations

import os
from typing import Any

from thetarbm_cli.backend import NumpyBackend
from thetarbm_cli.experiments.runs.environment import describe_environment


def describe_machine(threads: int) -> dict[str, Any]:
    """What a run's record says of its environment, and the cores, the memory and the threads of this process."""
    return {
        **describe_environment(NumpyBackend()),
        "cores": cores(),
        "memory_megabytes": memory_megabytes(),
        "load": round(os.getloadavg()[0], 2),
        "threads": threads,
    }


def cores() -> int:
    """Processors that this process may use."""
    # macOS has no affinity.
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_megabytes() -> int:
    """Main memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
