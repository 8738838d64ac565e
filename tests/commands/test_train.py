from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.data.archives import write_own
from tests.runs import Command, files_in, record_of, run_of
from thetarbm_cli import pipeline
from thetarbm_cli.parameters import defaults
from thetarbm_cli.store import Store

TINY = ("--profile", "tiny", "--json")


def test_a_run_is_made_once_and_found_again_and_a_forced_one_stands_beside_it(
    thetarbm: Command, tmp_path: Path
) -> None:
    arguments = ("train", "--model", "theta", "--sparsity", "0.2", *TINY)
    sheet = thetarbm(*arguments).json
    assert (sheet["model"], sheet["seed"], sheet["cached"], sheet["epochs"]) == ("theta", 0, False, 3)
    assert sheet["settings"]["parameters"] == {**defaults("theta"), "hidden": 40, "epochs": 3, "sparsity": 0.2}
    assert sheet["path"] == str(tmp_path / "results" / "runs" / sheet["run"])
    assert sheet["weights"] == f"{sheet['path']}/weights.npz"
    assert sheet["reconstruction_error"] > 0
    assert 0 < sheet["mean_activation"] < 1
    second = thetarbm(*arguments)
    assert second.json == {**sheet, "cached": True}
    assert second.err == ""
    before = files_in(Path(sheet["path"]))
    forced = thetarbm(*arguments, "--force").json
    assert (forced["cached"], forced["run"]) == (False, f"{sheet['run']}-2")
    assert files_in(Path(sheet["path"])) == before
    assert Path(forced["weights"]).read_bytes() == Path(sheet["weights"]).read_bytes()
    # From now on the newest one is meant.
    assert thetarbm(*arguments).json == {**forced, "cached": True}
    thetarbm("evaluate", sheet["run"]), thetarbm("evaluate", forced["run"])
    lines = thetarbm("tables", "--profile", "tiny", "--json").json["tables"]["1"]
    (value,) = (line for line in lines if (line["model"], line["sparsity"]) == ("theta", 0.2))
    assert (value["seeds"], value["runs"]) == (1, [forced["run"]])


def test_controls_learn_nothing(thetarbm: Command) -> None:
    sheet = thetarbm("train", "--model", "pixels", *TINY).json
    assert (sheet["epochs"], sheet["reconstruction_error"], sheet["mean_activation"]) == (0, None, None)


def test_people_read_epochs_and_what_to_do_next(thetarbm: Command, tmp_path: Path) -> None:
    first = thetarbm("train", "--model", "theta", "--profile", "tiny")
    run = run_of(tmp_path / "results", "theta")
    assert re.search(rf"^run +{run} \(trained in [\d.]+ s\)$", first.out, re.MULTILINE)
    assert re.search(rf"^evaluate  thetarbm --data-dir .* --results .* evaluate {run}$", first.out, re.MULTILINE)
    lines = [line for line in first.err.splitlines() if "epoch" in line]
    assert [line.split()[2] for line in lines] == ["1/3", "2/3", "3/3"]
    second = thetarbm("--quiet", "train", "--model", "theta", "--profile", "tiny", "--force")
    assert (second.code, second.err) == (0, "")


def test_ctrl_c_loses_nothing_and_the_same_command_goes_on(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(self: pipeline.Checkpoints, state: object) -> None:
        save(self, state)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    save = pipeline.Checkpoints.save
    words = ("train", "--model", "theta", *TINY)
    with monkeypatch.context() as patch:
        patch.setattr(pipeline.Checkpoints, "save", cut_off)
        interrupted = thetarbm(*words)
    assert (interrupted.code, interrupted.out) == (130, "")
    assert Store(tmp_path / "results", shipped=False).identifiers() == []
    resumed = thetarbm(*words)
    assert f"resuming {resumed.json['run']} after epoch 1" in resumed.err
    whole = thetarbm(*words, "--force").json
    weights = [Path(each["weights"]).read_bytes() for each in (resumed.json, whole)]
    assert weights[0] == weights[1]


def test_what_diverged_is_told_again_and_tried_again_only_by_force(thetarbm: Command, tmp_path: Path) -> None:
    words = ("train", "--model", "rbm", "--set", "learning_rate=1e6", *TINY)
    for _ in range(2):
        thetarbm(*words).assert_refused("diverged", code=1)
    run = run_of(tmp_path / "results", "rbm")
    assert record_of(tmp_path / "results", run)["state"] == "diverged"
    thetarbm("evaluate", run).assert_refused(run, "diverged")
    thetarbm(*words, "--force").assert_refused("diverged", code=1)
    assert Store(tmp_path / "results", shipped=False).identifiers() == [run, f"{run}-2"]


def test_two_files_of_one_name_are_two_runs_and_told_apart(thetarbm: Command, tmp_path: Path) -> None:
    runs = []
    for seed, folder in enumerate(("a", "b")):
        (tmp_path / folder).mkdir()
        pixels = np.random.default_rng(seed).random((60, 8, 8))
        own = write_own(tmp_path / folder / "own.npz", images=pixels, labels=np.arange(60) % 3)
        words = ("--model", "rbm", "--source", str(own), "--epochs", "1", "--hidden", "5", "--json")
        runs.append(thetarbm("train", *words).json["run"])
    assert len(set(runs)) == 2
    errors = [thetarbm("evaluate", run, "--json").json["runs"][0] for run in runs]
    listed = {run["run"]: run for run in thetarbm("list", "--json").json["runs"]}
    assert listed[runs[0]]["differs"] == listed[runs[1]]["differs"]
    assert listed[runs[0]]["train_sha256"] != listed[runs[1]]["train_sha256"]
    assert errors[0]["train_sha256"] != errors[1]["train_sha256"]
    for text in (thetarbm("list").out, thetarbm("evaluate", *runs).out):
        assert all(listed[run]["train_sha256"][:12] in text for run in runs)
    compared = thetarbm("show", *runs, "--json").json
    assert compared["settings"] == {"train_sha256": [listed[run]["train_sha256"] for run in runs]}
