"""One run: what ``thetarbm show`` prints, from the run's record, its folder and the suite."""

from __future__ import annotations

import re
import shlex
import statistics
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from thetarbm_cli.experiments.runs.loading import retrain_command
from thetarbm_cli.experiments.runs.record import Measured, MetricsPart, RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.followup import command_line
from thetarbm_cli.outcomes import (
    DEFAULT,
    ERROR,
    GAMMA_TEST,
    GAMMA_TRAIN,
    MEASURES,
    TABLES,
    column_name,
    split_column,
    variants_of,
)
from thetarbm_cli.outputs import Show, ShownFile, ShownNumber

SHOWN = (ERROR, GAMMA_TRAIN, GAMMA_TEST)
CURVES = {"reconstruction_error": "reconstruction error", "mean_activation": "mean activation"}
TIMINGS = {"train_seconds": "training", "checkpoint_seconds": "checkpoints", "evaluate_seconds": "measuring"}

# Columns of the terminal, of a label, of the name of a curve, and of the curve: the paper's profile has 30 epochs.
WIDTH, INDENT, CURVE_INDENT, WIDEST_CURVE = 80, 12, 21, 30
BLOCKS = "▁▂▃▄▅▆▇█"
# For terminals that have no more than ASCII: from light to dark, and what letters become.
ASCII = ".:-=+*#@"
PLAIN = {"γ": "gamma", "θ": "theta", "→": "->", "…": "...", "—": "-", "Δ": "delta"}

# Makes text such that the terminal can show it.
Printable = Callable[[str], str]


def summarise(store: RunStore, record: RunRecord, suite: Suite) -> Show:
    """Gather what is shown about a run."""
    settings, metrics = record.settings, record.metrics or MetricsPart()
    cells = cells_of(record, suite)
    folder = store.path(record.run)
    return Show(
        run=record.run,
        model=settings.model,
        state=record.state,
        error=record.error,
        algorithm=record.algorithm,
        current=record.algorithm == ALGORITHM,
        seed=record.seed,
        settings=settings.parameters,
        perturbation=settings.perturbation.model_dump() if settings.perturbation else None,
        svm=settings.svm.model_dump(exclude_defaults=True),
        data={
            **record.data,
            "protocol": settings.data.protocol,
            "seed": settings.data.seed,
            "images": {name: getattr(settings.data, name) for name in ("train", "valid", "test")},
        },
        cells=list(dict.fromkeys([*(f"{cell.name}@{cell.profile}" for cell in cells), *record.cells])),
        metrics=[_number(number, cells) for number in metrics.numbers() if number.measure in SHOWN],
        dead_units=metrics.gamma.test.dead_units if metrics.gamma and metrics.gamma.test else None,
        grid_search=metrics.grid_search,
        epochs=len(record.history),
        history={curve: [epoch[curve] for epoch in record.history if curve in epoch] for curve in CURVES},
        timings=record.timings,
        peak_memory_megabytes=record.peak_memory_megabytes,
        environment=record.environment,
        path=str(folder),
        # Without locks and what is half written.
        files=[
            ShownFile(name=path.name, bytes=path.stat().st_size)
            for path in sorted(folder.iterdir())
            if path.is_file() and not path.name.startswith(".") and path.suffix != ".lock"
        ],
        weights=_state_of_weights(store, record),
        train_command=retrain_command(record),
        evaluate_command=command_line("evaluate", record.run),
    )


def cells_of(record: RunRecord, suite: Suite) -> list[Cell]:
    """List the cells of the tables, in any profile, that a run belongs to; runs on a user's images are in none."""
    if record.data.get("test", {}).get("dataset") != "mnist-rot":
        return []
    cells = (cell for profile in suite.profiles for cell in suite.cells(profile, in_tables=True))
    return [cell for cell in cells if cell.fits(record, any_source=True)]


