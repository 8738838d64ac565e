"""The evidence for each reading of the paper, from the records, by the numbers that the tables have.

Which cells speak for or against a reading stands here; what they say is in the records. ``docs/reading.md`` shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from tabulate import tabulate

from thetarbm_cli.experiments.execution.theory import TheoryRecord
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, variants_of
from thetarbm_cli.reporting.entries import MISSING, entry_text
from thetarbm_cli.reporting.frame import Numbers
from thetarbm_cli.reporting.layout import Entry
from thetarbm_cli.reporting.markdown import MARKS

COLUMNS = {name: MEASURES[name].heading for name in (ERROR, GAMMA_TRAIN, GAMMA_TEST)}

# The cells that tell what a reading is worth, by the name of the assumption in the suite.
CELLS: dict[str, tuple[str, ...]] = {
    "standardisation-floor": ("theta/sparsity=0.3", "ablation-floor/*"),
    "dominant-orientation": ("theta/sparsity=0.3", "ablation-orientation/*"),
    "tensor": ("theta/sparsity=0.3", "theta-full*"),
    "sparsity": ("rbm/*", "theta/*", "ablation-sparsity-weight/*"),
    "training": ("theta/sparsity=0.3", "ablation-epochs/*"),
    "perturbation": ("theta/sparsity=0.3", "perturbation/n=1,p=0.1", "perturbation/n=4,p=0.4", "ablation-scope/*"),
    "orbm-evaluation": ("rbm/*", "orbm/*"),
    "tirbm": ("tirbm/*", "tirbm-reference*"),
    "data": ("rbm/sparsity=0.3", "theta/sparsity=0.3"),
    "controls": ("theta/sparsity=0.3", "pixels", "aligned-pixels"),
    "mnist": ("mnist-*",),
}


@dataclass(frozen=True)
class Evidence:
    """All that was measured: the numbers for each source of images, and the checks of the mathematics."""

    numbers: list[Numbers]
    theory: TheoryRecord | None

    def of(self, name: str) -> str:
        """Markdown on the reading of this name; a sentence if nothing was measured."""
        if name == "rotation-operator":
            return self._rotations()
        if name == "data" and len(self.numbers) == 1:
            return f"All records are of one source, {self.numbers[0].source}."
        parts = [text for numbers in self.numbers if (text := _about(name, numbers))]
        return "\n\n".join(parts) or _nothing(name, self.numbers)

    def _rotations(self) -> str:
        if self.theory is None:
            return "No record: `thetarbm run theory` makes it."
        kinds = list(dict.fromkeys(check["rotation"] for check in self.theory.checks))
        names = list(dict.fromkeys(check["name"] for check in self.theory.checks))
        found = {(check["name"], check["rotation"]): f"{check['value']:.2g}" for check in self.theory.checks}
        lines = [[name, *(found.get((name, kind), MISSING) for kind in kinds)] for name in names]
        return f"Deviations (`theory.json`):\n\n{_grid(['check', *kinds], lines)}"


def _about(name: str, numbers: Numbers) -> str:
    """What the records of one source say on a reading; empty if they say nothing."""
    special: dict[str, Callable[[Numbers], str]] = {
        "dead-units": _dead_units,
        "gamma-mean": _gamma_means,
        "kernel-width": _searches,
        "seeds": _spread,
    }
    text = special[name](numbers) if name in special else _table(numbers, CELLS.get(name, ()))
    return f"On mnist-rot {numbers.source}:\n\n{text}" if text else ""


def _nothing(name: str, numbers: Sequence[Numbers]) -> str:
    """Why there is no evidence: no runs yet, or none that could tell."""
    if name == "kernel-width":
        return "No record has a grid search: `thetarbm evaluate RUN --grid-search` adds it."
    patterns = CELLS.get(name, ())
    cells = [cell for each in numbers[:1] for cell in each.cells if _is_meant(cell, patterns)]
    missing = list(dict.fromkeys(cell.experiment for cell in cells))
    if missing:
        return f"No records yet: `thetarbm run {' '.join(missing)}` makes them."
    return "No run of the suite compares this with another reading."


def _table(numbers: Numbers, patterns: Sequence[str]) -> str:
    """A line for each cell that has a run, in the order of the patterns; the O-RBM has one for each evaluation."""
    order = {cell.name: cell for pattern in patterns for cell in numbers.cells if _is_meant(cell, (pattern,))}
    lines = []
    for cell in order.values():
        records = numbers.records.get(cell.name, [])
        for variant, how in variants_of(cell.model) if records else ():
            entries = [Entry(numbers.value(cell, column, variant)) for column in COLUMNS]
            if any(entry.value.values for entry in entries):
                texts = [entry_text(entry, cell.tables[0] if cell.tables else "", MARKS) for entry in entries]
                lines.append([f"`{cell.name}`{how}", *texts, _reached(records), str(len(records))])
    headings = ["cell", *COLUMNS.values(), "mean activation", "seeds"]
    return _grid(headings, lines) if lines else ""


def _is_meant(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(cell.name, pattern) for pattern in patterns)


def _reached(records: Sequence[RunRecord]) -> str:
    """Mean activation of the last epoch, over the seeds."""
    last = [record.history[-1]["mean_activation"] for record in records if record.history]
    return f"{sum(last) / len(last):.3f}" if last else MISSING


def _runs(numbers: Numbers) -> list[RunRecord]:
    """The runs of all cells, each once."""
    return list({record.run: record for records in numbers.records.values() for record in records}.values())


def _searches(numbers: Numbers) -> str:
    """What grid searches chose, beside the error with the paper's C and γ."""
    lines = []
    for record in _runs(numbers):
        metrics = record.metrics or {}
        if "grid_search" in metrics:
            found, paper = metrics["grid_search"], metrics.get("svm", {}).get(ERROR)
            error = f"{found[ERROR]:.2f}"
            as_paper = MISSING if paper is None else f"{paper:.2f}"
            lines.append([f"`{record.run}`", f"{found['C']:g}", f"{found['gamma']:g}", error, as_paper])
    headings = ["run", "C chosen", "γ chosen", "error in %", "error in % with C = 10, γ = 0.02"]
    return _grid(headings, lines) if lines else ""


