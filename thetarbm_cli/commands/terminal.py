"""Print for people: tables that fit the terminal, with colour that means something; Markdown where nobody looks on.

rich is imported only when something is shown.
"""

from __future__ import annotations

import os
import re
import sys
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
# Where a text may be broken, the best places first: between groups, between words, after signs. A number keeps its
# unit, its name and its spread.
GROUP = r"(?<=\s\s)(?!\s)"
WORD = r"(?<=\s)(?!\s)(?<![=±<] )(?![=±<]\s)(?!(?<=\d )(?:%|°|s|min|h|[kMG]B|points?)(?!\w))"
BREAKS = (GROUP, WORD, r"(?<=[,/])", r"(?<==)")


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
    headings: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    title: str = "",
    markdown: bool = False,
    last_below: bool = False,
) -> None:
    """Print a table on stdout.

    On a terminal it is no wider than that: columns of words are wrapped, numbers break where they may, and where that
    is not enough each row becomes a block of lines. Elsewhere, or if asked for, it is Markdown.

    Parameters
    ----------
    headings : of the columns
    rows : as many cells each; columns in which all cells are numbers stand to the right
    title : a line above it
    markdown : whether to write Markdown on a terminal too
    last_below : whether a long text of the last column may stand below its row, where it needs fewer lines
    """
    if markdown or not sys.stdout.isatty():
        click.echo(to_markdown(headings, rows, title))
    else:
        _print_fitted(console(sys.stdout), headings, rows, title, last_below)


def print_text(text: str, style: str = "", before: str = "", indent: int = 0) -> None:
    """Print a text on stdout, its lines wrapped to the terminal.

    Parameters
    ----------
    before : what stands before it, and is not wrapped
    indent : of the lines that go on
    """
    text = f"{before}{fitted(text, sys.stdout, indent)}"
    if not style or not sys.stdout.isatty():
        click.echo(text)
        return
    from rich.text import Text

    console(sys.stdout).print(Text(text, style), soft_wrap=True)


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
    return "\n".join(each for line in text.split("\n") for each in _wrap_line(line, width, indent))


def _wrap_line(line: str, width: int, indent: int) -> list[str]:
    """Break a line between groups and words alone."""
    if _cells(line) <= width:
        return [line]
    start = len(line) - len(line.lstrip())
    lines, current = [], line[:start]
    for piece in _pieces(line[start:], width - indent, (GROUP, WORD)):
        # What no line has room for stays beside its label.
        beside = len(current) <= indent and _cells(piece.rstrip()) > width - indent
        if current.strip() and not beside and _cells((current + piece).rstrip()) > width:
            lines.append(current.rstrip())
            current = " " * indent
        current += piece
    return [*lines, current.rstrip()]


