"""The evidence for each reading of the paper, from the records, by the numbers that the tables have.

Which cells tell what a reading is worth is declared here; ``docs/reproduction.md`` shows what their records say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pandas as pd

from thetarbm_cli.experiments.execution.theory import TheoryRecord
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, MEASURES, MISSING, TABLES
from thetarbm_cli.reporting.frame import Numbers
from thetarbm_cli.reporting.render import Marks, entry_text, markdown_grid
from thetarbm_cli.reporting.tables import Entry

SHOWN = (ERROR, GAMMA_TEST)

# The cells that tell what a reading is worth, beside Tables 1 to 3, by the name of the assumption in the suite.
CELLS: dict[str, tuple[str, ...]] = {
    "standardisation-floor": ("ablation-floor/*",),
    "dominant-orientation": ("ablation-orientation/*",),
    "tensor": ("theta/sparsity=0.3", "theta-full*"),
    "sparsity": ("ablation-sparsity-weight/*",),
    "training": ("ablation-epochs/*",),
    "perturbation": ("ablation-scope/*",),
    "tirbm": ("tirbm-reference*",),
    "data": ("rbm/sparsity=0.3", "theta/sparsity=0.3"),
}


@dataclass(frozen=True)
class Evidence:
    """All that was measured: the numbers for each source of images, and the checks of the mathematics."""

    numbers: list[Numbers]
    theory: TheoryRecord | None

    def of(self, name: str) -> str:
        """Write what was measured on the reading of this name as Markdown; empty if no run of the suite could tell."""
        if name == "rotation-operator":
            return self._rotations()
        if name == "data" and len(self.numbers) == 1:
            return ""  # docs/mnist-rot.md compares the sources
        found = {numbers.source: text for numbers in self.numbers if (text := _about(name, numbers))}
        # A source with one line compares nothing where another has several.
        lines = {source: text.count("\n|") for source, text in found.items()}
        found = {source: text for source, text in found.items() if lines[source] != 2 or max(lines.values()) == 2}
        several = len(self.numbers) > 1
        parts = [f"On mnist-rot {source}:\n\n{text}" if several else text for source, text in found.items()]
        return "\n\n".join(parts) or _nothing(name, self.numbers)

    def _rotations(self) -> str:
        if self.theory is None:
            return "No record: `thetarbm run theory` makes it."
        checks = pd.DataFrame([check.model_dump() for check in self.theory.checks])
        kinds, names = checks["rotation"].unique(), checks["name"].unique()
        texts = checks.assign(text=checks["value"].map("{:.2g}".format))
        grid = texts.pivot(index="name", columns="rotation", values="text")
        shown = grid.reindex(index=names, columns=kinds).fillna(MISSING).rename_axis(index="check", columns=None)
        return f"Deviations (`theory.json`):\n\n{markdown_grid(shown)}"


def _about(name: str, numbers: Numbers) -> str:
    """What the records of one source say on a reading; empty if they say nothing."""
    special: dict[str, Callable[[Numbers], str]] = {
        "dead-units": _dead_units,
        "gamma-mean": _gamma_means,
        "kernel-width": _searches,
        "seeds": _spread,
    }
    return special[name](numbers) if name in special else _table(numbers, CELLS.get(name, ()))


def _nothing(name: str, numbers: Sequence[Numbers]) -> str:
    """Why there is no evidence: no runs yet, or none that could tell."""
    if name == "kernel-width":
        return "No record has a grid search: `thetarbm evaluate RUN --grid-search` adds it."
    patterns = CELLS.get(name, ())
    cells = [cell for each in numbers[:1] for cell in each.cells if _is_meant(cell, patterns)]
    missing = list(dict.fromkeys(cell.experiment for cell in cells))
    if missing:
        return f"No records yet: `thetarbm run {' '.join(missing)}` makes them."
    return ""


def _table(numbers: Numbers, patterns: Sequence[str]) -> str:
    """A line for each cell that has a run, in the order of the patterns."""
    order = {cell.name: cell for pattern in patterns for cell in numbers.cells if _is_meant(cell, (pattern,))}
    lines = {}
    for cell in order.values():
        published_digits = next((TABLES[name].published_digits for name in cell.tables if name in TABLES), None)
        activation = numbers.value(cell, "mean_activation").mean
        entries = [Entry(numbers.value(cell, measure)) for measure in SHOWN]
        if any(entry.value.values for entry in entries):
            lines[f"`{cell.name}`"] = [
                *(entry_text(entry, Marks(), published_digits) for entry in entries),
                MISSING if activation is None else f"{activation:.3f}",
                str(len(numbers.records[cell.name])),
            ]
    headings = [*(MEASURES[measure].heading for measure in SHOWN), "mean activation", "seeds"]
    return _grid(lines, headings, "cell")


def _is_meant(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(cell.name, pattern) for pattern in patterns)


def _grid(lines: dict[str, list[str]], headings: list[str], index: str) -> str:
    """Lines by their label as a Markdown table; empty without any."""
    grid = pd.DataFrame.from_dict(lines, orient="index", columns=headings).rename_axis(index)
    return markdown_grid(grid) if lines else ""


def _by_run(numbers: Numbers) -> pd.DataFrame:
    """Every run once, and each of its evaluations: a line each, with the measures as columns."""
    lines = numbers.frame[numbers.frame["measure"] != "gamma_offset_train"]
    lines = lines.drop_duplicates(["run", "variant", "measure"])
    return lines.pivot(index=["run", "variant"], columns="measure", values="value").reindex(
        lines["run"].unique(), level="run"
    )


def _searches(numbers: Numbers) -> str:
    """What grid searches chose, and the error with the paper's C and γ."""
    runs = _by_run(numbers)
    if "search_C" not in runs:
        return ""
    found = runs.reindex(columns=[*runs.columns.union([ERROR])]).dropna(subset="search_C").droplevel("variant")
    lines = {
        f"`{run}`": [
            *(f"{line['search_C']:g}", f"{line['search_gamma']:g}", f"{line['search_error_percent']:.2f}"),
            MISSING if pd.isna(line[ERROR]) else f"{line[ERROR]:.2f}",
        ]
        for run, line in found.to_dict("index").items()
    }
    return _grid(lines, ["C chosen", "γ chosen", "error in %", "error in % with C = 10, γ = 0.02"], "run")


