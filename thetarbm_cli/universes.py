"""The multiverse of readings: universes, each one option of every choice of the suite, and their cells.

A design has the default universe (all options as the suite takes them), every change of one option, and sampled
universes, in which all choices vary at once: points of a scrambled Sobol sequence, one dimension a choice, by its
place in the suite, so that more universes, or choices added at the end, keep those that were there. Options that are
`alone` are tried by themselves only. The suite may name further universes. The cells of a universe are ordinary cells:
their trainings are ordinary runs, and universes that mean the same for a model share them.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from thetarbm_cli import documents
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.store import WEIGHTS, Store, shipped_packs
from thetarbm_cli.suite import Cell, Choice, Suite, is_designed

# Of the Sobol sequence. Another seed is another design: what is recorded would be found no more.
SEED = 0
DIMENSIONS = 64
DEFAULT = "default"
# The version of the file that names sampled universes.
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
        self.name, self.suite, self._kept = of, suite, suite.profile(profile).set
        self.design = suite.multiverse.designs[of]
        self.choices: dict[str, Choice] = {name: suite.choices[name] for name in self.design.choices}
        self._excludes = [each for each in suite.multiverse.excludes if each.keys() <= self.choices.keys()]
        self.base = [cell for cell in suite.cells(profile) if is_designed(cell, self.design)]

    @property
    def default(self) -> Universe:
        """The universe of the options that the suite takes."""
        return Universe(DEFAULT, "default", {name: choice.taken for name, choice in self.choices.items()})

    def one_at_a_time(self) -> Iterator[Universe]:
        """Change one option of the default, each in turn."""
        for name, choice in self.choices.items():
            for option in choice.options:
                options = {**self.default.options, name: option}
                if option != choice.taken and self._is_possible(options):
                    yield Universe(f"{name}={option}", "one at a time", options)

    def sampled(self) -> Iterator[Universe]:
        """Vary all choices, until there is no universe left that makes sense and was not yet there."""
        from scipy.stats import qmc

        dimension = {name: number for number, name in enumerate(self.suite.choices)}
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
                options = {name: each[int(point[dimension[name]] * len(each))] for name, each in crossed.items()}
                is_new = tuple(options.values()) not in seen
                seen.add(tuple(options.values()))
                if is_new and self._is_possible(options):
                    yield Universe(f"s{next(number)}", "sampled", options)

    def _is_crossed(self, universe: Universe) -> bool:
        """Whether no option of a universe is one that stays alone."""
        return not any(self.choices[name].options[option].alone for name, option in universe.options.items())

    def _is_possible(self, options: dict[str, str]) -> bool:
        """Whether these options make sense together."""
        return not any(each.items() <= options.items() for each in self._excludes)

    def universes(self, count: int = 0) -> list[Universe]:
        """Give the default, every change of one option, sampled ones until there are `count`, and the named ones."""
        fixed = [self.default, *self.one_at_a_time()]
        more = max(count - len(fixed), 0)
        named = [
            Universe(name, "named", {**self.default.options, **each.options})
            for name, each in self.design.universes.items()
        ]
        return [*fixed, *(itertools.islice(self.sampled(), more) if more else ()), *named]

    def find(self, name: str) -> Universe:
        """Find a universe by its name."""
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
        """Give the cells of the design with the settings of a universe; what the profile sets stays."""
        return [
            replace(
                cell.with_options(self.suite.options_for(cell.model, universe.options), self._kept),
                name=f"{universe.name}/{cell.name}",
                measures=tuple(self.design.measures) or cell.measures,
            )
            for cell in self.base
        ]

    def stages(self, universes: Sequence[Universe]) -> list[list[Cell]]:
        """Give the cells of universes in the order of work, one stage after the other: whenever it ends, it is of use.

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
        """Name the universes that train a rare model: the default, changes of it alone, sampled ones, others."""

        def rank(universe: Universe) -> int:
            if universe.kind == "one at a time":
                changed = universe.name.partition("=")[0]
                return 1 if self.choices[changed].models == [model] else 3
            return 0 if universe.kind == "default" else 2

        designed = (universe for universe in universes if universe.kind != "named")
        return {universe.name for universe in sorted(designed, key=rank)[:count]}


def pack_path(results: Path) -> Path:
    """Name the pack of the universes' runs, to be committed."""
    return results / "packed" / "multiverse.jsonl.xz"


def universes_path(results: Path) -> Path:
    """Name the file with the sampled universes that were run, beside the pack."""
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
    """Read the sampled universes that were noted, as far as the suite has their options; None if nothing was noted."""
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


def remove_weights(store: Store, runs: Iterable[str]) -> None:
    """Remove the weights of runs that are measured: they are a cache, and large."""
    for run in runs:
        store.path(run, WEIGHTS).unlink(missing_ok=True)
