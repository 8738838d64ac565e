"""The evidence for each reading of the paper, from the records, by the numbers that the tables have.

Which cells tell what a reading is worth is declared here; ``docs/reproduction.md`` shows what their records say.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from thetarbm_cli.measures import ERROR, GAMMA_TEST, MEASURES, MISSING
from thetarbm_cli.measures.theory import TheoryRecord
from thetarbm_cli.reporting.render import Marks, entry_text, markdown_grid
from thetarbm_cli.reporting.tables import Entry
from thetarbm_cli.results import Results
from thetarbm_cli.specs import OFFSET
from thetarbm_cli.store import Training
from thetarbm_cli.suite import Cell, Suite

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

    suite: Suite
    numbers: list[Results]
    theory: TheoryRecord | None

    def of(self, name: str) -> str:
        """Write what was measured on the reading of this name as Markdown; empty if no run of the suite could tell."""
        if name == "rotation-operator":
            return self._rotations()
        if name == "data" and len(self.numbers) == 1:
            return ""  # docs/mnist-rot.md compares the sources
        found = {numbers.source: text for numbers in self.numbers if (text := _about(self.suite, name, numbers))}
        # A source with one line compares nothing where another has several.
        lines = {source: text.count("\n|") for source, text in found.items()}
        found = {source: text for source, text in found.items() if lines[source] != 2 or max(lines.values()) == 2}
        several = len(self.numbers) > 1
        parts = [f"On mnist-rot {source}:\n\n{text}" if several else text for source, text in found.items()]
        return "\n\n".join(parts) or _nothing(name, self.numbers)

    def _rotations(self) -> str:
        if self.theory is None:
            return "No record: `thetarbm run theory` makes it."
        kinds = list(dict.fromkeys(check.rotation for check in self.theory.checks))
        lines: dict[str, dict[str, str]] = {}
        for check in self.theory.checks:
            lines.setdefault(check.name, {})[check.rotation] = f"{check.value:.2g}"
        rows = [[name, *(found.get(kind, MISSING) for kind in kinds)] for name, found in lines.items()]
        return f"Deviations (`theory.json`):\n\n{markdown_grid(['check', *kinds], rows)}"


def _about(suite: Suite, name: str, numbers: Results) -> str:
    """What the records of one source say on a reading; empty if they say nothing."""
    special: dict[str, Callable[[Results], str]] = {
        "dead-units": _dead_units,
        "gamma-mean": _gamma_means,
        "kernel-width": _searches,
        "seeds": _spread,
    }
    return special[name](numbers) if name in special else _table(suite, numbers, CELLS.get(name, ()))


def _nothing(name: str, numbers: Sequence[Results]) -> str:
    """Why there is no evidence: no runs yet, or none that could tell."""
    if name == "kernel-width":
        return "No record has a grid search: `thetarbm evaluate RUN --grid-search` adds it."
    patterns = CELLS.get(name, ())
    cells = [cell for each in numbers[:1] for cell in each.cells if _is_meant(cell, patterns)]
    missing = list(dict.fromkeys(cell.experiment for cell in cells))
    if missing:
        return f"No records yet: `thetarbm run {' '.join(missing)}` makes them."
    return ""


def _table(suite: Suite, numbers: Results, patterns: Sequence[str]) -> str:
    """A line for each cell that has a run, in the order of the patterns."""
    order = {cell.name: cell for pattern in patterns for cell in numbers.cells if _is_meant(cell, (pattern,))}
    lines = {}
    for cell in order.values():
        published_digits = next((suite.tables[name].published_digits for name in cell.tables), None)
        activation = numbers.value(cell, "mean_activation").mean
        entries = [Entry(numbers.value(cell, measure)) for measure in SHOWN]
        if any(entry.value.values for entry in entries):
            lines[f"`{cell.name}`"] = [
                *(entry_text(entry, Marks(), published_digits) for entry in entries),
                MISSING if activation is None else f"{activation:.3f}",
                str(max(len(entry.value.values) for entry in entries)),
            ]
    headings = [*(MEASURES[measure].heading for measure in SHOWN), "mean activation", "seeds"]
    return _grid(lines, headings, "cell")


def _is_meant(cell: Cell, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(cell.name, pattern) for pattern in patterns)


def _grid(lines: dict[str, list[str]], headings: list[str], index: str) -> str:
    """Lines by their label as a Markdown table; empty without any."""
    return markdown_grid([index, *headings], [[label, *line] for label, line in lines.items()]) if lines else ""


def _searches(numbers: Results) -> str:
    """What grid searches chose, and the error with the paper's C and γ."""
    lines = {}
    for training in _trainings(numbers):
        values = training.values
        if "search_C" in values:
            lines[f"`{training.run}`"] = [
                *(f"{values['search_C']:g}", f"{values['search_gamma']:g}", f"{values['search_error_percent']:.2f}"),
                MEASURES[ERROR].text(values.get(ERROR)),
            ]
    return _grid(lines, ["C chosen", "γ chosen", "error in %", "error in % with C = 10, γ = 0.02"], "run")


def _trainings(numbers: Results) -> list[Training]:
    """Every training once."""
    return list({each.run: each for cell in numbers.cells for each in numbers.trainings(cell)}.values())


def _scores(numbers: Results) -> list[tuple[float, float, float]]:
    """Every γ-score of the tables' Δ, on training and test images: γ, the ratio of sums, and dead units."""
    found = {}
    for cell in numbers.cells:
        for training in numbers.trainings(cell):
            for spec in cell.measure_specs:
                measured = training.by_key.get(spec.key)
                if spec.measure == "gamma" and spec.offset == OFFSET and measured is not None:
                    role = "train" if spec.part == "train" else "test"
                    values = [measured.values.get(f"{name}_{role}") for name in ("gamma", "gamma_ratio", "dead_units")]
                    if None not in values:
                        found[training.run, spec.key] = tuple(values)
    return list(found.values())


def _dead_units(numbers: Results) -> str:
    counts = [dead for _, _, dead in _scores(numbers)]
    if not counts:
        return ""
    if not any(counts):
        return f"None of {len(counts)} γ-scores leaves out a unit."
    some = sum(count > 0 for count in counts)
    return f"{some} of {len(counts)} γ-scores leave out dead units, {max(counts):.0f} at most."


def _gamma_means(numbers: Results) -> str:
    apart = [abs(mean - ratio) for mean, ratio, _ in _scores(numbers)]
    if not apart:
        return ""
    mean, most = sum(apart) / len(apart), max(apart)
    return f"Over {len(apart)} γ-scores the two ways differ by {mean:.4f} on average, by {most:.4f} at most."


def _spread(numbers: Results) -> str:
    """Largest standard deviation over seeds of each measure."""
    words = []
    for measure in SHOWN:
        values = [numbers.value(cell, measure) for cell in numbers.cells]
        spreads = [(value.deviation, value.cell.name) for value in values if value.deviation is not None]
        if spreads:
            largest, name = max(spreads)
            words.append(f"{MEASURES[measure].heading} {largest:.{MEASURES[measure].digits}f} (`{name}`)")
    return f"Largest standard deviation over the seeds of a cell: {', '.join(words)}." if words else ""
