"""One run at a glance, laid out for a terminal of 80 columns."""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from thetarbm_cli.reporting.glance import THERE
from thetarbm_cli.reporting.sparkline import ASCII, BLOCKS, sparkline
from thetarbm_cli.reporting.values import UNALIGNED

WIDTH = 80
INDENT = 12
CURVE_INDENT = 21
# One block for each epoch of the paper's profile.
WIDEST_CURVE = 30
NAMES = {"test_error_percent": "test error", "gamma_train": "γ train", "gamma_test": "γ test"}
CURVE_NAMES = {"reconstruction_error": "reconstruction error", "mean_activation": "mean activation"}
TIMING_NAMES = {"train_seconds": "training", "checkpoint_seconds": "checkpoints", "evaluate_seconds": "measuring"}
# What a terminal without Unicode gets instead.
PLAIN = {"γ": "gamma", "θ": "theta", "→": "->", "…": "...", "—": "-", "Δ": "delta"}

# Text as the terminal can take it.
Show = Callable[[str], str]


@dataclass
class Part:
    """A label and its lines; `bad` if it tells of something that went wrong."""

    label: str
    lines: list[str] = field(default_factory=list)
    bad: bool = False


def to_parts(sheet: dict[str, Any], *, unicode: bool = True) -> list[Part]:
    """The parts of a glance, each line no wider than 80 columns with its label before it.

    Parameters
    ----------
    sheet : dict
        As `thetarbm_cli.reporting.glance.glance` gives it.
    unicode : bool
        Whether the terminal has more than ASCII.
    """
    show = _printable if unicode else _ascii
    return [
        Part("run", [f"{sheet['run']} ({sheet['state']})"]),
        *_problems(sheet, show),
        Part("model", [f"{sheet['model']}, seed {sheet['seed']}"]),
        Part("settings", _wrapped(show(_settings(sheet)))),
        Part("data", _wrapped(show(_data(sheet["data"])))),
        Part("cells", _cells(sheet["cells"]) or ["none: it is in no table of the suite"]),
        Part("metrics", _metrics(sheet, show)),
        Part("history", _history(sheet, show, BLOCKS if unicode else ASCII)),
        Part("timings", _wrapped(_timings(sheet))),
        Part("made with", _wrapped(show(_environment(sheet["environment"])))),
        Part("files", [show(line) for line in _files(sheet)]),
    ]


def _problems(sheet: dict[str, Any], show: Show) -> list[Part]:
    """What is wrong with the run, and what to do."""
    again = [show(line) for line in _command(sheet["train_command"])]
    if sheet["state"] == "failed":
        return [Part("failed", [*_wrapped(show(f"{sheet['error']}; try again with")), *again], bad=True)]
    found = []
    if sheet["error"]:
        found.append(Part("failed", _wrapped(show(f"when it was measured: {sheet['error']}")), bad=True))
    if not sheet["current"]:
        text = f"made by version {sheet['algorithm']} of the algorithm, which is not this one's; train it again with"
        found.append(Part("stale", [*_wrapped(text), *again], bad=True))
    return found


def _settings(sheet: dict[str, Any]) -> str:
    given = {**sheet["settings"]}
    given |= {f"perturbation.{name}": value for name, value in (sheet["perturbation"] or {}).items()}
    given |= {f"svm.{name}": value for name, value in sheet["svm"].items()}
    if not given:
        return "all as by default"
    return ", ".join(f"{name} {_value(value)}" for name, value in given.items())


def _data(data: dict[str, Any]) -> str:
    sets = {role: f"{data[role]['dataset']} {data[role]['source']}" for role in ("train", "test")}
    text = sets["train"] if sets["train"] == sets["test"] else f"{sets['train']}, tested on {sets['test']}"
    taken = [f"{count} {name}" for name, count in data["images"].items() if count is not None]
    images = f"the first {', '.join(taken)} images" if taken else "all images"
    protocol = "" if data["protocol"] == "paper" else f", protocol {data['protocol']}"
    return f"{text}, {images}{protocol}, seed {data['seed']}, sha256 {data['test']['sha256'][:12]}…"


