"""The paper's claims over the multiverse of readings: how often each holds, what decides it, and what is nearest.

*Claims.* Each universe is judged by the rules of `reporting.claims` for one seed, on the numbers that count in it. A
model is broken in a universe if a training of it diverged, or if one on mnist-rot has an error above 25 % there; a
claim that compares a broken model neither holds nor fails. The share of a claim is that of the sampled universes, the
broken ones aside, in which it holds, with a Wilson interval of 95 %. Changes of one option and named universes are in
no share. What decides a claim: for each choice, χ² of the outcomes by its options, and how often outcomes that are
permuted over the universes have for any choice a χ² that is as improbable. So the chance is corrected for the number of
choices.

*Influence.* The share of a number's variance over the sampled universes that one choice explains by itself, as a main
effect: one-way η² = SS_between / SS_total, in its adjusted form ε² = 1 - (SS_within / (n - k)) / (SS_total / (n - 1)),
which is 0 on average where a choice has no effect, and not below 0. What is not explained is left to interactions and
to the noise of a seed. Numbers of broken models are left out. Beside it stands what the choice that explains most
reaches by chance, the 95 % quantile over permutations, and the spread over seeds and data seeds where recorded.

*Nearest.* The distance of a universe to the paper is the root mean square, over the published numbers, of (ours - the
paper's) / unit; a unit is 1 point of error and 0.02 of γ. Both are what the paper itself shows as small: its rows move
by about so much over the sparsity targets, and the noise of our seeds is several times smaller. They were written down
before any distance was computed. A row (a model) is measured by its own numbers, all rows together by all of them.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from thetarbm_cli.measures import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, MISSING
from thetarbm_cli.reporting.claims import LEVEL, NOT, REPRODUCED, RIVALS, evaluate, multiverse_claims
from thetarbm_cli.results import Recorded, Results, Source
from thetarbm_cli.store import Training
from thetarbm_cli.suite import Cell, Choice, Suite
from thetarbm_cli.universes import DEFAULT, Readings, Universe, largest_association, noted_universes

# Designs of the shipped suite whose universes are tested on the paper's data.
ON_PAPERS_DATA = ("tables", "perturbation", "mnist")
UNITS = {ERROR: 1.0, GAMMA_TRAIN: 0.02, GAMMA_TEST: 0.02}
# The outcome of a claim that compares a broken model.
BROKEN = "broken"
# A model that learns from mnist-rot and has a higher test error, in %, is broken.
HIGHEST_ERROR = 25.0
# Fewer say nothing of what decides a claim, or moves a number.
FEWEST = 8
MOST_NAMED = 3
PERMUTATIONS = 4999

Count = Annotated[int, Field(ge=0)]


class Output(BaseModel):
    """A part of what ``thetarbm multiverse --json`` prints."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class DecidingChoice(Output):
    """A choice, and how often a claim holds under each of its options."""

    axis: str
    difference: float
    """Largest difference between the shares of its options."""
    chance: float
    """How often any choice has shares that differ so much where none matters, by permutation."""
    shares: dict[str, float]


class ClaimShare(Output):
    """A claim of the paper over universes of readings; all counts are of sampled universes."""

    claim: str
    text: str
    letter: str | None
    """Its outcome by the letter of the paper."""
    selected: str | None
    """Its outcome at the readings that the suite takes."""
    holds: Count
    of: Count
    """Sampled universes that have all its numbers, without a broken model that it compares."""
    share: float | None
    low: float | None
    """Wilson interval of 95 %."""
    high: float | None
    broken: Count
    """Sampled universes in which a model that it compares is broken."""
    share_with_broken: float | None
    default: bool | None
    """Whether it holds at the readings that the suite takes."""
    named: dict[str, str]
    """Its outcome in each named universe."""
    flipped_by: list[str]
    """Changes of one option that turn the default's outcome."""
    broken_by: list[str]
    """Changes of one option that break a model that it compares."""
    decided_by: list[DecidingChoice]
    """The choices that matter (corrected chance below 5 %), the least by chance first."""


class NumberChange(Output):
    """What a change of one option around the default does to a number; where it breaks the model, nothing is said."""

    change: str
    measure: str
    difference: float


class ChoiceInfluence(Output):
    """How much of a number's variance over sampled universes one choice explains."""

    measure: str
    """Cell and column, as "theta/sparsity=0.3 test_error_percent"."""
    axis: str
    share: float
    """Main effect, η² adjusted for chance."""
    level: float
    """What the largest share of all choices reaches by chance: the 95 % quantile over permutations."""