def fits(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Say whether a table fits the terminal as one."""
    return fit_widths(headings, rows, console(sys.stdout).width) is not None


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


def _print_fitted(
    console: Console, headings: Sequence[str], rows: Sequence[Sequence[Cell]], title: str, last_below: bool
) -> None:
    from rich.text import Text

    if title:
        console.print(Text(title, "bold"))
    below = [row[-1] if last_below and _cells(_split(row[-1])[0]) > console.width // 2 else "" for row in rows]
    whole, rows = rows, [[*row[:-1], "" if text else row[-1]] for row, text in zip(rows, below, strict=True)]
    widths = fit_widths(headings, rows, console.width)
    if widths is None:
        _print_blocks(console, headings, whole)
        return
    numbers = _are_numbers(headings, rows)
    grid = [
        [(wrap(text, width), style) for (text, style), width in zip(map(_split, row), widths, strict=True)]
        for row in [[(heading, "bold") for heading in headings], *rows]
    ]
    # What is wrapped is often narrower than it might be.
    widths = [max(_cells(line) for lines, _ in column for line in lines) for column in zip(*grid, strict=True)]
    for row, under in zip(grid, ["", *below], strict=True):
        for height in range(max(len(lines) for lines, _ in row)):
            line = Text()
            for (lines, style), width, right in zip(row, widths, numbers, strict=True):
                text = lines[height] if height < len(lines) else ""
                space = " " * (width - _cells(text))
                line.append(space if right else "").append(text, style).append("" if right else space)
                line.append(" " * GAP)
            line.rstrip()
            console.print(line, soft_wrap=True)
        text, style = _split(under)
        for each in wrap(text, console.width - 2 * GAP) if text else []:
            console.print(Text(" " * 2 * GAP + each, style or "weak"), soft_wrap=True)


def fit_widths(headings: Sequence[str], rows: Sequence[Sequence[Cell]], width: int) -> list[int] | None:
    """Give each column a width such that all fit, or None if they do not even with every break that is allowed."""
    numbers = _are_numbers(headings, rows)
    least, most = [], []
    for place, heading in enumerate(headings):
        texts = [_split(row[place])[0] for row in rows]
        whole = [_cells(text.replace("\n", " ")) for text in texts]
        if numbers[place]:
            # A number breaks where it may, and its heading anywhere.
            above = _longest_line(heading) if "\n" in heading else _longest_word(heading)
            least.append(max(above, *map(_longest_line, texts)))
            most.append(max(above, *whole))
        else:
            least.append(
                max(_longest_line(text) if "\n" in text else _longest_word(text) for text in [heading, *texts])
            )
            most.append(max([_cells(heading), *whole]))
    spare = width - sum(least) - GAP * (len(headings) - 1)
    if spare < 0:
        return None
    # Numbers first, all or none: a label that is wrapped is read more easily. Words share what is left evenly.
    more = [whole - fewest for whole, fewest in zip(most, least, strict=True)]
    if sum(need for need, number in zip(more, numbers, strict=True) if number) <= spare:
        least = [whole if number else fewest for whole, fewest, number in zip(most, least, numbers, strict=True)]
        spare = width - sum(least) - GAP * (len(headings) - 1)
    words = sorted((need, place) for place, need in enumerate(more) if not numbers[place])
    for waiting, (need, place) in zip(range(len(words), 0, -1), words, strict=True):
        given = min(need, spare // waiting)
        least[place] += given
        spare -= given
    for place, heading in enumerate(headings):
        lacks = max(0, _cells(heading) - least[place])
        if "\n" not in heading and lacks <= spare:
            least[place] += lacks
            spare -= lacks
    return least


def wrap(text: str, width: int) -> list[str]:
    """Break a text into lines at its own breaks, or else after spaces and signs, or else anywhere."""
    if _cells(text.replace("\n", " ")) <= width:
        return [text.replace("\n", " ")]
    if "\n" in text:
        return [line for part in text.split("\n") for line in wrap(part, width)]
    lines, line = [], ""
    for piece in _pieces(text, width):
        if line and _cells((line + piece).rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += piece
        while _cells(line.rstrip()) > width:
            lines.append(line[:width])
            line = line[width:]
    return [*lines, line.rstrip()]


def _pieces(text: str, width: int, breaks: tuple[str, ...] = BREAKS) -> list[str]:
    """Split a text at its spaces, and what is then still too long also after signs."""
    if not breaks or _cells(text.rstrip()) <= width:
        return [text]
    return [piece for part in re.split(breaks[0], text) for piece in _pieces(part, width, breaks[1:])]


def _longest_line(text: str) -> int:
    return max(map(_cells, text.split("\n")))


def _longest_word(text: str) -> int:
    words = (word for each in re.split(WORD, text) for word in re.split(r"(?<=[,/=])(?!\s)", each))
    return min(LONGEST_WORD, max(_cells(word.rstrip()) for word in words))


def _cells(text: str) -> int:
    """Count the columns that a text takes."""
    from rich.cells import cell_len

    return cell_len(text)


def _print_blocks(console: Console, headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print each row as its first cell and, below it, a line for every other cell that has something."""
    from rich.text import Text

    longest = max((_cells(_split(cell)[0].replace("\n", " ")) for row in rows for cell in row[1:]), default=0)
    # A third of the line is enough for labels, unless what they stand for needs less than the rest.
    room = max(console.width // 3, console.width - 2 * GAP - longest)
    indent = min(max(map(_cells, headings[1:]), default=0), room)
    for row in rows:
        first, style = _split(row[0])
        console.print(Text("\n".join(wrap(first, console.width)), style or "bold"))
        for heading, cell in zip(headings[1:], row[1:], strict=True):
            text, style = _split(cell)
            lines = wrap(text, console.width - indent - 2 * GAP) if text else []
            for label, line in zip_longest(wrap(heading, indent) if lines else [], lines, fillvalue=""):
                console.print(Text(f"{'':{GAP}}{label:<{indent}}{'':{GAP}}"), Text(line, style), sep="")
