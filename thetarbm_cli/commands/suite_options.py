"""Options of the commands that work on the suite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

from thetarbm_cli import followup
from thetarbm_cli.commands.completion import complete_profiles, complete_sources
from thetarbm_cli.commands.session import Source, UserPath

Command = TypeVar("Command", bound=Callable[..., Any])


def _repeat_suite(ctx: click.Context, param: click.Parameter, suite: Path | None) -> Path | None:
    """Let the commands that this call prints take the same suite."""
    if not ctx.resilient_parsing:
        followup.repeat(replace(followup.call_options(), suite=suite))
    return suite


def suite_option(command: Command) -> Command:
    """Take another suite."""
    option = click.option(
        "--suite",
        "suite_path",
        type=UserPath(dir_okay=False),
        callback=_repeat_suite,
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
        type=Source(),
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
