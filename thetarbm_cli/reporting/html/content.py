"""What the page shows: tables, every number with its runs, commands, environments, and what is missing."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from thetarbm_cli.experiments.execution.theory import load_theory
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell, Suite
from thetarbm_cli.experiments.suite_file import find_suite
from thetarbm_cli.followup import command_line
from thetarbm_cli.outcomes import ERROR, GAMMA_TEST, MEASURES, variants_of
from thetarbm_cli.outputs import ClaimShare, ListedRun, MissingPart
from thetarbm_cli.reporting.claims import ELSEWHERE, NO_DATA, NOT, PARTLY, REPRODUCED, UNDECIDED
from thetarbm_cli.reporting.frame import Numbers, Value
from thetarbm_cli.reporting.html.pictures import Picture
from thetarbm_cli.reporting.listing import list_runs
from thetarbm_cli.reporting.multiverse import ON_PAPERS_DATA, Analysis, claim_shares, find_universes
from thetarbm_cli.reporting.tables import Part, Report, Table, assemble

MINUS = "\N{MINUS SIGN}"


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
class PagePart(Part):
    """What the page shows of one source of images, under a name that is unique in the page.

    `pictures` are empty until they are drawn.
    """

    name: str
    reruns: list[Rerun]
    pictures: list[Picture] = field(default_factory=list)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many claims have each verdict."""
        called = {} if self.source.is_papers else ELSEWHERE
        words = [called.get(word, word) for word in (REPRODUCED, PARTLY, UNDECIDED, NOT, NO_DATA)]
        counted = Counter(verdict.verdict for verdict in self.verdicts)
        return [(word, counted[word]) for word in words]

    @property
    def drawn_before(self) -> dict[str, list[str]]:
        """Titles of the figures that were drawn before, by the reason why they cannot be drawn now."""
        found: dict[str, list[str]] = {}
        for picture in self.pictures:
            if picture.drawn_before:
                found.setdefault("; ".join(picture.missing), []).append(picture.figure.label)
        return found

    @property
    def every_value(self) -> list[Value]:
        """All that was or should be measured, cell by cell in the order of the suite."""
        return [
            self.numbers.value(cell, measure.name, variant)
            for cell in self.numbers.cells
            for variant in sorted(variant for variant, _ in variants_of(cell.model))
            for measure in MEASURES.values()
            if measure.asked_as in cell.measures
        ]


@dataclass(frozen=True)
class Content:
    """All that the page shows.

    Attributes
    ----------
    suite_text : the file of the suite, letter by letter
    report : tables and verdicts
    parts : those of the report, with what the page adds
    others : runs of this version that no suite asked for
    universes : what the runs of ``thetarbm multiverse`` say, if there are any
    shares : in how many universes each claim holds, by its name
    """

    suite: Suite
    suite_text: str
    report: Report
    parts: list[PagePart]
    others: list[RunRecord]
    universes: Analysis | None
    shares: dict[str, ClaimShare]

    @property
    def pictures(self) -> list[Picture]:
        """The figures of all parts."""
        return [picture for part in self.parts for picture in part.pictures]

    @property
    def records(self) -> list[RunRecord]:
        """The records behind the numbers of the page, each once, by their ids."""
        cells = (records for part in self.parts for records in part.numbers.records.values())
        used = {record.run: record for records in cells for record in records}
        return [used[run] for run in sorted(used)]

    @property
    def made_by_hand(self) -> list[ListedRun]:
        """Runs that stand in no cell, as ``thetarbm list`` has them."""
        used = {record.run for record in self.records}
        return list_runs((record for record in self.others if record.run not in used), sort="model")


def gather(results: Path, suite_path: Path | None, profile: str, source: str | None = None) -> Content:
    """Read the suite and every record of a results folder.

    Parameters
    ----------
    source : str, optional
        Show images of this source alone; else every source that has records is shown.
    """
    suite = load_suite(suite_path, check_settings=False)
    store = RunStore(results)
    records = store.load_all()
    if source is not None:
        records = [record for record in records if record.data.test.source == Path(source).name]
    kinds = list(suite.table_kinds.values())
    report = assemble(profile, suite.cells(profile, source), records, load_theory(results), kinds)
    current = [record for record in records if record.algorithm == ALGORITHM]
    failed = [record for record in current if record.state == "failed"]
    parts = [
        PagePart(part.numbers, part.tables, part.verdicts, f"source{number}", reruns(part.numbers, failed))
        for number, part in enumerate(report.parts)
    ]
    own = set(store.own_identifiers())
    others = [record for record in current if not record.cells and record.run in own]
    text = find_suite(suite_path).read_text(encoding="utf-8")
    designs = {of: find_universes(suite, results, of) for of in ON_PAPERS_DATA}
    return Content(suite, text, report, parts, others, designs["tables"], claim_shares(designs.values()))


