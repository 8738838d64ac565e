from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.runs import Command, record_of, run_of, write_prepared
from thetarbm_cli.data.prepare import prepare, read_sidecar
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


def test_controls_learn_nothing_and_take_no_settings_of_learning(thetarbm: Command, tmp_path: Path) -> None:
    outcome = thetarbm("train", "--model", "pixels", "--profile", "tiny", "--hidden", "5")
    outcome.assert_refused("model pixels has no setting 'hidden'")
    assert not (tmp_path / "results").exists()
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


def test_id_does_not_depend_on_how_a_setting_is_given(thetarbm: Command) -> None:
    ways = [
        "--profile tiny --epochs 2 --hidden 7 --tensor full --rotation nearest --set momentum=0.5",
        "--profile paper --set data.train=300 --set data.valid=100 --set data.test=300 --epochs 2 --hidden 7 "
        "--tensor full --rotation nearest --set momentum=0.5 --sparsity 0.3 --set standardise=none",
    ]
    common = ("train", "--model", "theta", "--json")
    sheets = [thetarbm(*common, *way.split()).json for way in ways]
    assert [sheet["cached"] for sheet in sheets] == [False, True]
    assert sheets[0]["run"] == sheets[1]["run"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--sparsity 0.3 --set sparsity=none", ["--sparsity 0.3", "sparsity=None"]),
        ("--train-on mnist --set data.train_on=mnist-rot", ["--train-on mnist", "data.train_on=mnist-rot"]),
        ("--train-on mnist --source own.npz", ["--train-on mnist", "own.npz"]),
        ("--set data.train=10 --set data.test=1000", ["data.test=1000", "300 test images"]),
    ],
)
def test_contradictions_are_refused(thetarbm: Command, tmp_path: Path, words: str, told: list[str]) -> None:
    np.savez(tmp_path / "own.npz", images=np.zeros((20, 8, 8), dtype=np.uint8), labels=np.arange(20) % 2)
    words = words.replace("own.npz", str(tmp_path / "own.npz"))
    thetarbm("train", "--model", "theta", "--profile", "tiny", *words.split()).assert_refused(*told)
    assert not (tmp_path / "results").exists()


# What names the mistake: the setting or option, and the value or what it may be. All settings: tests/models.
WRONG = {
    "--model cnn": ["cnn", "theta"],
    "--set colour=red": ["theta", "'colour'", "learning_rate"],
    "--set learning_rate": ["key=value", "learning_rate"],
    "--sparsity nan": ["sparsity", "nan"],
    "--set data.train=0": ["data.train", "0"],
    "--set perturbation.n=1": ["perturbation.p"],
    "--preset reference": ["theta", "reference", "paper"],
    "--source nowhere.npz": ["nowhere.npz"],
    "--source shipped": ["mnist-rot", "--source"],
}


@pytest.mark.parametrize("options", WRONG)
def test_wrong_settings_are_one_sentence_and_write_nothing(thetarbm: Command, tmp_path: Path, options: str) -> None:
    outcome = thetarbm("train", "--model", "theta", "--profile", "tiny", *options.split(), "--json")
    outcome.assert_refused(*WRONG[options])
    assert not (tmp_path / "results").exists()


def test_train_on_another_data_set(thetarbm: Command, tmp_path: Path, small_data: Path) -> None:
    """Fashion-MNIST itself need not be here: a prepared file under the name of fashion-rot is what is loaded."""
    digits = prepare(small_data)
    turned = dataclasses.replace(digits, images=digits.images.transpose(0, 2, 1).copy())
    sidecar = {**read_sidecar(digits.path), "dataset": "fashion-rot"}
    write_prepared(turned, tmp_path / "data" / "fashion-rot-generated-seed0.npz", sidecar)
    call = ("train", "--model", "rbm", "--profile", "tiny", "--train-on", "fashion-rot", "--json")
    sheet = thetarbm(*call, data_dir=tmp_path / "data").json
    data = record_of(tmp_path / "results", sheet["run"])["data"]
    assert {role: each["dataset"] for role, each in data.items()} == {"train": "fashion-rot", "test": "fashion-rot"}
    for command in ("show", "evaluate"):
        assert thetarbm(command, sheet["run"], data_dir=tmp_path / "data").code == 0
