"""Show results, messages and progress: through rich on a terminal, as plain text and Markdown elsewhere.

Results go to stdout, all else to stderr. rich and pydantic are imported only when they are needed.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING, Any, Literal, Self, TextIO

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Task
    from rich.table import Table

# A text, or a text with a style. A cell that has "\n" breaks there alone; where it need not, that is a space.
Cell = str | tuple[str, str]
Progress = Callable[[int, int], None]

# Colours of the terminal's own palette, which are legible on light and dark.
STYLES = {"good": "green", "open": "yellow", "bad": "bold red", "busy": "cyan", "best": "bold green", "weak": "dim"}
STYLES |= {"bar.back": "dim", "bar.complete": "cyan", "bar.finished": "green", "bar.pulse": "cyan"}
STATES = {
    **dict.fromkeys(("done", "pass", "reproduced", "verified under its assumptions", "holds"), "good"),
    **dict.fromkeys(("missing", "pending", "stale", "open"), "open"),
    **dict.fromkeys(("failed", "FAIL", "not reproduced", "not verified", "does not hold"), "bad"),
    "running": "busy",
    "no data": "weak",
}
NUMBER = re.compile(r"[-+−]?[.\d][-\d.,eE±+−/()%*\s]*|—?")
# Where no line is broken: a number keeps its unit, its name and its spread, and an option of a command its value.
KEPT_SPACE = re.compile(r" (?=[=±<] )|(?<=[=±<]) |(?<=\d) (?=(?:%|°|s|min|h|[kMG]B|points?)(?!\w))|(?<=\d[:°]) (?=\d)")
OPTION = re.compile(r"((?:^| )--?[\w-]+) (?!-)")
# Stands for a space that is kept: rich breaks lines at every character that is a space, also at U+00A0.
KEPT = "\ue000"
# What a record of somebody else may hold, and a terminal would obey.
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
# Columns between those of a table.
GAP = 2
# A word in a column of texts may be broken if it is longer than that.
LONGEST_WORD = 28
# Seconds after which a step is worth showing.
DELAY = 0.5
# More is shown in per cent.
MOST_COUNTED = 1000


class Command(str):
    """Mark a text as a command: where it is broken, a shell takes its lines as one."""


def state_cell(state: str) -> Cell:
    """Colour a state or verdict by what it means."""
    return (state, STATES.get(state, ""))


def duration(seconds: float) -> str:
    """Write a time in words, roughly."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds} s"


def print_json(value: Any) -> None:
    """Print a dataclass, model or dictionary as JSON on stdout, without fields that are None by default."""
    from pydantic import TypeAdapter

    adapter = TypeAdapter(type(value))
    content = _without_unset(adapter.dump_python(value, mode="json"), adapter.dump_python(value, exclude_defaults=True))
    click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))


def _without_unset(content: Any, given: Any) -> Any:
    """Leave out what is None and is not among what was given, at any depth."""
    if isinstance(content, dict) and isinstance(given, dict):
        kept = {key: value for key, value in content.items() if value is not None or key in given}
        return {key: _without_unset(value, given.get(key)) for key, value in kept.items()}
    if isinstance(content, list) and isinstance(given, list | tuple):
        return [_without_unset(*pair) for pair in zip(content, given, strict=True)]
    return content


def say(message: str, *, quiet: bool = False) -> None:
    """Print a message on stderr, above bars that are shown there."""
    if not quiet:
        print("\n".join(_wrap(message, _width(sys.stderr), 2)), file=sys.stderr, flush=True)


def terminal_width() -> int:
    """Count the columns of the terminal that stdout is, or 80."""
    return _width(sys.stdout) or 80


def print_text(text: str, *, style: str = "", indent: int = 0) -> None:
    """Print a text on stdout; on a terminal, lines that go on are indented."""
    for line in _wrap(text, _width(sys.stdout), indent):
        _print_line((line, style))


def print_fields(fields: Iterable[tuple[str, Cell]], *, indent: int = 0) -> None:
    """Print labels and their texts on stdout in two columns; a text without a label belongs to the one before."""
    fields, width = list(fields), _width(sys.stdout)
    longest = max(len(label) for label, _ in fields)
    column = indent + longest + 2 * bool(longest)
    for label, (text, style) in ((label, _split(cell)) for label, cell in fields):
        first, *others = _wrap(text, max(width - column, 20) if width else 0)
        _print_line((f"{' ' * indent + label:<{column}}", style or "bold"), (first, style))
        for line in others:
            _print_line((" " * column + line, style))


