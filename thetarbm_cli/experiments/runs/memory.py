"""How much memory a run will take, so that what cannot fit is refused before the system kills it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from thetarbm_cli.errors import InputError

FLOAT_BYTES = 4
# What a container may use; it has the word "max" where there is no limit, and is not there on other systems.
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")


def training_bytes(model: str, parameters: dict[str, Any], images: int, pixels: int) -> int:
    """About how much training takes at most, with all settings in `parameters`.

    Weights are there four times: themselves, their increments, and a copy of both in a checkpoint. So are, for a batch,
    the hidden states of both phases, the sampled ones and what they are computed from. The images come as they are,
    standardised and turned. The full tensor turns both phases of a batch every way. With several orientations an image
    there are up to about twice as many images, and local filters see fields of them, four drawn for each that is kept.
    """
    hidden, rotations = int(parameters["hidden"]), int(parameters.get("rotations", 1))
    batch = min(int(parameters["batch_size"]), images)
    inputs = 3 * images * pixels * (2 if parameters.get("hypotheses", 1) < 1 else 1)
    if model == "theta-local":
        pixels = int(parameters["field"]) ** 2
        inputs += 6 * int(parameters["fields"]) * pixels
    full = parameters.get("tensor") == "full"
    weights = hidden * pixels * (rotations if full else 1)
    states = batch * hidden * (rotations if model == "tirbm" else 1)
    turned = 2 * batch * rotations * pixels if full else 0
    return FLOAT_BYTES * (4 * weights + 4 * states + inputs + turned)


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
