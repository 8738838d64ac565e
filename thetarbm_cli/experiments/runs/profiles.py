"""Profiles: how large the runs of a suite are. Their names and sizes stand in ``experiments.yaml`` alone."""

from __future__ import annotations

from functools import cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, TypeAdapter

from thetarbm_cli.experiments.suite_file import read_document, shipped_path

# More would be a plan that never ends.
MOST_SEEDS = 1000

Protocol = Literal["paper", "choice", "final"]
Scalar = StrictBool | StrictInt | StrictFloat | StrictStr | None


class Sizes(BaseModel):
    """How many images of each split, where not all of it, and which splits are learned from and tested on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: int | None = Field(default=None, ge=1)
    valid: int | None = Field(default=None, ge=1)
    test: int | None = Field(default=None, ge=1)
    protocol: Protocol | None = None


class Profile(BaseModel):
    """What a profile lays over the defaults, and how many seeds it asks for."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    about: str = ""
    seeds: int = Field(default=1, ge=1, le=MOST_SEEDS, description="Seeds of every cell: 0, 1, …")
    data: Sizes = Field(default=Sizes(), description="Sizes of the splits.")
    parameters: dict[str, Scalar] = Field(default={}, description="Settings of the models.")


@cache
def shipped_profiles() -> dict[str, Profile]:
    """The profiles of the shipped suite, by name."""
    content = read_document(shipped_path()).content
    return TypeAdapter(dict[str, Profile]).validate_python(content["profiles"])