def _scores(numbers: Numbers) -> list[dict[str, Any]]:
    """Every γ-score of the cells' runs, on training and test images."""
    parts = [part for run in _runs(numbers) for part in (run.metrics or {}, (run.metrics or {}).get("unaligned", {}))]
    scores = [part.get("gamma", {}).get(role, {}) for part in parts for role in ("train", "test")]
    return [score for score in scores if score.get("mean") is not None]


def _dead_units(numbers: Numbers) -> str:
    scores = _scores(numbers)
    if not scores:
        return ""
    counts = [score.get("dead_units", 0) for score in scores]
    if not any(counts):
        return f"None of {len(scores)} γ-scores leaves out a unit."
    return f"{sum(map(bool, counts))} of {len(scores)} γ-scores leave out dead units, {max(counts)} at most."


def _gamma_means(numbers: Numbers) -> str:
    gaps = [abs(score["mean"] - score["ratio_of_sums"]) for score in _scores(numbers) if score.get("ratio_of_sums")]
    if not gaps:
        return ""
    mean, most = sum(gaps) / len(gaps), max(gaps)
    return f"Over {len(gaps)} γ-scores the two ways differ by {mean:.4f} on average, by {most:.4f} at most."


def _spread(numbers: Numbers) -> str:
    """Largest standard deviation over seeds of each measure."""
    words = []
    for column, heading in COLUMNS.items():
        values = [numbers.value(cell, column) for cell in numbers.cells]
        spreads = [(value.deviation, value.cell.name) for value in values if value.deviation is not None]
        if spreads:
            largest, name = max(spreads)
            words.append(f"{heading} {largest:.{2 if column == ERROR else 4}f} (`{name}`)")
    return f"Largest standard deviation over the seeds of a cell: {', '.join(words)}." if words else ""


def _grid(headings: list[str], lines: list[list[str]]) -> str:
    right = ("left", *("right" for _ in headings[1:]))
    return tabulate(lines, headings, tablefmt="pipe", colalign=right, disable_numparse=True)
