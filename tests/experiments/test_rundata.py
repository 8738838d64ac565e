from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.experiments.runs import parts_of
from thetarbm_cli.data.prepare import Prepared, prepare
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.runs import images as rundata
from thetarbm_cli.experiments.runs.images import load_data
from thetarbm_cli.experiments.runs.settings import DataSettings


def test_training_on_mnist_is_tested_on_mnist_rot(small_data: Path) -> None:
    data = load_data(small_data, DataSettings(train_on="mnist"))
    upright, turned = parts_of(small_data, "mnist"), parts_of(small_data)
    np.testing.assert_allclose(data.train()[0], upright["train"][0], rtol=1e-6)
    np.testing.assert_allclose(data.valid()[0], upright["valid"][0], rtol=1e-6)
    np.testing.assert_allclose(data.test()[0], turned["test"][0], rtol=1e-6)
    assert data.checksums["train"] != data.checksums["test"]
    assert data.describe().train.dataset == "mnist"
    assert data.describe().test.dataset == "mnist-rot"


def test_mnist_goes_with_the_official_mnist_rot(small_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def note(data_dir: Path, dataset: str, source: str = "generated", **_: Any) -> Prepared:
        asked.append((dataset, source))
        return prepare(small_data, dataset)

    monkeypatch.setattr(rundata, "prepare", note)
    load_data(small_data, DataSettings(train_on="mnist", source="official"))
    assert asked == [("mnist-rot", "official"), ("mnist", "generated")]


def test_record_names_the_file_but_not_its_folder(small_data: Path, tmp_path: Path) -> None:
    images, labels = parts_of(small_data)["train"]
    own = tmp_path / "secret folder" / "own.npz"
    own.parent.mkdir()
    np.savez(own, images=images, labels=labels)
    described = load_data(tmp_path, DataSettings(source=str(own))).describe()
    assert {described.train.source, described.test.source} == {"own.npz"}


def test_the_protocol_says_what_is_learned_from_and_tested_on(small_data: Path) -> None:
    parts = parts_of(small_data)
    choice = load_data(small_data, DataSettings(protocol="choice"))
    np.testing.assert_allclose(choice.train()[0], parts["train"][0], rtol=1e-6)
    np.testing.assert_allclose(choice.test()[0], parts["valid"][0], rtol=1e-6)
    final = load_data(small_data, DataSettings(protocol="final"))
    both = [np.concatenate([parts["train"][k], parts["valid"][k]]) for k in (0, 1)]
    np.testing.assert_allclose(final.train()[0], both[0], rtol=1e-6)
    np.testing.assert_array_equal(final.train()[1], both[1])
    np.testing.assert_allclose(final.test()[0], parts["test"][0], rtol=1e-6)
    with pytest.raises(InputError, match="learns from the validation images, so nothing can be chosen on them"):
        final.valid()
