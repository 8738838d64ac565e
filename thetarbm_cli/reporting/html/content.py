"""What the page shows: tables, every number with its runs, commands, environments, and what is missing."""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.followup import command_line
from thetarbm_cli.measures import ERROR, GAMMA_TEST, MEASURES
from thetarbm_cli.measures.theory import load_theory
from thetarbm_cli.reporting.claims import NO_DATA, NOT, NOT_VERIFIED, OPEN, REPRODUCED, VERIFIED
from thetarbm_cli.reporting.html.pictures import Picture
from thetarbm_cli.reporting.multiverse import ON_PAPERS_DATA, Analysis, ClaimShare, claim_shares, find_universes
from thetarbm_cli.reporting.runs import ListedRun, list_runs
from thetarbm_cli.reporting.tables import Section, Table, make_sections, variants_of
from thetarbm_cli.results import Results, Value
from thetarbm_cli.specs import ALGORITHM
from thetarbm_cli.store import Store, Training
from thetarbm_cli.suite import Cell, Suite, find_suite, load_suite

MINUS = "\N{MINUS SIGN}"


@dataclass(frozen=True)
class Rerun:
    """A cell and the command that runs it again.

    Attributes
    ----------
    runs : ids of the runs that have all numbers the cell asks for, by seed
    seconds : training and measuring of one run, the mean over seeds; None without a run
    failures : what went wrong in runs that diverged
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
class PageSection(Section):
    """What the page shows of one source of images, under a name that is unique in the page.

    `pictures` are empty until they are drawn.
    """

    name: str
    reruns: list[Rerun]
    pictures: list[Picture] = field(default_factory=list)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many claims have each verdict."""
        counted = Counter(verdict.verdict for verdict in self.verdicts)
        verified = [word for word in (VERIFIED, NOT_VERIFIED) if counted[word]]
        return [(word, counted[word]) for word in (REPRODUCED, OPEN, NOT, *verified, NO_DATA)]

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
            self.results.value(cell, measure.name, variant)
            for cell in self.results.cells
            for variant, _ in reversed(variants_of(cell.model))
            for measure in MEASURES.values()
            if measure.asked_as in cell.measures
        ]


@dataclass(frozen=True)
class Content:
    """All that the page shows.

    Attributes
    ----------
    suite_text : the file of the suite, letter by letter
    trainings : those behind the numbers of the page, by their ids
    made_by_hand : other runs, as ``thetarbm list`` has them
    universes : what the runs of ``thetarbm multiverse`` say, if there are any
    shares : in how many sampled universes each claim holds, by its name
    """

    suite: Suite
    suite_text: str
    profile: str
    sections: list[PageSection]
    trainings: dict[str, Training]
    made_by_hand: list[ListedRun]
    universes: Analysis | None
    shares: dict[str, ClaimShare]

    @property
    def pictures(self) -> list[Picture]:
        """The figures of all sections."""
        return [picture for section in self.sections for picture in section.pictures]


def gather(store: Store, suite_path: Path | None, profile: str, source: str | None = None) -> Content:
    """Read the suite and every record of a results folder; with a source, show images of this source alone."""
    suite = load_suite(suite_path, check_settings=False)
    trainings = [each for each in store.trainings() if each.spec.algorithm == ALGORITHM]
    found = make_sections(suite, profile, trainings, load_theory(store.results))
    if source is not None:
        found = [section for section in found if section.source.name == Path(source).name]
        if not found:
            makes = command_line("run", profile=profile, source=source)
            raise ThetaRBMError(f"no run on images of {source} is recorded in {store.folder}; {makes} makes them")
    sections = [
        PageSection(each.results, each.tables, each.verdicts, f"source{number}", reruns(each.results))
        for number, each in enumerate(found)
    ]
    shown = {
        training.run: training
        for section in sections
        for cell in section.results.cells
        for training in section.results.trainings(cell)
    }
    own = set(store.own_identifiers()) - shown.keys()
    by_hand = list_runs((each for each in trainings if each.run in own and not each.made_for.cells), sort="model")
    text = find_suite(suite_path).read_text(encoding="utf-8")
    designs = {of: find_universes(suite, store.results, trainings, of) for of in ON_PAPERS_DATA}
    used = dict(sorted(shown.items()))
    return Content(suite, text, profile, sections, used, by_hand, designs["tables"], claim_shares(designs.values()))


def reruns(results: Results) -> list[Rerun]:
    """List every cell of the suite, in its order, with the command that makes its runs for images of one source."""
    table = []
    for cell in results.cells:
        whole: dict[int, Training] = {}
        for training in results.trainings(cell):
            if not training.lacking(cell.measure_specs):
                whole.setdefault(training.spec.seed, training)
        words = [cell.name]
        if whole and cell.most_seeds is None and max(whole) >= cell.seeds:
            words += ["--seeds", str(max(whole) + 1)]
        words += ["--force", cell.name] if whole else []
        source = None if cell.compares_data else results.source_option()
        command = command_line("run", *words, profile=cell.profile, source=source)
        failures = [
            f"seed {each.spec.seed}: {each.error}"
            for each in results.recorded.by_cell.get(cell.train_spec().cell_key, [])
            if each.state == "diverged"
        ]
        seconds = statistics.fmean(_seconds(each, cell) for each in whole.values()) if whole else None
        table.append(Rerun(cell, [each.run for each in whole.values()], seconds, failures, command))
    return table


def _seconds(training: Training, cell: Cell) -> float:
    """Sum up the time of training and of what a cell measures."""
    return training.seconds + sum(training.by_key[spec.key].seconds or 0 for spec in cell.measure_specs)


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
        for name, options in ((each.universe.name, each.universe.options) for each in analysis.universes)
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


def environments(trainings: Sequence[Training]) -> list[RunEnvironment]:
    """Sort trainings by their environments, the one with the most runs first."""
    groups: dict[str, list[Training]] = {}
    for training in trainings:
        # Libraries are listed in the order of their loading, which means nothing.
        facts = {
            name: sorted(value, key=str) if isinstance(value, list) else value
            for name, value in training.environment.items()
            if name != "git"
        }
        groups.setdefault(json.dumps(facts, sort_keys=True), []).append(training)
    return [
        RunEnvironment(len(group), {name: _words(fact) for name, fact in json.loads(facts).items()}, revisions(group))
        for facts, group in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    ]


def revisions(trainings: Sequence[Training]) -> list[tuple[str, list[str]]]:
    """List the revisions of the code with the ids of their runs, those with the most runs first."""
    found: dict[str, list[str]] = {}
    for training in trainings:
        git = training.environment.get("git")
        name = f"{git['revision']}{', changed' if git.get('dirty') else ''}" if git else "not recorded"
        found.setdefault(name, []).append(training.run)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def _words(value: Any) -> str:
    """Write a value of a record as people read it."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items())
    if isinstance(value, list):
        return "; ".join(map(_words, value))
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)
