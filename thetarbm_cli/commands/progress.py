"""Show how far a command is, on stderr: lines that stay in place on a terminal, a line per epoch or run in a log.

On a terminal nothing is ever wider than it, and what is shown is gone when the command ends. rich is imported only when
something is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import click

from thetarbm_cli.commands.terminal import console, fitted
from thetarbm_cli.outcomes import PREPARING, TRAINING

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.live import Live

    from thetarbm_cli.experiments.execution.job import Outcome
    from thetarbm_cli.experiments.execution.plan import PlannedRun
    from thetarbm_cli.models.contrastive_divergence import EpochRecord

Progress = Callable[[int, int], None]

PICTURES_PER_SECOND = 4
# Below so many columns bars are short.
NARROW = 60
# What is counted one by one, and said as 3/30; more is said in per cent.
MOST_COUNTED = 1000
# Cost of a run (`execution.job.cost`) that a process does in a second, and for how many seconds that is believed.
USUAL_PACE, SECONDS_BELIEVED = 50_000, 10
# Seconds until processes are at work.
STARTING_SECONDS = 3
# Share of a run's time until it is trained; each measure then takes half of what is left.
TRAINED = 0.6


class Line:
    """Something that is being done: which step, and how far it is."""

    def __init__(self, name: str) -> None:
        self.name, self.step, self.note = name, "", ""
        self.done, self.total, self.first = 0, 0, 0
        self.started = self.touched = time.perf_counter()
        self._share = 0.0

    def update(self, step: str, done: int, total: int, note: str = "") -> None:
        """Take up the state of a step; a new one began when the one before was last heard of."""
        if step != self.step:
            self._share = self.share
            self.step, self.started = step, self.touched
            # What is counted one by one is told after each, and may go on from an earlier call.
            self.first = done - 1 if done > 0 and total <= MOST_COUNTED else 0
        self.done, self.total, self.note, self.touched = done, total, note, time.perf_counter()

    @property
    def share(self) -> float:
        """Guess the share of a run that is done, whatever its steps."""
        if not self.total or self.step == PREPARING:
            return self._share
        ahead = max(0.0, TRAINED - self._share) if self.step == TRAINING else (1 - self._share) / 2
        return self._share + ahead * self.part

    @property
    def seconds_left(self) -> float | None:
        """Guess from what was done since the step began."""
        since = self.done - self.first
        return (time.perf_counter() - self.started) / since * (self.total - self.done) if since > 0 else None

    @property
    def part(self) -> float:
        """The part of the step that is done."""
        return self.done / self.total if self.total else 0.0

    @property
    def count(self) -> str:
        """Say how far the step is."""
        if not self.total:
            return ""
        return f"{self.done}/{self.total}" if self.total <= MOST_COUNTED else f"{self.part:.0%}"


# The display that is on the terminal, if any.
_shown: Display | None = None


def print_message(text: str) -> None:
    """Print a message on stderr, above what is shown there."""
    text = fitted(text, sys.stderr)
    if _shown is None or _shown.live is None:
        click.echo(text, err=True)
    else:
        _shown.live.console.print(text, soft_wrap=True)


class Display:
    """Lines on a terminal while a block lasts; nothing where stderr is none, or with --quiet."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet
        self.on_terminal = sys.stderr.isatty() and not quiet
        self.lines: dict[str, Line] = {}
        self.live: Live | None = None

    def __enter__(self) -> Self:
        global _shown  # noqa: PLW0603  there is one terminal
        if self.on_terminal:
            from rich.live import Live

            self.live = Live(
                self,
                console=console(sys.stderr),
                refresh_per_second=PICTURES_PER_SECOND,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            _shown = self
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        global _shown  # noqa: PLW0603
        if self.live is not None:
            self.live.stop()
            _shown = None

    def line(self, name: str) -> Line:
        """Give the line of a name; a new one is drawn at once, however short the work is."""
        if name not in self.lines:
            self.lines[name] = Line(name)
            if self.live is not None:
                self.live.refresh()
        return self.lines[name]

    def say(self, text: str) -> None:
        """Print a line that stays."""
        if not self.quiet:
            print_message(text)

    @contextmanager
    def step(self, name: str, step: str = "") -> Iterator[Progress]:
        """Show one step of something; in a log it is a line at its end, and none if nothing was done."""
        line = self.line(name)
        line.update(step, 0, 0)
        yield lambda done, total: line.update(step, done, total)
        if line.total and not self.on_terminal:
            self.say(f"{name}: {step + ': ' if step else ''}done")

    def __rich_console__(self, terminal: Console, options: ConsoleOptions) -> RenderResult:
        """Draw a line each: name, bar, how far it is, with what, and the time left."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        lines, wide = list(self.lines.values()), options.max_width >= NARROW
        names = [line.name for line in lines]
        counts = [line.count for line in lines]
        words = [f"{line.step} {line.note}".strip() for line in lines]
        times = [time_left(line.seconds_left, " left" if wide else "") for line in lines]
        bar = 12 if wide else 6
        name, count, word, left = (max(map(len, texts), default=0) for texts in (names, counts, words, times))
        room = max(2, options.max_width - bar - count - left - 4)
        name = min(name, max(room - word, room * 2 // 3))
        grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
        for width in (name, bar, count, min(word, room - name), left):
            grid.add_column(width=width, no_wrap=True, overflow="ellipsis")
        bars = [ProgressBar(1.0 if line.total else None, line.part) for line in lines]
        for row in zip(names, bars, counts, words, times, strict=True):
            # Names begin with the experiment and end with what sets its runs apart.
            head = (name - 1) // 4
            shown = row[0] if len(row[0]) <= name else f"{row[0][:head]}…{row[0][head + 1 - name :]}"
            grid.add_row(shown, *row[1:])
        yield grid


def time_left(seconds: float | None, after: str = " left") -> str:
    """Say a time in words, roughly; nothing if it is not known."""
    if seconds is None:
        return ""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours} h {minutes} min" if hours else f"{minutes} min" if minutes else f"{seconds} s") + after


class TrainingDisplay(Display):
    """Show one model that learns: a line for each epoch in a log."""

    def __init__(self, quiet: bool, model: str) -> None:
        super().__init__(quiet)
        self.model = model
        self.line(model)

    def preparing(self, done: int, total: int) -> None:
        """Show that data is prepared; its time is none of the epochs'."""
        line = self.line(self.model)
        if line.step != PREPARING and not self.on_terminal:
            self.say(PREPARING)
        line.update(PREPARING, done, total)

    def epoch(self, record: EpochRecord, epochs: int) -> None:
        """Show an epoch that is done."""
        line = self.line(self.model)
        error, activation = f"{record.reconstruction_error:.4f}", f"{record.mean_activation:.3f}"
        line.update(TRAINING, record.epoch, epochs, f"error {error}, activation {activation}")
        if not self.on_terminal:
            numbers = f"reconstruction error {error}  mean activation {activation}  {time_left(line.seconds_left):>9}"
            self.say(f"{self.model} epoch {record.epoch:>{len(str(epochs))}}/{epochs}  {numbers}")


class RunsDisplay(Display):
    """Show runs that are being made: all of them in a bar, and a line for each that is at work."""

    def __init__(self, quiet: bool, runs: Sequence[PlannedRun], at_once: int = 1) -> None:
        from thetarbm_cli.experiments.execution.job import cost

        super().__init__(quiet)
        self.costs = {run.name: cost(run) for run in runs}
        self.overall = AllRuns(self, len(runs), USUAL_PACE * min(at_once, max(1, len(runs))))
        if runs:
            self.lines[""] = self.overall

    def working(self, run: PlannedRun, step: str, done: int, total: int) -> None:
        """Show how far a run is."""
        self.line(run.name).update(step, done, total)

    def finished(self, run: PlannedRun, outcome: Outcome) -> None:
        """Show how a run ended; failures are shown even where all else is quiet."""
        name, overall = run.name, self.overall
        self.lines.pop(name, None)
        overall.finish(self.costs.pop(name))
        if outcome.state == "failed":
            debug = click.get_current_context().find_root().params["debug"]
            hint = "; --debug with --retry-failed shows the traceback" if outcome.traceback and not debug else ""
            print_message(f"failed: {name}: {outcome.error}{hint}")
            if outcome.traceback and debug:
                print_message(outcome.traceback.rstrip())
            return
        error = "no labels" if outcome.test_error_percent is None else f"{outcome.test_error_percent:.2f} %"
        numbers = error + ("" if outcome.gamma_test is None else f", γ {outcome.gamma_test:.4f}")
        overall.note = f"last {numbers}"
        if not self.on_terminal:
            left = "" if overall.done == overall.total else f", about {time_left(overall.seconds_left)}"
            self.say(f"[{overall.done}/{overall.total}] {name}: {numbers}, {outcome.seconds:.0f} s{left}")


class AllRuns(Line):
    """The line of all runs; its time is known from the first second, first by what such runs cost elsewhere."""

    def __init__(self, display: RunsDisplay, total: int, pace: float) -> None:
        super().__init__("runs")
        self.display, self.total, self.pace, self.finished_cost = display, total, pace, 0.0

    def finish(self, cost: float) -> None:
        """Count one more."""
        self.finished_cost += cost
        self.done += 1

    def _costs(self) -> tuple[float, float]:
        """Add up what is done, and what there is to do."""
        shares = {line.name: line.share for line in list(self.display.lines.values()) if line is not self}
        costs = dict(self.display.costs)
        done = self.finished_cost + sum(cost * shares.get(name, 0.0) for name, cost in costs.items())
        return done, self.finished_cost + sum(costs.values())

    @property
    def part(self) -> float:
        """The part of the whole cost that is done."""
        done, total = self._costs()
        return done / total

    @property
    def seconds_left(self) -> float:
        """Guess from the cost of what was done so far and of what is to do."""
        done, total = self._costs()
        if not done:
            return STARTING_SECONDS + total / self.pace
        elapsed = time.perf_counter() - self.started
        return (total - done) * (elapsed + SECONDS_BELIEVED) / (done + self.pace * SECONDS_BELIEVED)
