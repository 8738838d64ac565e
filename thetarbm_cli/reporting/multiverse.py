"""The paper's claims over the multiverse of readings: how often each holds, what decides it, and what is nearest.

*Claims.* Each universe is judged by the rules of `reporting.claims` for one seed, on the numbers that count in it. A
claim is judged where all its numbers were measured; the share of these universes in which it holds has a Wilson
interval of 95 %. What decides it: for each choice, the shares among the sampled universes that have each of its
options, their largest difference, and the chance (χ²) of such shares where the choice has nothing to do with it.

*Influence.* The share of a number's variance over the sampled universes that one choice explains by itself, as a main
effect: one-way η² = SS_between / SS_total, in its adjusted form ε² = 1 - (SS_within / (n - k)) / (SS_total / (n - 1)),
which is 0 on average where a choice has no effect, and not below 0. What is not explained is left to interactions and
to the noise of a seed. The spread over seeds, and over data seeds where those are recorded, stands beside it.

*Nearest.* The distance of a universe to the paper is the root mean square, over the published numbers, of (ours - the
paper's) / unit; a unit is 1 point of error and 0.02 of γ. Both are what the paper itself shows as small: its rows move
by about so much over the sparsity targets, and the noise of our seeds is several times smaller. They were written down
before any distance was computed. A row (a model) is measured by its own numbers, all rows together by all of them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field

from thetarbm_cli.measures import ERROR, GAMMA_TEST, GAMMA_TRAIN, MEASURES, MISSING
from thetarbm_cli.reporting.claims import LEVEL, REPRODUCED, RIVALS, evaluate, multiverse_claims
from thetarbm_cli.results import Recorded, Results, Source
from thetarbm_cli.store import Training
from thetarbm_cli.suite import Cell, Choice, Suite
from thetarbm_cli.universes import DEFAULT, Readings, Universe, noted_universes

# Designs of the shipped suite whose universes are tested on the paper's data.
ON_PAPERS_DATA = ("tables", "perturbation", "mnist")
UNITS = {ERROR: 1.0, GAMMA_TRAIN: 0.02, GAMMA_TEST: 0.02}
# Fewer say nothing of what decides a claim, or moves a number.
FEWEST = 8
MOST_DECIDING = 3
# The share of a number's variance below which a choice is not named.
SMALLEST_SHARE = 0.05

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
    """χ² test: how often shares differ so much where the choice has nothing to do with it."""
    shares: dict[str, float]


class ClaimShare(Output):
    """A claim of the paper over universes of readings."""

    claim: str
    text: str
    holds: Count
    of: Count
    """Universes in which all its numbers were measured."""
    share: float
    low: float
    """Wilson interval of 95 %."""
    high: float
    default: bool | None
    """Whether it holds at the readings that the suite takes."""
    flipped_by: list[str]
    """Changes of one option that turn the default's outcome."""
    decided_by: list[DecidingChoice]
    """The choices that matter most, the least by chance first."""


class ChoiceInfluence(Output):
    """How much of a number's variance over sampled universes one choice explains."""

    measure: str
    """Cell and column, as "theta/sparsity=0.3 test_error_percent"."""
    axis: str
    share: float
    """Main effect, η² adjusted for chance."""