def _number(number: Measured, cells: list[Cell]) -> ShownNumber:
    """Compare a measured number with the paper's, each with the digits that it has in the tables."""
    digits = MEASURES[number.measure].digits
    cell = next((cell for cell in cells if number.measure in cell.published), None)
    published = cell.published[number.measure] if cell else None
    tables = cell.tables if cell else ()
    return ShownNumber(
        column=column_name(number.measure, number.variant),
        value=number.value,
        digits=digits,
        published=published,
        published_digits=min((TABLES[table].published_digits or digits for table in tables), default=None),
        difference=None if published is None else round(number.value - published, 6),
        cell=cell.name if cell else None,
    )


def _state_of_weights(store: RunStore, record: RunRecord) -> Literal["there", "missing", "damaged"]:
    try:
        store.verify_weights(record)
    except FileNotFoundError:
        return "missing"
    except (OSError, ValueError):
        return "damaged"
    return "there"


@dataclass
class Section:
    """A label and its lines; `bad` if something went wrong."""

    label: str
    lines: list[str] = field(default_factory=list)
    bad: bool = False


def to_sections(run: Show, *, unicode: bool = True) -> list[Section]:
    """Lay a run out in lines that are, with a label before them, no wider than 80 columns.

    Parameters
    ----------
    run : Show
        As `summarise` gives it.
    unicode : bool
        Whether the terminal has more than ASCII.
    """
    show = _printable if unicode else _ascii
    return [
        Section("run", [f"{run.run} ({run.state})"]),
        *_problems(run, show),
        Section("model", [f"{run.model}, seed {run.seed}"]),
        Section("settings", _wrap(show(_settings(run)))),
        Section("data", _wrap(show(_data(run.data)))),
        Section("cells", _cells(run.cells) or ["none: it is in no table of the suite"]),
        Section("metrics", _metrics(run, show)),
        Section("history", _history(run, show, BLOCKS if unicode else ASCII)),
        Section("timings", _wrap(_timings(run))),
        Section("made with", _wrap(show(_environment(run.environment)))),
        Section("files", [show(line) for line in _files(run)]),
    ]


def _problems(run: Show, show: Printable) -> list[Section]:
    """Say what is wrong with the run, and what to do."""
    error, again = run.error, [show(line) for line in _command(run.train_command)]
    if run.state == "failed":
        return [Section("failed", [*_wrap(show(f"{error}; try again with")), *again], bad=True)]
    found = []
    if error:
        found.append(Section("failed", _wrap(show(f"when it was measured: {error}")), bad=True))
    if not run.current:
        text = f"made by version {run.algorithm} of the algorithm, which is not this one's; train it again with"
        found.append(Section("stale", [*_wrap(text), *again], bad=True))
    return found


def _settings(run: Show) -> str:
    given = {
        **run.settings,
        **{f"perturbation.{name}": value for name, value in (run.perturbation or {}).items()},
        **{f"svm.{name}": value for name, value in run.svm.items()},
    }
    return ", ".join(f"{name} {_value(value)}" for name, value in given.items()) or "all as by default"


def _data(data: dict[str, Any]) -> str:
    sets = {role: f"{data[role]['dataset']} {data[role]['source']}" for role in ("train", "test")}
    text = sets["train"] if sets["train"] == sets["test"] else f"{sets['train']}, tested on {sets['test']}"
    taken = [f"{count} {name}" for name, count in data["images"].items() if count is not None]
    images = f"the first {', '.join(taken)} images" if taken else "all images"
    protocol = "" if data["protocol"] == "paper" else f", protocol {data['protocol']}"
    return f"{text}, {images}{protocol}, seed {data['seed']}, sha256 {data['test']['sha256'][:12]}…"


def _cells(names: list[str]) -> list[str]:
    """Write each cell on a line; a long name goes on after a comma, or the stroke behind the experiment."""
    lines = []
    for name in names:
        line = ""
        for word in re.split(r"(?<=[,/])", name):
            if line.strip() and len(line) + len(word) > WIDTH - INDENT:
                lines.append(line)
                line = "  "
            line += word
        lines.append(line)
    return lines


