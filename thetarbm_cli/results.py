"""All measurements as one table; everything that is shown is a view of it.

`load_records` gives it in full: a line per training, measurement and number, with these columns.

========================  =============================================================================================
``run, state, seed``      the training, whether it is done, its seed; ``algorithm`` the version that made it
``model, sparsity, …``    the model and every parameter of it; what a model does not have is missing
``data.…``,               other settings of the training, named as ``--set`` does: ``data.train``, ``perturbation.n``
``perturbation.…``
``dataset, source,``      the measured images: data set, where they come from, which part and how many of it, their
``part, count, first,``   content; ``train_sha256`` the content of the training images
``sha256``
``features, aligned,``    other settings of the measurement
``offset, svm.…, scope,``
``draws, statistics,``
``copies, order, grid``
``weights``               ``learned``, or those of a control: its numbers are not the run's own
``weights_sha256``        the weights that were measured; ``recorded_weights`` whether they are the training's own
``backend, revision,``    where it was measured, and the version of the code
``dirty, version``
``made_for``              the cells of a suite that the training was first made for
``variant``               ``default``, or ``not aligned`` for the O-RBM on images as they are
``measure, value``        a name of `thetarbm_cli.measures.MEASURES`, and the number
========================  =============================================================================================

`collect` sorts the numbers to the cells of a suite, for each source of images by itself.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from thetarbm_cli.errors import InputError
from thetarbm_cli.followup import command_line
from thetarbm_cli.measures import DEFAULT, GAMMA_TEST, GAMMA_TRAIN, MEASURES, NOT_ALIGNED, column_name
from thetarbm_cli.specs import ALGORITHM, OWN_IMAGES, MeasureSpec
from thetarbm_cli.store import Measurement, Store, Training
from thetarbm_cli.suite import Cell, Suite

if TYPE_CHECKING:
    import pandas as pd

PAPERS_DATASET = "mnist-rot"
# Cells of one experiment that a command names by themselves.
MOST_NAMED = 2


class Number(NamedTuple):
    """One number of a training: the measurement that it is of, None for those of the training itself."""

    measure: str
    variant: str
    value: float
    measurement: Measurement | None


def numbers_of(training: Training) -> Iterator[Number]:
    """Give all numbers of a training: of its measurements, the last epoch, time, operations and memory."""
    for each in training.by_key.values():
        variant = NOT_ALIGNED if each.spec.aligned is False else DEFAULT
        for name, value in each.values.items():
            if value is not None:
                yield Number(name, variant, value, each)
    own = {
        "train_seconds": training.seconds,
        "train_cpu_seconds": training.cpu_seconds,
        "train_gigaflops": None if training.products is None else 2e-9 * training.products,
        "peak_memory_megabytes": training.peak_memory_megabytes,
    }
    if training.history:
        own |= {name: training.history[-1][name] for name in ("reconstruction_error", "mean_activation")}
    for name, number in own.items():
        if number is not None:
            yield Number(name, DEFAULT, number, None)


def main_numbers(training: Training) -> dict[str, float]:
    """Give a run's own numbers by the names that JSON outputs have; of several, that at the usual settings."""
    return {column: number.value for column, number in nearest_numbers(training).items()}


def nearest_numbers(training: Training) -> dict[str, Number]:
    """Give of every number the measurement that is nearest to the usual settings; none of weights not learned."""
    found: dict[str, Number] = {}
    for number in sorted(numbers_of(training), key=_distance):
        if number.measurement is None or number.measurement.spec.weights == "learned":
            found.setdefault(column_name(number.measure, number.variant), number)
    return found


def _distance(number: Number) -> int:
    return number.measurement.spec.distance if number.measurement else 0


def load_records(results: str | Path = "results") -> pd.DataFrame:
    """Load every record of a results folder as one tidy DataFrame: a line per training, measurement and number.

    Parameters
    ----------
    results : str or Path
        The folder, as ``--results`` names it.

    Notes
    -----
    For example, the mean error of each model::

        errors = load_records().query("measure == 'test_error_percent' and weights == 'learned'")
        errors.groupby(["model", "variant", "sparsity"]).value.agg(["mean", "std"])

    Raises
    ------
    InputError
        If there is no such folder.
    """
    trainings = Store(Path(results)).trainings()
    if not trainings and not Path(results).is_dir():
        raise InputError(f"there is no folder {results}; name the one that has runs/")
    return tidy(trainings)