class NumberSpread(Output):
    """Standard deviations of a number."""

    measure: str
    of: Count
    """Sampled universes in which its model is not broken."""
    universes: float
    """Over these."""
    seeds: float | None
    """Over seeds of the default at the paper's size, where recorded."""
    data_seeds: float | None


class NearestCell(Output):
    """A number of a universe, and the paper's."""

    cell: str
    column: str
    value: float
    published: float


class NearestUniverse(Output):
    """The universe that is nearest to the published numbers."""

    universe: str
    options: dict[str, str]
    distance: float
    """Root mean square of the differences, in units of 1 point of error and 0.02 of γ."""
    cells: list[NearestCell]


class NearestRow(Output):
    """The universe that is nearest to one row of the paper's tables."""

    row: str
    """A model; "common" are all that every universe has, "all" all rows."""
    universe: str
    distance: float
    default: float | None
    """Distance of the default."""


class UniverseDistance(Output):
    """How far a universe is from the paper."""

    distance: float | None


class Multiverse(Output):
    """The paper's claims over universes of readings."""

    design: str
    universes: Count
    """Universes whose runs are recorded."""
    sampled: Count
    named: Count
    diverged: Count
    """Sampled universes of which a training diverged."""
    broken: Count
    """Sampled universes with a broken model: one that diverged, or has an error above 25 % on mnist-rot."""
    association: float | None
    """The largest Cramér's V between two choices among the sampled universes."""
    association_unbroken: float | None
    """The same without the universes that have a broken model."""
    diverged_cells: list[str]
    axes: dict[str, list[str]]
    """The options of each choice."""
    claims: list[ClaimShare]
    changes: list[NumberChange]
    influence: list[ChoiceInfluence]
    spread: list[NumberSpread]
    nearest: NearestUniverse | None
    rows: list[NearestRow]
    default: UniverseDistance


@dataclass(frozen=True)
class RecordedUniverse(Results):
    """What was measured in a universe with the first seed; a cell counts if all that it asks for was."""

    universe: Universe

    def trainings(self, cell: Cell) -> list[Training]:
        """Give the trainings of a cell that are done and measured."""
        return [each for each in super().trainings(cell) if not each.lacking(cell.measure_specs)]

    @cached_property
    def diverged(self) -> list[str]:
        """Names of the cells whose trainings diverged."""
        return [cell.name for cell in self.cells if self.recorded.diverged(cell)]

    @cached_property
    def broken(self) -> set[str]:
        """Models of which a training diverged, or has an error on mnist-rot that is too high, having learnt from it."""
        return {
            cell.model
            for cell in self.cells
            if cell.name in self.diverged
            or (
                self.source.is_papers
                and cell.train_spec().data.dataset == self.source.dataset
                and any(error > HIGHEST_ERROR for error in self.value(cell, ERROR).values)
            )
        }

    @cached_property
    def models(self) -> set[str]:
        """Models of which all cells were measured or diverged."""
        lacking = {cell.model for cell in self.cells if not self.trainings(cell) and cell.name not in self.diverged}
        return {cell.model for cell in self.cells} - lacking


def concerns(choice: Choice, compared: set[tuple[str, str]]) -> bool:
    """Whether a choice can move one of the numbers that a claim compares."""
    models, measures = ({each[place] for each in compared} for place in (0, 1))
    common = not choice.models or not models.isdisjoint(choice.models)
    of_gamma = not measures.isdisjoint((GAMMA_TRAIN, GAMMA_TEST))
    return common and (of_gamma or not any(option.gamma for option in choice.options.values()))


