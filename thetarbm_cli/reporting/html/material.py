"""What the report is made from: the suite and its text, and the records sorted to its cells, read once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from thetarbm_cli.experiments.execution.theory import load_theory
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Suite
from thetarbm_cli.experiments.suite_file import find_suite
from thetarbm_cli.reporting.files import Report, assemble
from thetarbm_cli.reporting.frame import read_records
from thetarbm_cli.reporting.layout import TABLES


@dataclass(frozen=True)
class Material:
    """All that the page shows but its figures.

    Attributes
    ----------
    suite_path : the file that the user named, or None
    suite_text : the file of the suite, letter by letter
    report : tables and verdicts for each source of images
    failed : records of runs that failed
    """

    suite: Suite
    suite_path: Path | None
    suite_text: str
    profile: str
    report: Report
    failed: list[RunRecord]

    @property
    def records(self) -> list[RunRecord]:
        """The records behind the numbers of the page, each once, by their ids."""
        used = {
            record.run: record
            for numbers in self.report.numbers
            for records in numbers.records.values()
            for record in records
        }
        return [used[run] for run in sorted(used)]


def gather(results: Path, suite_path: Path | None, profile: str, source: str | None = None) -> Material:
    """Read the suite and every record of a results folder.

    Parameters
    ----------
    source : str, optional
        Show images of this source alone; else every source that has records is shown.
    """
    suite = load_suite(suite_path, check_settings=False)
    records = read_records(results)
    if source is not None:
        records = [record for record in records if record.data["test"]["source"] == Path(source).name]
    report = assemble(profile, suite.cells(profile, source), records, load_theory(results), TABLES)
    failed = [record for record in records if record.state == "failed" and record.algorithm == ALGORITHM]
    text = find_suite(suite_path).read_text(encoding="utf-8")
    return Material(suite, suite_path, text, profile, report, failed)
