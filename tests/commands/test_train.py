from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.experiments.runs import Command, parts_of, record_of, rewrite, run_of, write_prepared
from thetarbm_cli.backend import NumpyBackend
from thetarbm_cli.commands import train as train_command
from thetarbm_cli.commands.session import Session
from thetarbm_cli.data.prepare import prepare, read_sidecar
from thetarbm_cli.models import model_class
from thetarbm_cli.models.contrastive_divergence import EpochRecord


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
    for model in ("pixels", "aligned-pixels"):
        for option, value in (("hidden", "5"), ("epochs", "5"), ("sparsity", "0.5")):
            outcome = thetarbm("train", "--model", model, "--profile", "tiny", f"--{option}", value)
            outcome.assert_refused(f"model {model} has no setting '{option}'")
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


def test_id_does_not_depend_on_order_folders_or_how_a_setting_is_given(
    thetarbm: Command, small_data: Path, tmp_path: Path
) -> None:
    ways = [
        "--profile tiny --epochs 2 --hidden 7 --tensor full --rotation nearest --set momentum=0.5",
        "--set momentum=0.5 --set rotation=nearest --set tensor=full --set hidden=7 --set epochs=2 --profile tiny",
        "--profile paper --set data.train=300 --set data.valid=100 --set data.test=300 --epochs 2 --hidden 7 "
        "--tensor full --rotation nearest --set momentum=0.5 --sparsity 0.3 --set standardise=none",
    ]
    common = ("train", "--model", "theta", "--json")
    sheets = [thetarbm(*common, *way.split()).json for way in ways]
    assert [sheet["cached"] for sheet in sheets] == [False, True, True]
    data = Path(shutil.copytree(small_data, tmp_path / "elsewhere"))
    moved = thetarbm(*common, *ways[0].split(), results=tmp_path / "other", data_dir=data).json
    assert moved["cached"] is False
    assert {sheet["run"] for sheet in [*sheets, moved]} == {moved["run"]}


def test_of_two_assignments_the_later_counts_and_an_option_may_say_the_same(thetarbm: Command) -> None:
    sheet = thetarbm(
        *("train", "--model", "rbm", "--profile", "tiny", "--json"),
        *("--hidden", "5", "--set", "hidden=4", "--set", "hidden=5"),
    ).json
    assert sheet["settings"]["parameters"]["hidden"] == 5


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--sparsity 0.3 --set sparsity=none", ["--sparsity 0.3", "sparsity=None"]),
        ("--tensor full --set tensor=tied", ["--tensor full", "tensor=tied"]),
        ("--train-on mnist --set data.train_on=mnist-rot", ["--train-on mnist", "data.train_on=mnist-rot"]),
        ("--train-on mnist --source own.npz", ["--train-on mnist", "own.npz"]),
        ("--train-on mnist --set data.source=own.npz", ["--train-on mnist", "own.npz"]),
        ("--set data.train=301", ["data.train=301", "300 train images"]),
        ("--set data.train=10 --set data.test=1000", ["data.test=1000", "300 test images"]),
    ],
)
def test_contradictions_are_refused(thetarbm: Command, tmp_path: Path, words: str, told: list[str]) -> None:
    np.savez(tmp_path / "own.npz", images=np.zeros((20, 8, 8), dtype=np.uint8), labels=np.arange(20) % 2)
    words = words.replace("own.npz", str(tmp_path / "own.npz"))
    thetarbm("train", "--model", "theta", "--profile", "tiny", *words.split()).assert_refused(*told)
    assert not (tmp_path / "results").exists()


def test_presets(thetarbm: Command) -> None:
    sheet = thetarbm("train", "--model", "tirbm", "--preset", "reference", "--profile", "tiny", "--json").json
    parameters = sheet["settings"]["parameters"]
    assert (parameters["batch_size"], parameters["variance"], parameters["epochs"]) == (200, "tracked", 3)
    thetarbm("train", "--model", "rbm", "--preset", "reference").assert_refused("rbm", "reference", "paper")


def test_tied_weights_are_one_matrix_and_full_ones_slices(thetarbm: Command) -> None:
    shapes = {}
    for tensor in ("tied", "full"):
        sheet = thetarbm(
            "train", "--model", "theta", "--profile", "tiny", "--hidden", "4", "--tensor", tensor, "--json"
        ).json
        with np.load(sheet["weights"], allow_pickle=False) as archive:
            shapes[tensor] = archive["weights"].shape
            assert {archive[name].dtype for name in archive.files} == {np.dtype(np.float32)}
    assert shapes == {"tied": (4, 784), "full": (9, 4, 784)}