@dataclass(frozen=True)
class Analysis:
    """What the recorded universes of a design say, the default first.

    `at_full_size` are all seeds of the suite's own cells at the paper's size.
    """

    readings: Readings
    universes: list[RecordedUniverse]
    at_full_size: Results

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All numbers: a line per universe, cell and column, with the options of every choice as further columns."""
        names = ["universe", "cell", "model", "label", "target", "broken", "column", "value", "published"]
        lines = [
            [*places, cell.at.get("sparsity"), cell.model in each.broken, column, value.values[0], value.published]
            for each in self.universes
            for base, cell in zip(self.readings.base, each.cells, strict=True)
            for places in [(each.universe.name, base.name, cell.model, cell.label)]
            for column in UNITS
            if (value := each.value(cell, column)).values
        ]
        return self._with_options(pd.DataFrame(lines, columns=names))

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """How claims come out: a line per universe and claim that it has the runs for, with the options as columns."""
        found = [
            (each, evaluate(claim, each, self.readings.suite.interest))
            for each in self.universes
            for claim in multiverse_claims(each)
        ]
        # A verdict that lacks a number does not know all that its claim compares.
        compared = {verdict.claim: verdict.compared for _, verdict in found if verdict.evidence}
        lines = []
        for each, verdict in found:
            models = {model for model, _ in compared.get(verdict.claim, ())}
            if models & each.broken and models <= each.models:
                lines.append((each.universe.name, verdict.claim, verdict.text, BROKEN, compared[verdict.claim]))
            elif verdict.evidence and not models & each.broken:
                lines.append((each.universe.name, verdict.claim, verdict.text, verdict.verdict, verdict.compared))
        return self._with_options(pd.DataFrame(lines, columns=["universe", "claim", "text", "outcome", "compared"]))

    def _with_options(self, lines: pd.DataFrame) -> pd.DataFrame:
        """Add the kind and the options of each line's universe."""
        options = [
            {"universe": each.universe.name, "kind": each.universe.kind, **each.universe.options}
            for each in self.universes
        ]
        known = pd.DataFrame(options, columns=["universe", "kind", *self.readings.choices])
        return lines.merge(known, on="universe", how="left")

    @cached_property
    def differences(self) -> pd.DataFrame:
        """θ-RBM minus each rival, where neither is broken: a line per universe, rival, sparsity and column."""
        keys, whole = ["universe", "target", "column"], self.frame[~self.frame["broken"].astype(bool)]
        theta = whole.loc[whole["model"] == "theta", [*keys, "value"]]
        rivals = whole[whole["model"].isin(list(RIVALS))]
        both = rivals.merge(theta, on=keys, suffixes=("", "_theta"))
        return both.assign(difference=both["value_theta"] - both["value"])

    @cached_property
    def sampled(self) -> list[RecordedUniverse]:
        """The sampled universes."""
        return [each for each in self.universes if each.universe.kind == "sampled"]

    def broken_against(self, rival: str) -> int:
        """Count the sampled universes that have the θ-RBM and a rival, one of them broken."""
        pair = {"theta", rival}
        return sum(bool(pair & each.broken) and pair <= each.models for each in self.sampled)

    @cached_property
    def claims(self) -> list[ClaimShare]:
        """Share of the sampled universes in which each claim holds, and what decides it."""
        return [self._share(lines) for _, lines in self.verdicts.groupby("claim", sort=False)]

    def _share(self, lines: pd.DataFrame) -> ClaimShare:
        default, changed, sampled, named = (
            lines[lines["kind"] == kind] for kind in ("default", "one at a time", "sampled", "named")
        )
        judged = sampled[sampled["outcome"] != BROKEN]
        holds, of = int((judged["outcome"] == REPRODUCED).sum()), len(judged)
        low, high = wilson(holds, of) if of else (None, None)
        selected = next(iter(default["outcome"]), None)
        turned = changed[changed["outcome"] == {REPRODUCED: NOT, NOT: REPRODUCED}.get(str(selected))]
        return ClaimShare(
            claim=lines["claim"].iloc[0],
            text=lines["text"].iloc[0],
            letter=None,
            selected=selected,
            holds=holds,
            of=of,
            share=holds / of if of else None,
            low=low,
            high=high,
            broken=len(sampled) - of,
            share_with_broken=holds / len(sampled) if len(sampled) else None,
            default=None if selected in (None, BROKEN) else selected == REPRODUCED,
            named=dict(zip(named["universe"], named["outcome"], strict=True)),
            flipped_by=turned["universe"].tolist(),
            broken_by=changed.loc[changed["outcome"] == BROKEN, "universe"].tolist(),
            decided_by=self._deciding(judged),
        )

    def _deciding(self, lines: pd.DataFrame) -> list[DecidingChoice]:
        """Find the choices that matter for a claim by permutation, corrected by the least chance of all (min-p)."""
        from scipy.special import chdtrc

        holds = (lines["outcome"] == REPRODUCED).to_numpy(float)
        if len(lines) < FEWEST or holds.std() == 0:
            return []
        options = {
            name: lines[name]
            for name, choice in self.readings.choices.items()
            if concerns(choice, lines["compared"].iloc[0]) and lines[name].nunique() > 1
        }
        if not options:
            return []
        # χ² of a 2 × k table is the sum of squares between the options, but for a factor that permutations share. Its
        # usual chance makes choices of few and many options alike.
        squares = between(np.vstack([holds, holds[_orders(len(holds))]]), list(options.values())) / holds.var()
        chances = chdtrc([each.nunique() - 1 for each in options.values()], squares)
        smallest = chances.min(axis=1)
        found = []
        for name, own in zip(options, chances[0], strict=True):
            chance = float((smallest <= own * (1 + 1e-9)).mean())
            if chance < LEVEL:
                shares = {str(option): holds[lines[name] == option].mean() for option in lines[name].unique()}
                difference = max(shares.values()) - min(shares.values())
                found.append(DecidingChoice(axis=name, difference=difference, chance=chance, shares=shares))
        return sorted(found, key=lambda each: each.chance)

    def changes(self) -> list[NumberChange]:
        """Say what each change of one option does to each number that it can move, those of broken models aside."""
        default = self.frame[self.frame["kind"] == "default"].set_index(["cell", "column"])["value"]
        changed = self.frame[(self.frame["kind"] == "one at a time") & ~self.frame["broken"].astype(bool)]
        return [
            NumberChange(change=name, measure=f"{cell} {column}", difference=value - default[cell, column])
            for name, cell, model, column, value in changed[["universe", "cell", "model", "column", "value"]].to_numpy()
            if (cell, column) in default.index and self._can_move(name.partition("=")[0], model)
        ]

    def _can_move(self, choice: str, model: str) -> bool:
        models = self.readings.choices[choice].models
        return not models or model in models

    @cached_property
    def _numbers(self) -> list[tuple[str, str, pd.DataFrame]]:
        """The numbers of each cell and column over the sampled universes in which the model is not broken."""
        sampled = self.frame[(self.frame["kind"] == "sampled") & ~self.frame["broken"].astype(bool)]
        return [
            (str(cell), str(column), own) for (cell, column), own in sampled.groupby(["cell", "column"], sort=False)
        ]

    @cached_property
    def influence(self) -> pd.DataFrame:
        """Share of the variance over sampled universes: a line per cell and column, a column per choice.

        A further column ``level`` is what the largest share reaches by chance.
        """
        lines = {}
        for cell, column, own in self._numbers:
            if len(own) >= FEWEST:
                names = [name for name in self.readings.choices if self._can_move(name, own["model"].iloc[0])]
                shares = {name: explained(own["value"], own[name]) for name in names}
                lines[cell, column] = {**shares, "level": by_chance(own["value"], [own[name] for name in names])}
        index = pd.MultiIndex.from_tuples(lines, names=["cell", "column"]) if lines else None
        return pd.DataFrame(list(lines.values()), index=index, columns=[*self.readings.choices, "level"])

    def spread(self) -> list[NumberSpread]:
        """Compute each number's deviation over the sampled universes, and over seeds and data seeds at full size."""
        full, found = self.at_full_size, []
        cells = {cell.name: cell for cell in full.cells}
        data_seeds = sorted({each.spec.data.seed for each in full.recorded.trainings})
        for name, column, own in self._numbers:
            if len(own) < 2:
                continue
            cell = cells.get(name)
            others = [replace(cell, given={**cell.given, "data.seed": seed}) for seed in data_seeds] if cell else []
            firsts = [number for each in others for number in full.value(each, column).values[:1]]
            found.append(
                NumberSpread(
                    measure=f"{name} {column}",
                    of=len(own),
                    universes=float(own["value"].std()),
                    seeds=full.value(cell, column).deviation if cell else None,
                    data_seeds=statistics.stdev(firsts) if len(firsts) > 1 else None,
                )
            )
        return found

    @cached_property
    def distances(self) -> pd.DataFrame:
        """Distance of each universe to the paper: a line per universe, a column per model (row) and ``all``.

        Missing where a number of the row was not measured; ``all`` needs all rows, ``common`` all but rare models'.
        """
        rows = list(dict.fromkeys(cell.model for cell in self.readings.base if cell.published))
        common = [model for model in rows if model not in self.readings.design.rare]
        groups = {model: [model] for model in rows} | ({} if common == rows else {"common": common}) | {"all": rows}
        wanted = pd.Series(
            {model: sum(len(cell.published) for cell in self.readings.base if cell.model == model) for model in rows}
        )
        lines = self.frame.dropna(subset="published")
        lines = lines.assign(square=((lines["value"] - lines["published"]) / lines["column"].map(UNITS)) ** 2)
        names = [each.universe.name for each in self.universes]
        sums, counts = (
            lines.pivot_table("square", "universe", "model", aggfunc=what).reindex(index=names, columns=rows)
            for what in ("sum", "count")
        )
        whole = sums.where(counts == wanted)
        return pd.DataFrame(
            {
                name: (whole[models].sum(axis="columns", skipna=False) / wanted[models].sum()) ** 0.5
                for name, models in groups.items()
            }
        )

    def nearest(self, group: str = "all") -> str | None:
        """Name the universe that is nearest to the paper for a row, or for all."""
        found = self.distances[group].dropna() if group in self.distances else pd.Series(dtype=float)
        return None if found.empty else str(found.idxmin())

    def distance(self, universe: str, group: str = "all") -> float | None:
        """Distance of a universe to the paper for a row, or for all; None if it is not known."""
        found = self.distances[group].get(universe) if group in self.distances else None
        return None if found is None or math.isnan(found) else float(found)

    def output(self) -> Multiverse:
        """Lay out what `thetarbm multiverse --json` prints."""
        rows = [
            NearestRow(
                row=group,
                universe=name,
                distance=self.distance(name, group) or 0.0,
                default=self.distance(DEFAULT, group),
            )
            for group in map(str, self.distances)
            if (name := self.nearest(group))
        ]
        shares = {} if self.influence.empty else dict(self.influence.drop(columns="level").stack().dropna())
        unbroken = [each.universe for each in self.sampled if not each.broken]
        return Multiverse(
            design=self.readings.name,
            universes=len(self.universes),
            sampled=len(self.sampled),
            named=sum(each.universe.kind == "named" for each in self.universes),
            diverged=sum(bool(each.diverged) for each in self.sampled),
            broken=len(self.sampled) - len(unbroken),
            association=largest_association([each.universe for each in self.sampled]),
            association_unbroken=largest_association(unbroken),
            diverged_cells=[name for each in self.universes for name in each.diverged],
            axes={name: list(choice.options) for name, choice in self.readings.choices.items()},
            claims=self.claims,
            changes=self.changes(),
            influence=[
                ChoiceInfluence(
                    measure=f"{cell} {column}",
                    axis=choice,
                    share=float(share),
                    level=float(self.influence.loc[(cell, column), "level"]),
                )
                for (cell, column, choice), share in shares.items()
            ],
            spread=self.spread(),
            nearest=self._nearest(),
            rows=rows,
            default=UniverseDistance(distance=self.distance(DEFAULT)),
        )

    def _nearest(self) -> NearestUniverse | None:
        """Describe the universe that is nearest for all rows, or else for those that every universe has."""
        for group in ("all", "common"):
            if name := self.nearest(group):
                own = self.frame[(self.frame["universe"] == name) & self.frame["published"].notna()]
                cells = own[["cell", "column", "value", "published"]].to_dict("records")
                return NearestUniverse(
                    universe=name,
                    options=next(each.universe.options for each in self.universes if each.universe.name == name),
                    distance=self.distance(name, group) or 0.0,
                    cells=[NearestCell.model_validate(cell) for cell in cells],
                )
        return None


