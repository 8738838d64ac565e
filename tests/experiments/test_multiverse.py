"""The design of universes, and the runs behind them."""

from __future__ import annotations

import shlex
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from tests.experiments.runs import call
from tests.experiments.suites import record_for, write_suite
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.multiverse import Readings, match, multiverse_store, pack_path
from thetarbm_cli.experiments.runs.packing import read_pack
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.loader import load_suite
from thetarbm_cli.experiments.suite.schema import Suite
from thetarbm_cli.experiments.suite_file import shipped_path

SMALL = """\
format: 1
title: universes
assumptions:
  - name: learning
    reading: As it is.
    why: It works.
    choices:
      batch:
        options:
          "100": {taken: true, parameters: {batch_size: 100}, why: usual}
          "50": {parameters: {batch_size: 50}, why: smaller}
          "150": {alone: true, parameters: {batch_size: 150}, why: larger}
      gradient:
        models: [theta]
        options:
          gaussian: {taken: true, parameters: {orientation_operator: gaussian}, why: smooth}
          central: {parameters: {orientation_operator: central}, why: plain}
      svm:
        options:
          narrow: {taken: true, svm: {gamma: 0.02}, why: usual}
          wide: {svm: {gamma: 0.01}, why: wider}
      gamma:
        options:
          mean: {taken: true, counts: {gamma: mean}, why: plain}
          ratio: {counts: {gamma: ratio}, why: other}
profiles:
  tiny:
    data: {train: 300, valid: 100, test: 300}
    parameters: {hidden: 10, epochs: 2}
multiverse:
  excludes: [{batch: "50", svm: wide}]
  designs:
    tables: {cells: [rbm, "theta/*"], choices: [batch, gradient, svm, gamma], rare: {theta: 2}}
experiments:
  - {name: rbm, label: RBM, model: rbm, parameters: {sparsity: 0.3}, tables: ["1"]}
  - {name: theta, label: θ-RBM, model: theta, grid: {sparsity: [0.3]}, tables: ["1"]}
"""


@pytest.fixture(scope="module")
def shipped() -> Suite:
    return load_suite(shipped_path(), check_settings=False)


@pytest.fixture
def readings(tmp_path: Path) -> Readings:
    return Readings(load_suite(write_suite(tmp_path, SMALL)), profile="tiny")


NAMED = SMALL.replace("rare: {theta: 2}}", "rare: {theta: 2}, universes: {both: {why: w, options: OPTIONS}}}")


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
    assert {"both/rbm", "both/theta/sparsity=0.3"} <= set(cells)
    assert sorted(set(cells) - {"both/rbm", "both/theta/sparsity=0.3"}) == sorted(
        cell.name for stage in readings.stages(readings.universes(12)) for cell in stage
    )


@pytest.mark.parametrize("options", ["{batch: '60'}", "{floor: '0'}", "{}"])
def test_a_named_universe_of_unknown_options_is_refused(options: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="options"):
        load_suite(write_suite(tmp_path, NAMED.replace("OPTIONS", options)))


def test_the_default_universe_is_the_suite(shipped: Suite) -> None:
    for design in shipped.multiverse.designs:
        readings = Readings(shipped, design)
        for cell, laid in zip(readings.base, readings.cells(readings.default), strict=True):
            assert laid.settings() == cell.settings(), laid.name


def test_there_is_the_default_and_each_change_of_one_option(readings: Readings) -> None:
    names = [universe.name for universe in readings.universes()]
    assert names == ["default", "batch=50", "batch=150", "gradient=central", "svm=wide", "gamma=ratio"]
    for universe in readings.universes()[1:]:
        changed = [name for name, option in universe.options.items() if option != readings.default.options[name]]
        assert changed == [universe.name.partition("=")[0]]


def test_more_universes_keep_those_that_are_there(readings: Readings) -> None:
    assert readings.universes(40)[:20] == readings.universes(20)
    assert readings.universes(3) == readings.universes()
    assert readings.find("s7") == readings.universes(40)[12]
    with pytest.raises(InputError, match="no universe 'batch=7'"):
        readings.find("batch=7")


def test_a_choice_more_keeps_the_options_of_the_others(shipped: Suite) -> None:
    fewer = Readings(shipped)
    del fewer.choices["data"]
    for before, after in zip(islice(fewer.sampled(), 100), Readings(shipped).sampled(), strict=False):
        assert before.options == {name: after.options[name] for name in before.options}


def test_a_small_design_ends_when_all_its_universes_were_there(readings: Readings) -> None:
    universes = [*readings.universes(), *readings.sampled()]
    crossed = [universe.options for universe in universes if universe.options["batch"] != "150"]
    # Two options of four choices, without batches of 50 under the wide kernel.
    assert len({tuple(options.values()) for options in crossed}) == len(crossed) == 12


def test_sampled_universes_have_all_options_equally_often_unless_alone_or_impossible(shipped: Suite) -> None:
    readings = Readings(shipped)
    sampled = list(islice(readings.sampled(), 128))
    for name, choice in readings.choices.items():
        counts = Counter(universe.options[name] for universe in sampled)
        crossed = [option for option, each in choice.options.items() if not each.alone]
        assert set(counts) == set(crossed)
        assert max(counts.values()) - min(counts.values()) <= len(crossed)
    perturbed = Readings(shipped, "perturbation")
    impossible = {"perturbed-images": "rbm", "perturbation-draws": "one"}.items()
    assert not any(impossible <= universe.options.items() for universe in islice(perturbed.sampled(), 64))