# What names the mistake: the setting or option, and the value or what it may be.
WRONG = {
    "--model cnn": ["cnn", "theta"],
    "--set colour=red": ["theta", "'colour'", "learning_rate"],
    "--set hidden=many": ["hidden", "'many'"],
    "--set hidden=1.5": ["hidden", "1.5"],
    "--set standardise=1": ["standardise", "true or false"],
    "--set tensor=half": ["tensor", "tied, full", "'half'"],
    "--set learning_rate": ["key=value", "learning_rate"],
    "--set learning_rate=1e999": ["learning_rate", "1e999"],
    "--sparsity 1": ["sparsity", "1.0"],
    "--sparsity nan": ["sparsity", "nan"],
    "--epochs -1": ["epochs", "-1"],
    "--set rotations=361": ["rotations", "360", "361"],
    "--set orientation_scale=0": ["scale", "0.0"],
    "--set initial=independent": ["tensor='full'"],
    "--set data.train=0": ["data.train", "0"],
    "--set data.colour=1": ["data.colour"],
    "--set perturbation.n=1": ["perturbation.p"],
    "--set perturbation.n=1 --set perturbation.p=2": ["perturbation.p", "2"],
    "--seed -1": ["--seed", "-1"],
    "--profile huge": ["--profile", "huge"],
    "--train-on cifar": ["--train-on", "cifar"],
    "--source nowhere.npz": ["nowhere.npz"],
    "--source shipped": ["mnist-rot", "--source"],
}


@pytest.mark.parametrize("options", WRONG)
def test_wrong_settings_are_one_sentence_and_write_nothing(thetarbm: Command, tmp_path: Path, options: str) -> None:
    outcome = thetarbm("train", "--model", "theta", "--profile", "tiny", *options.split(), "--json")
    outcome.assert_refused(*WRONG[options])
    assert not (tmp_path / "results").exists()


def test_divergence_fails_with_one_sentence_and_is_recorded(thetarbm: Command, tmp_path: Path) -> None:
    arguments = ("train", "--model", "rbm", "--profile", "tiny", "--set", "learning_rate=1e3")
    for _ in range(2):
        outcome = thetarbm(*arguments, "--json")
        outcome.assert_refused("diverged in epoch 1", "lower learning_rate than 1000", code=1)
        results = tmp_path / "results"
        record = record_of(results, run_of(results, "rbm"))
        assert record["state"] == "failed"
        assert record["error"] in outcome.err
        assert record["weights_sha256"] is None


def test_divergence_after_good_epochs_keeps_the_checkpoint(thetarbm: Command, tmp_path: Path) -> None:
    outcome = thetarbm(
        *("train", "--model", "theta", "--profile", "tiny", "--epochs", "6", "--set", "learning_rate=0.3")
    )
    outcome.assert_refused("diverged", code=1)
    assert (tmp_path / "results" / "runs" / run_of(tmp_path / "results", "theta") / "checkpoint.npz").is_file()


@pytest.fixture
def own_images(small_data: Path, tmp_path: Path) -> Path:
    images, labels = parts_of(small_data)["train"]
    path = tmp_path / "own.npz"
    np.savez(path, images=images.reshape(-1, 28, 28)[:, 4:24, 4:24], labels=labels)
    return path


@pytest.mark.parametrize("model", ["orbm", "tirbm", "theta", "aligned-pixels"])
def test_own_images_of_any_size(thetarbm: Command, tmp_path: Path, own_images: Path, model: str) -> None:
    sheet = thetarbm(
        *("train", "--model", model, "--profile", "tiny", "--source", str(own_images), "--json"),
        data_dir=tmp_path / "data",
    ).json
    assert sheet["settings"]["data"]["source"] == str(own_images)
    record = record_of(tmp_path / "results", sheet["run"])
    assert record["data"]["train"]["dataset"] == "own"
    if model != "aligned-pixels":
        with np.load(sheet["weights"]) as archive:
            assert archive["weights"].shape == (40, 400)


def test_own_images_are_known_by_their_content(thetarbm: Command, tmp_path: Path, own_images: Path) -> None:
    def sheet(path: Path) -> dict[str, object]:
        return thetarbm("train", "--model", "rbm", "--profile", "tiny", "--source", str(path), "--json").json

    first = sheet(own_images)
    moved = tmp_path / "folder" / "other name.npz"
    moved.parent.mkdir()
    shutil.copy(own_images, moved)
    assert sheet(moved)["run"] == first["run"]
    with np.load(own_images) as archive:
        np.savez(own_images, images=1 - archive["images"], labels=archive["labels"])
    assert sheet(own_images)["run"] != first["run"]


