"""The multiverse of readings: universes, each one option of every choice of the suite, and their cells.

A design has the default universe (all options as the suite takes them), every change of one option, and sampled
universes, in which all choices vary at once. These are drawn in blocks in which each choice has its options equally
often and no two choices go together (`draw`); more universes keep those that were there. Options that are `alone` are
tried by themselves only. The suite may name further universes. The cells of a universe are ordinary cells: their
trainings are ordinary runs, and universes that mean the same for a model share them.
"""

from __future__ import annotations

import itertools
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import documents
from thetarbm_cli.errors import InputError, did_you_mean
from thetarbm_cli.store import WEIGHTS, Store, shipped_packs
from thetarbm_cli.suite import Cell, Choice, Suite, is_designed

# Of the sample. Another seed is another design: what is recorded would be found no more.
SEED = 0
# Sampled universes are drawn in blocks of so many.
BLOCK = 48
# The largest association of two choices that is small enough in the first block; it falls with the root of the rows.
SMALL = 0.2
TRIALS = 20_000
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
    name : ``default``, the changed option as ``batch=50``, the number of a sampled one as ``u12``, or by the suite
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

    def sampled(self, count: int) -> list[Universe]:
        """Vary all choices in so many universes, or in as many as there are."""
        crossed = {
            name: [each for each, option in choice.options.items() if not option.alone]
            for name, choice in self.choices.items()
        }
        names = list(crossed)
        excludes = [
            {names.index(name): crossed[name].index(option) for name, option in each.items()}
            for each in self._excludes
            if all(option in crossed[name] for name, option in each.items())
        ]
        rows = draw([len(each) for each in crossed.values()], count, excludes)
        return [
            Universe(f"u{number}", "sampled", {name: crossed[name][at] for name, at in zip(names, row, strict=True)})
            for number, row in enumerate(rows.tolist(), 1)
        ]

    def _is_crossed(self, universe: Universe) -> bool:
        """Whether no option of a universe is one that stays alone."""
        return not any(self.choices[name].options[option].alone for name, option in universe.options.items())

    def _is_possible(self, options: dict[str, str]) -> bool:
        """Whether these options make sense together."""
        return not any(each.items() <= options.items() for each in self._excludes)

    def universes(self, count: int = 0) -> list[Universe]:
        """Give the default, every change of one option, `count` sampled ones, and the named ones."""
        named = [
            Universe(name, "named", {**self.default.options, **each.options})
            for name, each in self.design.universes.items()
        ]
        return [self.default, *self.one_at_a_time(), *self.sampled(count), *named]

    def find(self, name: str, noted: Iterable[Universe] = ()) -> Universe:
        """Find a universe by its name, among the noted ones first."""
        number = int(name[1:]) if name.startswith("u") and name[1:].isdecimal() and len(name) < 5 else 0
        for universe in itertools.chain(noted, self.universes(number)):
            if universe.name == name:
                return universe
        raise InputError(
            f"there is no universe {name!r}: it is default, an option as batch=50, a sampled one as u12, "
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
        stages: dict[tuple[int, int], list[Cell]] = {}
        for number, universe in enumerate(universes):
            for cell in self.cells(universe):
                if not self._trains(cell.model, universe):
                    continue
                early = (2 if cell.model in self.design.rare else 1, 0)
                stage = {"default": (0, 0), "one at a time": early, "named": early, "sampled": (3, number // AT_ONCE)}
                stages.setdefault(stage[universe.kind] if self._is_crossed(universe) else (4, 0), []).append(cell)
        return [stages[key] for key in sorted(stages)]

    def _trains(self, model: str, universe: Universe) -> bool:
        """Whether a universe trains a model; of a rare one, only the first sampled ones and changes of it alone do."""
        if model not in self.design.rare or universe.kind in ("default", "named"):
            return True
        if universe.kind == "one at a time":
            return self.choices[universe.name.partition("=")[0]].models == [model]
        return int(universe.name[1:]) <= self.design.rare[model]


def draw(
    levels: Sequence[int],
    count: int,
    excludes: Sequence[Mapping[int, int]] = (),
    seed: int = SEED,
    trials: int = TRIALS,
) -> NDArray[np.int64]:
    """Draw rows that differ, with one option of each choice, in blocks; more rows keep those that were there.

    If no more than a block make sense, the rows are all of these, in random order. A sample ends when no block of new
    rows can be made.

    Parameters
    ----------
    levels : the number of options of each choice
    excludes : options by choice that make no sense together
    trials : swaps tried for a block
    """
    rows = np.empty((0, len(levels)), np.int64)
    if math.prod(levels) <= BLOCK**2:
        every = np.array(list(itertools.product(*map(range, levels))))
        every = every[~_excluded(every, excludes)]
        if len(every) <= BLOCK:
            return np.random.default_rng(seed).permutation(every)[:count]
    while len(rows) < count:
        longer = _with_block(rows, levels, excludes, np.random.default_rng([seed, len(rows)]), trials)
        if _at_fault(longer, excludes).any():
            break
        rows = longer
    return rows[:count]


def _with_block(
    before: NDArray[np.int64],
    levels: Sequence[int],
    excludes: Sequence[Mapping[int, int]],
    random: np.random.Generator,
    trials: int,
) -> NDArray[np.int64]:
    """Add a block in which the options of each choice are equally frequent, and choices go together little.

    Two entries of a column are swapped at random, one in a row that is at fault as long as there is any. A swap is kept
    if fewer rows are at fault, or if none more is and the sum of the 12th powers of all associations, with the rows
    before, falls. Choices that exclude options of each other cannot but go together: their pair is not in the sum.
    """
    columns = [random.permutation(np.resize(random.permutation(count), BLOCK)) for count in levels]
    rows = np.concatenate([before, np.stack(columns, axis=1)])
    indicators = (rows[:, :, None] == np.arange(max(levels))).astype(float)
    counted = ~np.eye(len(levels), dtype=bool)
    for each in excludes:
        counted[np.ix_(list(each), list(each))] = False
    found, faulty = associations(indicators) * counted, _at_fault(rows, excludes)
    score, small = (found**12).sum(), SMALL * math.sqrt(BLOCK / len(rows))
    for _ in range(trials):
        if found.max() <= small and not faulty.any():
            break
        pair, swapped = np.unravel_index(found.argmax(), found.shape), found.copy()
        column = int(random.choice(pair) if random.random() < 0.7 else random.integers(len(levels)))
        places = len(before) + random.choice(BLOCK, 2, replace=False)
        if faulty.any():
            column, places[0] = int(random.integers(len(levels))), random.choice(np.flatnonzero(faulty))
        if rows[places[0], column] == rows[places[1], column]:
            continue
        rows[places, column] = rows[places[::-1], column]
        indicators[places, column] = indicators[places[::-1], column]
        swapped[column] = swapped[:, column] = associations(indicators, [column])[0] * counted[column]
        after, left = (swapped**12).sum(), _at_fault(rows, excludes)
        fewer = int(faulty.sum()) - int(left.sum())
        # By more than rounding, which differs between machines.
        if fewer > 0 or (fewer == 0 and after < score * (1 - 1e-9)):
            found, score, faulty = swapped, after, left
        else:
            rows[places, column] = rows[places[::-1], column]
            indicators[places, column] = indicators[places[::-1], column]
    return rows


def _excluded(rows: NDArray[np.int64], excludes: Sequence[Mapping[int, int]]) -> NDArray[np.bool_]:
    """Say which rows have options that make no sense together."""
    found = np.zeros(len(rows), bool)
    for each in excludes:
        found |= np.all(rows[:, list(each)] == list(each.values()), axis=1)
    return found


def _at_fault(rows: NDArray[np.int64], excludes: Sequence[Mapping[int, int]]) -> NDArray[np.bool_]:
    """Say which rows make no sense, or were there already."""
    first = {row.tobytes(): number for number, row in reversed(list(enumerate(rows)))}
    again = [first[row.tobytes()] != number for number, row in enumerate(rows)]
    return np.logical_or(_excluded(rows, excludes), again)


def associations(indicators: NDArray[np.float64], columns: Sequence[int] | None = None) -> NDArray[np.float64]:
    """Compute Cramér's V of each two choices, or of some with all; 0 where one has a single option.

    Parameters
    ----------
    indicators : by row, choice and option, 1 where a row has the option
    """
    chosen = indicators if columns is None else indicators[:, columns]
    totals = indicators.sum(axis=0)
    own = chosen.sum(axis=0)
    expected = np.multiply.outer(own, totals) / len(indicators)
    squares = np.zeros_like(expected)
    np.divide((np.tensordot(chosen, indicators, (0, 0)) - expected) ** 2, expected, out=squares, where=expected > 0)
    smaller = np.minimum.outer((own > 0).sum(axis=1), (totals > 0).sum(axis=1)) - 1
    return np.asarray(np.sqrt(squares.sum(axis=(1, 3)) / (len(indicators) * np.maximum(smaller, 1))))


def largest_association(universes: Sequence[Universe]) -> float | None:
    """Compute the largest Cramér's V between two choices; None without universes or with one choice."""
    options = [list(each.options.values()) for each in universes]
    codes = [np.unique(each, return_inverse=True)[1] for each in zip(*options, strict=True)]
    if len(codes) < 2:
        return None
    rows = np.stack(codes, axis=1)
    found = associations((rows[:, :, None] == np.arange(rows.max() + 1)).astype(float))
    return float(found[~np.eye(len(codes), dtype=bool)].max())


def pack_path(results: Path) -> Path:
    """Name the pack of the universes' runs, to be committed."""
    return results / "packed" / "multiverse.jsonl.xz"


def universes_path(results: Path) -> Path:
    """Name the file with the sampled universes that were run, beside the pack."""
    return results / "packed" / "multiverse.universes.json"


def note_universes(results: Path, readings: Readings, universes: Iterable[Universe]) -> None:
    """Note the options of sampled universes, so that they are found again; those of another design give way."""
    content = _noted(results)
    known = content["designs"].get(readings.name, {})
    found = {each.name: each.options for each in universes if each.kind == "sampled"}
    if not found.items() <= known.items():
        content["designs"][readings.name] = found
        documents.write(universes_path(results), content)


def noted_universes(results: Path, readings: Readings) -> list[Universe]:
    """Read the sampled universes that were noted, as far as the suite has their options."""
    known = _noted(results)["designs"].get(readings.name)
    found = []
    for name, noted in known.items() if isinstance(known, dict) else ():
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