def analyse(readings: Readings, trainings: Sequence[Training], sampled: Iterable[Universe] = ()) -> Analysis:
    """Analyse the recorded universes of a design: all that it has, and the given sampled ones."""
    first = Recorded(each for each in trainings if each.spec.seed == 0)
    common = {cell.model for cell in readings.base} - readings.design.rare.keys()

    def needed(universe: Universe) -> set[str]:
        """Give the models without which it says nothing: those that all have, and those that a change concerns."""
        changed = readings.choices.get(universe.name.partition("=")[0])
        return common | set(changed.models if changed is not None and universe.kind == "one at a time" else ())

    def recorded(universes: Iterable[Universe]) -> list[RecordedUniverse]:
        of_cells = ((each, readings.cells(each)) for each in universes)
        found = (
            RecordedUniverse(Source(cells[0].source, "", cells[0].tested_on), cells, first, each)
            for each, cells in of_cells
        )
        return [each for each in found if needed(each.universe) <= each.models]

    found = recorded([*readings.universes(), *sampled])
    cells = readings.suite.cells("paper") if "paper" in readings.suite.profiles else []
    return Analysis(readings, found, Results(Source("generated", ""), cells, Recorded(trainings)))


def find_universes(
    suite: Suite, results: Path, trainings: Sequence[Training], of: str = "tables", profile: str = "survey"
) -> Analysis | None:
    """Analyse the recorded universes of a design; None if there are none.

    Parameters
    ----------
    results : folder in which sampled universes are noted
    """
    if suite.multiverse is None or of not in suite.multiverse.designs or profile not in suite.profiles:
        return None
    readings = Readings(suite, of, profile)
    analysis = analyse(readings, trainings, noted_universes(results, readings))
    return analysis if analysis.universes else None


