"""One run: what ``thetarbm show`` prints, from the run's record, its folder and the suite."""

from __future__ import annotations

import re
import shlex
import statistics
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Literal

from rich import filesize

from thetarbm_cli.experiments.runs.loading import retrain_command
from thetarbm_cli.experiments.runs.record import Measured, MetricsPart, RunRecord, validated
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.followup import command_line
from thetarbm_cli.outcomes import DEFAULT, MEASURES, TABLES, column_name, split_column, variants_of
from thetarbm_cli.outputs import Show, ShownFile, ShownNumber, UnfinishedRun

SHOWN = [name for name, measure in MEASURES.items() if measure.asked_as]
CURVES = {"reconstruction_error": "reconstruction error", "mean_activation": "mean activation"}
TIMINGS = {"train_seconds": "training", "checkpoint_seconds": "checkpoints", "evaluate_seconds": "measuring"}

# Columns of a label, of the name of a curve, and of the curve: the paper's profile has 30 epochs.
INDENT, CURVE_INDENT, WIDEST_CURVE = 12, 21, 30
BLOCKS = "▁▂▃▄▅▆▇█"
# For terminals that have no more than ASCII: from light to dark, and what letters become.
ASCII = ".:-=+*#@"
PLAIN = {"γ": "gamma", "θ": "theta", "→": "->", "…": "...", "—": "-", "Δ": "delta"}


def summarise(store: RunStore, record: RunRecord, suite: Suite) -> Show:
    """Gather what is shown about a run."""
    metrics = record.metrics or MetricsPart()
    cells = cells_of(record, suite)
    folder = store.path(record.run)
    return Show(
        run=record.run,
        state=record.state,
        running=store.is_held(record.run),
        error=record.error,
        algorithm=record.algorithm,
        current=record.algorithm == ALGORITHM,
        **_description(record),
        cells=list(dict.fromkeys([*(f"{cell.name}@{cell.profile}" for cell in cells), *record.cells])),
        metrics=[_number(number, cells) for number in metrics.numbers() if number.measure in SHOWN],
        dead_units=metrics.gamma.test.dead_units if metrics.gamma and metrics.gamma.test else None,
        grid_search=metrics.grid_search,
        epochs=len(record.history),
        history={curve: [epoch[curve] for epoch in record.history if curve in epoch] for curve in CURVES},
        timings=record.timings,
        peak_memory_megabytes=record.peak_memory_megabytes,
        environment=record.environment.model_dump(),
        path=str(store.pack_of(record.run) or folder),
        # Without locks and what is half written.
        files=[
            ShownFile(name=path.name, bytes=path.stat().st_size)
            for path in sorted(folder.glob("*"))
            if path.is_file() and not path.name.startswith(".") and path.suffix != ".lock"
        ],
        weights=_state_of_weights(store, record),
        evaluate_command=command_line("evaluate", record.run),
    )


def _description(record: RunRecord) -> dict[str, Any]:
    """Gather what a run is, and what makes it or goes on with it."""
    settings = record.settings
    return {
        "model": settings.model,
        "seed": record.seed,
        "sparsity": record.parameters.get("sparsity"),
        "settings": settings.differing_parameters,
        "perturbation": settings.perturbation.named() if settings.perturbation else None,
        "svm": settings.svm.model_dump(exclude_defaults=True),
        "features": settings.features,
        "data": {
            **record.data.model_dump(),
            "protocol": settings.data.protocol,
            "seed": settings.data.seed,
            "images": {name: getattr(settings.data, name) for name in ("train", "valid", "test")},
        },
        "train_command": retrain_command(record),
    }


def cells_of(record: RunRecord, suite: Suite) -> list[Cell]:
    """List the cells of the tables, in any profile, that a run belongs to; runs on a user's images are in none."""
    if record.data.test.dataset != "mnist-rot":
        return []
    cells = (cell for profile in suite.profiles for cell in suite.cells(profile, in_tables=True))
    return [cell for cell in cells if cell.fits(record, any_source=True)]


