"""Tables and verdicts as files: their names and contents, writing them, and whether they are as they should be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from thetarbm_cli import storage
from thetarbm_cli.experiments.execution.theory import TheoryRecord, load_theory
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.reporting.carried import judge_carried
from thetarbm_cli.reporting.carried import to_markdown as carried_to_markdown
from thetarbm_cli.reporting.delimited import to_csv
from thetarbm_cli.reporting.frame import Numbers, Source, collect, read_records
from thetarbm_cli.reporting.latex import to_latex
from thetarbm_cli.reporting.layout import Table
from thetarbm_cli.reporting.markdown import to_markdown
from thetarbm_cli.reporting.tables import build
from thetarbm_cli.reporting.verdicts import Verdict, judge
from thetarbm_cli.reporting.verdicts import to_markdown as verdicts_to_markdown

WRITERS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "markdown": ("md", to_markdown),
    "latex": ("tex", to_latex),
    "csv": ("csv", to_csv),
}


@dataclass(frozen=True)
class Report:
    """All tables of one profile, for each source of images, and the verdicts.

    Attributes
    ----------
    numbers : of every data set
    verdicts : what became of the claims on the paper's data set
    carried : what became of the claims on other data sets than the paper's
    """

    profile: str
    numbers: list[Numbers]
    tables: dict[Source, list[Table]]
    verdicts: list[tuple[Numbers, list[Verdict]]]
    carried: list[tuple[Numbers, list[Verdict]]] = field(default_factory=list)

    def files(self, folder: Path, verdicts: Path, formats: Sequence[str]) -> dict[Path, str]:
        """Content of every file by its path."""
        size = "" if self.profile == "paper" else f"-{self.profile}"
        contents = {}
        for source, tables in self.tables.items():
            for table in tables:
                for name in formats:
                    ending, write = WRITERS[name]
                    stem = f"table{table.name}" if table.name.isdigit() else table.name
                    contents[folder / f"{stem}{size}{self._suffix(source)}.{ending}"] = write(table)
        contents[verdicts / f"verdicts{size}.md"] = verdicts_to_markdown(self.verdicts, self.profile)
        for numbers, judged in self.carried:
            name = f"verdicts-fashion{size}{self._suffix(numbers.source)}.md"
            contents[verdicts / name] = carried_to_markdown(numbers, judged, self.profile)
        return contents

    def _suffix(self, source: Source) -> str:
        """What tells the files of a source apart; two contents under one name are told by their checksum."""
        same = [other for other in self.tables if (other.dataset, other.name) == (source.dataset, source.name)]
        twice = len(same) > 1
        name = "" if source.name == "generated" and not twice else f"-{Path(source.name).stem}"
        return f"{name}-{source.sha256[:8]}" if twice else name

    def missing(self) -> list[str]:
        """For each experiment with missing cells, what is missing and the command that makes it."""
        option = "" if self.profile == "paper" else f" --profile {self.profile}"
        lines = []
        for numbers in self.numbers:
            source = "" if numbers.source.name == "generated" else f" --source {numbers.source.name}"
            values = [value for table in self.tables[numbers.source] for value in table.values]
            absent = {value.cell.name: value.cell for value in values if value.mean is None}
            for experiment in dict.fromkeys(cell.experiment for cell in absent.values()):
                names = [name for name, cell in absent.items() if cell.experiment == experiment]
                whole = len(names) == len({value.cell.name for value in values if value.cell.experiment == experiment})
                words = experiment if whole else " ".join(names)
                lines.append(f"missing: {words}; thetarbm run {words}{option}{source} makes it")
        return lines


def _shown(numbers: Numbers, names: Sequence[str]) -> list[str]:
    """The tables with something to show: what is run on request needs records of its own, or to be asked for alone."""
    usual = {
        record.run for cell in numbers.cells if not cell.on_request for record in numbers.records.get(cell.name, [])
    }

    def has(name: str) -> bool:
        cells = numbers.in_table(name)
        if any(not cell.on_request for cell in cells) or list(names) == [name]:
            return bool(cells)
        return any(record.run not in usual for cell in cells for record in numbers.records.get(cell.name, []))

    return [name for name in names if has(name)]


def make_report(results: Path, suite: Suite, profile: str, names: Sequence[str]) -> Report:
    """Build tables and verdicts from the records in a results folder.

    What is run on request is shown if there are records, or if nothing else is asked for.
    """
    return assemble(profile, suite.cells(profile, in_tables=True), read_records(results), load_theory(results), names)


def assemble(
    profile: str, cells: Sequence[Cell], records: Sequence[RunRecord], theory: TheoryRecord | None, names: Sequence[str]
) -> Report:
    """Tables and verdicts of the paper's data set and of others, for each source of their images."""
    collected = collect(cells, records)
    beside = [each for each in collect(cells, records, "fashion-rot") if each.records or list(names) == ["fashion"]]
    return Report(
        profile,
        [*collected, *beside],
        {each.source: [build(name, each) for name in _shown(each, names)] for each in [*collected, *beside]},
        [(numbers, judge(numbers, theory)) for numbers in collected],
        [(numbers, judge_carried(numbers)) for numbers in beside if numbers.records],
    )


def write(files: dict[Path, str]) -> None:
    """Write files that differ from what is there."""
    for path, text in files.items():
        if not _is(path, text):
            storage.write_text(path, text)


def outdated(files: dict[Path, str]) -> list[Path]:
    """Files that are missing or differ from what they should be."""
    return [path for path, text in files.items() if not _is(path, text)]


def _is(path: Path, text: str) -> bool:
    content = text.encode()
    try:
        with storage.open_plain(path) as stream:
            return stream.read(len(content) + 1) == content
    except OSError:
        return False