def claim_shares(designs: Iterable[Analysis | None]) -> dict[str, ClaimShare]:
    """In how many sampled universes each claim holds, by its name; the first of the designs that judge it counts."""
    shares: dict[str, ClaimShare] = {}
    for analysis in designs:
        for each in analysis.claims if analysis else []:
            shares.setdefault(each.claim, each)
    return shares


def wilson(holds: int, of: int) -> tuple[float, float]:
    """The Wilson interval of 95 % for a share."""
    from scipy.special import ndtri

    z, p = float(ndtri(0.975)), holds / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


@functools.cache
def _orders(count: int) -> NDArray[np.int64]:
    """Permute so many places, always in the same ways."""
    return np.random.default_rng(0).permuted(np.tile(np.arange(count), (PERMUTATIONS, 1)), axis=1)


def between(values: NDArray[Any], options: Sequence[pd.Series[str]]) -> NDArray[np.float64]:
    """Sum of squares between the options of each choice: a line per line of values, a column per choice."""
    centred = values - values.mean(axis=-1, keepdims=True)
    codes = [pd.factorize(each)[0] for each in options]
    indicators = [(each[:, None] == np.arange(each.max() + 1)).astype(float) for each in codes]
    return np.stack([(centred @ each) ** 2 @ (1 / each.sum(axis=0)) for each in indicators], axis=-1)