def _number(number: Measured, cells: list[Cell]) -> ShownNumber:
    """Compare a measured number with the paper's, each with the digits that it has in the tables."""
    digits = MEASURES[number.measure].digits
    cell = next((cell for cell in cells if number.measure in cell.published), None)
    published = cell.published[number.measure] if cell else None
    tables = [TABLES[table] for table in cell.tables if table in TABLES] if cell else []
    return ShownNumber(
        column=column_name(number.measure, number.variant),
        value=number.value,
        digits=digits,
        published=published,
        published_digits=min((table.published_digits or digits for table in tables), default=None),
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


def summarise_unfinished(store: RunStore, run: str) -> UnfinishedRun:
    """Gather what is known of a run that has no record yet, from its checkpoint."""
    # It needs the models, which nothing else here does.
    from thetarbm_cli.experiments.runs.checkpoints import from_arrays

    arrays = store.load_checkpoint(run)
    try:
        state, progress = from_arrays(arrays or {})
        history = [asdict(record) for record in state.history]
    except (KeyError, ValueError, TypeError, AttributeError):
        history, progress = [], {}
    try:
        begun = validated(RunRecord, progress["begun"])
    except (KeyError, ValueError, TypeError):
        begun = None
    return UnfinishedRun(
        run=run,
        **(_description(begun) if begun else {"model": run.rpartition("-")[0]}),
        state="running" if store.is_held(run) else "interrupted",
        epochs=len(history),
        epochs_in_all=begun.parameters.get("epochs") if begun else None,
        history={curve: [epoch[curve] for epoch in history] for curve in CURVES},
        seconds=progress.get("training_seconds", 0.0),
        path=str(store.path(run)),
    )


@dataclass
class Section:
    """A label and its lines, in a style by what they mean; one without is plain."""

    label: str
    lines: list[str] = field(default_factory=list)
    style: Literal["", "good", "busy", "bad"] = ""


@dataclass(frozen=True)
class Page:
    """What lines have to fit: `room` columns beside the labels, of a terminal that has more than ASCII or not."""

    room: int
    unicode: bool

    def show(self, text: str) -> str:
        """Replace what the terminal does not have, or would obey."""
        if not self.unicode:
            for character, word in PLAIN.items():
                text = text.replace(character, word)
            text = text.encode("ascii", "replace").decode()
        return "".join(character if character.isprintable() else "?" for character in text)

    def wrap(self, text: str) -> list[str]:
        """Break a text into lines."""
        return textwrap.wrap(self.show(text), self.room, break_on_hyphens=False) or [""]

    def command(self, command: str) -> list[str]:
        """Break a command into lines that a shell takes as one."""
        return [self.show(line) for line in break_command(command, self.room)]


def break_command(command: str, width: int) -> list[str]:
    """Break a command into lines that a shell takes as one."""
    words: list[str] = []
    for word in map(shlex.quote, shlex.split(command)):
        # An option and its value stay together where there is room.
        if words and re.fullmatch(r"--?[\w-]+", words[-1]) and len(words[-1]) + len(word) + 5 <= width:
            words[-1] += f" {word}"
        else:
            words.append(word)
    lines, line = [], ""
    for word in words:
        if line and len(line) + len(word) + 3 > width:
            lines.append(f"{line} \\")
            line = "  "
        line += word if not line.strip() else f" {word}"
    return [*lines, line]


def to_sections(run: Show | UnfinishedRun, *, width: int = 80, unicode: bool = True) -> list[Section]:
    """Lay a run out in lines that are, with a label before them, no wider than the terminal, if that has 40 columns.

    Without `unicode`, the terminal has no more than ASCII.
    """
    page = Page(max(width, 40) - INDENT, unicode)
    if isinstance(run, UnfinishedRun):
        command = run.train_command if run.state == "interrupted" else None
        return [
            Section("run", [f"{run.run} ({run.state})"], "busy" if run.state == "running" else "bad"),
            *_settings_sections(run, page),
            Section("epochs", page.wrap(_progress(run))),
            Section("history", _history(run, page)),
            *([Section("goes on by", page.command(command))] if command else []),
            Section("files", [page.show(run.path)]),
        ]
    state = "being measured" if run.running and not run.metrics else run.state
    timings = [f"{TIMINGS.get(name, name)} {_seconds(seconds)}" for name, seconds in run.timings.items()]
    return [
        Section("run", [f"{run.run} ({state})"], "busy" if run.running else "good" if state == "done" else "bad"),
        *_problems(run, page),
        *_settings_sections(run, page),
        Section("cells", _cells(run.cells, page.room) or page.wrap("none: it is in no table of the suite")),
        Section("metrics", _metrics(run, page)),
        Section("history", _history(run, page)),
        Section("timings", page.wrap(", ".join([*timings, f"peak memory {run.peak_memory_megabytes:.0f} MB"]))),
        Section("made with", page.wrap(_environment(run.environment))),
        Section("files", _files(run, page)),
    ]


def _progress(run: UnfinishedRun) -> str:
    if not run.epochs:
        return "none done yet"
    if run.epochs_in_all is None:
        return f"{run.epochs} done in {_seconds(run.seconds)}"
    left = run.seconds / run.epochs * (run.epochs_in_all - run.epochs)
    return f"{run.epochs} of {run.epochs_in_all} done in {_seconds(run.seconds)}, about {_seconds(left)} left"


def _problems(run: Show, page: Page) -> list[Section]:
    """Say what is wrong with the run, and what to do."""
    again = page.command(run.train_command)
    if run.state == "failed":
        return [Section("failed", [*page.wrap(f"{run.error}; try again with"), *again], "bad")]
    found = []
    if run.error:
        found.append(Section("failed", page.wrap(f"when it was measured: {run.error}"), "bad"))
    if not run.current:
        text = f"made by version {run.algorithm} of the algorithm, which is not this one's; train it again with"
        found.append(Section("stale", [*page.wrap(text), *again], "bad"))
    return found


def _settings_sections(run: Show | UnfinishedRun, page: Page) -> list[Section]:
    """Say what a run is; of one that is in its first epoch it is not known."""
    if run.settings is None or run.data is None:
        return [Section("model", [page.show(run.model)]), Section("settings", page.wrap("known after the first epoch"))]
    sparsity = [] if run.sparsity is None else [f"sparsity {run.sparsity:g}"]
    given = {
        **{name: value for name, value in run.settings.items() if name != "sparsity" or value is None},
        **{f"perturbation.{name}": value for name, value in (run.perturbation or {}).items()},
        **{f"svm.{name}": value for name, value in (run.svm or {}).items()},
        **({} if run.features in (None, "probabilities") else {"features": run.features}),
    }
    settings = ", ".join(f"{name} {_value(value)}" for name, value in given.items()) or "all others as by default"
    return [
        Section("model", page.wrap(", ".join([run.model, *sparsity, f"seed {run.seed}"]))),
        Section("settings", page.wrap(settings)),
        Section("data", page.wrap(_data(run.data))),
    ]


def _data(data: dict[str, Any]) -> str:
    sets = {role: f"{data[role]['dataset']} {data[role]['source']}" for role in ("train", "test")}
    text = sets["train"] if sets["train"] == sets["test"] else f"{sets['train']}, tested on {sets['test']}"
    taken = [f"{count} {name}" for name, count in data["images"].items() if count is not None]
    images = f"the first {', '.join(taken)} images" if taken else "all images"
    protocol = "" if data["protocol"] == "paper" else f", protocol {data['protocol']}"
    return f"{text}, {images}{protocol}, seed {data['seed']}, sha256 {data['test']['sha256'][:12]}…"


def _cells(names: list[str], room: int) -> list[str]:
    """Write each cell on a line; a long name goes on after a comma, a stroke or "="."""
    lines = []
    for name in names:
        line = ""
        for word in re.split(r"(?<=[,/=])", name):
            if line.strip() and len(line) + len(word) > room:
                lines.append(line)
                line = "  "
            line += word
        lines.append(line)
    return lines


def _metrics(run: Show, page: Page) -> list[str]:
    if not run.metrics:
        if run.state == "failed" or run.running:
            return []
        return ["none yet; this measures it:", *page.command(run.evaluate_command)]
    columns = [split_column(number.column) for number in run.metrics]
    twice = any(variant != DEFAULT for _, variant in columns)
    endings = dict(variants_of("orbm")) if twice else {DEFAULT: ""}
    names = [page.show(MEASURES[measure].label) + endings[variant] for measure, variant in columns]
    if run.data["protocol"] == "choice":
        names = [name.replace("test", "validation") for name in names]
    width = max(24, *(len(name) + 1 for name in names))
    lines = []
    for name, (measure, _), number in zip(names, columns, run.metrics, strict=True):
        unit = " %" if MEASURES[measure].unit == "%" else ""
        line = f"{name:<{width}}{number.value:>7.{number.digits}f}{unit:<2}"
        if number.published is not None:
            published = f"{number.published:.{number.published_digits}f}{unit}"
            line += f"   paper {published:<8} {number.difference:+.{number.digits}f}"
        lines += [line.rstrip()] if len(line.rstrip()) <= page.room else page.wrap(" ".join(line.split()))
    if run.dead_units:
        lines += page.wrap(f"{run.dead_units} dead units are left out of γ")
    if found := run.grid_search:
        chosen = f"grid search: C = {found.C:g}, γ = {found.gamma:g}"
        lines += page.wrap(f"{chosen}, test error {found.test_error_percent:.2f} %")
    return lines


def _history(run: Show | UnfinishedRun, page: Page) -> list[str]:
    epochs, levels = run.epochs, BLOCKS if page.unicode else ASCII
    if not epochs:
        return page.wrap("none: nothing was learned")
    lines = [f"{epochs} epoch{'' if epochs == 1 else 's'}"]
    for curve, name in CURVES.items():
        if values := run.history[curve]:
            ends = page.show(f"  {values[0]:.4g} → {values[-1]:.4g}")
            width = page.room - CURVE_INDENT - len(ends)
            if width > 0:
                lines.append(f"{name:<{CURVE_INDENT}}{sparkline(values, min(WIDEST_CURVE, width), levels)}{ends}")
            else:
                lines += [name, sparkline(values, page.room, levels), ends.strip()]
    return lines


def _environment(environment: dict[str, Any]) -> str:
    words = [f"thetarbm {environment.get('version', '?')}"]
    if git := environment.get("git"):
        words.append(f"revision {git['revision'][:10]}{' (changed)' if git['dirty'] else ''}")
    words.append(f"Python {environment.get('python', '?')}")
    words += [f"{name} {version}" for name, version in environment.get("libraries", {}).items()]
    words += [f"{name} {environment[name]}" for name in ("backend", "gpu", "processor") if environment.get(name)]
    return ", ".join(words)


def _files(run: Show, page: Page) -> list[str]:
    files = (f"{each.name:<16}{filesize.decimal(each.bytes):>9}" for each in run.files)
    lines = [page.show(line) for line in (run.path, *files)]
    if run.weights != "there" and run.state == "done":
        lines += [*page.wrap(f"weights.npz is {run.weights}; this makes it:"), *page.command(run.train_command)]
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


def _value(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
