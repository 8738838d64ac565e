"""Settings at their ends: a run that works and can be measured, or a refusal with its reason."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.experiments.runs import Command
from thetarbm_cli.backend import Backend
from thetarbm_cli.experiments.runs import environment as memory
from thetarbm_cli.experiments.runs.settings import resolve
from thetarbm_cli.models import build

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
        (["--set", "data.test=1000000"], 2, ["data.test=1000000"]),
        (["--set", "weight_decay=1e300"], 1, ["diverged", "epoch 1"]),
        (["--set", "orientation_scale=1000000000"], 2, ["0.1 to 100.0"]),
        (["--hidden", "1" + 30 * "0"], 2, ["GB", "fewer hidden units"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_refused_with_a_reason(
    thetarbm: Command, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, words: list[str]
) -> None:
    # A machine that is the same everywhere.
    monkeypatch.setattr(memory, "machine_bytes", lambda: 8 * 10**9)
    thetarbm(*TINY, "--model", "theta", *options).assert_refused(*words, code=code)


def test_what_is_too_large_for_the_machine_is_refused_and_the_run_stays(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(memory, "machine_bytes", lambda: 1_000_000)
        thetarbm(*TINY, "--model", "rbm").assert_refused("rbm with 40 hidden units", "0.0 GB", "batch_size")
    assert {path.suffix for path in tmp_path.rglob("*") if path.is_file()} == {".lock"}
    sheet = thetarbm(*TINY, "--model", "rbm").json
    monkeypatch.setattr(memory, "machine_bytes", lambda: 100_000)
    thetarbm("evaluate", sheet["run"]).assert_refused(sheet["run"], "40 features")
    monkeypatch.undo()
    assert thetarbm("evaluate", sheet["run"]).code == 0


def test_memory_of_a_container_is_that_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CONTAINER_LIMIT", tmp_path / "nothing")
    whole = memory.machine_bytes()
    assert whole > 10**8
    for text, expected in (("max\n", whole), ("1000000\n", 1_000_000), (f"{2**63}\n", whole)):
        (tmp_path / "limit").write_text(text)
        monkeypatch.setattr(memory, "CONTAINER_LIMIT", tmp_path / "limit")
        assert memory.machine_bytes() == expected


@pytest.mark.parametrize(
    ("model", "settings", "images"),
    [
        ("rbm", {"hidden": 8000}, 50),
        ("theta", {"hidden": 1500, "tensor": "full"}, 50),
        ("tirbm", {"hidden": 1000, "batch_size": 300}, 300),
        ("theta", {"hidden": 5}, 5000),
    ],
)
def test_estimate_is_near_what_training_takes(model: str, settings: dict[str, int], images: int) -> None:
    parameters = {**resolve(model).complete_parameters, **settings, "epochs": 1, "learning_rate": 1e-6}
    pixels = np.random.default_rng(0).random((images, 196), dtype=np.float32)
    machine = build(model, parameters, backend="numpy")
    tracemalloc.start()
    machine.fit(pixels, monitor=lambda state: state.to_host(Backend()) and None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0.7 < peak / machine.training_bytes(images, 196) < 1.2


def test_windows_is_asked_for_its_memory_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    here = memory.machine_bytes()
    monkeypatch.setattr(memory.sys, "platform", "win32")
    monkeypatch.delattr(memory.os, "sysconf")
    assert memory.machine_bytes() >= here