def explained(values: pd.Series[float], options: pd.Series[str]) -> float:
    """Share of the variance of values that their options explain: η², adjusted for chance; NaN for one option alone."""
    return float(_explained(values.to_numpy(float)[None], [options])[0, 0])


def by_chance(values: pd.Series[float], options: Sequence[pd.Series[str]]) -> float:
    """The 95 % quantile of the largest share that a choice explains of permuted values."""
    varied = [each for each in options if each.nunique() > 1]
    if not varied:
        return 0.0
    permuted = values.to_numpy(float)[_orders(len(values))]
    return float(np.quantile(_explained(permuted, varied).max(axis=1), 1 - LEVEL))


def _explained(values: NDArray[Any], options: Sequence[pd.Series[str]]) -> NDArray[np.float64]:
    """Compute the share of each line's variance that each choice explains; lines have the same values."""
    n, k = len(options[0]), np.array([each.nunique() for each in options])
    total = float(((values[0] - values[0].mean()) ** 2).sum())
    shares = np.zeros((len(values), len(k)))
    if total > 1e-12 * n * max(1.0, float(np.abs(values[0]).max()) ** 2):
        within = np.maximum(0.0, total - between(values, options))
        shares = np.where(n > k, np.maximum(0.0, 1 - within / np.maximum(n - k, 1) / (total / (n - 1))), 0.0)
    shares[:, k < 2] = np.nan
    return shares


@dataclass
class TextTable:
    """A table of texts."""

    name: str
    title: str
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""


def summary(output: Multiverse) -> str:
    """Say in a few sentences what is recorded."""
    changes = output.universes - output.sampled - output.named - 1
    kinds = f"the default, {changes} changes of one option, {output.sampled} sampled"
    kinds += f", {output.named} named" if output.named else ""
    words = f"{output.universes} universes ({kinds})."
    if output.sampled:
        words += f" Of the sampled ones, {output.broken} have a broken model, {output.diverged} one that diverged."
    if output.association is not None:
        words += f" The largest association of two choices among them is {output.association:.2f} (Cramér's V)"
        unbroken = output.association_unbroken
        words += "." if unbroken is None else f", without the broken ones {unbroken:.2f}."
    return words


