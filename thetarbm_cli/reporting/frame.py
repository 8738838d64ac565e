"""Records as one tidy DataFrame, and sorted to the cells of a suite for tables, claims, figures and the report.

`tidy` has a line per run × evaluation variant × measure, with these columns:

========================  =============================================================================================
``run, state, seed``      the run, whether it is done, its seed; ``algorithm`` the version that made it
``model, sparsity, …``    the model and every parameter of it, defaults included; what a model does not have is missing
``data.…, svm.…``,        other settings, named as ``--set`` does: ``data.protocol``, ``perturbation.n``, ``svm.C``
``perturbation.…``
``dataset, source,``      the test images: data set, where they come from, their content;
``sha256``                ``train_dataset`` and ``train_sha256`` the same of the training images
``cells``                 the cells of the suite that the run belongs to, as a tuple of ``theta/sparsity=0.3@paper``
``backend, revision,``    where it was made, and the version of the code
``dirty, version``
``variant``               ``default``, or ``not aligned`` for the O-RBM's second evaluation
``measure``               a name of `thetarbm_cli.outcomes.MEASURES`
``value``                 the number
``offset``                Δ in degrees for γ, else missing
========================  =============================================================================================

`collect` sorts the runs to the cells of a suite, for each source of images by itself: a `Numbers` has the same frame
with a column ``cell``, and gives each number over the seeds as a `Value`.
"""

from __future__ import annotations

import logging
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.record import Measured, RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM, section_settings
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.followup import command_line
from thetarbm_cli.outcomes import DEFAULT, column_name
from thetarbm_cli.reporting.listing import numbers_of, settings_of

logger = logging.getLogger("thetarbm")

PAPERS_DATASET = "mnist-rot"
# Cells of one experiment that a command names by themselves.
MOST_NAMED = 2
# Columns of the frame, without settings and numbers.
RUN = ("run", "state", "algorithm", "model", "seed")
IMAGES = ("dataset", "source", "sha256", "train_dataset", "train_sha256")
MADE = ("backend", "revision", "dirty", "version")


def load_records(results: str | Path = "results") -> pd.DataFrame:
    """Load every record of a results folder as one tidy DataFrame: a line per run × evaluation variant × measure.

    Parameters
    ----------
    results : str or Path
        The folder, as ``--results`` names it.

    Notes
    -----
    For example, the mean error of each model::

        errors = load_records().query("measure == 'test_error_percent'")
        errors.groupby(["model", "variant", "sparsity"]).value.agg(["mean", "std"])

    Raises
    ------
    InputError
        If there is no such folder.
    """
    records = RunStore(Path(results)).load_all()
    if not records and not Path(results).is_dir():
        raise InputError(f"there is no folder {results}; name the one that has runs/")
    return tidy(records)


def tidy(records: Iterable[RunRecord]) -> pd.DataFrame:
    """Lay records out as one DataFrame; the columns are described above."""
    held = list(records)
    # An empty folder has these columns, too.
    parameters = sorted({name for record in held for name in record.parameters} | {"sparsity"})
    columns = [*RUN, *parameters, "features", *section_settings(), *IMAGES, "cells", *MADE]
    settings = pd.DataFrame([settings_of(record) for record in held], columns=columns)
    numbers = [(record.run, *number) for record in held for number in numbers_of(record)]
    return settings.merge(pd.DataFrame(numbers, columns=["run", *Measured._fields]), on="run")


def is_above(number: float | None, limit: float | None) -> bool:
    """Whether both are known and the first is the larger one."""
    return number is not None and limit is not None and number > limit


@dataclass(frozen=True)
class Source:
    """The images that runs were tested on: a name and the checksum that says what they really are."""

    name: str
    sha256: str
    dataset: str = PAPERS_DATASET

    @property
    def is_users(self) -> bool:
        """Whether it is a file of the user, of which the paper says nothing."""
        return self.name.endswith(".npz")

    @property
    def is_papers(self) -> bool:
        """Whether the images are of the paper's data set."""
        return self.dataset == PAPERS_DATASET

    @property
    def images(self) -> str:
        """What is seen: the data set, or the user's own file."""
        return self.name if self.is_users else self.dataset

    @property
    def described(self) -> str:
        """The images, where they come from, and their checksum."""
        return str(self) if self.is_users else f"{self.dataset} {self}"

    def __str__(self) -> str:
        return f"{self.name} (sha256 {self.sha256[:12]}…)" if self.sha256 else self.name


@dataclass(frozen=True)
class Value:
    """One measure of one cell over the seeds, ascending, with the paper's number and the runs that it comes from."""

    cell: Cell
    measure: str
    variant: str
    values: tuple[float, ...]
    published: float | None
    runs: tuple[RunRecord, ...] = ()

    @property
    def column(self) -> str:
        """Name of the measure in JSON outputs and CSV files."""
        return column_name(self.measure, self.variant)

    @cached_property
    def mean(self) -> float | None:
        """Mean over the seeds; None without one."""
        return statistics.fmean(self.values) if self.values else None

    @cached_property
    def deviation(self) -> float | None:
        """Standard deviation over the seeds; None with fewer than two."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's; None without both."""
        return None if self.mean is None or self.published is None else self.mean - self.published