def tidy(trainings: Iterable[Training]) -> pd.DataFrame:
    """Lay trainings and their measurements out as one DataFrame; the columns are described above."""
    import pandas as pd

    held = list(trainings)
    lines = [
        {"run": each.run, **_measured(each, number.measurement), **number._asdict()}
        for each in held
        for number in numbers_of(each)
    ]
    # An empty folder has these columns, too.
    names = ["run", *_measured(None, None), "variant", "measure", "value"]
    frame = pd.DataFrame(lines, columns=names)
    settings = pd.DataFrame([described(each) for each in held])
    if settings.empty:
        settings = pd.DataFrame(columns=["run", "state", "seed", "algorithm", "model", "sparsity", "train_sha256"])
    return settings.merge(frame, on="run")


def described(training: Training) -> dict[str, Any]:
    """Give all that a training is by name: model, seed, complete settings as ``--set`` names them, images."""
    spec = training.spec
    return {
        "run": training.run,
        "state": training.state,
        "seed": spec.seed,
        "algorithm": spec.algorithm,
        "model": spec.model,
        **spec.named(),
        "train_sha256": training.images_sha256,
        "made_for": training.made_for.cells,
    }


def _measured(training: Training | None, measurement: Measurement | None) -> dict[str, Any]:
    """Give what a measurement is by name, and where it was made."""
    if measurement is None:
        content: dict[str, Any] = dict.fromkeys(MeasureSpec.model_fields)
        weights = training.weights_sha256 if training else None
        made: dict[str, Any] = training.environment if training else {}
        sha256 = None
    else:
        content = dict(measurement.spec)
        weights, made, sha256 = measurement.weights_sha256, measurement.environment, measurement.images_sha256
    del content["measure"]
    svm, git = content.pop("svm"), made.get("git") or {}
    return {
        **content,
        **{f"svm.{name}": getattr(svm, name) if svm else None for name in ("C", "gamma", "scaled")},
        "sha256": sha256,
        "weights_sha256": weights,
        "recorded_weights": training is not None and weights == training.weights_sha256,
        "backend": made.get("backend"),
        "revision": git.get("revision"),
        "dirty": git.get("dirty"),
        "version": made.get("version"),
    }


@dataclass(frozen=True)
class Source:
    """The images that runs were tested on: a name and the checksum that says what they really are."""

    name: str
    sha256: str
    dataset: str = PAPERS_DATASET

    @property
    def is_users(self) -> bool:
        """Whether it is a file of the user, of which the paper says nothing."""
        return self.dataset == OWN_IMAGES

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
    """One measure of one cell over the seeds, ascending, with the paper's number and the runs that it comes from.

    `seeds` are those of the values. `older` names trainings of the same description and seed that have the number, too,
    and do not count.
    """

    cell: Cell
    measure: str
    variant: str
    values: tuple[float, ...]
    published: float | None
    runs: tuple[str, ...] = ()
    older: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()

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


class Recorded:
    """The numbers of all trainings that count, found by the descriptions of a training and of a measurement."""

    def __init__(self, trainings: Iterable[Training]) -> None:
        self.trainings = [each for each in trainings if each.spec.algorithm == ALGORITHM]
        self.by_cell: dict[str, list[Training]] = {}
        for each in sorted(self.trainings, key=lambda each: (each.spec.seed, -each.number)):
            self.by_cell.setdefault(each.spec.cell_key, []).append(each)

    def trained(self, cell: Cell, seed: int) -> list[Training]:
        """Give the trainings of a cell and a seed, the newest first."""
        return [each for each in self.by_cell.get(cell.train_spec().cell_key, []) if each.spec.seed == seed]

    def diverged(self, cell: Cell) -> bool:
        """Whether a cell has only trainings that diverged."""
        found = self.by_cell.get(cell.train_spec().cell_key, [])
        return bool(found) and all(each.state == "diverged" for each in found)