def share_text(claim: ClaimShare) -> str:
    """Say in how many sampled universes a claim holds, with the interval of the share, and how many are broken."""
    if claim.low is None or claim.high is None:
        return f"{MISSING}, {claim.broken} broken" if claim.broken else MISSING
    text = f"{claim.holds} of {claim.of} ({100 * claim.low:.0f} to {100 * claim.high:.0f} %)"
    return f"{text}, {claim.broken} broken" if claim.broken else text


def tables(readings: Readings, output: Multiverse) -> list[TextTable]:
    """Lay out claims, changes, influence and what is nearest as tables of texts; one without rows is left out."""
    found = TextTable(
        "claims",
        "Claims over sampled universes",
        ["claim", "default", "holds in (95 % interval)", "with broken", "decided by"],
    )
    turned = TextTable(
        "changes",
        "Claims around the default, and in the named universes",
        ["claim", "default", "turned by", "broken by", "named universes in which it holds"],
    )
    moved = TextTable(
        "sensitivity",
        "What changes of one option do to each number",
        ["cell", "number", "changes that move it most"],
    )
    influence = TextTable(
        "influence",
        "Standard deviation of each number, and its main effects",
        ["cell", "number", "universes", "over these", "over seeds", "over data seeds", "explained by", "by chance"],
    )
    distances = TextTable(
        "distances",
        "Distance to the paper, in units of 1 point of error and 0.02 of γ",
        ["row", "nearest universe", "its distance", "the default's"],
    )
    for claim in output.claims:
        default = {True: "holds", False: "does not hold", None: MISSING}[claim.default]
        whole = MISSING if claim.share_with_broken is None else f"{100 * claim.share_with_broken:.0f} %"
        deciding, *others = (
            ", ".join(names) or MISSING
            for names in (
                [choice.axis for choice in claim.decided_by],
                claim.flipped_by,
                claim.broken_by,
                [name for name, outcome in claim.named.items() if outcome == REPRODUCED],
            )
        )
        found.rows.append([claim.text, default, share_text(claim), whole, deciding])
        if claim.selected is not None:
            turned.rows.append([claim.text, default, *others])
    for measure in dict.fromkeys(change.measure for change in output.changes):
        cell, _, column = measure.rpartition(" ")
        most = sorted((each for each in output.changes if each.measure == measure), key=lambda x: -abs(x.difference))
        digits = MEASURES[column].digits
        words = ", ".join(f"{each.change} {each.difference:+.{digits}f}" for each in most[:MOST_NAMED])
        moved.rows.append([cell, MEASURES[column].label, words])
    for spread in output.spread:
        every = [each for each in output.influence if each.measure == spread.measure]
        own = sorted((each for each in every if each.share > each.level), key=lambda each: -each.share)[:MOST_NAMED]
        cell, _, column = spread.measure.rpartition(" ")
        texts = [MEASURES[column].text(value) for value in (spread.universes, spread.seeds, spread.data_seeds)]
        words = ", ".join(f"{each.axis} {100 * each.share:.0f} %" for each in own)
        level = f"{100 * every[0].level:.0f} %" if every else MISSING
        influence.rows.append([cell, MEASURES[column].label, str(spread.of), *texts, words or MISSING, level])
    show = MEASURES[ERROR].text
    for row in output.rows if output.nearest else ():
        distances.rows.append([row.row, row.universe, show(row.distance), show(row.default)])
    nearest = [_nearest_table(readings, output.nearest)] if output.nearest else []
    return [each for each in (found, turned, moved, influence, distances, *nearest) if each.rows]


def _nearest_table(readings: Readings, nearest: NearestUniverse) -> TextTable:
    texts: dict[str, dict[str, str]] = {}
    for cell in nearest.cells:
        measure = MEASURES[cell.column]
        texts.setdefault(cell.cell, {})[cell.column] = f"{measure.text(cell.value)} ({measure.text(cell.published)})"
    columns = [column for column in UNITS if any(column in own for own in texts.values())]
    default = readings.default.options
    changed = [f"{name}={option}" for name, option in nearest.options.items() if option != default[name]]
    return TextTable(
        "nearest",
        f"The nearest universe, {nearest.universe}, in brackets the paper's numbers",
        ["cell", *(MEASURES[column].label for column in columns)],
        [[name, *(own.get(column, MISSING) for column in columns)] for name, own in texts.items()],
        f"It differs from the default in {', '.join(changed) or 'nothing'}.",
    )
