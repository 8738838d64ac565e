"""The multiverse of readings: universes, each one option of every choice of the suite, and their cells.

A design has the default universe (all options as the suite takes them), every change of one option, and sampled
universes, in which all choices vary at once: points of a scrambled Sobol sequence, one dimension a choice, by its
place in the suite, so that more universes, or choices added at the end, keep those that were there. Options that are
`alone` are tried by themselves only. The suite may name further universes. The cells of a universe are ordinary cells:
their runs are ordinary runs, found again by their settings, and universes whose settings for a model are equal share
its runs.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from thetarbm_cli import documents
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.experiments.runs.packing import SUFFIX, find_packs, pack_records, shipped_packs
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Cell, Choice, Suite, options_for, with_options

# Of the Sobol sequence. Another seed is another design: what is recorded would be found no more.
SEED = 0
DIMENSIONS = 64
DEFAULT = "default"
# Of the file that names sampled universes.
FORMAT = 1
# Sampled universes that are run at a time.
AT_ONCE = 8

logger = logging.getLogger("thetarbm")

Kind = Literal["default", "one at a time", "sampled", "named"]


@dataclass(frozen=True)
class Universe:
    """One option of each choice.

    Attributes
    ----------
    name : ``default``, the changed option as ``batch=50``, the number of a sampled one as ``s12``, or by the suite
    options : by choice
    """

    name: str
    kind: Kind
    options: dict[str, str]


class Readings:
    """A design of a suite: its choices, universes and cells."""

    def __init__(self, suite: Suite, of: str = "tables", profile: str = "survey") -> None:
        if suite.multiverse is None:
            raise InputError("the suite declares no `multiverse`")
        if of not in suite.multiverse.designs:
            hint = did_you_mean(of, suite.multiverse.designs)
            raise InputError(f"the suite's multiverse has no design {of!r}: {hint}")
        self.name = of
        self.design = suite.multiverse.designs[of]
        self.choices: dict[str, Choice] = {name: suite.choices[name] for name in self.design.choices}
        self._dimension = {name: number for number, name in enumerate(suite.choices)}
        self._excludes = [each for each in suite.multiverse.excludes if each.keys() <= self.choices.keys()]
        self._profile = suite.profile(profile)
        self.base = [
            cell
            for cell in suite.cells(profile)
            if any(name == cell.experiment or fnmatchcase(cell.name, name) for name in self.design.cells)
        ]

    @property
    def default(self) -> Universe:
        """The universe of the options that the suite takes."""
        return Universe(DEFAULT, "default", {name: choice.taken for name, choice in self.choices.items()})

    def one_at_a_time(self) -> Iterator[Universe]:
        """Every change of one option of the default."""
        for name, choice in self.choices.items():
            for option in choice.options:
                options = {**self.default.options, name: option}
                if option != choice.taken and self.is_possible(options):
                    yield Universe(f"{name}={option}", "one at a time", options)

    def sampled(self) -> Iterator[Universe]:
        """Universes in which all choices vary, until there is none left that makes sense and was not yet there."""
        from scipy.stats import qmc

        crossed = {
            name: [each for each, option in choice.options.items() if not option.alone]
            for name, choice in self.choices.items()
        }
        fixed = [self.default, *self.one_at_a_time()]
        seen = {tuple(universe.options.values()) for universe in fixed if self._is_crossed(universe)}
        total = math.prod(map(len, crossed.values()))
        points = qmc.Sobol(DIMENSIONS, scramble=True, seed=SEED)
        number = itertools.count(1)
        while len(seen) < total:
            for point in points.random(64):
                shares = {name: float(point[self._dimension[name]]) for name in crossed}
                options = {name: each[int(shares[name] * len(each))] for name, each in crossed.items()}
                is_new = tuple(options.values()) not in seen
                seen.add(tuple(options.values()))
                if is_new and self.is_possible(options):
                    yield Universe(f"s{next(number)}", "sampled", options)

    def _is_crossed(self, universe: Universe) -> bool:
        """Whether no option of a universe is one that stays alone."""
        return not any(self.choices[name].options[option].alone for name, option in universe.options.items())

    def is_possible(self, options: dict[str, str]) -> bool:
        """Whether these options make sense together."""
        return not any(each.items() <= options.items() for each in self._excludes)

    def universes(self, count: int = 0) -> list[Universe]:
        """The default, every change of one option, as many sampled ones as make `count`, and those that have a name."""
        fixed = [self.default, *self.one_at_a_time()]
        more = max(count - len(fixed), 0)
        named = [
            Universe(name, "named", {**self.default.options, **each.options})
            for name, each in self.design.universes.items()
        ]
        return [*fixed, *(itertools.islice(self.sampled(), more) if more else ()), *named]

    def find(self, name: str) -> Universe:
        """The universe of a name.

        Raises
        ------
        InputError
            If there is none.
        """
        if name.startswith("s") and name[1:].isdecimal() and 0 < int(name[1:]) <= 10_000:
            found = next(itertools.islice(self.sampled(), int(name[1:]) - 1, None), None)
        else:
            found = next((universe for universe in self.universes() if universe.name == name), None)
        if found is not None:
            return found
        raise InputError(
            f"there is no universe {name!r}: it is default, an option as batch=50, a sampled one as s12, "
            "or one that the suite names"
        )

    def cells(self, universe: Universe) -> list[Cell]:
        """The cells of the design with the settings of a universe; what the profile sets stays."""
        return [
            replace(
                with_options(cell, options_for(cell.model, self.choices, universe.options), self._profile.parameters),
                name=f"{universe.name}/{cell.name}",
                measures=tuple(self.design.measures) or cell.measures,
            )
            for cell in self.base
        ]

    def counts(self, universe: Universe, model: str) -> dict[str, Any]:
        """Which of the recorded numbers of a model count in a universe."""
        found: dict[str, Any] = {}
        for option in options_for(model, self.choices, universe.options):
            found |= option.counts.model_dump(exclude_none=True)
        return found

    def stages(self, universes: Sequence[Universe]) -> list[list[Cell]]:
        """The cells of universes in the order of work, one stage after the other: whenever it ends, it is of use.

        First the default, then the changes of one option, then what is rare in these, then the sampled universes, a few
        at a time, and at last options that are alone.
        """
        having = {model: self._having(model, count, universes) for model, count in self.design.rare.items()}
        stages: dict[tuple[int, int], list[Cell]] = {}
        for number, universe in enumerate(universes):
            for cell in self.cells(universe):
                rare = cell.model in having
                if rare and universe.kind != "named" and universe.name not in having[cell.model]:
                    continue
                early = (2 if rare else 1, 0)
                stage = {"default": (0, 0), "one at a time": early, "named": early, "sampled": (3, number // AT_ONCE)}
                stages.setdefault(stage[universe.kind] if self._is_crossed(universe) else (4, 0), []).append(cell)
        return [stages[key] for key in sorted(stages)]

    def _having(self, model: str, count: int, universes: Sequence[Universe]) -> set[str]:
        """Names of the universes that train a rare model: the default, changes of it alone, sampled ones, others."""

        def rank(universe: Universe) -> int:
            if universe.kind == "one at a time":
                changed = universe.name.partition("=")[0]
                return 1 if self.choices[changed].models == [model] else 3
            return 0 if universe.kind == "default" else 2

        designed = (universe for universe in universes if universe.kind != "named")
        return {universe.name for universe in sorted(designed, key=rank)[:count]}


def multiverse_store(results: Path) -> RunStore:
    """The store of these runs: folders of their own, which stay out of git, and the packs of the results folder."""
    store = RunStore(results)
    store.folder = results / "multiverse" / "runs"
    return store


def pack_path(results: Path) -> Path:
    """The file with the records of these runs, to be committed."""
    return results / "packed" / f"multiverse{SUFFIX}"


def universes_path(results: Path) -> Path:
    """The file that names the sampled universes that were run, beside the pack."""
    return results / "packed" / "multiverse.universes.json"


def note_universes(results: Path, readings: Readings, universes: Iterable[Universe]) -> None:
    """Note the options of sampled universes: they are found again without the sequence, and if choices are added."""
    content = _noted(results)
    known = content["designs"].setdefault(readings.name, {})
    found = {each.name: each.options for each in universes if each.kind == "sampled"}
    if not found.items() <= known.items():
        known |= found
        documents.write(universes_path(results), content)


def noted_universes(results: Path, readings: Readings) -> list[Universe] | None:
    """The sampled universes that were noted, as far as the suite has their options; None if nothing was noted."""
    known = _noted(results)["designs"].get(readings.name)
    if not isinstance(known, dict):
        return None
    found = []
    for name, noted in known.items():
        options = {choice: noted.get(choice, taken) for choice, taken in readings.default.options.items()}
        if all(option in readings.choices[choice].options for choice, option in options.items()):
            found.append(Universe(name, "sampled", options))
    return found


def _noted(results: Path) -> dict[str, Any]:
    own = universes_path(results)
    path = own if own.exists() else shipped_packs() / own.name
    try:
        content = documents.read(path)
        documents.check_format(content, FORMAT)
    except FileNotFoundError:
        pass
    except ValueError as error:
        logger.warning("%s is not used: %s", path, error)
    else:
        return content
    return {"format": FORMAT, "designs": {}}


def load_records(results: Path) -> list[RunRecord]:
    """The records of these runs, from their folders and their pack."""
    store, name = multiverse_store(results), pack_path(results).name
    packs = [pack for pack in find_packs(store.packed, shipped_packs()) if pack.path.name == name]
    return store.load_all({*store.own_identifiers(), *(run for pack in packs for run in pack.contents.runs)})


def pack(results: Path) -> int:
    """Write all records of these runs into their pack, slim; how many there are."""
    runs = [record.run for record in load_records(results)]
    return pack_records(multiverse_store(results), pack_path(results), runs) if runs else 0


def remove_weights(store: RunStore, runs: Iterable[str]) -> None:
    """Remove the weights of runs that are measured: they are a cache, and large."""
    for run in runs:
        store.weights_path(run).unlink(missing_ok=True)


def match(cells: Iterable[Cell], records: Iterable[RunRecord]) -> dict[str, RunRecord]:
    """The record of each cell that has one, by the cell's name: of the first seed, and rather done than failed."""
    wanted = list(cells)
    # Names that all cells of a model give: few records are alike in them, and only these are compared in full.
    common: dict[str, list[str]] = {}
    for cell in wanted:
        known = common.get(cell.model, list(cell.parameters))
        common[cell.model] = [name for name in known if name in cell.parameters]
    groups: dict[Any, list[RunRecord]] = {}
    for record in sorted(records, key=lambda each: (each.state == "done", -each.seed)):
        if record.algorithm == ALGORITHM and record.settings.model in common:
            model = record.settings.model
            key = (model, *(record.parameters.get(name) for name in common[model]))
            groups.setdefault(key, []).append(record)
    found: dict[str, RunRecord] = {}
    for cell in wanted:
        key = (cell.model, *(cell.parameters[name] for name in common[cell.model]))
        for record in groups.get(key, []):
            if cell.fits(record):
                found[cell.name] = record
    return found