def test_options_change_only_the_models_that_they_concern(readings: Readings) -> None:
    default = {cell.model: cell for cell in readings.cells(readings.default)}
    central = {cell.model: cell for cell in readings.cells(readings.find("gradient=central"))}
    assert central["rbm"].settings() == default["rbm"].settings()
    assert central["theta"].parameters["orientation_operator"] == "central"
    wide = readings.cells(readings.find("svm=wide"))
    assert {cell.settings().svm.gamma for cell in wide} == {0.01}
    assert readings.counts(readings.find("gamma=ratio"), "rbm") == {"gamma": "ratio"}


def test_the_work_begins_with_the_default_and_a_dear_model_is_rare(shipped: Suite, readings: Readings) -> None:
    stages = [[cell.name for cell in stage] for stage in readings.stages(readings.universes(20))]
    assert stages[0] == ["default/rbm", "default/theta/sparsity=0.3"]
    assert stages[-1] == ["batch=150/rbm"]
    work = [name for stage in stages for name in stage]
    assert {name for name in work if "theta" in name} == {
        "default/theta/sparsity=0.3",
        "gradient=central/theta/sparsity=0.3",
    }
    tables = Readings(shipped)
    cells = [cell for stage in tables.stages(tables.universes(64)) for cell in stage]
    having = {cell.name.partition("/")[0] for cell in cells if cell.model == "tirbm"}
    assert len(having - tables.design.universes.keys()) == 24
    numbers = [int(number) for cell in cells if (number := cell.name.partition("/")[0].removeprefix("s")).isdecimal()]
    assert numbers == sorted(numbers)


def test_records_are_found_by_their_settings(readings: Readings) -> None:
    cells = [cell for universe in readings.universes(12) for cell in readings.cells(universe)]
    records = [record_for(cell) for cell in cells]
    found = match(cells, records)
    assert found.keys() == {cell.name for cell in cells}
    for cell in cells:
        assert cell.fits(found[cell.name])
        assert found[cell.name].settings == cell.settings()


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('"100": {taken: true, ', '"100": {', "one option is to be `taken`, not 0"),
        ("choices: [batch, ", "choices: [batches, ", "no choice 'batches'"),
        ("cells: [rbm, ", "cells: [rbms, ", "no cell 'rbms'"),
        ("svm: wide}]", "svm: wider}]", "no option 'wider' of 'svm'"),
        ("orientation_operator: central", "orientation_operator: best", "orientation_operator must be one of"),
        ("{batch_size: 50}", "{batch_sizes: 50}", "no setting 'batch_sizes'"),
    ],
)
def test_wrong_readings_are_refused_with_their_line(tmp_path: Path, before: str, after: str, words: str) -> None:
    assert before in SMALL
    with pytest.raises(InputError, match=r"suite\.yaml:[0-9]+:[0-9]+: ") as refused:
        load_suite(write_suite(tmp_path, SMALL.replace(before, after)))
    assert words in str(refused.value)


def test_runs_are_made_once_packed_and_found_again(small_data: Path, tmp_path: Path) -> None:
    suite = str(write_suite(tmp_path, SMALL))
    results = tmp_path / "results"
    words = ("multiverse", "--suite", suite, "--profile", "tiny", "--design", "one-at-a-time")
    assert call(small_data, results, *words, "--dry-run").code == 3
    assert call(small_data, results, *words[:-2], "--dry-run").code == 3
    made = call(small_data, results, *words)
    assert made.code == 0, made.err
    # The universes share the runs of models that they do not concern, and γ in another form needs none.
    runs = read_pack(pack_path(results)).contents.runs
    assert Counter(run.partition("-")[0] for run in runs) == {"rbm": 4, "theta": 2}
    assert not list(multiverse_store(results).folder.glob("*/weights.npz"))
    again = call(small_data, results, *words)
    assert again.code == 0
    assert "0 of them to make" in again.err
    # A clone has the pack alone.
    for folder in multiverse_store(results).folder.iterdir():
        for path in folder.iterdir():
            path.unlink()
    assert call(small_data, results, *words, "--dry-run").code == 0


def test_a_run_that_diverges_is_an_outcome(small_data: Path, tmp_path: Path) -> None:
    diverging = SMALL.replace("{batch_size: 50}", "{batch_size: 50, learning_rate: 1000000.0}")
    words = ("multiverse", "--suite", str(write_suite(tmp_path, diverging)), "--profile", "tiny")
    made = call(small_data, tmp_path / "results", *words, "--design", "one-at-a-time")
    assert made.code == 0, made.err
    assert "diverged" in made.err
    assert "0 of them to make" in call(small_data, tmp_path / "results", *words, "--design", "one-at-a-time").err


def test_a_universe_is_printed_with_the_commands_that_train_it(small_data: Path, tmp_path: Path) -> None:
    words = ("multiverse", "--suite", str(write_suite(tmp_path, SMALL)), "--profile", "tiny", "--universe")
    shown = call(small_data, tmp_path, *words, "gradient=central").out.splitlines()
    assert "train --model theta" in shown[-1]
    assert "--set orientation_operator=central" in shown[-1]
    # It makes the very run of the universe.
    readings = Readings(load_suite(Path(words[2])), profile="tiny")
    trained = call(small_data, tmp_path, *shlex.split(shown[-1])[5:], "--json").json["run"]
    record = RunStore(tmp_path).load(trained)
    assert record.settings == readings.cells(readings.find("gradient=central"))[-1].settings()
    call(small_data, tmp_path, *words, "s0").assert_refused("no universe 's0'")