@dataclass(frozen=True)
class Numbers:
    """All that was measured on images of one source for the cells of one profile.

    `records` are the runs of each cell that has any, by the cell's name, seeds ascending.
    """

    source: Source
    cells: list[Cell]
    records: dict[str, list[RunRecord]]

    def source_option(self) -> str | None:
        """Give the ``--source`` with which ``thetarbm run`` makes runs on these images; None if it needs none.

        A file is named by the path that was asked for or that its runs were given: a source's name has no folders.
        """
        usual = self.cells[0].data.get("source", "generated") if self.cells else "generated"
        recorded = {record.settings.data.source for records in self.records.values() for record in records}
        paths = (path for path in (usual, *sorted(recorded)) if Path(path).name == self.source.name)
        source = next(paths, self.source.name)
        return None if source == usual == "generated" else source

    def run_command(self, cells: Sequence[Cell]) -> str:
        """Build the command that makes cells; many of one experiment are named by it, as it makes what is missing."""
        words = []
        for experiment, names in self._by_experiment(cells).items():
            words += [experiment] if len(names) > MOST_NAMED else names
        # What compares data says itself which.
        source = None if all(cell.compares_data for cell in cells) else self.source_option()
        return command_line("run", *words, profile=cells[0].profile, source=source)

    def missing_lines(self, cells: Sequence[Cell]) -> list[str]:
        """Name the missing cells of each experiment with the command that makes them."""
        lines = []
        for experiment, names in self._by_experiment(cells).items():
            own = [cell for cell in cells if cell.experiment == experiment]
            lines.append(f"missing: {' '.join(names)}; {self.run_command(own)} makes it")
        return lines

    def _by_experiment(self, cells: Sequence[Cell]) -> dict[str, list[str]]:
        """Name cells by their experiment; where it is all of them, by its name."""
        found = {}
        for experiment in dict.fromkeys(cell.experiment for cell in cells):
            names = [cell.name for cell in cells if cell.experiment == experiment]
            whole = len(names) == sum(cell.experiment == experiment for cell in self.cells)
            found[experiment] = [experiment] if whole else names
        return found

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The tidy frame of these runs, with a column ``cell``: a run of two cells has its lines twice."""
        pairs = [(name, record.run) for name, records in self.records.items() for record in records]
        runs = {record.run: record for records in self.records.values() for record in records}
        return pd.DataFrame(pairs, columns=["cell", "run"]).merge(tidy(runs.values()), on="run")

    def numbers_of(self, record: RunRecord) -> dict[tuple[str, str], float]:
        """The numbers of a run by measure and variant, but γ for further Δ, which is several values a run."""
        numbers = (each for each in numbers_of(record) if each.measure != "gamma_offset_train")
        return {(each.measure, each.variant): each.value for each in numbers}

    @cached_property
    def _by_run(self) -> dict[str, dict[tuple[str, str], float]]:
        """The numbers of every run, read once."""
        return {record.run: self.numbers_of(record) for records in self.records.values() for record in records}

    def value(self, cell: Cell, measure: str, variant: str = DEFAULT) -> Value:
        """One measure of one cell, of the runs that have it."""
        key = (measure, variant)
        runs = tuple(record for record in self.records.get(cell.name, []) if key in self._by_run[record.run])
        values = tuple(self._by_run[record.run][key] for record in runs)
        published = None if self.source.is_users else cell.published.get(measure)
        return Value(cell, measure, variant, values, published, runs)

    def in_table(self, table: str) -> list[Cell]:
        """The cells of a table, in the order of the suite; among others, those on request only if they were run."""
        cells = [cell for cell in self.cells if table in cell.tables]
        if all(cell.on_request for cell in cells):
            return cells
        return [cell for cell in cells if not cell.on_request or cell.name in self.records]


def _of_one_backend(cell: str, records: list[RunRecord]) -> list[RunRecord]:
    """The runs of the backend that has most of them, NumPy where as many: no mean is over two backends."""
    counts = Counter(record.backend for record in records)
    chosen = max(counts, key=lambda backend: (counts[backend], backend == "numpy"))
    others = [record.run for record in records if record.backend != chosen]
    if others:
        logger.warning("%s has runs of several backends: those on %s count, not %s", cell, chosen, ", ".join(others))
    return [record for record in records if record.backend == chosen]


def collect(cells: Sequence[Cell], records: Iterable[RunRecord], dataset: str = PAPERS_DATASET) -> list[Numbers]:
    """Sort records to the cells that are tested on a data set, for each source of its images by itself.

    Only runs that are done and of this version of the algorithm count. Without any, there is one empty collection.
    Backends draw other random numbers: of a cell that has runs of several, only those of one count, with a warning.
    Cells that compare data have runs of several sources; they are in the first collection, whose source is the usual
    one if it has any runs.
    """
    own = [cell for cell in cells if cell.tested_on == dataset]
    sources: dict[Source, dict[str, list[RunRecord]]] = {}
    compared: dict[str, list[RunRecord]] = {}
    usable = [record for record in records if record.state == "done" and record.algorithm == ALGORITHM]
    for record in sorted(usable, key=lambda record: record.seed):
        for cell in own:
            if cell.compares_data and cell.fits(record):
                compared.setdefault(cell.name, []).append(record)
            elif not cell.compares_data and cell.fits(record, any_source=True):
                source = Source(record.data.test.source, record.data.test.sha256, dataset)
                sources.setdefault(source, {}).setdefault(cell.name, []).append(record)
    if not sources:
        name = own[0].data.get("source", "generated") if own else "generated"
        sources[Source(name, "", dataset)] = {}
    order = sorted(sources, key=lambda each: (each.name != "generated", each.is_users, each.name, each.sha256))
    sources[order[0]].update(compared)
    for by_cell in sources.values():
        for name, found in by_cell.items():
            by_cell[name] = _of_one_backend(name, found)
    plain = [cell for cell in own if not cell.compares_data]
    return [Numbers(source, own if source == order[0] else plain, sources[source]) for source in order]