@dataclass(frozen=True)
class Results:
    """All that was measured on images of one source for the cells of one profile."""

    source: Source
    cells: list[Cell]
    recorded: Recorded

    def trainings(self, cell: Cell) -> list[Training]:
        """Give the trainings that were tested on these images as a cell asks for, by seed.

        Of each seed, those with the most of the cell's measurements come first, then the newest: all numbers of a cell
        are of one training as far as they can be. One that was only tested for another profile is not the cell's.
        """
        found = self.recorded.by_cell.get(cell.train_spec().cell_key, [])
        if not found:
            return []
        wanted = {spec.key for spec in cell.measure_specs}
        tests = {spec.key for spec in cell.measure_specs if spec.part != "train"}
        own = [
            each
            for each in found
            if each.state == "done" and not tests.isdisjoint(each.by_key) and self._belongs(cell, each)
        ]
        # No mean is over two kinds of random numbers: the one with most trainings counts.
        kinds = Counter(each.spec.random for each in own)
        if len(kinds) > 1:
            most = max(kinds, key=lambda kind: (kinds[kind], kind == "philox"))
            own = [each for each in own if each.spec.random == most]
        return sorted(own, key=lambda each: (each.spec.seed, len(wanted - each.by_key.keys())))

    def _belongs(self, cell: Cell, training: Training) -> bool:
        if not self.source.sha256 or cell.compares_data:
            return True
        tested = [
            each.images_sha256
            for each in training.measurements
            if each.spec.part != "train" and (each.spec.dataset, each.spec.source) == (cell.tested_on, cell.source)
        ]
        return self.source.sha256 in (tested or [training.images_sha256])

    @property
    def is_empty(self) -> bool:
        """Whether no cell has a training."""
        return not any(self.trainings(cell) for cell in self.cells)

    def value(self, cell: Cell, measure: str, variant: str = DEFAULT) -> Value:
        """Look up one measure of one cell, of the trainings that have it."""
        found: dict[int, tuple[float, str]] = {}
        older = []
        for training in self.trainings(cell):
            number = self._number(training, cell, measure, variant)
            if number is None:
                continue
            if training.spec.seed in found:
                older.append(training.run)
            else:
                found[training.spec.seed] = number, training.run
        published = None if self.source.is_users else cell.published.get(measure)
        values, runs = zip(*found.values(), strict=True) if found else ((), ())
        return Value(cell, measure, variant, values, published, runs, tuple(older), tuple(found))

    def _number(self, training: Training, cell: Cell, measure: str, variant: str) -> float | None:
        asked = MEASURES[measure].asked_as
        if not asked:
            own = (each.value for each in numbers_of(training) if each.measure == measure and each.measurement is None)
            return next(own, None)
        name = measure
        if cell.gamma == "ratio" and measure in (GAMMA_TRAIN, GAMMA_TEST):
            name = measure.replace("gamma_", "gamma_ratio_")
        specs = [spec for spec in cell.measure_specs if spec.measure == asked]
        # A universe of the O-RBM has one of its two evaluations, whichever is asked for.
        if len({spec.aligned for spec in specs}) > 1:
            specs = [spec for spec in specs if (spec.aligned is False) == (variant == NOT_ALIGNED)]
        elif variant == NOT_ALIGNED and "aligned" not in cell.given:
            return None
        for spec in specs:
            measurement = training.by_key.get(spec.key)
            if measurement is not None and measurement.values.get(name) is not None:
                return measurement.values[name]
        return None

    def in_table(self, table: str) -> list[Cell]:
        """Give the cells of a table, in the order of the suite; among others, those on request only if they are run."""
        cells = [cell for cell in self.cells if table in cell.tables]
        if all(cell.on_request for cell in cells):
            return cells
        return [cell for cell in cells if not cell.on_request or self.trainings(cell)]

    def source_option(self) -> str | None:
        """Give the ``--source`` with which ``thetarbm run`` makes runs on these images; None if it needs none."""
        return None if self.source.name == "generated" else self.source.name

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


def collect(suite: Suite, profile: str, trainings: Iterable[Training], *, in_tables: bool = True) -> list[Results]:
    """Sort trainings to the cells of a suite, for each data set and source of its test images by itself.

    The paper's data set comes first, and of each data set the suite's own source. Cells that compare data have
    trainings of several sources; they are with the first. A data set without any training has one empty entry.
    """
    recorded = Recorded(trainings)
    usual = suite.cells(profile, in_tables=in_tables)
    tested: dict[tuple[str, str], dict[str, None]] = {}
    for training in recorded.trainings:
        for each in training.measurements:
            if each.spec.part != "train":
                tested.setdefault((each.spec.dataset, each.spec.source), {})[each.images_sha256] = None
    found = []
    # A suite on other images alone has nothing to say on the paper's.
    datasets = sorted({cell.tested_on: None for cell in usual} or [PAPERS_DATASET], key=PAPERS_DATASET.__ne__)
    for dataset in datasets:
        names = [cell.name for cell in usual if cell.tested_on == dataset]
        own = next((cell.source for cell in usual if cell.tested_on == dataset and not cell.compares_data), "generated")
        sources = [Source(name, sha, kind) for (kind, name), shas in tested.items() for sha in shas]
        sources = [
            each for each in sources if each.dataset in (dataset, *([OWN_IMAGES] if dataset == PAPERS_DATASET else []))
        ]
        sources.sort(key=lambda each: (each.name != own, each.is_users, each.name, each.sha256))
        first = True
        for source in sources:
            cells = usual if source.name == own else suite.cells(profile, source.name, in_tables=in_tables)
            cells = [cell for cell in cells if cell.name in names and (first or not cell.compares_data)]
            results = Results(source, cells, recorded)
            plain = [cell for cell in cells if not cell.compares_data]
            if any(results.trainings(cell) for cell in plain):
                found.append(results)
                first = False
        if first:
            cells = [cell for cell in usual if cell.name in names]
            found.append(Results(Source(own, "", cells[0].tested_on if cells else dataset), cells, recorded))
    return found
