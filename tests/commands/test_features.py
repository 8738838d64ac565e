from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data.archives import write_own
from tests.runs import Command, parts_of, run_of
from thetarbm_cli import load_run


def test_files_hold_the_features_of_the_run_s_data(
    thetarbm: Command, small_data: Path, trained: Path, tmp_path: Path
) -> None:
    run, out, csv = run_of(trained, "orbm"), tmp_path / "new folder" / "features.npz", tmp_path / "f.csv"
    outcome = thetarbm("features", run, "--out", str(out), results=trained)
    assert (outcome.code, outcome.out) == (0, f"{out}: 700 images × 40 features\n")
    assert thetarbm("features", "orbm-", "--out", str(csv), results=trained).code == 0
    table = pd.read_csv(csv)
    assert list(table.columns) == ["label", "split", *(f"unit{unit}" for unit in range(40))]
    with np.load(out, allow_pickle=False) as archive:
        assert set(archive.files) == {"features", "labels", "split"}
        assert archive["features"].dtype == np.float32
        for number, (images, labels) in enumerate(parts_of(small_data).values()):
            rows = archive["split"] == number
            np.testing.assert_array_equal(archive["labels"][rows], labels)
            np.testing.assert_allclose(
                archive["features"][rows], load_run(run, trained).model.transform(images), rtol=1e-4, atol=1e-6
            )
        np.testing.assert_array_equal(table["label"], archive["labels"])
        np.testing.assert_array_equal(table["split"], np.array(["train", "valid", "test"])[archive["split"]])
        np.testing.assert_array_equal(table.iloc[:, 2:].to_numpy(np.float32), archive["features"])


def test_training_on_mnist_gives_features_of_what_it_learned_and_is_tested_on(
    thetarbm: Command, small_data: Path, tmp_path: Path
) -> None:
    run = thetarbm("train", "--model", "pixels", "--profile", "tiny", "--train-on", "mnist", "--json").json["run"]
    assert thetarbm("features", run, "--out", str(tmp_path / "f.npz")).code == 0
    upright, turned = parts_of(small_data, "mnist"), parts_of(small_data)
    expected = np.concatenate([upright["train"][0], upright["valid"][0], turned["test"][0]])
    with np.load(tmp_path / "f.npz") as archive:
        np.testing.assert_allclose(archive["features"], expected, rtol=1e-6)


def test_features_of_a_user_s_images(thetarbm: Command, small_data: Path, trained: Path, tmp_path: Path) -> None:
    images, labels = parts_of(small_data)["test"]
    expected = load_run("theta", trained).model.transform(images[:20])
    squares, out, own = images[:20].reshape(-1, 28, 28), tmp_path / "f.npz", tmp_path / "images.npz"
    write_own(own, images=np.round(squares * 255).astype(np.uint8), labels=labels[:20])
    assert thetarbm("features", "theta", "--out", str(out), "--images", str(own), results=trained).code == 0
    with np.load(out) as archive:
        assert archive.files == ["features"]
        np.testing.assert_allclose(archive["features"], expected, rtol=1e-4, atol=1e-6)
    np.savez(own, images=squares[:1])
    printed = thetarbm("features", "theta", "--out", "-", "--images", str(own), results=trained)
    header, line = printed.out.splitlines()
    assert (header.split(",")[0], len(line.split(","))) == ("unit0", 40)
    assert printed.err == "1 images × 40 features\n"


@pytest.fixture
def unlabelled(tmp_path: Path) -> str:
    """A file of images without labels."""
    np.savez(tmp_path / "mine.npz", images=np.random.default_rng(0).random((60, 8, 8)))
    return str(tmp_path / "mine.npz")


def test_images_without_labels_are_learned_from_and_have_gamma_but_no_error(
    thetarbm: Command, tmp_path: Path, unlabelled: str
) -> None:
    small = ("train", "--model", "theta", "--source", unlabelled, "--hidden", "5", "--epochs", "1", "--json")
    run = thetarbm(*small).json["run"]
    first = thetarbm("evaluate", run)
    assert (first.code, "no labels" in first.err) == (0, True)
    assert "test error — (no labels)   γ train" in first.out
    (again,) = thetarbm("evaluate", "--all", "--json").json["runs"]
    assert (again["cached"], again["test_error_percent"]) == (True, None)
    assert again["gamma_train"] > 0
    assert again["gamma_test"] > 0
    for option in ("--grid-search", "--invariance"):
        thetarbm("evaluate", run, option).assert_refused("mine.npz", "labels", "SVM")
    assert thetarbm("evaluate", run, "--force", "--json").json["runs"] == [{**again, "cached": False}]
    (listed,) = thetarbm("list", "--json").json["runs"]
    assert (listed["test_error_percent"], listed["gamma_test"]) == (None, again["gamma_test"])
    assert "test error" not in thetarbm("show", run).out
    assert thetarbm("features", run, "--out", str(tmp_path / "x.csv")).code == 0
    assert (tmp_path / "x.csv").read_text().startswith("split,unit0")
    assert thetarbm("prepare-data", "--source", unlabelled).code == 0


def test_a_suite_runs_on_images_without_labels(thetarbm: Command, unlabelled: str) -> None:
    words = ("orbm/sparsity=0.3", "--profile", "tiny", "--source", unlabelled)
    made = thetarbm("run", *words)
    assert made.code == 0, made.err
    assert "γ " in made.err
    assert thetarbm("status", *words).code == 0
    tables = thetarbm("tables", "--profile", "tiny", "--json").json
    own = [each for name in ("1", "2") for each in tables["tables"][name] if each["source"] == "mine.npz"]
    measured = {each["column"] for each in own if each["mean"] is not None}
    assert measured == {"gamma_train", "gamma_test", "gamma_train_unaligned", "gamma_test_unaligned"}
    assert thetarbm("tables", "--profile", "tiny").code == 0
    assert thetarbm("tables", "--profile", "tiny", "--check").code == 0
    perturbed = thetarbm("perturb", "--profile", "tiny", "--source", unlabelled, "--n", "1", "--p", "0.1")
    perturbed.assert_refused("no labels", code=1)