def test_train_on_mnist(thetarbm: Command, tmp_path: Path) -> None:
    runs = []
    for train_on in ("mnist-rot", "mnist"):
        sheet = thetarbm("train", "--model", "theta", "--profile", "tiny", "--train-on", train_on, "--json").json
        runs.append(sheet["run"])
        data = record_of(tmp_path / "results", sheet["run"])["data"]
        assert (data["train"]["dataset"], data["test"]["dataset"]) == (train_on, "mnist-rot")
    assert runs[0] != runs[1]


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


def test_without_fashion_mnist_one_sentence_says_what_to_do(
    thetarbm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THETARBM_FASHION_DIR", str(tmp_path / "empty"))
    done = thetarbm("train", "--model", "rbm", "--train-on", "fashion-rot", data_dir=tmp_path / "data")
    done.assert_refused("Fashion-MNIST", "dataset-fashion-mnist")


def test_missing_data_is_prepared_and_said_so(
    thetarbm: Command, tmp_path: Path, small_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepares(data_dir: Path, *arguments: str, progress: Callable[[int, int], None], **options: object) -> object:
        for step in (1, 2):
            progress(step, 2)
        return prepare(small_data, *arguments)

    monkeypatch.setattr("thetarbm_cli.experiments.runs.images.prepare", prepares)
    outcome = thetarbm("train", "--model", "rbm", "--profile", "tiny", data_dir=tmp_path / "empty")
    assert outcome.code == 0
    assert outcome.err.splitlines()[0] == "preparing the data"
    assert outcome.err.count("preparing") == 1


@pytest.mark.parametrize("damage", ["empty", "truncated", "other format", "weights"])
def test_damaged_run_is_made_again_with_a_warning(
    thetarbm: Command, trained: Path, tmp_path: Path, damage: str
) -> None:
    results = tmp_path / "results"
    shutil.copytree(trained, results)
    run = run_of(results, "rbm")
    record, weights = results / "runs" / run / "run.json", results / "runs" / run / "weights.npz"
    whole = weights.read_bytes()
    match damage:
        case "empty":
            record.write_bytes(b"")
        case "truncated":
            record.write_bytes(record.read_bytes()[:500])
        case "other format":
            rewrite(results, run, {"format": 0})
        case "weights":
            weights.write_bytes(whole[:-10])
    outcome = thetarbm("train", "--model", "rbm", "--profile", "tiny", "--json")
    assert outcome.code == 0
    assert outcome.json["cached"] is False
    assert outcome.json["run"] == run
    assert outcome.err.startswith("warning: ")
    assert ("weights.npz" if damage == "weights" else "run.json") in outcome.err.splitlines()[0]
    assert weights.read_bytes() == whole
    assert json.loads(record.read_text())["state"] == "done"


def test_results_that_cannot_be_written_are_one_sentence(thetarbm: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    outcome = thetarbm("train", "--model", "rbm", "--profile", "tiny", results=tmp_path / "file")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("error: ")
    assert str(tmp_path / "file") in outcome.err


def test_time_left_is_that_of_the_epochs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = SimpleNamespace(now=0.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(train_command, "time", clock)
    session = Session(Path(), Path(), "numpy", 1, quiet=False)
    with train_command.EpochDisplay(session, "rbm") as display:
        clock.now += 1000
        display.preparing(1, 1)
        for epoch in (7, 8):  # a run that is resumed after epoch 6
            clock.now += 10
            display(EpochRecord(epoch, 0.5, 0.3), 12)
    lines = capsys.readouterr().err.splitlines()
    assert lines[1] == "rbm epoch  7/12  reconstruction error 0.5000  mean activation 0.300   50 s left"
    assert lines[2] == "rbm epoch  8/12  reconstruction error 0.5000  mean activation 0.300   40 s left"


def test_backend_is_in_the_record_but_not_in_the_id(thetarbm: Command, trained: Path, tmp_path: Path) -> None:
    sheet = thetarbm("--backend", "numpy", "train", "--model", "rbm", "--profile", "tiny", "--json").json
    assert sheet["run"] == run_of(trained, "rbm")
    assert record_of(tmp_path / "results", sheet["run"])["environment"]["backend"] == NumpyBackend().name
