"""Options of the commands that work on the suite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from thetarbm_cli.commands.completion import complete_profiles, complete_sources

Command = TypeVar("Command", bound=Callable[..., Any])


def suite_option(command: Command) -> Command:
    """Take another suite."""
    option = click.option(
        "--suite",
        "suite_path",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Another suite [default: experiments.yaml of this folder, else the shipped one].",
    )
    return option(command)


def profile_option(command: Command) -> Command:
    """Choose the size of the runs."""
    option = click.option(
        "--profile",
        default="paper",
        show_default=True,
        shell_complete=complete_profiles,
        help="Size of the runs: paper, quick, tiny, or your own.",
    )
    return option(command)


def source_option(command: Command) -> Command:
    """Choose where the images come from."""
    option = click.option(
        "--source",
        shell_complete=complete_sources,
        help="Source of the images instead of the suite's: official, or FILE.npz.",
    )
    return option(command)


def seeds_option(command: Command) -> Command:
    """Choose the number of seeds."""
    option = click.option(
        "--seeds", type=click.IntRange(min=1), help="Seeds of every cell [default: those of the profile]."
    )
    return option(command)
