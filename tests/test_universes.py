"""The design of universes, and the runs behind them."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records import save, training_for
from tests.runs import Command
from tests.suites import write_suite
from thetarbm_cli.errors import InputError
from thetarbm_cli.store import Store, read_pack
from thetarbm_cli.suite import Suite, load_suite, shipped_path
from thetarbm_cli.universes import (
    BLOCK,
    Readings,
    Universe,
    associations,
    draw,
    largest_association,
    note_universes,
    noted_universes,
    pack_path,
)

SMALL = """\
format: 2
title: universes
assumptions:
  - name: learning
    reading: As it is.
    why: It works.
    choices:
      batch:
        options:
          "100": {taken: true, set: {batch_size: 100}, why: usual}
          "50": {set: {batch_size: 50}, why: smaller}
          "150": {alone: true, set: {batch_size: 150}, why: larger}
      gradient:
        models: [theta]
        options:
          gaussian: {taken: true, set: {orientation_operator: gaussian}, why: smooth}
          central: {set: {orientation_operator: central}, why: plain}
      svm:
        options:
          narrow: {taken: true, set: {svm.gamma: 0.02}, why: usual}
          wide: {set: {svm.gamma: 0.01}, why: wider}
      gamma:
        options:
          mean: {taken: true, gamma: mean, why: plain}
          ratio: {gamma: ratio, why: other}
defaults: {set: {batch_size: 100}}
profiles:
  tiny: {set: {hidden: 10, epochs: 2, data.train: 300, data.test: 300}}
multiverse:
  excludes: [{batch: "50", svm: wide}]
  designs:
    tables: {cells: [rbm, "theta/*"], choices: [batch, gradient, svm, gamma], rare: {theta: 2}}
experiments:
  - {name: rbm, label: RBM, model: rbm, set: {sparsity: 0.3}, tables: ["1"]}
  - {name: theta, label: θ-RBM, model: theta, grid: {sparsity: [0.3]}, tables: ["1"]}
