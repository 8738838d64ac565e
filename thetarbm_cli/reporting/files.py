"""Tables and verdicts as files: their names and contents, writing them, and whether they are as they should be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from thetarbm_cli import storage
from thetarbm_cli.experiments.store import RunRecord, RunStore
from thetarbm_cli.experiments.suite import Suite
from thetarbm_cli.experiments.theory import load_theory
from thetarbm_cli.reporting.delimited import to_csv
from thetarbm_cli.reporting.latex import to_latex
from thetarbm_cli.reporting.markdown import to_markdown
from thetarbm_cli.reporting.tables import Table, build
from thetarbm_cli.reporting.values import Numbers, Source, collect
from thetarbm_cli.reporting.verdicts import Verdict, judge
from thetarbm_cli.reporting.verdicts import to_markdown as verdicts_to_markdown

WRITERS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "markdown": ("md", to_markdown),
    "latex": ("tex", to_latex),
    "csv": ("csv", to_csv),
}


@dataclass(frozen=True)
class Report:
    """All tables of one profile, for each source of images, and the verdicts."""

    profile: str
    numbers: list[Numbers]
    tables: dict[Source, list[Table]]
    verdicts: list[tuple[Numbers, list[Verdict]]]

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
        return contents

    def _suffix(self, source: Source) -> str:
        """What tells the files of a source apart; two contents under one name are told by their checksum."""
        twice = sum(other.name == source.name for other in self.tables) > 1
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


def make_report(results: Path, suite: Suite, profile: str, names: Sequence[str]) -> Report:
    """Build tables and verdicts from the records in a results folder."""
    store = RunStore(results)
    loaded = (store.load(run) for run in store.identifiers())
    records: list[RunRecord] = [record for record in loaded if record is not None]
    cells = suite.cells(profile, in_tables=True)
    collected = collect(cells, records)
    theory = load_theory(results)
    shown = [name for name in names if any(name in cell.tables for cell in cells)]
    return Report(
        profile,
        collected,
        {numbers.source: [build(name, numbers) for name in shown] for numbers in collected},
        [(numbers, judge(numbers, theory)) for numbers in collected],
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
