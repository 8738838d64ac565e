"""Claims, influence and distances over universes, on made-up records whose answers are known."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, chi2_contingency

from tests.experiments.runs import call
from tests.experiments.suites import record_for, write_suite
from thetarbm_cli.experiments.multiverse import Readings, Universe, multiverse_store, note_universes, pack
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Cell
from thetarbm_cli.reporting.multiverse import Analysis, analyse, explained, find_universes, wilson

PUBLISHED = "{{at: {{sparsity: {}}}, test_error_percent: 12.0, gamma_train: 0.5, gamma_test: 0.5}}"
EXPERIMENT = """\
  - name: {0}
    label: {0}
    model: {0}
    grid: {{sparsity: [0.3, 0.1]}}
    tables: ["1", "2"]
    published: [{1}, {2}]
"""
SUITE = """\
format: 1
title: made up
assumptions:
  - name: open
    reading: R.
    why: W.
    choices:
      batch:
        options:
          "100": {taken: true, parameters: {batch_size: 100}, why: w}
          "50": {parameters: {batch_size: 50}, why: w}
      floor:
        options:
          "0": {taken: true, parameters: {floor: 0.0}, why: w}
          "0.1": {parameters: {floor: 0.1}, why: w}
      orbm:
        models: [orbm]
        options:
          aligned: {taken: true, counts: {variant: default}, why: w}
          not-aligned: {counts: {variant: not aligned}, why: w}
      tirbm:
        models: [tirbm]
        options:
          circle: {taken: true, parameters: {angles: circle}, why: w}
          wedge: {parameters: {angles: wedge}, why: w}
profiles:
  paper: {seeds: 3}
  survey: {data: {test: 10000}}
multiverse:
  designs:
    tables: {cells: [rbm, orbm, theta, tirbm], choices: [batch, floor, orbm, tirbm], rare: {tirbm: 3}}