class NumberSpread(Output):
    """Standard deviations of a number."""

    measure: str
    universes: float
    """Over sampled universes."""
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
    """Universes of which a training diverged."""
    diverged_cells: list[str]
    axes: dict[str, list[str]]
    """The options of each choice."""
    claims: list[ClaimShare]
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

    def is_whole(self, rare: Container[str]) -> bool:
        """Whether all cells, those of rare models aside, were measured or diverged."""
        common = [cell for cell in self.cells if cell.model not in rare]
        return all(self.trainings(cell) or cell.name in self.diverged for cell in common)


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
        names = ["universe", "cell", "model", "label", "target", "column", "value", "published"]
        lines = [
            [*places, cell.at.get("sparsity"), column, value.values[0], value.published]
            for each in self.universes
            for base, cell in zip(self.readings.base, each.cells, strict=True)
            for places in [(each.universe.name, base.name, cell.model, cell.label)]
            for column in UNITS
            if (value := each.value(cell, column)).values
        ]
        return self._with_options(pd.DataFrame(lines, columns=names))

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """Which claims hold where: a line per universe and judged claim, with the options as further columns."""
        names = ["universe", "claim", "text", "holds", "compared"]
        lines = [
            (each.universe.name, found.claim, found.text, found.verdict == REPRODUCED, found.compared)
            for each in self.universes
            for claim in multiverse_claims(each)
            if (found := evaluate(claim, each, self.readings.suite.interest)).evidence
        ]
        return self._with_options(pd.DataFrame(lines, columns=names))

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
        """θ-RBM minus each rival, for specification curves: a line per universe, rival, sparsity and column."""
        keys = ["universe", "target", "column"]
        theta = self.frame.loc[self.frame["model"] == "theta", [*keys, "value"]]
        rivals = self.frame[self.frame["model"].isin(list(RIVALS))]
        both = rivals.merge(theta, on=keys, suffixes=("", "_theta"))
        return both.assign(difference=both["value_theta"] - both["value"])

    def claims(self) -> list[ClaimShare]:
        """Share of the universes in which each claim holds, and what decides it."""
        return [self._share(lines) for _, lines in self.verdicts.groupby("claim", sort=False)]

    def _share(self, lines: pd.DataFrame) -> ClaimShare:
        holds, of = int(lines["holds"].sum()), len(lines)
        low, high = wilson(holds, of)
        default = lines[lines["kind"] == "default"]["holds"].tolist()
        changed = lines[(lines["kind"] == "one at a time") & (lines["holds"] != default[0])] if default else lines[:0]
        return ClaimShare(
            claim=lines["claim"].iloc[0],
            text=lines["text"].iloc[0],
            holds=holds,
            of=of,
            share=holds / of,
            low=low,
            high=high,
            default=default[0] if default else None,
            flipped_by=changed["universe"].tolist(),
            decided_by=self._deciding(lines[lines["kind"] == "sampled"]),
        )

    def _deciding(self, lines: pd.DataFrame) -> list[DecidingChoice]:
        from scipy.special import chdtrc

        if len(lines) < FEWEST or lines["holds"].nunique() < 2:
            return []
        found = []
        holds = lines["holds"].to_numpy(bool)
        for name, choice in self.readings.choices.items():
            codes, options = pd.factorize(lines[name])
            if concerns(choice, lines["compared"].iloc[0]) and len(options) > 1:
                counts, held = np.bincount(codes), np.bincount(codes, holds)
                shares = dict(zip(map(str, options), (held / counts).tolist(), strict=True))
                difference = max(shares.values()) - min(shares.values())
                # χ² of the two rows, those that hold and those that do not.
                share = held.sum() / counts.sum()
                square = ((held - share * counts) ** 2 / (share * (1 - share) * counts)).sum()
                chance = float(chdtrc(len(options) - 1, square))
                found.append(DecidingChoice(axis=name, difference=difference, chance=chance, shares=shares))
        return sorted(found, key=lambda each: each.chance)[:MOST_DECIDING]

    @cached_property
    def influence(self) -> pd.DataFrame:
        """Share of the variance over sampled universes: a line per cell and column, a column per choice."""
        sampled = self.frame[self.frame["kind"] == "sampled"]
        lines = {}
        for (cell, column), own in sampled.groupby(["cell", "column"], sort=False):
            if len(own) >= FEWEST:
                model = own["model"].iloc[0]
                lines[cell, column] = {
                    name: explained(own["value"], own[name])
                    for name, choice in self.readings.choices.items()
                    if not choice.models or model in choice.models
                }
        index = pd.MultiIndex.from_tuples(lines, names=["cell", "column"]) if lines else None
        return pd.DataFrame(list(lines.values()), index=index, columns=list(self.readings.choices))

    def spread(self) -> list[NumberSpread]:
        """Compute each number's deviation over the sampled universes, and over seeds and data seeds at full size."""
        full, found = self.at_full_size, []
        cells = {cell.name: cell for cell in full.cells}
        data_seeds = sorted({each.spec.data.seed for each in full.recorded.trainings})
        sampled = self.frame[self.frame["kind"] == "sampled"]
        for (name, column), own in sampled.groupby(["cell", "column"], sort=False):
            if len(own) < 2:
                continue
            cell = cells.get(str(name))
            others = [replace(cell, given={**cell.given, "data.seed": seed}) for seed in data_seeds] if cell else []
            firsts = [number for each in others for number in full.value(each, str(column)).values[:1]]
            found.append(
                NumberSpread(
                    measure=f"{name} {column}",
                    universes=float(own["value"].std()),
                    seeds=full.value(cell, str(column)).deviation if cell else None,
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
        shares = {} if self.influence.empty else dict(self.influence.stack().dropna())
        return Multiverse(
            design=self.readings.name,
            universes=len(self.universes),
            sampled=sum(each.universe.kind == "sampled" for each in self.universes),
            named=sum(each.universe.kind == "named" for each in self.universes),
            diverged=sum(bool(each.diverged) for each in self.universes),
            diverged_cells=[name for each in self.universes for name in each.diverged],
            axes={name: list(choice.options) for name, choice in self.readings.choices.items()},
            claims=self.claims(),
            influence=[
                ChoiceInfluence(measure=f"{cell} {column}", axis=choice, share=float(share))
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

    def recorded(universes: Iterable[Universe]) -> list[RecordedUniverse]:
        of_cells = ((each, readings.cells(each)) for each in universes)
        found = (
            RecordedUniverse(Source(cells[0].source, "", cells[0].tested_on), cells, first, each)
            for each, cells in of_cells
        )
        return [each for each in found if each.is_whole(readings.design.rare)]

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
    """In how many universes each claim holds, by the claim's name; the first of the designs that judge it counts."""
    shares: dict[str, ClaimShare] = {}
    for analysis in designs:
        for each in analysis.claims() if analysis else []:
            shares.setdefault(each.claim, each)
    return shares


def wilson(holds: int, of: int) -> tuple[float, float]:
    """The Wilson interval of 95 % for a share."""
    from scipy.special import ndtri

    z, p = float(ndtri(0.975)), holds / of
    middle, half = p + z * z / (2 * of), z * math.sqrt(p * (1 - p) / of + z * z / (4 * of * of))
    scale = 1 + z * z / of
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def explained(values: pd.Series[float], options: pd.Series[str]) -> float:
    """Share of the variance of values that their options explain: η², adjusted for chance; NaN for one option alone."""
    codes, found = pd.factorize(options)
    n, k = len(codes), len(found)
    centred = values.to_numpy(float) - values.mean()
    total = float(centred @ centred)
    if k < 2:
        return math.nan
    if n <= k or total <= 1e-12 * n * max(1.0, float(values.abs().max()) ** 2):
        return 0.0
    between = float((np.bincount(codes, centred) ** 2 / np.bincount(codes)).sum())
    within = max(0.0, total - between)
    return max(0.0, 1 - (within / (n - k)) / (total / (n - 1)))


@dataclass
class TextTable:
    """A table of texts."""

    name: str
    title: str
    headings: list[str]
    rows: list[list[str]] = field(default_factory=list)
    note: str = ""


def summary(output: Multiverse) -> str:
    """Say in a sentence what is recorded."""
    changes = output.universes - output.sampled - output.named - 1
    kinds = f"the default, {changes} changes of one option, {output.sampled} sampled"
    kinds += f", {output.named} named" if output.named else ""
    return f"{output.universes} universes ({kinds}), {output.diverged} with a run that diverged."


def share_text(claim: ClaimShare) -> str:
    """Say in how many universes a claim holds, with the interval of the share."""
    return f"{claim.holds} of {claim.of} ({100 * claim.low:.0f} to {100 * claim.high:.0f} %)"


def tables(readings: Readings, output: Multiverse) -> list[TextTable]:
    """Lay out claims, influence and what is nearest as tables of texts; one without rows is left out."""
    found = TextTable("claims", "Claims over universes", ["claim", "default", "holds in (95 % interval)", "decided by"])
    influence = TextTable(
        "influence",
        "Standard deviation of each number, and its main effects",
        ["cell", "number", "over universes", "over seeds", "over data seeds", "choices that explain the first"],
    )
    distances = TextTable(
        "distances",
        "Distance to the paper, in units of 1 point of error and 0.02 of γ",
        ["row", "nearest universe", "its distance", "the default's"],
    )
    for claim in output.claims:
        deciding = ", ".join(choice.axis for choice in claim.decided_by if choice.chance < LEVEL)
        default = {True: "holds", False: "does not hold", None: MISSING}[claim.default]
        found.rows.append([claim.text, default, share_text(claim), deciding or MISSING])
    for spread in output.spread:
        own = [each for each in output.influence if each.measure == spread.measure and each.share >= SMALLEST_SHARE]
        own = sorted(own, key=lambda each: -each.share)[:MOST_DECIDING]
        cell, _, column = spread.measure.rpartition(" ")
        texts = [MEASURES[column].text(value) for value in (spread.universes, spread.seeds, spread.data_seeds)]
        words = ", ".join(f"{each.axis} {100 * each.share:.0f} %" for each in own)
        influence.rows.append([cell, MEASURES[column].label, *texts, words or MISSING])
    show = MEASURES[ERROR].text
    for row in output.rows if output.nearest else ():
        distances.rows.append([row.row, row.universe, show(row.distance), show(row.default)])
    nearest = [_nearest_table(readings, output.nearest)] if output.nearest else []
    return [each for each in (found, influence, distances, *nearest) if each.rows]


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