def print_command(label: str, command: str) -> None:
    """Print a command on stdout, for copying in one piece."""
    print_fields([(label, Command(command))])


def print_table(
    headings: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "", last_below: bool = False
) -> None:
    """Print a table on stdout: Markdown where it is piped, and a block for each row where the terminal is too narrow.

    Columns in which all cells are numbers stand to the right. With `last_below`, texts of the last column stand below
    their rows if one is long and the other cells need one line each.
    """
    rows = [[_split(cell) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        click.echo(to_markdown(headings, rows, title))
        return
    if title:
        print_text(title, style="bold")
    if last_below and any(len(_split(row[-1])[0]) > terminal_width() // 2 for row in rows):
        table = _fitting_table(headings[:-1], [row[:-1] for row in rows])
        heading, *lines = _rendered(table).splitlines() if table and table.columns else [""]
        if len(lines) == len(rows):
            click.echo(heading)
            for line, (text, style) in zip(lines, (_split(row[-1]) for row in rows), strict=True):
                click.echo(line)
                if text:
                    _print_broken(f"    {text}", style or "weak", 4)
            return
    if table := _fitting_table(headings, rows):
        click.echo(_rendered(table), nl=False)
    else:
        _print_blocks(headings, rows)


def fits(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bool:
    """Say whether a table fits the terminal as one."""
    return _fitting_table(headings, rows) is not None


def to_markdown(headings: Sequence[str], rows: Sequence[Sequence[Cell]], title: str = "") -> str:
    """Write a table as Markdown; what is best of its column is bold."""
    from tabulate import tabulate

    def plain(cell: Cell) -> str:
        text, style = _split(cell)
        text = text.replace("\n", " ").replace("|", "\\|")
        return f"**{text}**" if style == "best" and text else text

    align = ["right" if right else "left" for right in _are_numbers(headings, rows)]
    texts = [list(map(plain, row)) for row in [headings, *rows]]
    grid = tabulate(texts[1:], texts[0], "pipe", colalign=align if rows else None, disable_numparse=True)
    return f"## {title}\n\n{grid}" if title else grid


def _fitting_table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> Table | None:
    """Lay a table out such that it fits the terminal, numbers in one line if they can be; None if it cannot."""
    from rich.measure import Measurement, measure_renderables
    from rich.table import Table
    from rich.text import Text

    console, numbers = _console(sys.stdout), _are_numbers(headings, rows)
    endless = console.options.update_width(10_000)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, number in zip(headings, numbers, strict=True):
        table.add_column(heading.replace("\n", " "), justify="right" if number else "left", overflow="fold")
    for row in rows:
        cells = zip(map(_split, row), numbers, strict=True)
        table.add_row(*(Text(_kept(text, number), style) for (text, style), number in cells))
    if Measurement.get(console, endless, table).maximum <= console.width:
        return table
    for in_one_line in (True, False):
        for column, number in zip(table.columns, numbers, strict=True):
            heading_least = Measurement.get(console, endless, column.header).minimum
            least, most = measure_renderables(console, endless, list(column.cells))
            # Numbers and names keep their width; texts share what is left.
            keeps_width = in_one_line if number else least == most <= LONGEST_WORD
            column.width = max(most, heading_least) if keeps_width else None
            column.min_width = max(least if number else min(least, LONGEST_WORD), heading_least)
        least_width = sum(column.width or column.min_width or 0 for column in table.columns) + GAP * (len(headings) - 1)
        # Where several texts share, rich does not heed what one of them needs.
        if least_width <= console.width >= max(map(len, Text.from_ansi(_rendered(table)).plain.split("\n"))):
            return table
    return None


def _print_blocks(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
    """Print each row as its first cell and, below it, a line for every other cell that has something."""
    for row in rows:
        (first, style), *others = map(_split, row)
        _print_broken(first, style or "bold", 0)
        for heading, (text, style) in zip(headings[1:], others, strict=True):
            if text:
                _print_broken(f"  {heading}: {text}", style, 4)


def _print_broken(text: str, style: str, indent: int) -> None:
    """Print a text of a table in lines of which none is wider than the terminal."""
    for line in _wrap(text.replace("\n", " "), _width(sys.stdout), indent, break_words=True):
        _print_line((line, style))


def _kept(text: str, is_number: bool) -> str:
    """Mark the spaces of a cell at which it is not broken."""
    if is_number or "\n" in text:
        return text.replace(" ", KEPT).replace("\n", " ")
    return KEPT_SPACE.sub(KEPT, text)


def _are_numbers(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """Tell which columns have numbers alone, or nothing."""
    columns = [[_split(row[place])[0] for row in rows] for place in range(len(headings))]
    return [any(column) and all(NUMBER.fullmatch(text) for text in column) for column in columns]


def _split(cell: Cell) -> tuple[str, str]:
    """Give text and style of a cell, without what a terminal would obey."""
    text, style = (cell, "") if isinstance(cell, str) else cell
    return text if isinstance(text, Command) else CONTROL.sub(" ", text), style


def _wrap(text: str, width: int, indent: int = 0, *, break_words: bool = False) -> list[str]:
    """Break a text between words, and indent what goes on, where there is a width.

    A word that is longer than a line is left to the terminal, which copies it in one piece, unless it may be broken.
    """
    is_command, text = isinstance(text, Command), CONTROL.sub(" ", text)
    if width <= 2 * indent:
        return text.split("\n")
    end = ""
    if is_command:
        text = OPTION.sub(rf"\1{KEPT}", " ".join(shlex.quote(word).replace(" ", KEPT) for word in shlex.split(text)))
        width, indent, end = width - 2, indent + 2, " \\"
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=" " * indent, break_long_words=break_words, break_on_hyphens=False
    )
    lines: list[str] = []
    for line in KEPT_SPACE.sub(KEPT, text).split("\n"):
        *parts, last = wrapper.wrap(line) or [""]
        lines += [*(part + end for part in parts), last]
    return [line.replace(KEPT, " ") for line in lines]


def _console(stream: TextIO) -> Console:
    """Wrap a stream: width, colours and characters are those of its terminal."""
    from rich.console import Console
    from rich.theme import Theme

    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(file=stream, theme=Theme(STYLES), color_system=colours, highlight=False, markup=False, emoji=False)


def _width(stream: TextIO) -> int:
    """Count the columns of a terminal; 0 if the stream is none."""
    return _console(stream).width if stream.isatty() else 0


def _rendered(renderable: Any) -> str:
    """Render for stdout, with colours."""
    console = _console(sys.stdout)
    with console.capture() as captured:
        console.print(renderable, crop=False)
    return re.sub(r" +((?:\x1b\[[\d;]*m)*)$", r"\1", captured.get().replace(KEPT, " "), flags=re.MULTILINE)


def _print_line(*parts: tuple[str, str]) -> None:
    """Print a line on stdout, in styles if that is a terminal."""
    if sys.stdout.isatty() and any(style for _, style in parts):
        from rich.text import Text

        _console(sys.stdout).print(Text.assemble(*parts), soft_wrap=True)
    else:
        click.echo("".join(text for text, _ in parts).rstrip())


class Display:
    """Show bars on a terminal while a block lasts, after half a second; elsewhere, lines about what took long."""

    def __init__(self, quiet: bool) -> None:
        from rich import progress
        from rich.table import Column

        self.quiet, self.on_terminal = quiet, sys.stderr.isatty() and not quiet
        self._tasks: dict[str, Task] = {}
        console = _console(sys.stderr)
        self._longest_name = max(12, min(console.width * 9 // 20, console.width - 28))

        class TimeLeft(progress.ProgressColumn):
            def render(self, task: Task) -> str:
                return _time_left(task) or duration(time.monotonic() - task.fields["since"])

        def column(text: str, ratio: int | None = None) -> progress.TextColumn:
            return progress.TextColumn(text, markup=False, table_column=Column(no_wrap=True, ratio=ratio))

        self._bars = progress.Progress(
            column("{task.description}"),
            progress.BarColumn(12 if console.width >= 60 else 6),
            column("{task.fields[count]}"),
            column("{task.fields[step]} {task.fields[note]}", ratio=1),
            TimeLeft(Column(no_wrap=True)),
            console=console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            expand=True,
        )
        self._start = Timer(DELAY, self._bars.start)

    def __enter__(self) -> Self:
        if self.on_terminal:
            self._start.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.on_terminal:
            self._start.cancel()
            self._start.join()
            self._bars.stop()

    def update(self, name: str, step: str, done: int, total: int, note: str = "") -> None:
        """Show how far a step of something is; a new step began when the one before was last heard of."""
        now, is_new = time.monotonic(), name not in self._tasks
        if is_new:
            cut, head = len(name) - self._longest_name, self._longest_name // 4
            # Names begin with the experiment and end with what sets its runs apart.
            shown = f"{name[:head]}…{name[head + 1 + cut :]}" if cut > 0 else name
            self._bars.add_task(shown, total=None, step=step, note="", count="", since=now, heard=now, first=0)
            self._tasks[name] = self._bars.tasks[-1]
        task = self._tasks[name]
        count = f"{done}/{total}" if total <= MOST_COUNTED else f"{done / total:.0%}"
        fields: dict[str, Any] = {"note": note, "heard": now, "count": count if total else ""}
        if is_new or task.fields["step"] != step:
            # What is counted one by one is reported after each, and may go on from an earlier call.
            first = done - 1 if 0 < done <= total <= MOST_COUNTED else 0
            fields |= {"step": step, "since": task.fields["heard"], "first": first}
        self._bars.update(task.id, completed=done, total=total or None, **fields)

    @contextmanager
    def step(self, name: str, step: str = "") -> Iterator[Progress]:
        """Show one step; in a log it is a line at its end, if it was long and anything was done."""
        self.update(name, step, 0, 0)
        yield lambda done, total: self.update(name, step, done, total)
        task = self._tasks[name]
        seconds = time.monotonic() - task.fields["since"]
        if task.total and seconds >= DELAY and not self.on_terminal:
            say(f"{name}: {f'{step}: ' if step else ''}done in {duration(seconds)}", quiet=self.quiet)


@contextmanager
def progress(label: str, *, quiet: bool = False) -> Iterator[Progress]:
    """Show one long step, of which the block is given (done, total)."""
    with Display(quiet) as display, display.step(label) as report:
        yield report


class TrainingDisplay(Display):
    """Show one model that learns; in a log, by a line for each epoch."""

    def __init__(self, model: str, quiet: bool) -> None:
        super().__init__(quiet)
        self.model = model
        self.update(model, "", 0, 0)

    def preparing(self, done: int, total: int) -> None:
        """Show that data is prepared; its time is none of the epochs'."""
        self.update(self.model, "preparing the data", done, total)

    def epoch(self, epoch: int, epochs: int, reconstruction_error: float, mean_activation: float) -> None:
        """Show an epoch that is done."""
        error, activation = f"{reconstruction_error:.4f}", f"{mean_activation:.3f}"
        self.update(self.model, "epoch", epoch, epochs, f"error {error}, activation {activation}")
        if not self.on_terminal:
            numbers = f"reconstruction error {error}  mean activation {activation}"
            left = _time_left(self._tasks[self.model])
            say(f"{self.model} epoch {epoch:>{len(str(epochs))}}/{epochs}  {numbers}  {left:>10}", quiet=self.quiet)


class JobsDisplay(Display):
    """Show jobs: a bar for all of them, and one for each that is being done."""

    def __init__(self, total: int, quiet: bool, label: str = "runs") -> None:
        super().__init__(quiet)
        self.label, self.done, self.total = label, 0, total
        if total:
            self.update(label, "", 0, total)

    def finished(self, name: str, text: str = "", *, failed: bool = False) -> None:
        """Count a job, and print how it ended, if there is a text; a failure also where all else is quiet."""
        if name in self._tasks:
            self._bars.remove_task(self._tasks.pop(name).id)
        self.done += 1
        self.update(self.label, "", self.done, self.total)
        left = _time_left(self._tasks[self.label])
        if failed:
            say(f"failed: {name}: {text}")
        elif text:
            time_left = f", about {left}" if left and not self.on_terminal else ""
            say(f"[{self.done}/{self.total}] {name}: {text}{time_left}", quiet=self.quiet)


def _time_left(task: Task) -> str:
    """Guess from what was done since the step began; nothing before anything was done, or when all is."""
    done, left = task.completed - task.fields["first"], (task.total or 0) - task.completed
    return f"{duration((time.monotonic() - task.fields['since']) / done * left)} left" if done > 0 and left > 0 else ""
