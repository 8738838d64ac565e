"""Runs as a list, one run in full, or where several differ: views of records for ``thetarbm list`` and ``show``.

Neither pandas nor a model is imported, so that a list of many records is there at once.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from rich import filesize

from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.followup import command_line
from thetarbm_cli.measures import DEFAULT, MEASURES, NOT_ALIGNED, column_name, measure_of, split_column
from thetarbm_cli.results import described, main_numbers, numbers_of
from thetarbm_cli.specs import ALGORITHM, OWN_IMAGES, MeasureSpec, RandomNumbers, TrainSpec
from thetarbm_cli.store import Store, Training
from thetarbm_cli.suite import Cell, Suite
from thetarbm_cli.ui import Cell as Text
from thetarbm_cli.ui import Command, terminal_width

MAIN = ("test_error_percent", "gamma_train", "gamma_test")
# What a list is sorted by most, and short forms of it.
SHORT = {"error": "test_error_percent", "gamma": "gamma_test"}
SORTED_BY = ("run", "model", "seed", "sparsity", *SHORT, *MAIN)
CURVES = {"reconstruction_error": "reconstruction error", "mean_activation": "mean activation"}
WIDEST_CURVE = 30
BLOCKS = "▁▂▃▄▅▆▇█"

Count = Annotated[int, Field(ge=0)]
Percent = Annotated[float, Field(ge=0, le=100)]
Gamma = Annotated[float, Field(ge=0, allow_inf_nan=False)]


# A list


class ListedRun(BaseModel):
    """A record with its main numbers, which are null where they were not measured."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run: str
    model: str
    seed: int
    state: Literal["done", "diverged"]
    differs: dict[str, Any]
    """Settings that differ from the defaults, by the names that --set takes."""
    dataset: str
    """Of the test images."""
    source: str
    """Where the test images come from."""
    train_sha256: str
    """Checksum of the training images: two files of one name are told apart by it."""
    test_error_percent: Percent | None
    gamma_train: Gamma | None
    gamma_test: Gamma | None
    cells: list[str]
    """Cells of a suite that it was first made for."""
    test_error_percent_unaligned: Percent | None = None
    """Of the O-RBM alone, as the next two."""
    gamma_train_unaligned: Gamma | None = None
    gamma_test_unaligned: Gamma | None = None


class ListedRuns(BaseModel):
    """What ``thetarbm list --json`` prints."""

    runs: list[ListedRun]


def tested(training: Training) -> tuple[str, str]:
    """Name the data set and source of the images that a training was tested on, or would be."""
    specs = [each.spec for each in training.measurements if each.spec.part != "train"]
    nearest = min(specs, key=lambda spec: spec.distance, default=None)
    if nearest is None:
        return training.spec.tested_on, training.spec.data.source
    return nearest.dataset, nearest.source


def list_runs(trainings: Iterable[Training], where: Sequence[str] = (), sort: str = "run") -> list[ListedRun]:
    """List the runs that are as `where` says, in the order of a setting or number; ``-`` before it turns it round.

    Parameters
    ----------
    where : words ``key=value``, of which all must hold
    """
    lines = []
    for training in trainings:
        dataset, source = tested(training)
        facts = {"dataset": dataset, "source": source, "cells": training.made_for.cells}
        lines.append((training, {**described(training), **facts, **main_numbers(training)}))
    names = {name for _, known in lines for name in known}
    # Names that an empty folder knows, too.
    names |= {"run", "model", "seed", "state", "dataset", "source", "sparsity", *MEASURES}
    for word in where:
        key, equals, text = word.partition("=")
        if not key or not equals:
            raise InputError(f"--where takes key=value, not {word!r}")
        _check_name(key, names, "--where")
        lines = [line for line in lines if _is(line[1].get(key), text)]
    key = SHORT.get(sort.removeprefix("-"), sort.removeprefix("-"))
    _check_name(key, names, "--sort", SORTED_BY)
    known = [line for line in lines if line[1].get(key) is not None]
    known.sort(key=lambda line: (line[1]["model"], line[1]["seed"], line[1]["run"]))
    known.sort(key=lambda line: _sortable(line[1][key]), reverse=sort.startswith("-"))
    return [_listed(*line) for line in [*known, *(line for line in lines if line[1].get(key) is None)]]


