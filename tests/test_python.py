"""What a user of Python imports from the package itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thetarbm_cli
from tests.runs import MODELS, parts_of, run_of
from thetarbm_cli import RBM, OrientedRBM, ThetaRBM, load_images, load_records, load_run
from thetarbm_cli.errors import InputError
from thetarbm_cli.parameters import declared


def test_all_names_are_there_and_none_is_imported_before_it_is_asked_for() -> None:
    for name in thetarbm_cli.__all__:
        assert getattr(thetarbm_cli, name) is not None
        assert name in dir(thetarbm_cli)
    code = "import sys, thetarbm_cli; print(sorted({'numpy', 'sklearn', 'pandas', 'click'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout.split() == [b"[]"]
    with pytest.raises(AttributeError):
        thetarbm_cli.nothing  # noqa: B018


def test_a_run_is_a_fitted_estimator_and_its_record(trained: Path, small_data: Path) -> None:
    run = run_of(trained, "theta")
    model, record = load_run(run[:9], trained)
    assert record.run == run
    images, _ = parts_of(small_data)["train"]
    again = ThetaRBM(**record.spec.parameters).fit(images)
    np.testing.assert_array_equal(model.transform(images), again.transform(images))
    assert f"{run}, done, seed 0" in repr(record)
    with pytest.raises(InputError):
        load_run("nothing", trained)


def test_records_are_one_frame(evaluated: Path, tmp_path: Path) -> None:
    frame = load_records(evaluated)
    assert set(frame["model"]) == set(MODELS)
    for run, numbers in frame.groupby("run"):
        record = load_run(str(run), evaluated).record
        usual = numbers[(numbers.variant == "default") & (numbers.measure == "test_error_percent")]
        assert usual.value.tolist() == [record.values["test_error_percent"]]
        assert set(numbers["data.train"]) == {300}
    (tmp_path / "runs").mkdir()
    assert load_records(tmp_path).empty
    with pytest.raises(InputError):
        load_records(tmp_path / "nothing")


def test_images_are_those_of_the_prepared_file(small_data: Path) -> None:
    data = load_images("mnist-rot", data_dir=small_data)
    with np.load(data.path) as archive:
        np.testing.assert_array_equal(data.images, archive["images"])
        np.testing.assert_array_equal(data.labels, archive["labels"])
    for number, (images, labels) in enumerate((data.train, data.valid, data.test)):
        rows = data.split == number
        np.testing.assert_allclose(images, data.images[rows].reshape(len(images), -1) / 255, atol=1e-6)
        np.testing.assert_array_equal(labels, data.labels[rows])


def test_images_of_a_user_are_loaded_by_their_path(tmp_path: Path) -> None:
    split = np.arange(30) % 3
    np.savez(tmp_path / "own.npz", images=np.random.default_rng(0).random((30, 6, 6)), split=split)
    data = load_images(tmp_path / "own.npz", data_dir=tmp_path / "data")
    np.testing.assert_array_equal(data.split, split)
    assert "10 train, 10 valid, 10 test images of 6×6 pixels" in repr(data)


def test_images_may_have_their_shape() -> None:
    images = np.random.default_rng(0).random((30, 6, 6), dtype=np.float32)
    for kind in (RBM, OrientedRBM, ThetaRBM):
        flat, shaped = (kind(hidden=4, epochs=2).fit(each) for each in (images.reshape(30, 36), images))
        np.testing.assert_array_equal(flat.transform(images.reshape(30, 36)), shaped.transform(images))


def test_verbose_prints_a_line_per_epoch_and_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    images = np.random.default_rng(0).random((30, 36), dtype=np.float32)
    quiet = ThetaRBM(hidden=4, epochs=3).fit(images)
    assert capsys.readouterr().out == ""
    loud = ThetaRBM(hidden=4, epochs=3, verbose=1).fit(images)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for line, epoch in zip(lines, loud.history_, strict=True):
        assert f"{epoch.reconstruction_error:.4f}" in line
    np.testing.assert_array_equal(quiet.weights_, loud.weights_)
    assert "verbose" not in declared("theta")
