"""Shell completion: what may follow on the line, found without importing NumPy.

Click does the work for commands, options and choices. Here is what it cannot know: the runs of the results folder
and the names in the suite; and repairs where it loses words that have ``=`` (all shells) or ``,`` (fish).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from thetarbm_cli.registry import offered_sources

THEORY = CompletionItem("theory", help="The numerical checks of the paper's mathematics.")


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the ids of the runs in the results folder, without those that are on the line already."""
    from thetarbm_cli.experiments.suite_file import run_identifiers

    results = ctx.find_root().params.get("results") or Path("results")
    named = _given(ctx, param)
    return [CompletionItem(run) for run in run_identifiers(results / "runs") if _begins(run, incomplete, named)]


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the experiments and tables of the suite; the cells of an experiment as soon as no other is meant."""
    from thetarbm_cli.experiments.suite_file import suite_names

    names, named = suite_names(ctx.params.get("suite_path")), _given(ctx, param)
    found = [
        CompletionItem(name, help=about or None)
        for name, about in names.experiments.items()
        if _begins(name, incomplete, named)
    ]
    if _begins("theory", incomplete, named) and param.name == "names":
        found.append(THEORY)
    if "/" in incomplete or len(found) == 1:
        experiment = incomplete.partition("/")[0] if "/" in incomplete else found[0].value
        cells = names.cells.get(experiment, [])
        # An experiment of one cell has its name.
        found += [CompletionItem(cell) for cell in cells if cell != experiment and _begins(cell, incomplete, named)]
    tables = (table for table in names.tables if _begins(table, incomplete, named))
    return [*found, *(CompletionItem(table, help=f"All cells of the table {table}.") for table in tables)]


def complete_figures(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the figures by name, without those that are on the line already."""
    from thetarbm_cli.reporting.figures import FIGURES

    named = _given(ctx, param)
    return [CompletionItem(each.name, help=each.label) for each in FIGURES if _begins(each.name, incomplete, named)]


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the profiles of the suite."""
    from thetarbm_cli.experiments.suite_file import suite_names

    profiles = suite_names(ctx.params.get("suite_path")).profiles
    return [
        CompletionItem(name, help=about or None) for name, about in profiles.items() if _begins(name, incomplete, ())
    ]


def complete_sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the sources of images by name, or else a file."""
    words = [CompletionItem(source) for source in offered_sources() if _begins(source, incomplete, ())]
    return words or [CompletionItem(incomplete, type="file")]


def _given(ctx: click.Context, param: click.Parameter) -> tuple[str, ...]:
    """Find what the line has for a parameter that takes several values."""
    given = ctx.params.get(param.name or "")
    return given if isinstance(given, tuple) else ()


def _begins(name: str, incomplete: str, named: tuple[str, ...]) -> bool:
    return name.startswith(incomplete) and name not in named


class WholeWordsBash(BashComplete):
    """Bash breaks ``theta/sparsity=0.3`` at ``=`` into three words and replaces the last: it is put together again."""

    name = "bash"

    def get_completion_args(self) -> tuple[list[str], str]:
        """Find the words before the cursor, and the whole word at it."""
        words = split_arg_string(os.environ["COMP_WORDS"])
        cursor = int(os.environ["COMP_CWORD"])
        words = words[: cursor + 1] + [""] * (cursor + 1 - len(words))
        joined: list[str] = []
        attach = False
        for word in words:
            if attach or (joined and word == "="):
                joined[-1] += word
            else:
                joined.append(word)
            attach = word == "="
        # Bash replaces its own last word alone; it has what is before that, and a last "=", on the line already.
        self._kept = joined[-1] if attach else joined[-1].removesuffix(words[-1])
        return joined[1:-1], joined[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Give the part of a value that replaces bash's last word."""
        return f"{item.type},{str(item.value).removeprefix(self._kept)}"


class WholeWords(ShellComplete):
    """Zsh and fish replace the whole word: the value of ``--profile=q`` is given with its option before it."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Give values for the word at the cursor, as they will stand on the line."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        if equals and option.startswith("--"):
            for item in found:
                item.value = f"{option}={item.value}" if item.type == "plain" else item.value
        return found


class WholeWordsZsh(WholeWords, ZshComplete):
    """As click's, with the option before a value."""

    name = "zsh"


class WholeWordsFish(WholeWords, FishComplete):
    """Click's script for fish splits at every comma, and the names of cells have some: here at the first alone."""

    name = "fish"
    source_template = FishComplete.source_template.replace('string split ","', 'string split --max 1 ","')


def register_shells() -> None:
    """Take the repaired completions in place of click's."""
    for shell in (WholeWordsBash, WholeWordsZsh, WholeWordsFish):
        add_completion_class(shell)