def _metrics(run: Show, show: Printable) -> list[str]:
    if not run.metrics:
        if run.state == "failed":
            return []
        return ["none yet; this measures it:", *_command(run.evaluate_command)]
    twice = any(split_column(number.column)[1] != DEFAULT for number in run.metrics)
    lines = []
    for number in run.metrics:
        measure, variant = split_column(number.column)
        name = show(MEASURES[measure].label) + (dict(variants_of("orbm"))[variant] if twice else "")
        unit = " %" if MEASURES[measure].unit == "%" else ""
        line = f"{name:<24}{number.value:>7.{number.digits}f}{unit:<2}"
        if number.published is not None:
            published = f"{number.published:.{number.published_digits}f}{unit}"
            line += f"   paper {published:<8} {number.difference:+.{number.digits}f}"
        lines.append(line.rstrip())
    if run.dead_units:
        lines.append(show(f"{run.dead_units} dead units are left out of γ"))
    if found := run.grid_search:
        chosen = f"grid search: C = {found.C:g}, γ = {found.gamma:g}"
        lines.append(show(f"{chosen}, test error {found.test_error_percent:.2f} %"))
    return lines


def _history(run: Show, show: Printable, levels: str) -> list[str]:
    epochs = run.epochs
    if not epochs:
        return ["none: nothing was learned"]
    lines = [f"{epochs} epoch{'' if epochs == 1 else 's'}"]
    for curve, name in CURVES.items():
        if values := run.history[curve]:
            ends = show(f"  {values[0]:.4g} → {values[-1]:.4g}")
            width = min(WIDEST_CURVE, WIDTH - INDENT - CURVE_INDENT - len(ends))
            lines.append(f"{name:<{CURVE_INDENT}}{sparkline(values, width, levels)}{ends}")
    return lines


def _timings(run: Show) -> str:
    words = [f"{TIMINGS.get(name, name)} {_seconds(seconds)}" for name, seconds in run.timings.items()]
    return ", ".join([*words, f"peak memory {run.peak_memory_megabytes:.0f} MB"])


def _environment(environment: dict[str, Any]) -> str:
    words = [f"thetarbm {environment.get('version', '?')}"]
    if git := environment.get("git"):
        words.append(f"revision {git['revision'][:10]}{' (changed)' if git['dirty'] else ''}")
    words.append(f"Python {environment.get('python', '?')}")
    words += [f"{name} {version}" for name, version in environment.get("libraries", {}).items()]
    words += [f"{name} {environment[name]}" for name in ("backend", "gpu", "processor") if environment.get(name)]
    return ", ".join(words)


def _files(run: Show) -> list[str]:
    lines = [run.path, *(f"{file.name:<16}{_bytes(file.bytes):>9}" for file in run.files)]
    if run.weights != "there" and run.state == "done":
        lines += [f"weights.npz is {run.weights}; this makes it:", *_command(run.train_command)]
    return lines


def sparkline(values: Sequence[float], width: int = WIDEST_CURVE, levels: str = BLOCKS) -> str:
    """Draw values as characters, the lowest value the first of the levels, the highest the last.

    More values than `width` are averaged in groups of neighbours; values that are all alike are the lowest level.
    """
    if len(values) > width:
        edges = [len(values) * number // width for number in range(width + 1)]
        values = [statistics.fmean(values[start:end]) for start, end in pairwise(edges)]
    if not values:
        return ""
    low, high = min(values), max(values)
    # Halved before they are subtracted: the difference of two huge numbers would be infinite.
    spread = high / 2 - low / 2
    if spread == 0:
        return levels[0] * len(values)
    places = ((value / 2 - low / 2) / spread * len(levels) for value in values)
    return "".join(levels[min(int(place), len(levels) - 1)] for place in places)


def _command(command: str) -> list[str]:
    """Break a command into lines that a shell takes as one."""
    lines, line = [], ""
    for word in map(shlex.quote, shlex.split(command)):
        if line and len(line) + len(word) + 3 > WIDTH - INDENT:
            lines.append(f"{line} \\")
            line = "  "
        line += word if not line.strip() else f" {word}"
    return [*lines, line]


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH - INDENT, break_on_hyphens=False) or [""]


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _bytes(count: int) -> str:
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1e6 else f"{count / 1e6:.1f} MB"


def _printable(text: str) -> str:
    """Replace what a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _ascii(text: str) -> str:
    for character, word in PLAIN.items():
        text = text.replace(character, word)
    return _printable(text).encode("ascii", "replace").decode()
