"""How much memory a run will take, so that what cannot fit is refused before the system kills it."""

from __future__ import annotations

import os
from pathlib import Path

from thetarbm_cli.errors import InputError

FLOAT_BYTES = 4
# What a container may use; it has the word "max" where there is no limit, and is not there on other systems.
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def svm_bytes(images: int, units: int) -> int:
    """About how much an SVM on features of so many images takes: them, and both sides of its products in float64."""
    return images * units * (2 * FLOAT_BYTES + 2 * 2 * FLOAT_BYTES)


def machine_bytes() -> int:
    """Memory of this machine, or of the container that it seems to be."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(physical, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):
        return physical


def refuse_too_large(needed: int, what: str, advice: str) -> None:
    """Refuse what needs more memory than there is.

    Raises
    ------
    InputError
        With both numbers and what needs less.
    """
    there = machine_bytes()
    if needed > there:
        raise InputError(
            f"{what} needs about {needed / 1e9:,.1f} GB of memory, and this machine has {there / 1e9:,.1f} GB: {advice}"
        )
