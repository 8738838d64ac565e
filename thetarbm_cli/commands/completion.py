"""Shell completion: what may follow on the line, found (but for ``--set``) without importing NumPy.

Click does the work for commands, options and choices. Here is what it cannot know: the runs of the results folder
and the names in the suite; and repairs where it loses words that have ``=`` (all shells) or ``,`` (fish).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
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

from thetarbm_cli.outcomes import TABLES
from thetarbm_cli.registry import offered_sources

THEORY = {"theory": "The numerical checks of the paper's mathematics."}


def complete_runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the ids of the runs in the results folder, without those that are on the line already."""
    from thetarbm_cli.experiments.suite_file import packed_identifiers, run_identifiers

    results = ctx.find_root().params.get("results") or Path("results")
    runs = {*run_identifiers(results / "runs"), *packed_identifiers(results / "packed"), *packed_identifiers()}
    return _items(dict.fromkeys(sorted(runs), ""), incomplete, _given(ctx, param))


def complete_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the experiments and tables of the suite; the cells of an experiment as soon as no other is meant."""
    from thetarbm_cli.experiments.suite_file import suite_names

    names, named = suite_names(ctx.params.get("suite_path")), _given(ctx, param)
    found = _items({**names.experiments, **(THEORY if param.name == "names" else {})}, incomplete, named)
    if "/" in incomplete or len(found) == 1:
        experiment = incomplete.partition("/")[0] if "/" in incomplete else found[0].value
        # An experiment of one cell has its name.
        cells = (cell for cell in names.cells.get(experiment, []) if cell != experiment)
        found += _items(dict.fromkeys(cells, ""), incomplete, named)
    return found + _items({table: f"All cells of the table {table}." for table in names.tables}, incomplete, named)


def complete_tables(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the tables of the package and of the suite, and all of them."""
    from thetarbm_cli.experiments.suite_file import suite_names

    own = suite_names(ctx.params.get("suite_path")).tables
    return _items(dict.fromkeys([*TABLES, *own, "all"], ""), incomplete)


def complete_figures(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the figures by name, without those that are on the line already."""
    from thetarbm_cli.reporting.figures import FIGURES

    return _items({each.name: each.label for each in FIGURES}, incomplete, _given(ctx, param))


def complete_profiles(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the profiles of the suite."""
    from thetarbm_cli.experiments.suite_file import suite_names

    return _items(suite_names(ctx.params.get("suite_path")).profiles, incomplete)


def complete_sources(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the sources of images by name, or else a file."""
    return _items(dict.fromkeys(offered_sources(), ""), incomplete) or [CompletionItem(incomplete, type="file")]


def complete_settings(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Give the settings of the model that is named, or of the θ-RBM, as ``key=``, and then the values of words.

    Models declare them: this is the one completion that imports them.
    """
    from thetarbm_cli.experiments.runs.settings import section_settings
    from thetarbm_cli.models import model_class

    kind = model_class(ctx.params.get("model") or "theta")
    declared = {name: each for name, each in kind.declared.items() if each.setting}
    key, equals, value = incomplete.partition("=")
    if equals:
        choices = declared[key].choices if key in declared else ()
        return [CompletionItem(f"{key}={choice}") for choice in choices if choice.startswith(value)]
    known = {**{name: each.about for name, each in declared.items()}, **section_settings()}
    return _items({f"{name}=": about for name, about in known.items()}, incomplete)


def _given(ctx: click.Context, param: click.Parameter) -> tuple[str, ...]:
    """Find what the line has for a parameter that takes several values."""
    given = ctx.params.get(param.name or "")
    return given if isinstance(given, tuple) else ()


def _items(names: Mapping[str, str], incomplete: str, named: Sequence[str] = ()) -> list[CompletionItem[str]]:
    """Give the names that begin as the word does and are not on the line yet, each with what it means."""
    return [
        CompletionItem(name, help=about or None)
        for name, about in names.items()
        if name.startswith(incomplete) and name not in named
    ]


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
