from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import Command, context_of, parts_of, run_of, train
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs.loading import load_checked, load_model, retrain_command
from thetarbm_cli.experiments.runs.settings import resolve
from thetarbm_cli.experiments.runs.store import RunStore

# Settings of every kind; each run must be made again by the command that its record leads to.
VARIANTS: dict[str, dict[str, Any]] = {
    "profile": {"model": "rbm"},
    "numbers": {"model": "rbm", "parameters": {"learning_rate": 1e-05, "momentum": 0.25, "gibbs_steps": 2}},
    "true and none": {"model": "rbm", "parameters": {"standardise": True, "sparsity": None}},
    "false and words": {"model": "theta", "parameters": {"standardise": False, "tensor": "full", "hidden": 4}},
    "plus sign": {"model": "tirbm", "parameters": {"sparsity_form": "bias+weights"}},
    "reference": {"model": "tirbm", "preset": "reference", "parameters": {"initial_momentum": 0.3}},
    "perturbation": {"model": "theta", "perturbation": {"n": 3, "p": 0.2, "scope": "all"}},
    "measured otherwise": {
        "model": "theta",
        "perturbation": {"n": 1, "p": 0.2, "draws": "one", "overflow": "clip"},
        "svm": {"scaled": True},
        "features": "states",
    },
    "sizes": {"model": "aligned-pixels", "data": {"train": 50, "valid": 20, "test": 30}},
    "one size": {"model": "rbm", "profile": "paper", "data": {"train": 50}, "parameters": {"epochs": 1, "hidden": 5}},
    "mnist": {"model": "theta", "data": {"train_on": "mnist"}},
    "seed": {"model": "rbm", "seed": 12345678901234567890},
    "own images": {"model": "theta", "data": {"source": "it's my file.npz", "train": 50, "seed": 3}},
}


@pytest.fixture
def own_images(small_data: Path, tmp_path: Path) -> Path:
    """A user's file, with a name that a shell would take apart."""
    images, labels = parts_of(small_data)["train"]
    path = tmp_path / "it's my file.npz"
    np.savez(path, images=(images.reshape(-1, 28, 28) * 255).astype(np.uint8)[:, ::2, ::2], labels=labels)
    return path


@pytest.mark.parametrize("name", VARIANTS)
def test_retrain_command_makes_the_same_run(
    thetarbm: Command, small_data: Path, tmp_path: Path, own_images: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(own_images.parent)
    arguments = {"profile": "tiny", **VARIANTS[name]}
    seed = arguments.pop("seed", 0)
    record = train(small_data, tmp_path / "first", resolve(**arguments), seed)
    words = shlex.split(retrain_command(record))
    assert words[:2] == ["thetarbm", "train"]
    sheet = thetarbm(*words[1:], "--json", results=tmp_path / "second").json
    assert sheet["run"] == record.run
    assert sheet["settings"]["parameters"] == record.parameters
    first, second = (RunStore(tmp_path / name).weights_path(record.run).read_bytes() for name in ("first", "second"))
    assert first == second


def test_missing_weights_say_how_to_make_them(small_data: Path, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "results")
    context = context_of(small_data, tmp_path / "results")
    record = load_checked(context, run_of(trained, "theta"))
    context.store.weights_path(record.run).unlink()
    with pytest.raises(InputError) as raised:
        load_model(context, record)
    assert retrain_command(record) in str(raised.value)
