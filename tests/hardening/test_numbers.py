"""Settings at their ends: a run that works and can be measured, or a refusal with its reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.runs import Command

TINY = ("train", "--profile", "tiny", "--json")


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "rbm", "--hidden", "1", "--set", "batch_size=1000000"],
        ["--model", "theta", "--tensor", "full", "--set", "rotations=1", "--set", "batch_size=1000000"],
        ["--model", "tirbm", "--hidden", "1", "--set", "rotations=1"],
        ["--model", "theta", "--epochs", "0", "--seed", "123456789012345678901234567890"],
        ["--model", "rbm", "--set", "learning_rate=1e-300", "--set", "floor=1e300"],
        ["--model", "rbm", "--sparsity", "0.999999"],
        ["--model", "theta", "--set", "data.train=1"],
    ],
    ids=lambda options: " ".join(options[1:]),
)
def test_works_and_can_be_measured(thetarbm: Command, options: list[str]) -> None:
    sheet = thetarbm(*TINY, *options).json
    with np.load(sheet["weights"], allow_pickle=False) as archive:
        assert all(np.isfinite(archive[name]).all() for name in archive.files)
    if "data.train=1" in options:
        thetarbm("evaluate", sheet["run"]).assert_refused("at least 2 images, there are 1")
    else:
        (row,) = thetarbm("evaluate", sheet["run"], "--json").json["runs"]
        assert 0 <= row["test_error_percent"] <= 100


@pytest.mark.parametrize(
    "options",
    [
        ["--model", "theta", "--hidden", "5", "--set", "rotations=360"],
        ["--model", "tirbm", "--hidden", "10000", "--set", "learning_rate=0.0001"],
    ],
    ids=lambda options: " ".join(options[1:]),
)
def test_large_models_of_small_images_work(thetarbm: Command, tmp_path: Path, options: list[str]) -> None:
    images, labels = np.random.default_rng(0).random((30, 4, 4)), np.arange(30) % 2
    np.savez(tmp_path / "mine.npz", images=images, labels=labels)
    sheet = thetarbm(*TINY, *options, "--source", str(tmp_path / "mine.npz"), "--epochs", "1").json
    assert thetarbm("features", sheet["run"], "--out", str(tmp_path / "features.npz")).code == 0
    with np.load(tmp_path / "features.npz", allow_pickle=False) as archive:
        features = archive["features"]
    assert features.shape == (30, int(options[3]))
    assert features.min() >= 0
    assert features.max() <= 1


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--set", "learning_rate=1000"], 1, ["diverged", "epoch 1", "learning_rate", "1000"]),
        (["--set", "initial_scale=1e300"], 1, ["diverged", "epoch 1"]),
        (["--set", "data.train=1000000"], 2, ["data.train=1000000"]),
        (["--set", "weight_decay=1e300"], 1, ["diverged", "epoch 1"]),
        (["--set", "orientation_scale=1000000000"], 2, ["0.1 to 100.0"]),
        (["--hidden", "100000000000"], 1, ["Unable to allocate", "hidden"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_refused_with_a_reason(thetarbm: Command, options: list[str], code: int, words: list[str]) -> None:
    thetarbm(*TINY, "--model", "theta", *options).assert_refused(*words, code=code)