def reruns(numbers: Numbers, failed: Sequence[RunRecord]) -> list[Rerun]:
    """List every cell of the suite, in its order, with the command that makes its runs for images of one source."""
    table = []
    for cell in numbers.cells:
        records = [each for each in numbers.records.get(cell.name, []) if each.has(cell.measures, cell.offsets)]
        failures = [
            f"seed {record.seed}: {record.error}"
            for record in failed
            if record.data.test.sha256 == numbers.source.sha256 and cell.fits(record, any_source=True)
        ]
        words = [cell.name]
        seeds = max((record.seed + 1 for record in records), default=0)
        words += ["--seeds", str(seeds)] if seeds > cell.seeds and cell.most_seeds is None else []
        words += ["--force", cell.name] if records else []
        seconds = statistics.fmean(sum(record.timings.values()) for record in records) if records else None
        source = None if cell.compares_data else numbers.source_option()
        command = command_line("run", *words, profile=cell.profile, source=source)
        table.append(Rerun(cell, [record.run for record in records], seconds, failures, command))
    return table


def universe_models(analysis: Analysis) -> dict[str, str]:
    """Find the first cell of each model, by the model's label."""
    first: dict[str, str] = {}
    for cell in analysis.readings.base:
        first.setdefault(cell.label, cell.name)
    return first


def universe_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """List the recorded universes, the default first: name, options, those not as the suite takes them, distance.

    The numbers are error and γ of each model of `universe_models`, at its first sparsity target.
    """
    found = analysis.frame.set_index(["universe", "cell", "column"])["value"].to_dict()
    columns = [(cell, measure) for cell in universe_models(analysis).values() for measure in (ERROR, GAMMA_TEST)]
    default = analysis.readings.default.options
    group = "all" if analysis.nearest("all") else "common"
    return [
        {
            "name": name,
            "options": options,
            "changed": [f"{choice} {option}" for choice, option in options.items() if option != default[choice]],
            "distance": analysis.distance(name, group),
            "numbers": [found.get((name, *column)) for column in columns],
        }
        for name, options in ((each.universe.name, each.universe.options) for each in analysis.recorded)
    ]


def measure_label(value: Value) -> str:
    """Name the measure of a value with its unit, of the O-RBM also on which images."""
    return MEASURES[value.measure].with_unit + dict(variants_of(value.cell.model))[value.variant]


def signed(number: float, digits: int) -> str:
    """Write a difference with its sign; one that is rounded to nothing has none."""
    text = f"{number:+.{digits}f}"
    return text.replace("-", MINUS) if text.strip("+-0.") else text[1:]


def about_table(table: Table) -> str:
    """Say what is in the cells of a table."""
    best = any(entry.best for row in table.rows for entry in row.entries if entry)
    below = "; below it the paper's value and the difference, ours minus the paper's" if table.has_published else ""
    return f"{table.spread}{below}{'; bold is the best of a column' if best else ''}."


class RunEnvironment(NamedTuple):
    """How many runs were made in an environment, its facts by name, and its revisions with the ids of their runs."""

    runs: int
    facts: dict[str, str]
    revisions: list[tuple[str, list[str]]]


def environments(records: Sequence[RunRecord]) -> list[RunEnvironment]:
    """Sort the records by their environments, the one with the most runs first."""
    groups: dict[str, list[RunRecord]] = {}
    for record in records:
        groups.setdefault(json.dumps(_machine(record), sort_keys=True), []).append(record)
    return [
        RunEnvironment(
            len(group), {name: _words(value) for name, value in _machine(group[0]).items()}, revisions(group)
        )
        for _, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def revisions(records: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
    """List the revisions of the code with the ids of their runs, those with the most runs first."""
    found: dict[str, list[str]] = {}
    for record in records:
        git = record.environment.git
        name = f"{git.revision}{', changed' if git.dirty else ''}" if git else "not recorded"
        found.setdefault(name, []).append(record.run)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _machine(record: RunRecord) -> dict[str, Any]:
    """Give an environment without its revision, and lists sorted: libraries are found in the order of their loading."""
    return {
        name: sorted(value, key=lambda each: json.dumps(each, sort_keys=True)) if isinstance(value, list) else value
        for name, value in record.environment.model_dump().items()
        if name != "git"
    }


def _words(value: Any) -> str:
    """Write a value of a record as people read it."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_words, value))
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)


def missing(content: Content) -> list[MissingPart]:
    """List cells without a run, but for those that wait to be named, and figures that are not shown."""
    cells = [
        MissingPart(
            kind="cell",
            name=each.cell.name,
            source=part.source.name,
            reason="; ".join(each.failures) or "no run yet",
            command=each.command,
        )
        for part in content.parts
        for each in part.reruns
        if not each.runs and not each.cell.on_request
    ]
    figures = [
        MissingPart(
            kind="figure",
            name=picture.figure.name,
            source=part.source.name,
            reason="; ".join(picture.missing),
            command=picture.command,
        )
        for part in content.parts
        for picture in part.pictures
        if picture.image is None
    ]
    return cells + figures
