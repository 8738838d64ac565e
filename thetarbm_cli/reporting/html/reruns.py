"""How each cell of the suite is run again: its command, its runs, and how long one takes."""

from __future__ import annotations

import shlex
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from thetarbm_cli.experiments.runs.evaluation import is_measured
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.reporting.frame import Numbers, Source
from thetarbm_cli.reporting.html.material import Material


@dataclass(frozen=True)
class Rerun:
    """A cell and the command that runs it again.

    Attributes
    ----------
    runs : ids of the runs that have all numbers the cell asks for, by seed
    seconds : training and measuring of one run, the mean over seeds; None without a run
    failures : what went wrong in runs that failed
    """

    cell: Cell
    runs: list[str]
    seconds: float | None
    failures: list[str]
    command: str

    @property
    def count(self) -> str:
        """How many runs there are; of how many, if some are missing."""
        done, wanted = len(self.runs), self.cell.seeds
        return f"{done}" if done >= wanted else f"{done} of {wanted}"


@dataclass(frozen=True)
class Choice:
    """The options that commands need to mean what the page shows; None is the default."""

    profile: str
    source: str | None
    suite_path: Path | None

    def options(self) -> list[str]:
        """Words of a command line; what is as by default is left out."""
        words = [] if self.profile == "paper" else ["--profile", self.profile]
        words += [] if self.source is None else ["--source", self.source]
        return words + ([] if self.suite_path is None else ["--suite", str(self.suite_path)])


def choice_of(material: Material, source: Source) -> Choice:
    """The options for images of one source."""
    usual = material.suite.defaults.data.source or "generated"
    return Choice(material.profile, None if source.name == usual else source.name, material.suite_path)


def reruns(material: Material, numbers: Numbers) -> list[Rerun]:
    """Every cell of the suite, in its order, for images of one source."""
    choice = choice_of(material, numbers.source)
    table = []
    for cell in numbers.cells:
        records = [
            record
            for record in numbers.records.get(cell.name, [])
            if is_measured(record.metrics, "gamma" in cell.measures, cell.offsets)
        ]
        taken = [sum(record.timings.values()) for record in records]
        failures = [
            f"seed {record.seed}: {record.error}"
            for record in material.failed
            if record.data["test"]["sha256"] == numbers.source.sha256 and cell.fits(record, any_source=True)
        ]
        table.append(
            Rerun(
                cell=cell,
                runs=[record.run for record in records],
                seconds=statistics.fmean(taken) if taken else None,
                failures=failures,
                command=run_command(cell, records, choice),
            )
        )
    return table


def run_command(cell: Cell, records: Sequence[RunRecord], choice: Choice) -> str:
    """The command that makes a cell's runs, again if they are there."""
    words = ["thetarbm", "run", cell.name, *choice.options()]
    seeds = max((record.seed + 1 for record in records), default=0)
    words += ["--seeds", str(seeds)] if seeds > cell.seeds and cell.most_seeds is None else []
    words += ["--force", cell.name] if records else []
    return shlex.join(words)