def _cells(names: list[str]) -> list[str]:
    """A line for each; a long name goes on after a comma, or the stroke behind the experiment."""
    lines = []
    for name in names:
        line = ""
        for piece in re.split(r"(?<=[,/])", name):
            if line.strip() and len(line) + len(piece) > WIDTH - INDENT:
                lines.append(line)
                line = "  "
            line += piece
        lines.append(line)
    return lines


def _metrics(sheet: dict[str, Any], show: Show) -> list[str]:
    if not sheet["metrics"]:
        return [] if sheet["state"] == "failed" else _wrapped(f"none yet: thetarbm evaluate {sheet['run']}")
    twice = any(number["column"].endswith(UNALIGNED) for number in sheet["metrics"])
    lines = []
    for number in sheet["metrics"]:
        column = number["column"]
        how = (", not aligned" if column.endswith(UNALIGNED) else ", aligned") if twice else ""
        name = show(NAMES[column.removesuffix(UNALIGNED)]) + how
        unit = " %" if column.startswith("test_error") else ""
        line = f"{name:<24}{number['value']:>7.{number['digits']}f}{unit:<2}"
        if number["published"] is not None:
            published = f"{number['published']:.{number['published_digits']}f}{unit}"
            line += f"   paper {published:<8} {number['difference']:+.{number['digits']}f}"
        lines.append(line.rstrip())
    if sheet["dead_units"]:
        lines.append(show(f"{sheet['dead_units']} dead units are left out of γ"))
    if sheet["grid_search"]:
        found = sheet["grid_search"]
        chosen = f"grid search: C = {found['C']:g}, γ = {found['gamma']:g}"
        lines.append(show(f"{chosen}, test error {found['test_error_percent']:.2f} %"))
    return lines


def _history(sheet: dict[str, Any], show: Show, levels: str) -> list[str]:
    epochs = sheet["epochs"]
    if not epochs:
        return ["none: nothing was learned"]
    lines = [f"{epochs} epoch{'' if epochs == 1 else 's'}"]
    for curve, name in CURVE_NAMES.items():
        values = sheet["history"][curve]
        if values:
            ends = show(f"  {values[0]:.4g} → {values[-1]:.4g}")
            width = min(WIDEST_CURVE, WIDTH - INDENT - CURVE_INDENT - len(ends))
            lines.append(f"{name:<{CURVE_INDENT}}{sparkline(values, width, levels)}{ends}")
    return lines


def _timings(sheet: dict[str, Any]) -> str:
    words = [f"{TIMING_NAMES.get(name, name)} {_seconds(seconds)}" for name, seconds in sheet["timings"].items()]
    return ", ".join([*words, f"peak memory {sheet['peak_memory_megabytes']:.0f} MB"])


def _environment(environment: dict[str, Any]) -> str:
    words = [f"thetarbm {environment.get('version', '?')}"]
    git = environment.get("git")
    if git:
        words.append(f"revision {git['revision'][:10]}{' (changed)' if git['dirty'] else ''}")
    words.append(f"Python {environment.get('python', '?')}")
    words += [f"{name} {version}" for name, version in environment.get("libraries", {}).items()]
    words += [f"{name} {environment[name]}" for name in ("backend", "gpu", "processor") if environment.get(name)]
    return ", ".join(words)


def _files(sheet: dict[str, Any]) -> list[str]:
    lines = [sheet["path"]]
    for file in sheet["files"]:
        lines.append(f"{file['name']:<16}{_bytes(file['bytes']):>9}")
    if sheet["weights"] != THERE and sheet["state"] == "done":
        lines += [f"weights.npz is {sheet['weights']}; this makes it:", *_command(sheet["train_command"])]
    return lines


def _command(command: str) -> list[str]:
    """A command over several lines that a shell takes as one."""
    lines, line = [], ""
    for word in map(shlex.quote, shlex.split(command)):
        if line and len(line) + len(word) + 3 > WIDTH - INDENT:
            lines.append(f"{line} \\")
            line = "  "
        line += word if not line.strip() else f" {word}"
    return [*lines, line]


def _wrapped(text: str) -> list[str]:
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
    """Text of a record without what a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _ascii(text: str) -> str:
    for character, word in PLAIN.items():
        text = text.replace(character, word)
    return _printable(text).encode("ascii", "replace").decode()