experiments:
""" + "".join(EXPERIMENT.format(name, *map(PUBLISHED.format, (0.3, 0.1))) for name in ("rbm", "orbm", "theta", "tirbm"))

Numbers = Callable[[Universe, Cell], dict[str, float] | None]


def usual(universe: Universe, cell: Cell) -> dict[str, float]:
    """The θ-RBM has the lowest error and highest γ, unless the floor is 0.1."""
    error = {"rbm": 16.0, "orbm": 14.0, "tirbm": 13.0, "theta": 10.0}[cell.model]
    gamma = {"rbm": 0.1, "orbm": 0.2, "tirbm": 0.3, "theta": 0.5}[cell.model]
    if cell.model == "theta" and universe.options["floor"] == "0.1":
        error = 15.0
    return {"test_error_percent": error, "gamma_train": gamma, "gamma_test": gamma}


def with_unaligned(numbers: dict[str, float], unaligned: dict[str, float]) -> dict[str, float]:
    """Numbers of an O-RBM, and of its other evaluation."""
    return {**numbers, **{f"{name}_unaligned": value for name, value in unaligned.items()}}


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Readings:
    return Readings(load_suite(write_suite(tmp_path_factory.mktemp("suite"), SUITE)))


def records_of(readings: Readings, numbers: Numbers, sampled: int = 16) -> list[RunRecord]:
    """Records of the cells to which the function gives numbers; a run that two universes share is there once."""
    records = {}
    for universe in [*readings.universes(), *islice(readings.sampled(), sampled)]:
        for cell in readings.cells(universe):
            found = numbers(universe, cell)
            if found is not None:
                if cell.model == "orbm" and "gamma_test_unaligned" not in found:
                    found = with_unaligned(found, found)
                record = record_for(cell, **found)
                records.setdefault(record.run, record)
    return list(records.values())


def analysis_of(readings: Readings, numbers: Numbers = usual, sampled: int = 16) -> Analysis:
    return analyse(readings, records_of(readings, numbers, sampled))


def test_a_claim_holds_in_the_universes_where_its_numbers_say_so(readings: Readings) -> None:
    analysis = analysis_of(readings)
    claims = {each.claim: each for each in analysis.claims()}
    universes = [each.universe for each in analysis.recorded]
    low = sum(universe.options["floor"] == "0" for universe in universes)
    for name in ("lowest-error", "error-against-orbm", "error-against-tirbm"):
        assert (claims[name].holds, claims[name].of) == (low, len(universes))
        assert claims[name].default is True
        assert claims[name].flipped_by == ["floor=0.1"]
        assert claims[name].decided_by[0].axis == "floor"
        assert claims[name].decided_by[0].shares == {"0": 1.0, "0.1": 0.0}
        assert claims[name].low < claims[name].share < claims[name].high
    # 15 % is still more than half a point below 16 %.
    assert claims["error-against-rbm"].share == 1
    assert claims["gamma-against-tirbm"].share == 1
    assert claims["falling-gamma"].share == 0
    assert claims["steady-gamma"].share == 1
    assert claims["oriented-no-better"].share == 0


def test_only_the_evaluation_that_counts_is_compared(readings: Readings) -> None:
    def numbers(universe: Universe, cell: Cell) -> dict[str, float]:
        found = usual(universe, cell)
        unaligned = {"test_error_percent": 9.0, "gamma_train": 0.1, "gamma_test": 0.1}
        return with_unaligned(found, unaligned) if cell.model == "orbm" else found

    claims = {each.claim: each for each in analysis_of(readings, numbers, 0).claims()}
    # At the default the O-RBM has 14 %; not aligned it has 9 %, below the θ-RBM's 10 %.
    assert claims["error-against-orbm"].default is True
    assert set(claims["error-against-orbm"].flipped_by) == {"floor=0.1", "orbm=not-aligned"}


def test_universes_without_a_rare_model_are_judged_on_the_rest(readings: Readings) -> None:
    def numbers(universe: Universe, cell: Cell) -> dict[str, float] | None:
        rare = cell.model == "tirbm" and universe.options["batch"] == "50"
        return None if rare else usual(universe, cell)

    analysis = analysis_of(readings, numbers)
    claims = {each.claim: each for each in analysis.claims()}
    batch = [each.universe.options["batch"] for each in analysis.recorded]
    assert claims["error-against-rbm"].of == len(batch)
    assert claims["lowest-error"].of == claims["error-against-tirbm"].of == batch.count("100")
    distances = analysis.distances
    assert distances["common"].notna().all()
    assert distances["all"].notna().sum() == distances["tirbm"].notna().sum() == batch.count("100")


def test_a_universe_that_diverged_is_counted_and_its_claims_are_not_judged(readings: Readings) -> None:
    records = records_of(readings, usual)
    failed = [
        record.model_copy(update={"state": "failed", "metrics": None, "error": "training diverged"})
        if record.settings.model == "theta" and record.parameters["batch_size"] == 50
        else record
        for record in records
    ]
    analysis = analyse(readings, failed)
    diverged = sum(each.universe.options["batch"] == "50" for each in analysis.recorded)
    output = analysis.output()
    assert output.universes == len(analyse(readings, records).recorded)
    assert output.diverged == diverged > 0
    assert next(each.of for each in output.claims if each.claim == "error-against-rbm") == output.universes - diverged


def test_a_universe_is_recorded_when_all_its_usual_runs_are(readings: Readings) -> None:
    def numbers(universe: Universe, cell: Cell) -> dict[str, float] | None:
        return None if universe.options["batch"] == "50" and cell.model == "orbm" else usual(universe, cell)

    found = [each.universe for each in analysis_of(readings, numbers).recorded]
    assert found
    assert {universe.options["batch"] for universe in found} == {"100"}
    assert analyse(readings, []).output().universes == 0


def test_a_number_that_one_choice_decides_is_explained_by_it(readings: Readings) -> None:
    def numbers(universe: Universe, cell: Cell) -> dict[str, float]:
        return {**usual(universe, cell), "test_error_percent": 10.0 + (universe.options["batch"] == "50")}

    influence = analysis_of(readings, numbers).influence
    errors = influence.xs("test_error_percent", level="column")
    np.testing.assert_allclose(errors["batch"], 1.0)
    assert errors["floor"].max() < 0.3
    # A choice that does not concern a model has no influence on it, not even by chance.
    assert errors.loc[["rbm/sparsity=0.3", "theta/sparsity=0.3"], ["orbm", "tirbm"]].isna().all(axis=None)


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(-50, 50)), min_size=6, max_size=40),
    st.integers(1, 9),
    st.integers(-9, 9),
)
def test_explained_variance_is_that_of_an_analysis_of_variance(
    pairs: list[tuple[str, int]], scale: int, shift: int
) -> None:
    options, values = pd.Series([pair[0] for pair in pairs]), pd.Series([float(pair[1]) for pair in pairs])
    share = explained(values, options)
    if options.nunique() == 1:
        assert np.isnan(share)
        return
    assert 0 <= share <= 1
    assert share == pytest.approx(explained(scale * values + shift, options), abs=1e-9)
    groups = [values[options == option].to_numpy() for option in options.unique()]
    n, k = len(values), len(groups)
    within = sum(((group - group.mean()) ** 2).sum() for group in groups)
    if values.nunique() > 1 and n > k:
        eta = 1 - within / ((values - values.mean()) ** 2).sum()
        assert share == pytest.approx(max(0, (eta - (k - 1) / (n - 1)) / ((n - k) / (n - 1))), abs=1e-9)


@given(st.integers(0, 300), st.integers(1, 300))
def test_wilson_intervals_are_those_of_scipy(holds: int, of: int) -> None:
    expected = binomtest(min(holds, of), of).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(wilson(min(holds, of), of), expected, atol=1e-12)


def test_what_decides_a_claim_is_found_by_the_test_of_scipy(readings: Readings) -> None:
    def numbers(universe: Universe, cell: Cell) -> dict[str, float]:
        """The claim fails for most universes with small batches, and for one without."""
        found = usual(universe, cell)
        options = universe.options
        fails = options["batch"] == "50" and (options["floor"], options["orbm"]) != ("0", "aligned")
        return {**found, "test_error_percent": 17.0} if fails and cell.model == "theta" else found

    analysis = analysis_of(readings, numbers)
    claim = next(each for each in analysis.claims() if each.claim == "error-against-rbm")
    lines = analysis.verdicts.query("claim == 'error-against-rbm' and kind == 'sampled'")
    for choice in claim.decided_by:
        table = pd.crosstab(lines[choice.axis], lines["holds"])
        assert choice.chance == pytest.approx(chi2_contingency(table, correction=False).pvalue)
        assert choice.shares == pytest.approx(lines.groupby(choice.axis)["holds"].mean().to_dict())
    # Choices that concern other models alone are not asked.
    assert [each.axis for each in claim.decided_by] == ["batch", "floor"]


def test_the_nearest_universe_has_the_papers_numbers(readings: Readings) -> None:
    def numbers(universe: Universe, cell: Cell) -> dict[str, float]:
        """One unit off in each number, but for the paper's own at floor 0.1 and two units in a wedge."""
        off = 0.0 if universe.options["floor"] == "0.1" else 1.0
        if cell.model == "tirbm" and universe.options["tirbm"] == "wedge":
            off += 1.0
        return {"test_error_percent": 12.0 + off, "gamma_train": 0.5 - 0.02 * off, "gamma_test": 0.5 + 0.02 * off}

    analysis = analysis_of(readings, numbers, 0)
    output = analysis.output()
    assert output.nearest.universe == "floor=0.1"
    assert output.nearest.options["floor"] == "0.1"
    assert output.nearest.distance == pytest.approx(0, abs=1e-9)
    assert len(output.nearest.cells) == 4 * 2 * 3
    assert all(cell.value == pytest.approx(cell.published) for cell in output.nearest.cells)
    assert output.default.distance == pytest.approx(1)
    assert analysis.distance("tirbm=wedge", "tirbm") == pytest.approx(2)
    assert analysis.distance("tirbm=wedge", "rbm") == pytest.approx(1)
    assert analysis.distance("tirbm=wedge") == pytest.approx(np.sqrt((3 * 1 + 4) / 4))
    assert {row.row: row.default for row in output.rows} == pytest.approx(
        dict.fromkeys(("rbm", "orbm", "theta", "tirbm", "common", "all"), 1.0)
    )


