from __future__ import annotations

import re
from pathlib import Path

from tests.experiments.runs import Command, run_of
from thetarbm_cli.models import model_class


def test_a_run_is_made_once_and_found_again_until_it_is_forced(thetarbm: Command, tmp_path: Path) -> None:
    arguments = ("train", "--model", "theta", "--sparsity", "0.2", "--profile", "tiny", "--json")
    sheet = thetarbm(*arguments).json
    assert (sheet["model"], sheet["seed"], sheet["cached"], sheet["epochs"]) == ("theta", 0, False, 3)
    assert sheet["settings"]["parameters"] == {
        **model_class("theta").default_settings(),
        "hidden": 40,
        "epochs": 3,
        "sparsity": 0.2,
    }
    assert sheet["path"] == str(tmp_path / "results" / "runs" / sheet["run"])
    assert sheet["weights"] == f"{sheet['path']}/weights.npz"
    assert sheet["reconstruction_error"] > 0
    assert 0 < sheet["mean_activation"] < 1
    second = thetarbm(*arguments)
    assert second.json == {**sheet, "cached": True}
    assert second.err == ""
    weights = Path(sheet["weights"]).read_bytes()
    assert thetarbm(*arguments, "--force").json["cached"] is False
    assert Path(sheet["weights"]).read_bytes() == weights


def test_controls_learn_nothing(thetarbm: Command) -> None:
    sheet = thetarbm("train", "--model", "pixels", "--profile", "tiny", "--json").json
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
