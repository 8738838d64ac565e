"""Shell completion: what may follow on the line, found without importing a model.

Click does the work for commands, options and choices. Here is what it cannot know: the runs of the results folder
and the names in the suite; and words that have ``=``, which it loses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from click import shell_completion as shells
from click.shell_completion import CompletionItem

from thetarbm_cli.registry import offered_sources

THEORY = {"theory": "The numerical checks of the paper's mathematics."}


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the ids of the runs in the results folder."""
    from thetarbm_cli.store import Store

    runs = Store(ctx.find_root().params.get("results") or Path("results")).identifiers()
    return _items(ctx, param, dict.fromkeys(runs, ""), incomplete)


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the experiments and tables of the suite; the cells of an experiment as soon as no other is meant.

    Cells of several axes have commas in their names, at which shells break: they are not given.
    """
    names = _suite_names(ctx)
    found = _items(ctx, param, {**names["experiments"], **(THEORY if param.name == "names" else {})}, incomplete)
    if "/" in incomplete or len(found) == 1:
        experiment = incomplete.partition("/")[0] if "/" in incomplete else found[0].value
        # An experiment of one cell has its name.
        cells = (cell for cell in names["cells"] if cell.startswith(f"{experiment}/") and "," not in cell)
        found += _items(ctx, param, dict.fromkeys(cells, ""), incomplete)
    tables = {table: f"All cells of the table {table}." for table in names["tables"]}
    return found + _items(ctx, param, tables, incomplete)


def complete_tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the tables of the suite, and all of them."""
    return _items(ctx, param, dict.fromkeys([*_suite_names(ctx)["tables"], "all"], ""), incomplete)


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the profiles of the suite."""
    return _items(ctx, param, _suite_names(ctx)["profiles"], incomplete)


def complete_figures(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the figures by name."""
    from thetarbm_cli.reporting.figures import FIGURES

    return _items(ctx, param, {each.name: each.label for each in FIGURES}, incomplete)


def complete_sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the sources of images by name, or else a file."""
    found = _items(ctx, param, dict.fromkeys(offered_sources(), ""), incomplete)
    return found or [CompletionItem(incomplete, type="file")]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the settings of the model that is named, or of the θ-RBM, as ``key=``, and then the values of words."""
    from thetarbm_cli.parameters import declared
    from thetarbm_cli.specs import measure_settings, train_settings

    own = declared(ctx.params.get("model") or "theta")
    key, equals, value = incomplete.partition("=")
    if equals:
        choices = own[key].choices if key in own else ()
        return [CompletionItem(f"{key}={choice}") for choice in choices if choice.startswith(value)]
    known = dict(measure_settings())
    if ctx.command.name != "evaluate":
        known = {**{name: each.about for name, each in own.items()}, **train_settings(), **known}
    return _items(ctx, param, {f"{name}=": about for name, about in known.items()}, incomplete)


def _suite_names(ctx: click.Context) -> dict[str, dict[str, str]]:
    from thetarbm_cli.suite import suite_names

    return suite_names(ctx.params.get("suite_path"))


def _items(
    ctx: click.Context, param: click.Parameter, names: Mapping[str, str], incomplete: str
) -> list[CompletionItem[str]]:
    """Give the names that begin as the word does, each with what it means, without those that are on the line."""
    given = ctx.params.get(param.name or "")
    fitting = (
        name for name in names if name.startswith(incomplete) and not (isinstance(given, tuple) and name in given)
    )
    return [CompletionItem(name, help=names[name] or None) for name in fitting]


class WholeWordsBash(shells.BashComplete):
    """Bash breaks ``theta/sparsity=0.3`` at ``=`` into three words and replaces the last: it is put together again."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Find the words before the cursor, and the whole word at it."""
        words, cursor = shells.split_arg_string(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
        last = words[cursor] if cursor < len(words) else ""
        *before, whole = re.sub("\0=\0?", "=", "\0".join([*words[:cursor], last])).split("\0")
        # Bash has what is before its last word, and a last "=", on the line already.
        self._kept = whole if last == "=" else whole.removesuffix(last)
        return before[1:], whole

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Give the part of a value that replaces bash's last word."""
        return f"{item.type},{str(item.value).removeprefix(self._kept)}"


class WholeWords(shells.ShellComplete):
    """Zsh and fish replace the whole word: the value of ``--profile=q`` is given with its option before it."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Give values for the word at the cursor, as they will stand on the line."""
        found = super().get_completions(args, incomplete)
        option, equals, _ = incomplete.partition("=")
        for item in found if equals and option.startswith("--") else ():
            item.value = f"{option}={item.value}" if item.type == "plain" else item.value
        return found


class WholeWordsZsh(WholeWords, shells.ZshComplete):
    """As click's, with the option before a value."""


class WholeWordsFish(WholeWords, shells.FishComplete):
    """As click's, with the option before a value."""


def register_shells() -> None:
    """Take the repaired completions in place of click's."""
    for shell in (WholeWordsBash, WholeWordsZsh, WholeWordsFish):
        shells.add_completion_class(shell)
