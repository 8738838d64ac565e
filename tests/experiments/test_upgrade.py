"""Records of other versions of the program: older ones are read or named, newer ones are left as they are.

``samples`` keeps a record as each format was written. They are never written again: who changes the format adds one,
and upgrade code that reads the older ones.
"""

from __future__ import annotations

import json
import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.experiments.runs import Command, call, context_of, files_in, record_of, rewrite, run_of
from tests.experiments.suites import write_suite
from thetarbm_cli import documents
from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.execution import theory
from thetarbm_cli.experiments.execution.theory import check_theory, load_theory
from thetarbm_cli.experiments.runs import store
from thetarbm_cli.experiments.runs.loading import load_checked
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.suite.schema import Theory

SAMPLES = Path(__file__).parent / "samples"
RECORDS = sorted(SAMPLES.glob("run-v*.json"))
TINY_RBM = """\
format: 1
title: one run
profiles: {tiny: {data: {train: 300, valid: 100, test: 300}, parameters: {hidden: 40, epochs: 3}}}
experiments:
  - {name: rbm, label: RBM, model: rbm, tables: ["1"]}
"""


@pytest.fixture(autouse=True)
def warnings(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.WARNING, "thetarbm")
    return caplog


def content_of(sample: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(sample.read_text(encoding="utf-8"))
    content.pop("checksum", None)
    return content


def put(sample: Path, results: Path) -> str:
    run = str(content_of(sample)["run"])
    (results / "runs" / run).mkdir(parents=True)
    shutil.copy(sample, results / "runs" / run / "run.json")
    return run


# -- samples -------------------------------------------------------------------------------------------------


def test_there_is_a_sample_of_every_format() -> None:
    assert {content_of(sample)["format"] for sample in RECORDS} == set(range(1, store.FORMAT + 1))
    checks = sorted(SAMPLES.glob("theory-v*.json"))
    assert {content_of(sample)["format"] for sample in checks} == set(range(1, theory.FORMAT + 1))


@pytest.mark.parametrize("sample", RECORDS, ids=lambda sample: sample.stem)
def test_every_sample_is_read_with_all_that_it_says(
    sample: Path, tmp_path: Path, warnings: pytest.LogCaptureFixture
) -> None:
    record = RunStore(tmp_path).load(put(sample, tmp_path))
    assert warnings.messages == []
    read, written = record.model_dump(mode="json"), content_of(sample)
    for name, value in written.items():
        if name != "format":
            assert_says(read[name], value)
    assert read["format"] == store.FORMAT


def assert_says(read: Any, written: Any) -> None:
    """All that was written is read; settings that came later stand beside it."""
    if isinstance(written, dict):
        for name, value in written.items():
            assert_says(read[name], value)
    else:
        assert read == written


@pytest.mark.parametrize("sample", RECORDS, ids=lambda sample: sample.stem)
def test_every_sample_keeps_its_id_can_be_shown_and_stays_as_it_is(
    sample: Path, small_data: Path, tmp_path: Path
) -> None:
    run = put(sample, tmp_path)
    before = files_in(tmp_path)
    assert load_checked(context_of(small_data, tmp_path), run).run == run
    shown = call(tmp_path / "data", tmp_path, "show", run)
    assert (shown.code, shown.err) == (0, "")
    for command in (["status", "--profile", "tiny"], ["clean"]):
        assert "not used" not in call(tmp_path / "data", tmp_path, *command).err
    assert files_in(tmp_path) == before


def test_sample_of_the_theory_is_read(tmp_path: Path, warnings: pytest.LogCaptureFixture) -> None:
    for sample in sorted(SAMPLES.glob("theory-v*.json")):
        shutil.copy(sample, tmp_path / "theory.json")
        record = load_theory(tmp_path)
        assert warnings.messages == []
        assert record.model_dump()["checks"] == content_of(sample)["checks"]


# -- older formats -------------------------------------------------------------------------------------------


def test_record_of_an_unknown_older_format_is_named_and_made_again(
    thetarbm: Command, trained: Path, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    shutil.copytree(trained, results)
    run = run_of(results, "rbm")
    rewrite(results, run, {"format": 0})
    outcome = thetarbm("train", "--model", "rbm", "--profile", "tiny")
    assert outcome.code == 0
    assert re.search(rf"{run}/run.json .*format 0\b.* {store.FORMAT}\b", outcome.err)
    assert record_of(results, run)["format"] == store.FORMAT


# -- newer formats -------------------------------------------------------------------------------------------


@pytest.fixture
def newer(trained: Path, tmp_path: Path) -> Path:
    """A results folder whose RBM was recorded by a newer version of the program."""
    shutil.copytree(trained, tmp_path / "results")
    run = run_of(tmp_path / "results", "rbm")
    rewrite(tmp_path / "results", run, {"format": store.FORMAT + 1, "unheard_of": [1, 2, 3]})
    write_suite(tmp_path, TINY_RBM)
    return tmp_path / "results"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["train", "--model", "rbm", "--profile", "tiny", "--force"], 1),
        (["evaluate", "rbm"], 1),
        (["show", "rbm"], 1),
        (["run", "--suite", "suite.yaml", "--profile", "tiny"], 1),
        (["status", "--suite", "suite.yaml", "--profile", "tiny"], 3),
        (["tables", "--suite", "suite.yaml", "--profile", "tiny", "--out", "elsewhere"], 0),
        (["clean", "--suite", "suite.yaml"], 0),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else str(value),
)
def test_newer_record_is_named_and_left_as_it_is(
    thetarbm: Command, newer: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], code: int
) -> None:
    monkeypatch.chdir(newer.parent)
    folder = newer / "runs" / run_of(newer, "rbm")
    before = files_in(folder)
    outcome = thetarbm(*command)
    assert outcome.code == code
    assert "Traceback" not in outcome.err
    assert "unexpected" not in outcome.err
    assert re.search(rf"format {store.FORMAT + 1}\b.*newer", outcome.err)
    if code == 1 and command[0] != "run":
        outcome.assert_refused(str(folder / "run.json"), "--results", code=1)
    if command[0] == "status":
        assert re.search(rf"stale .*format {store.FORMAT + 1}\b", outcome.out)
    after = files_in(folder)
    after.pop("run.lock", None)
    before.pop("run.lock", None)
    assert after == before


def test_newer_checks_of_the_theory_are_left_as_they_are(tmp_path: Path, warnings: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "theory.json"
    documents.write(path, {**content_of(SAMPLES / "theory-v1.json"), "format": theory.FORMAT + 1})
    before = path.read_bytes()
    assert load_theory(tmp_path) is None
    assert "newer" in warnings.messages[0]
    with pytest.raises(ThetaRBMError, match=r"theory\.json .*format 2"):
        check_theory(tmp_path, Theory(rotations=2, size=4))
    assert path.read_bytes() == before