def _check_name(name: str, names: set[str], option: str, main: Sequence[str] = ()) -> None:
    if name not in names:
        # The main names first: one of them that is near is meant.
        hint = did_you_mean(name, main, "") or did_you_mean(name, sorted(names), "list --json shows what they have")
        most = f" (the main ones are {', '.join(main)})" if main else ""
        raise InputError(f"{option}: no record has a setting or number {name!r}{most}; {hint}")


def _is(value: Any, text: str) -> bool:
    """Whether a value is the one that is written: JSON where it can be, a plain word else; of cells, one of them."""
    if isinstance(value, (list, tuple)):
        return text in value
    try:
        wanted = None if text.lower() == "none" else json.loads(text)
    except ValueError:
        wanted = text
    return str(value) == text or (value == wanted and isinstance(value, bool) == isinstance(wanted, bool))


def _sortable(value: Any) -> tuple[bool, Any]:
    """Let numbers come before words."""
    is_number = isinstance(value, (int, float))
    return not is_number, value if is_number else str(value)


def _listed(training: Training, known: dict[str, Any]) -> ListedRun:
    names = [column_name(name, variant) for variant in (DEFAULT, NOT_ALIGNED) for name in MAIN]
    return ListedRun(
        run=training.run,
        model=training.spec.model,
        seed=training.spec.seed,
        state=training.state,
        differs=training.spec.differing(),
        dataset=known["dataset"],
        source=known["source"],
        train_sha256=training.images_sha256,
        **dict.fromkeys(MAIN),
        cells=list(training.made_for.cells),
    ).model_copy(update={name: known[name] for name in names if name in known})


class ComparedRuns(BaseModel):
    """What ``thetarbm show RUN RUN… --json`` prints: only what differs, null where a run has no such value."""

    runs: list[str]
    settings: dict[str, list[Any]]
    measures: dict[str, list[float | None]]


def compare_runs(trainings: Sequence[Training]) -> ComparedRuns:
    """Find the settings and numbers in which runs differ."""
    ignored = ("run", "made_for")
    settings = [{name: value for name, value in described(each).items() if name not in ignored} for each in trainings]
    return ComparedRuns(
        runs=[each.run for each in trainings],
        settings=_differing(settings),
        measures=_differing([main_numbers(each) for each in trainings]),
    )