def test_the_spread_over_seeds_and_data_seeds_stands_beside(readings: Readings, tmp_path: Path) -> None:
    suite = load_suite(write_suite(tmp_path, SUITE))
    cell = next(cell for cell in suite.cells("paper") if cell.name == "theta/sparsity=0.3")
    records = [record_for(cell, seed, test_error_percent=10.0 + seed) for seed in range(3)]
    other = record_for(cell, test_error_percent=14.0)
    settings = other.settings.model_copy(update={"data": other.settings.data.model_copy(update={"seed": 1})})
    records.append(other.model_copy(update={"run": "theta-other", "settings": settings}))
    spread = analysis_of(readings).spread(suite.cells("paper"), records)
    found = {each.measure: each for each in spread}["theta/sparsity=0.3 test_error_percent"]
    assert found.seeds == pytest.approx(1)
    assert found.data_seeds == pytest.approx(np.std([10, 14], ddof=1))


def test_noted_universes_are_found_without_the_sequence_and_with_a_choice_more(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, some = multiverse_store(tmp_path), readings.universes(10)
    for record in records_of(readings, usual, 5):
        store.save(record)
    note_universes(tmp_path, readings, some[:8])
    note_universes(tmp_path, readings, some)
    monkeypatch.delattr(Readings, "sampled")
    more = "tirbm:\n        models: [tirbm]\n"
    extra = (
        "scale: {options: {small: {taken: true, parameters: {initial_scale: 0.01}, why: w}, large: {why: w}}}\n      "
    )
    suite = SUITE.replace(more, extra + more).replace("orbm, tirbm], rare", "orbm, scale, tirbm], rare")
    for text, changes in ((SUITE, 4), (suite, 5)):
        found = find_universes(load_suite(write_suite(tmp_path, text)), tmp_path)
        assert [each.universe.name for each in found.recorded if each.universe.kind == "sampled"] == [
            universe.name for universe in some if universe.kind == "sampled"
        ]
        assert len(found.readings.choices) == changes


def test_an_installed_package_brings_its_universes(
    readings: Readings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made"
    for record in records_of(readings, usual, 5):
        multiverse_store(made).save(record)
    note_universes(made, readings, readings.universes(10))
    pack(made)
    for module in ("store", "packing"):
        monkeypatch.setattr(f"thetarbm_cli.experiments.runs.{module}.shipped_packs", lambda: made / "packed")
    monkeypatch.setattr("thetarbm_cli.experiments.multiverse.shipped_packs", lambda: made / "packed")
    words = ("multiverse", "--json", "--suite", str(write_suite(tmp_path, SUITE)))
    assert call(tmp_path, tmp_path / "nothing", *words).json["universes"] == 10
    (made / "packed" / "multiverse.records.xz").write_bytes(b"damaged")
    damaged = call(tmp_path, tmp_path / "nothing", *words)
    assert damaged.json["universes"] == 0
    assert "not used" in damaged.err
    assert not (tmp_path / "nothing").exists()


def test_what_is_recorded_is_printed(readings: Readings, tmp_path: Path) -> None:
    store = multiverse_store(tmp_path)
    for record in records_of(readings, usual):
        store.save(record)
    words = ("multiverse", "--suite", str(write_suite(tmp_path, SUITE)))
    shown = call(tmp_path, tmp_path, *words, "--json").json
    schema = Path(__file__).parents[2] / "docs" / "schema" / "multiverse.schema.json"
    jsonschema.validate(shown, json.loads(schema.read_text(encoding="utf-8")))
    assert shown == analysis_of(readings).output().model_dump(mode="json")
    text = call(tmp_path, tmp_path, *words)
    assert text.code == 0
    assert "The θ-RBM has the lowest test error." in text.out
    empty = call(tmp_path, tmp_path / "nothing", *words)
    assert "--universes 64" in empty.out
    assert not (tmp_path / "nothing").exists()
