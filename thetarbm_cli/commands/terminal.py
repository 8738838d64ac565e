"""Print for people: tables that fit the terminal, with colour that means something; Markdown where nobody looks on.

rich is imported only when something is shown.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Literal, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console

# A text, or a text with one of the styles. What has "\n" breaks there alone; where it need not, that is a space.
Cell = str | tuple[str, str]

# Colours of the terminal's own palette, which are legible on light and dark.
STYLES = {
    "good": "green",
    "open": "yellow",
    "bad": "bold red",
    "busy": "cyan",
    "best": "bold green",
    "weak": "dim",
    "bar.back": "dim",
    "bar.complete": "cyan",
    "bar.finished": "green",
    "bar.pulse": "cyan",
}
# How states of runs and verdicts look.
STATES = {
    **dict.fromkeys(("done", "pass", "reproduced", "carries over", "holds"), "good"),
    **dict.fromkeys(("missing", "pending", "stale", "partly", "undecided"), "open"),
    **dict.fromkeys(("failed", "FAIL", "not reproduced", "does not carry over", "does not hold"), "bad"),
    "running": "busy",
    "no data": "weak",
}
NUMBER = re.compile(r"[-+−]?[.\d][-\d.,eE±+−/()%*\s]*|—?")
# A word of a text column is broken if it is longer than that; the id of a run is not.
LONGEST_WORD = 28
GAP = 2
# Spaces at which no line is broken: a number keeps its unit, its name and its spread.
KEPT_SPACE = re.compile(r" (?=[=±<] )|(?<=[=±<]) |(?<=\d) (?=(?:%|°|s|min|h|[kMG]B|points?)(?!\w))")
# Words with one space between them, where groups of words have more.
GROUP = re.compile(r"\S+(?: \S+)+")
# What stands for a space that is kept; textwrap breaks lines at other spaces alone.
NO_BREAK = "\u00a0"


def state_cell(state: str) -> Cell:
    """Colour a state by what it means."""
    return (state, STATES.get(state, ""))


def console(stream: TextIO) -> Console:
    """Wrap a stream: width, colours and characters are those of its terminal; NO_COLOR is heeded."""
    from rich.console import Console
    from rich.theme import Theme

    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(file=stream, theme=Theme(STYLES), color_system=colours, highlight=False, markup=False, emoji=False)


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "", last_below: bool = False
) -> None:
    """Print a table on stdout.

    On a terminal it is no wider than that: columns of words are wrapped, numbers break where they may, and where that
    is not enough each row becomes a block of lines. Elsewhere it is Markdown.

    Parameters
    ----------
    headings : of the columns
    rows : as many cells each; columns in which all cells are numbers stand to the right
    title : a line above it
    last_below : whether a long text of the last column may stand below its row, where it needs fewer lines
    """
    if not sys.stdout.isatty():
        click.echo(to_markdown(headings, rows, title))
        return
    terminal = console(sys.stdout)
    if title:
        terminal.print(title, style="bold")
    below = [row[-1] if last_below and len(_split(row[-1])[0]) > terminal.width // 2 else "" for row in rows]
    shown = [[*row[:-1], "" if text else row[-1]] for row, text in zip(rows, below, strict=True)]
    widths = fit_widths(headings, shown, terminal.width)
    if widths is None:
        _print_blocks(terminal, headings, rows)
    else:
        _print_columns(terminal, headings, shown, widths, below)


def print_text(text: str, style: str = "", before: str = "", indent: int = 0) -> None:
    """Print a text on stdout, its lines wrapped to the terminal.

    Parameters
    ----------
    before : what stands before it, and is not wrapped
    indent : of the lines that go on
    """
    text = f"{before}{fitted(text, sys.stdout, indent)}"
    if style and sys.stdout.isatty():
        console(sys.stdout).print(text, style=style, soft_wrap=True)
    else:
        click.echo(text)


def print_command(command: str) -> None:
    """Print a command on stdout, on a terminal in lines that a shell takes as one."""
    from thetarbm_cli.reporting.show import break_command

    click.echo("\n".join(break_command(command, console(sys.stdout).width)) if sys.stdout.isatty() else command)


def fitted(text: str, stream: TextIO, indent: int = 2) -> str:
    """Wrap lines between words where the stream is a terminal; elsewhere a line stays one, as logs and copies want it.

    A word that is longer than a line, as a path, is left to the terminal, which copies it in one piece.

    Parameters
    ----------
    indent : of the lines that go on
    """
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        width = 0
    if width <= 2 * indent:
        return text
    lines = text.split("\n")
    # Such a word stays beside its label.
    labelled = re.compile(rf" *\S+ +(?=\S{{{width - indent + 1}}})")
    lines = [labelled.sub(lambda found: found[0].replace(" ", NO_BREAK), line, count=1) for line in lines]
    return "\n".join(each for line in lines for each in wrap(line, width, indent, break_words=False))


def wrap(text: str, width: int, indent: int = 0, *, break_words: bool = True) -> list[str]:
    """Break a text into lines at its own breaks, if it is too long, or else between groups of words, or words."""
    if len(text) <= width:
        return [text.replace("\n", " ").replace(NO_BREAK, " ")]
    if "\n" in text:
        return [line for part in text.split("\n") for line in wrap(part, width, indent, break_words=break_words)]
    if "  " in text.strip():
        room = width - indent
        text = GROUP.sub(lambda group: group[0].replace(" ", NO_BREAK) if len(group[0]) <= room else group[0], text)
    lines = textwrap.wrap(
        KEPT_SPACE.sub(NO_BREAK, text),
        width,
        subsequent_indent=" " * indent,
        break_long_words=break_words,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def fits(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Say whether a table fits the terminal as one."""
    return fit_widths(headings, rows, console(sys.stdout).width) is not None