def _scores(numbers: Numbers) -> pd.DataFrame:
    """Every γ-score of the runs, on training and test images: γ, the ratio of sums, and dead units."""
    runs = _by_run(numbers)
    names = ("gamma", "gamma_ratio", "dead_units")
    roles = [
        runs.reindex(columns=[f"{name}_{role}" for name in names]).set_axis(names, axis="columns")
        for role in ("train", "test")
    ]
    return pd.concat(roles).dropna(subset="gamma")


def _dead_units(numbers: Numbers) -> str:
    counts = _scores(numbers)["dead_units"]
    if counts.empty:
        return ""
    if not counts.any():
        return f"None of {len(counts)} γ-scores leaves out a unit."
    return f"{(counts > 0).sum()} of {len(counts)} γ-scores leave out dead units, {counts.max():.0f} at most."


def _gamma_means(numbers: Numbers) -> str:
    scores = _scores(numbers).dropna()
    if scores.empty:
        return ""
    apart = (scores["gamma"] - scores["gamma_ratio"]).abs()
    mean, most = apart.mean(), apart.max()
    return f"Over {len(apart)} γ-scores the two ways differ by {mean:.4f} on average, by {most:.4f} at most."


def _spread(numbers: Numbers) -> str:
    """Largest standard deviation over seeds of each measure."""
    words = []
    for measure in SHOWN:
        values = [numbers.value(cell, measure) for cell in numbers.cells]
        spreads = [(value.deviation, value.cell.name) for value in values if value.deviation is not None]
        if spreads:
            largest, name = max(spreads)
            words.append(f"{MEASURES[measure].heading} {largest:.{MEASURES[measure].digits}f} (`{name}`)")
    return f"Largest standard deviation over the seeds of a cell: {', '.join(words)}." if words else ""