"""
NAMED = SMALL.replace("rare: {theta: 2}}", "rare: {theta: 2}, universes: {both: {why: w, options: OPTIONS}}}")
THETA = "theta/sparsity=0.3"


@pytest.fixture(scope="module")
def shipped() -> Suite:
    return load_suite(shipped_path(), check_settings=False)


@pytest.fixture
def readings(tmp_path: Path) -> Readings:
    return Readings(load_suite(write_suite(tmp_path, SMALL)), profile="tiny")


def test_a_universe_that_the_suite_names_stands_beside_the_others(readings: Readings, tmp_path: Path) -> None:
    text = NAMED.replace("OPTIONS", "{batch: '50', gradient: central}")
    named = Readings(load_suite(write_suite(tmp_path, text)), profile="tiny")
    for count in (0, 12):
        assert named.universes(count)[:-1] == readings.universes(count)
    both = named.universes(12)[-1]
    assert (both.name, both.kind) == ("both", "named")
    assert both == named.find("both")
    assert both.options == {**named.default.options, "batch": "50", "gradient": "central"}
    cells = [cell.name for stage in named.stages(named.universes(12)) for cell in stage]
    others = [cell.name for stage in readings.stages(readings.universes(12)) for cell in stage]
    assert sorted(cells) == sorted([*others, "both/rbm", f"both/{THETA}"])


def test_the_default_universe_is_the_suite(shipped: Suite) -> None:
    for design in shipped.multiverse.designs:
        readings = Readings(shipped, design)
        for cell, own in zip(readings.base, readings.cells(readings.default), strict=True):
            assert own.train_spec() == cell.train_spec(), own.name
            keys = {spec.key for spec in cell.measure_specs}
            # A design may measure more, and of the O-RBM one universe has one of the two evaluations.
            assert keys >= {spec.key for spec in own.measure_specs if spec.measure in cell.measures}, own.name


def test_there_is_the_default_and_each_change_of_one_option(readings: Readings) -> None:
    names = [universe.name for universe in readings.universes()]
    assert names == ["default", "batch=50", "batch=150", "gradient=central", "svm=wide", "gamma=ratio"]
    for universe in readings.universes()[1:]:
        changed = [name for name, option in universe.options.items() if option != readings.default.options[name]]
        assert changed == [universe.name.partition("=")[0]]


def test_more_universes_keep_those_that_are_there(shipped: Suite, readings: Readings) -> None:
    tables = Readings(shipped)
    assert tables.sampled(60)[:10] == tables.sampled(10)
    assert tables.find("u50") == tables.sampled(50)[-1]
    assert readings.find("u3") == readings.universes(3)[-1]
    noted = Universe("s3", "sampled", readings.default.options)
    assert readings.find("s3", [noted]) == noted
    for name in ("batch=7", "s3", "u0", "u13", "u1000"):
        with pytest.raises(InputError, match=f"no universe '{name}'"):
            readings.find(name)


def test_a_small_design_ends_when_all_its_universes_were_there(readings: Readings) -> None:
    # Two options of four choices, without batches of 50 under the wide kernel.
    found = {tuple(universe.options.values()) for universe in readings.sampled(100)}
    assert len(found) == len(readings.sampled(100)) == 12
    assert not any({"50", "wide"} <= set(options) for options in found)


def test_a_sample_ends_where_no_block_of_new_rows_can_be_made() -> None:
    assert len(draw([10, 6], 200)) == BLOCK
    # Of 70 rows, 40 make sense.
    assert len(draw([10, 7], 200, [{0: first, 1: second} for first in range(10) for second in range(3)])) == 40


def is_balanced(column: np.ndarray, options: int) -> bool:
    counts = [np.bincount(column[start : start + BLOCK], minlength=options) for start in range(0, len(column), BLOCK)]
    return all(max(each) - min(each) <= 1 for each in counts)


@settings(max_examples=10)
@given(st.lists(st.integers(1, 5), min_size=8, max_size=14), st.integers(0, 99), st.integers(1, 2))
def test_blocks_are_balanced_extended_and_without_what_makes_no_sense(
    levels: list[int], seed: int, blocks: int
) -> None:
    levels = [3, 4, *levels, 5, 5]
    excludes = [{0: 1, 1: 2}, {0: 0, 3: levels[3] - 1, 1: 1}]
    rows = draw(levels, blocks * BLOCK, excludes, seed, 2000)
    assert rows.shape == (blocks * BLOCK, len(levels))
    assert all(is_balanced(rows[:, place], options) for place, options in enumerate(levels))
    assert len(np.unique(rows, axis=0)) == len(rows)
    for excluded in excludes:
        assert not np.all([rows[:, place] == option for place, option in excluded.items()], axis=0).any()
    np.testing.assert_array_equal(draw(levels, len(rows) - 5, excludes, seed, 2000), rows[:-5])
    np.testing.assert_array_equal(draw(levels, BLOCK, excludes, seed, 2000), rows[:BLOCK])


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=2, max_size=40))
def test_associations_are_those_of_scipy(rows: list[tuple[int, ...]]) -> None:
    from scipy.stats import contingency

    options = np.array(rows)
    found = associations((options[:, :, None] == np.arange(4)).astype(float))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        table = contingency.crosstab(options[:, i], options[:, j]).count
        assert found[i, j] == pytest.approx(contingency.association(table) if min(table.shape) > 1 else 0.0)
    universes = [Universe("u1", "sampled", dict(zip("abc", map(str, row), strict=True))) for row in rows]
    assert largest_association(universes) == pytest.approx(max(found[0, 1], found[0, 2], found[1, 2]))


def test_sampled_universes_have_all_options_equally_often_and_no_two_choices_go_together(shipped: Suite) -> None:
    readings = Readings(shipped)
    sampled = readings.sampled(2 * BLOCK)
    assert [universe.name for universe in sampled] == [f"u{number}" for number in range(1, 97)]
    for name, choice in readings.choices.items():
        for block in (sampled[:BLOCK], sampled[BLOCK:]):
            counts = Counter(universe.options[name] for universe in block)
            assert set(counts) == {option for option, each in choice.options.items() if not each.alone}
            assert max(counts.values()) - min(counts.values()) <= 1
    assert (largest_association(sampled[:BLOCK]) or 1) <= 0.25
    assert (largest_association(sampled) or 1) <= 0.25
    perturbed = Readings(shipped, "perturbation")
    impossible = {"perturbed-images": "rbm", "perturbation-draws": "one"}.items()
    assert not any(impossible <= universe.options.items() for universe in perturbed.sampled(64))


def test_universes_of_another_design_give_way_to_those_that_are_noted(readings: Readings, tmp_path: Path) -> None:
    old = [Universe("s1", "sampled", readings.default.options)]
    note_universes(tmp_path, readings, old)
    note_universes(tmp_path, readings, readings.universes())
    assert noted_universes(tmp_path, readings) == old
    for count in (9, 4, 10):
        note_universes(tmp_path, readings, readings.universes(count))
        assert noted_universes(tmp_path, readings) == readings.sampled(max(count, 9))


def test_options_change_only_the_models_and_the_half_that_they_concern(readings: Readings) -> None:
    default = readings.cells(readings.default)
    central = readings.cells(readings.find("gradient=central"))
    assert central[0].train_spec() == default[0].train_spec()
    assert central[1].train_spec().parameters["orientation_operator"] == "central"
    wide = readings.cells(readings.find("svm=wide"))
    assert [cell.train_spec() for cell in wide] == [cell.train_spec() for cell in default]
    assert {spec.svm.gamma for cell in wide for spec in cell.measure_specs if spec.svm} == {0.01}
    ratio = readings.cells(readings.find("gamma=ratio"))
    assert [cell.measure_specs for cell in ratio] == [cell.measure_specs for cell in default]
    assert {cell.gamma for cell in ratio} == {"ratio"}


def test_the_work_begins_with_the_default_and_an_expensive_model_is_rare(shipped: Suite, readings: Readings) -> None:
    stages = [[cell.name for cell in stage] for stage in readings.stages(readings.universes(20))]
    assert stages[0] == ["default/rbm", f"default/{THETA}"]
    assert stages[-1] == ["batch=150/rbm"]
    work = [name for stage in stages for name in stage]
    having = ("default", "gradient=central", "u1", "u2")
    assert {name for name in work if "theta" in name} == {f"{name}/{THETA}" for name in having}
    tables = Readings(shipped)
    cells = [cell for stage in tables.stages(tables.universes(64)) for cell in stage]
    having = {cell.name.partition("/")[0] for cell in cells if cell.model == "tirbm"} - tables.design.universes.keys()
    assert {name for name in having if name.startswith("u")} == {f"u{number}" for number in range(1, 49)}
    assert {name.partition("=")[0] for name in having if "=" in name} == {
        name for name, choice in tables.choices.items() if choice.models == ["tirbm"]
    }
    numbers = [int(number) for cell in cells if (number := cell.name.partition("/")[0].removeprefix("u")).isdecimal()]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"100": {taken: true, ', '"100": {', "one option is to be `taken`, not 0"),
        ("choices: [batch, ", "choices: [batches, ", "no choice 'batches'"),
        ("cells: [rbm, ", "cells: [rbms, ", "no cell 'rbms'"),
        ("svm: wide}]", "svm: wider}]", "no option 'wider' of 'svm'"),
        ("orientation_operator: central", "orientation_operator: best", "orientation_operator"),
        ("{batch_size: 50}", "{batch_sizes: 50}", "batch_sizes"),
        ("OPTIONS", "{batch: '60'}", "no option '60' of 'batch'"),
        ("OPTIONS", "{floor: '0'}", "'floor'"),
        ("OPTIONS", "{}", "universes.both.options"),
    ],
)
def test_wrong_readings_are_refused_with_their_line(tmp_path: Path, before: str, after: str, words: str) -> None:
    text = NAMED if before == "OPTIONS" else SMALL
    assert before in text
    with pytest.raises(InputError, match=r"suite\.yaml:[0-9]+:[0-9]+: ") as refused:
        load_suite(write_suite(tmp_path, text.replace(before, after)))
    assert words in str(refused.value)


def test_runs_are_made_once_packed_and_found_again(thetarbm: Command, tmp_path: Path) -> None:
    words = ("multiverse", "--suite", str(write_suite(tmp_path, SMALL)), "--profile", "tiny")
    made_first = thetarbm("run", "rbm", *words[1:], "--json").json["runs"][0]["run"]
    assert thetarbm(*words, "--dry-run").code == 3
    words += ("--design", "one-at-a-time")
    made = thetarbm(*words)
    assert made.code == 0, made.err
    store = Store(tmp_path / "results", shipped=False)
    # Readings that concern other models, the SVM, or the form of γ need no training.
    assert Counter(run.partition("-")[0] for run in read_pack(pack_path(store.results))) == {"rbm": 3, "theta": 2}
    # Weights are a cache, and large; those that were there before stay.
    assert [path.parent.name for path in store.folder.glob("*/weights.npz")] == [made_first]
    assert "0 of them to make" in thetarbm(*words).err
    # A clone has the pack alone.
    store.remove_packed(pack_path(store.results))
    assert store.own_identifiers() == []
    assert thetarbm(*words, "--dry-run").code == 0


def test_a_training_that_diverges_is_an_outcome(thetarbm: Command, tmp_path: Path) -> None:
    diverging = SMALL.replace("{batch_size: 50}", "{batch_size: 50, learning_rate: 1000000.0}")
    words = ("multiverse", "--suite", str(write_suite(tmp_path, diverging)), "--profile", "tiny")
    made = thetarbm(*words, "--design", "one-at-a-time")
    assert made.code == 0, made.err
    assert "diverged" in made.err
    assert thetarbm(*words, "--json").json["diverged_cells"][0] == "batch=50/rbm"
    assert "0 of them to make" in thetarbm(*words, "--design", "one-at-a-time").err


def test_a_universe_is_printed_with_the_commands_that_make_it(thetarbm: Command, tmp_path: Path) -> None:
    words = ("multiverse", "--suite", str(write_suite(tmp_path, SMALL)), "--profile", "tiny", "--universe")
    readings = Readings(load_suite(tmp_path / "suite.yaml"), profile="tiny")
    store = Store(tmp_path / "results")
    for name in ("gradient=central", "svm=wide"):
        lines = thetarbm(*words, name).out.splitlines()
        train, evaluate = (
            next(shlex.split(line) for line in reversed(lines) if f" {what} " in line) for what in ("train", "evaluate")
        )
        run = thetarbm(*train[train.index("train") :], "--json").json["run"]
        evaluate = [run if word == "RUN" else word for word in evaluate[evaluate.index("evaluate") :]]
        assert thetarbm(*evaluate).code == 0
        cell = readings.cells(readings.find(name))[-1]
        assert store.load(run).spec == cell.train_spec()
        assert store.load(run).lacking(cell.measure_specs) == []
    thetarbm(*words, "s0").assert_refused("no universe 's0'")


def test_a_pack_leaves_out_what_another_has(shipped: Suite, tmp_path: Path) -> None:
    paper, survey = (
        next(cell for cell in shipped.cells(profile) if cell.name == THETA) for profile in ("paper", "survey")
    )
    first, second = training_for(paper, test_error_percent=9.0), training_for(survey, test_error_percent=10.0)
    assert first.run == second.run
    first.measurements[0].details = {"confusion": [[1]]}
    store = Store(tmp_path, shipped=False)
    save(tmp_path, first)
    store.pack(tmp_path / "packed" / "paper.jsonl.xz", [first.run])
    store.add(second.measurements[0])
    for _ in range(2):
        store.pack(pack_path(tmp_path), [first.run], slim=True)
        assert [line["values"] for line in read_pack(pack_path(tmp_path))[first.run]] == [{"test_error_percent": 10.0}]
    found = store.load(first.run).by_key
    assert found[first.measurements[0].spec.key] == first.measurements[0]
    assert found[second.measurements[0].spec.key].values == {"test_error_percent": 10.0}