def fit_widths(headings: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[int] | None:
    """Give each column a width such that all fit, or None if they do not even with every break that is allowed."""
    columns = [[_split(row[place])[0] for row in rows] for place in range(len(headings))]
    numbers = _are_numbers(headings, rows)
    # Numbers in one line if all of them can be.
    for of_number in (len, _longest_line):
        least = [
            max([_least(heading), *(of_number(text) if number else _least(text) for text in texts)])
            for heading, texts, number in zip(headings, columns, numbers, strict=True)
        ]
        spare = width - sum(least) - GAP * (len(headings) - 1)
        if spare >= 0:
            break
    else:
        return None
    # Columns of words share what is left evenly, as far as they need it; then the headings of numbers.
    for kind in (False, True):
        needs = []
        for place, (heading, texts) in enumerate(zip(headings, columns, strict=True)):
            if numbers[place] == kind:
                needs.append((max(map(len, [heading, *([] if kind else texts)])) - least[place], place))
        for waiting, (need, place) in zip(range(len(needs), 0, -1), sorted(needs), strict=True):
            given = max(0, min(need, spare // waiting))
            least[place] += given
            spare -= given
    return least


def _print_columns(
    terminal: Console,
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    widths: Sequence[int],
    below: Sequence[Cell],
) -> None:
    from rich.text import Text

    numbers = _are_numbers(headings, rows)
    grid = [
        [(wrap(text, width), style) for (text, style), width in zip(map(_split, row), widths, strict=True)]
        for row in [[(heading, "bold") for heading in headings], *rows]
    ]
    # What is wrapped is often narrower than it might be.
    widths = [max(len(line) for lines, _ in column for line in lines) for column in zip(*grid, strict=True)]
    for row, under in zip(grid, ["", *below], strict=True):
        styles = [style for _, style in row]
        for texts in zip_longest(*(lines for lines, _ in row), fillvalue=""):
            line = Text()
            for text, style, width, right in zip(texts, styles, widths, numbers, strict=True):
                line.append(text.rjust(width) if right else text.ljust(width), style).append(" " * GAP)
            line.rstrip()
            terminal.print(line, soft_wrap=True)
        text, style = _split(under)
        for each in wrap(text, terminal.width - 2 * GAP) if text else []:
            terminal.print(" " * 2 * GAP + each, style=style or "weak", soft_wrap=True)


def _print_blocks(terminal: Console, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print each row as its first cell and, below it, a line for every other cell that has something."""
    from rich.text import Text

    for row in rows:
        first, style = _split(row[0])
        terminal.print("\n".join(wrap(first, terminal.width)), style=style or "bold")
        for heading, (text, style) in zip(headings[1:], map(_split, row[1:]), strict=True):
            if text:
                label = " " * GAP + heading.replace("\n", " ") + ": "
                shown = Text("\n".join(wrap(label + text.replace("\n", " "), terminal.width, 2 * GAP)))
                shown.stylize(style, len(label))
                terminal.print(shown)


def to_markdown(headings: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = "") -> str:
    """Write a table as Markdown; what is best of its column is bold."""
    from tabulate import tabulate

    align = ["right" if right else "left" for right in _are_numbers(headings, rows)]
    texts = [[_markdown(cell) for cell in row] for row in rows]
    titles = [heading.replace("\n", " ") for heading in headings]
    grid = tabulate(texts, titles, tablefmt="pipe", colalign=align if rows else None, disable_numparse=True)
    return f"## {title}\n\n{grid}" if title else grid


def _markdown(cell: Cell) -> str:
    text, style = _split(cell)
    text = text.replace("\n", " ").replace("|", "\\|")
    return f"**{text}**" if style == "best" and text else text


def _split(cell: Cell) -> tuple[str, str]:
    return (cell, "") if isinstance(cell, str) else cell


def _are_numbers(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """Tell which columns have numbers alone, or nothing."""
    columns = [[_split(row[place])[0] for row in rows] for place in range(len(headings))]
    return [any(column) and all(NUMBER.fullmatch(text) for text in column) for column in columns]


def _longest_line(text: str) -> int:
    return max(map(len, text.split("\n")))


def _least(text: str) -> int:
    """Count the columns that a text needs with every break that is allowed."""
    if "\n" in text:
        return _longest_line(text)
    return min(LONGEST_WORD, max(map(len, KEPT_SPACE.sub(NO_BREAK, text).split(" "))))