def _differing(values: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """Give values by name, one of each, where they are not all the same."""
    names = dict.fromkeys(name for each in values for name in each)
    found = {name: [each.get(name) for each in values] for name in names}
    return {name: each for name, each in found.items() if any(value != each[0] for value in each)}


# One run


class ShownNumber(BaseModel):
    """A measured number beside the paper's."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    column: str
    value: float
    settings: dict[str, Any]
    """Settings of the measurement that are not the usual ones."""
    digits: Count
    published: float | None
    published_digits: Count | None
    difference: float | None
    cell: str | None


class ShownRun(BaseModel):
    """What ``thetarbm show --json`` prints of a run; of one that is not finished, as much as is known."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    run: str
    model: str
    state: Literal["done", "diverged", "running", "interrupted"]
    running: bool
    """Whether a process works on it at this moment."""
    step: str | None = None
    """What that process does."""
    error: str | None = None
    current: bool = True
    """Whether it was made by this version of the algorithm."""
    seed: int | None = None
    """This and other settings are not known before the first epoch is saved."""
    sparsity: float | None = None
    settings: dict[str, Any] | None = None
    """Settings that differ from the defaults."""
    data: dict[str, Any] | None = None
    random: RandomNumbers | None = None
    """Random numbers that sampling drew."""
    code: dict[str, Any] | None = None
    """Distribution, version and hash of a plug-in's code."""
    cells: list[str] = []
    """Cells of the suite that it belongs to."""
    metrics: list[ShownNumber] = []
    epochs: Count
    epochs_in_all: Count | None = None
    history: dict[str, list[float]]
    timings: dict[str, float]
    peak_memory_megabytes: float | None = None
    environment: dict[str, Any] = {}
    path: str
    files: dict[str, Count]
    """Files in its folder, and their bytes."""
    weights: Literal["recorded", "others", "missing"]
    """Whether the weights are there, and are those of the record."""
    train_command: str | None = None
    evaluate_command: str | None = None


def show_run(store: Store, training: Training, suite: Suite) -> ShownRun:
    """Gather what is shown about a run."""
    spec, run = training.spec, training.run
    held, cells = store.holder(run), cells_of(training, suite)
    weights = store.load_weights(run)
    packs = store.packs_of(run)
    own = store.path(run, "run.json").exists()
    return ShownRun(
        run=run,
        state=training.state,
        running=held is not None,
        step=held.step if held else None,
        error=training.error,
        current=spec.algorithm == ALGORITHM,
        **_description(spec),
        cells=[f"{cell.name}@{cell.profile}" for cell in cells],
        metrics=[
            _number(suite, training, each.measure, each.variant, each.value, each.measurement.spec, cells)
            for each in numbers_of(training)
            if each.measurement is not None
        ],
        epochs=len(training.history),
        history={curve: [epoch[curve] for epoch in training.history] for curve in CURVES},
        timings={
            "training": training.seconds,
            **({} if training.cpu_seconds is None else {"on processors": training.cpu_seconds}),
            "checkpoints": training.checkpoint_seconds,
            "measuring": round(sum(each.seconds or 0.0 for each in training.measurements), 3),
        },
        peak_memory_megabytes=training.peak_memory_megabytes,
        environment=training.environment,
        path=str(store.path(run) if own or not packs else packs[0]),
        files=_files(store, run),
        weights="missing" if weights is None else "recorded" if weights[1] == training.weights_sha256 else "others",
        evaluate_command=command_line("evaluate", run),
    )


def show_unfinished(store: Store, run: str) -> ShownRun:
    """Gather what is known of a run that has no record yet, from its checkpoint and from who works on it."""
    from thetarbm_cli.pipeline import checkpoint_progress

    held, spec, progress = store.holder(run), None, dict[str, Any]()
    try:
        progress = checkpoint_progress(store.load_checkpoint(run) or {})
        spec = TrainSpec.model_validate(progress["spec"])
    except (KeyError, ValueError, TypeError):
        progress = {}
    history = progress.get("history", [])
    return ShownRun(
        run=run,
        **(_description(spec) if spec else {"model": run.rpartition("-")[0]}),
        state="running" if held else "interrupted",
        running=held is not None,
        step=held.step if held else None,
        epochs=len(history),
        epochs_in_all=spec.parameters.get("epochs") if spec else None,
        history={curve: [epoch[curve] for epoch in history] for curve in CURVES},
        timings={"training": progress.get("seconds", 0.0)},
        path=str(store.path(run)),
        files=_files(store, run),
        weights="missing",
    )


def _description(spec: TrainSpec) -> dict[str, Any]:
    """Gather what a training is, and what makes it or goes on with it."""
    return {
        "model": spec.model,
        "seed": spec.seed,
        "sparsity": spec.parameters.get("sparsity"),
        "settings": spec.differing(),
        "data": spec.data.model_dump(),
        "random": spec.random,
        "code": spec.code.model_dump() if spec.code else None,
        "train_command": command_line("train", *spec.words()),
    }


def _files(store: Store, run: str) -> dict[str, int]:
    """List the files of a run, without locks and what is half written."""
    return {
        path.name: path.stat().st_size
        for path in sorted(store.path(run).glob("*"))
        if path.is_file() and not path.name.startswith(".") and path.suffix not in (".lock", ".progress")
    }


def cells_of(training: Training, suite: Suite) -> list[Cell]:
    """List the cells of the tables, in any profile, that a training belongs to."""
    source = tested(training)[1]
    found = []
    for profile in suite.profiles:
        for cell in suite.cells(profile, source, in_tables=True):
            same = cell.model == training.spec.model and cell.train_spec(training.spec.seed) == training.spec
            if same and any(spec.key in training.by_key for spec in cell.measure_specs):
                found.append(cell)
    return found


def _number(
    suite: Suite, training: Training, measure: str, variant: str, value: float, spec: MeasureSpec, cells: list[Cell]
) -> ShownNumber:
    """Compare a measured number with the paper's, each with the digits that it has in the tables."""
    digits = measure_of(measure).digits
    asking = [cell for cell in cells if spec.key in {each.key for each in cell.measure_specs}]
    # Of a user's own images the paper says nothing.
    papers = asking if spec.dataset != OWN_IMAGES else []
    cell = next((cell for cell in papers if measure in cell.published), None)
    published = cell.published[measure] if cell else None
    kinds = [suite.tables[table] for table in cell.tables if table in suite.tables] if cell else []
    return ShownNumber(
        column=column_name(measure, variant),
        value=value,
        settings=spec.unusual,
        digits=digits,
        published=published,
        published_digits=min((kind.published_digits or digits for kind in kinds), default=None),
        difference=None if published is None else round(value - published, 6),
        cell=cell.name if cell else None,
    )


def to_fields(run: ShownRun) -> list[tuple[str, Text]]:
    """Lay a run out as labels and lines, each in a style by what it means."""
    style = {"done": "good", "running": "busy"}.get(run.state, "bad")
    if run.running:
        style = "busy"
    doing = f", {run.step}" if run.step else ", at work" if run.running else ""
    fields: list[tuple[str, Text]] = [("run", (f"{run.run} ({run.state}{doing})", style))]
    again = Command(run.train_command or "")
    if run.error:
        fields += [("diverged", (f"{run.error}; --force trains it once more", "bad"))]
    if not run.current:
        fields += [("stale", ("made by another version of the algorithm; train it again with", "bad")), ("", again)]
    sparsity = [] if run.sparsity is None else [f"sparsity {run.sparsity:g}"]
    if run.settings is None or run.data is None:
        fields += [("model", run.model), ("settings", "known after the first epoch")]
    else:
        given = {name: value for name, value in run.settings.items() if name != "sparsity" or value is None}
        words = [f"{name} {'none' if value is None else value}" for name, value in given.items() if "data." not in name]
        fields += [
            ("model", ", ".join([run.model, *sparsity, f"seed {run.seed}"])),
            ("settings", ", ".join(words) or "all others as by default"),
            ("data", _data(run.data)),
        ]
    if run.random == "pcg64":
        fields.append(("random numbers", "PCG64, which training drew before; now it draws Philox"))
    if run.code is not None:
        fields.append(("code", f"{run.code['distribution']} {run.code['version']}, sha256 {run.code['sha256'][:12]}…"))
    if run.state in ("running", "interrupted"):
        fields.append(("epochs", _progress(run)))
    else:
        fields += _labelled("cells", run.cells or ["none: it is in no table of the suite"])
        fields += _labelled("metrics", _metrics(run))
        if not run.metrics and run.state == "done":
            fields += [("metrics", "none yet; this measures it:"), ("", Command(run.evaluate_command or ""))]
    fields += _labelled("history", _history(run))
    if run.state == "interrupted" and run.train_command:
        fields.append(("goes on by", again))
    times = [f"{name} {duration_text(seconds)}" for name, seconds in run.timings.items() if seconds]
    if run.peak_memory_megabytes:
        times.append(f"peak memory {run.peak_memory_megabytes:.0f} MB")
    if times:
        fields.append(("costs", ", ".join(times)))
    if run.environment:
        fields.append(("made with", _environment(run.environment)))
    fields.append(("files", run.path))
    fields += [("", f"{name} {filesize.decimal(size)}") for name, size in run.files.items()]
    if run.state == "done":
        state = {
            "missing": "weights are not here: train makes them again",
            "others": "weights are not the recorded ones: numbers measured with them say so",
        }
        if run.weights in state:
            fields += [("", state[run.weights]), *([("", again)] if run.weights == "missing" else [])]
    return fields


def _labelled(label: str, lines: Sequence[str]) -> list[tuple[str, Text]]:
    return [("" if number else label, line) for number, line in enumerate(lines)]


def duration_text(seconds: float) -> str:
    """Write a time with few digits."""
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.1f} min"


def _data(data: dict[str, Any]) -> str:
    taken = "all training images" if data["train"] is None else f"{data['train']} training images"
    more = " and the validation images" if data["learn_from"] == "train+valid" else ""
    return f"{data['dataset']} {data['source']}, {taken}{more}, seed {data['seed']}"


def _progress(run: ShownRun) -> str:
    seconds = run.timings["training"]
    if not run.epochs:
        return "none done yet"
    if run.epochs_in_all is None:
        return f"{run.epochs} done in {duration_text(seconds)}"
    left = seconds / run.epochs * (run.epochs_in_all - run.epochs)
    done = f"{run.epochs} of {run.epochs_in_all} done in {duration_text(seconds)}"
    return f"{done}, about {duration_text(left)} left"


def _metrics(run: ShownRun) -> list[str]:
    """Write a line for each number, beside the paper's where it has one."""
    lines = []
    for number in run.metrics:
        measure, variant = split_column(number.column)
        if measure.startswith(("gamma_ratio", "gamma_bounded")) or (measure.startswith("dead") and not number.value):
            continue
        kind = measure_of(measure)
        given = [f"{name}={value}" for name, value in number.settings.items()]
        where = [*(["not aligned"] if variant == NOT_ALIGNED else []), *given]
        unit = " %" if kind.unit == "%" else ""
        line = f"{kind.label}{f' ({chr(44).join(where)})' if where else ''}: {kind.text(number.value)}{unit}"
        if number.published is not None:
            published = f"{number.published:.{number.published_digits}f}{unit}"
            line += f", paper {published}, difference {number.difference:+.{number.digits}f}"
        lines.append(line)
    return lines


def _history(run: ShownRun) -> list[str]:
    if not run.epochs:
        return ["none: nothing was learned"]
    lines = [f"{run.epochs} epoch{'' if run.epochs == 1 else 's'}"]
    for curve, name in CURVES.items():
        if values := run.history[curve]:
            # A curve stands beside the labels, in one piece.
            curve_text = sparkline(values, min(WIDEST_CURVE, max(8, terminal_width() - 14)))
            lines.append(f"{name} {curve_text} {values[0]:.4g} → {values[-1]:.4g}")
    return lines


def _environment(environment: dict[str, Any]) -> str:
    words = [f"thetarbm {environment.get('version', '?')}"]
    if git := environment.get("git"):
        words.append(f"revision {git['revision'][:12]}{' with changes' if git['dirty'] else ''}")
    words.append(f"Python {environment.get('python', '?')}")
    words += [f"{name} {version}" for name, version in environment.get("libraries", {}).items()]
    blas = environment.get("blas") or []
    words += [f"{pool['library']} {pool['version']} ({pool['threads']} threads)" for pool in blas[:1]]
    words += [str(environment[name]) for name in ("gpu", "processor") if environment.get(name)]
    return ", ".join(words)


def sparkline(values: Sequence[float], width: int = WIDEST_CURVE) -> str:
    """Draw values as blocks, the lowest value the lowest block; more than `width` are averaged in groups."""
    if len(values) > width:
        edges = [len(values) * number // width for number in range(width + 1)]
        values = [statistics.fmean(values[start:end]) for start, end in pairwise(edges)]
    low, high = min(values), max(values)
    # Halved before they are subtracted: the difference of two huge numbers would be infinite.
    spread = high / 2 - low / 2
    if spread == 0:
        return BLOCKS[0] * len(values)
    places = ((value / 2 - low / 2) / spread * len(BLOCKS) for value in values)
    return "".join(BLOCKS[min(int(place), len(BLOCKS) - 1)] for place in places)
