"""Images, training and its record: found, made once, resumed bit for bit, never changed."""

from __future__ import annotations

import logging
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tests.runs import (
    MODELS,
    files_in,
    finish,
    lasting,
    measured,
    parts_of,
    python,
    record_of,
    rewrite,
    run_of,
    store_of,
    tiny,
    train,
    wanted,
)
from thetarbm_cli import documents, environment, pipeline
from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.evaluation import measure
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.models import RBM, ThetaRBM, build
from thetarbm_cli.models.contrastive_divergence import EpochRecord, TrainingState
from thetarbm_cli.models.seeds import generator_of
from thetarbm_cli.pipeline import CHECKPOINT_SHARE, Checkpoints, DivergedError, find_orientations, perturb
from thetarbm_cli.specs import ALGORITHM, Perturbation, TrainSpec
from thetarbm_cli.store import CHECKPOINT, MEASUREMENTS, RECORD, WEIGHTS, Store

RUN = "rbm-0123456789ab"


def load_weights(results: Path, run: str) -> dict[str, np.ndarray]:
    with np.load(results / "runs" / run / WEIGHTS, allow_pickle=False) as archive:
        return dict(archive)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models that are trained from here on."""
    made: list[str] = []
    fit = RBM.fit

    def counted(self: RBM, *arguments: Any, **more: Any) -> RBM:
        made.append(type(self).__name__)
        return fit(self, *arguments, **more)

    monkeypatch.setattr(RBM, "fit", counted)
    return made


# The record


@pytest.mark.parametrize("model", MODELS)
def test_a_record_says_all_that_the_training_depends_on(trained: Path, model: str) -> None:
    run = run_of(trained, model)
    record = record_of(trained, run)
    assert (record["format"], record["run"], record["state"], record["error"]) == (2, run, "done", None)
    spec = TrainSpec.model_validate(record["spec"])
    assert spec == tiny(model)
    assert (spec.algorithm, spec.seed, spec.data.train) == (ALGORITHM, 0, 300)
    assert spec.run_id(record["images_sha256"]) == run
    assert len(record["weights_sha256"]) == 64
    assert record["peak_memory_megabytes"] > 10
    assert 0 <= record["checkpoint_seconds"] <= record["seconds"]
    assert record["cpu_seconds"] >= 0
    learns = "pixels" not in model
    assert [epoch["epoch"] for epoch in record["history"]] == ([1, 2, 3] if learns else [])
    for epoch in record["history"]:
        assert 0 < epoch["reconstruction_error"] < 10
        assert 0 < epoch["mean_activation"] < 1
    made = record["environment"]
    assert made["backend"] == select_backend().name
    assert (made["gpu"] is None) == (made["backend"] == "numpy")
    assert made["processor"]
    assert made["libraries"]["numpy"] == np.__version__
    assert all({"library", "version", "threads"} == set(pool) for pool in made["blas"])
    assert made["git"] is None or (len(made["git"]["revision"]) == 40 and made["git"]["dirty"] in (True, False))


def test_environment_outside_a_checkout_or_without_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(environment.thetarbm_cli, "__file__", str(tmp_path / "thetarbm_cli" / "__init__.py"))
    assert environment._revision() is None
    (tmp_path / ".git").mkdir()
    (tmp_path / "thetarbm_cli").mkdir()
    assert environment._revision() is None
    monkeypatch.setenv("PATH", "")
    assert environment._revision() is None


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_those_of_the_estimator(small_data: Path, trained: Path, model: str) -> None:
    images = parts_of(small_data)["train"][0]
    expected = build(model, tiny(model).parameters, seed=0, backend="auto").fit(images).to_arrays()
    stored = load_weights(trained, run_of(trained, model))
    assert list(stored) == list(expected)
    for name in stored:
        np.testing.assert_allclose(stored[name], expected[name], rtol=1e-4, atol=1e-6)


@pytest.mark.skipif(sys.platform != "linux", reason="another system cannot forget a peak")
def test_peak_memory_and_time_belong_to_the_run(small_data: Path, tmp_path: Path) -> None:
    large = train(small_data, tmp_path, tiny("rbm", hidden=12_000, epochs=1, learning_rate=1e-6))
    small = train(small_data, tmp_path, tiny("rbm", hidden=5, epochs=1))
    # Weights alone have 38 MB, in several copies.
    assert large.peak_memory_megabytes - small.peak_memory_megabytes > 38  # type: ignore[operator]
    assert large.cpu_seconds > small.cpu_seconds  # type: ignore[operator]
    assert 0 < large.cpu_seconds < 60 * large.seconds  # type: ignore[operator]


@pytest.mark.parametrize(
    "other",
    [
        {"sparsity": 0.7},
        {"data__train": 200},
        {"data__learn_from": "train+valid"},
        {"data__dataset": "mnist"},
        {"perturbation__n": 1, "perturbation__p": 0.2},
        {"perturbation__n": 1, "perturbation__p": 0.2, "perturbation__overflow": "clip"},
        {"perturbation__n": 1, "perturbation__p": 0.2, "perturbation__statistics": "before"},
    ],
    ids=str,
)
def test_other_descriptions_are_other_trainings(
    small_data: Path, trained: Path, tmp_path: Path, fits: list[str], other: dict[str, Any]
) -> None:
    shutil.copytree(trained, tmp_path / "results")
    made = train(small_data, tmp_path / "results", tiny("theta", **other))
    again = train(small_data, tmp_path / "results", tiny("theta", seed=1))
    assert fits == ["ThetaRBM"] * 2
    assert len({made.run, again.run, run_of(trained, "theta")}) == 3
    assert len({made.weights_sha256, again.weights_sha256, record_of(trained, run_of(trained, "theta"))["weights_sha256"]}) == 3  # noqa: E501  # fmt: skip
    assert train(small_data, tmp_path / "results", tiny("theta", **other)) == made


def test_counts_beyond_what_there_is(small_data: Path, tmp_path: Path) -> None:
    spec = tiny("rbm", data__train=1_000_000)
    with pytest.raises(InputError, match=r"data.train=1000000 .* 300 train images"):
        train(small_data, tmp_path, spec, exact=True)
    made = train(small_data, tmp_path, spec)
    # One that is there is found in any case.
    assert train(small_data, tmp_path, spec, exact=True) == made


def test_code_of_a_plugin_is_part_of_the_description(
    small_data: Path, trained: Path, tmp_path: Path, fits: list[str]
) -> None:
    from thetarbm_cli.specs import Code

    shutil.copytree(trained, tmp_path / "results")
    runs = set()
    for digest in ("a" * 64, "b" * 64):
        code = Code(distribution="mine", version="1", sha256=digest)
        spec = tiny("rbm").model_copy(update={"code": code})
        runs |= {train(small_data, tmp_path / "results", spec).run for _ in range(2)}
    assert len(runs - {run_of(trained, "rbm")}) == len(fits) == 2


# Weights are a cache


@pytest.fixture
def clone(evaluated: Path, tmp_path: Path) -> Path:
    """The records of measured runs, without what git ignores."""
    results = tmp_path / "results"
    shutil.copytree(evaluated, results, ignore=shutil.ignore_patterns("*.npz", "*.lock"))
    return results


def records(results: Path) -> dict[str, bytes]:
    return {name: content for name, content in files_in(results).items() if name.endswith((RECORD, MEASUREMENTS))}


@pytest.mark.parametrize("model", ["theta", "orbm", "pixels"])
def test_weights_that_are_missing_are_made_again_and_the_record_stays(
    small_data: Path, clone: Path, evaluated: Path, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "thetarbm")
    before, store = records(clone), store_of(small_data, clone)
    for expected in (False, True):
        training, found = pipeline.train(store, tiny(model))
        assert found is expected
        assert training == store.require(training.run)
    assert records(clone) == before
    assert "its record stays as it is" in caplog.text
    assert load_weights(clone, training.run).keys() == load_weights(evaluated, training.run).keys()
    assert store.path(training.run, WEIGHTS).read_bytes() == (evaluated / "runs" / training.run / WEIGHTS).read_bytes()


def test_other_weights_than_the_recorded_ones_are_told_and_numbers_name_them(
    small_data: Path, clone: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "thetarbm")
    run, store = run_of(clone, "theta"), store_of(small_data, clone)
    actual = record_of(clone, run)["weights_sha256"]
    # As if it had been trained and measured on another processor.
    rewrite(clone, run, {"weights_sha256": "0" * 64})
    lines, _ = documents.read_lines(store.path(run, MEASUREMENTS))
    text = "".join(f"{documents.line_text({**line, 'weights_sha256': '0' * 64})}\n" for line in lines)
    store.path(run, MEASUREMENTS).write_text(text)
    before = records(clone)
    training = train(small_data, clone, "theta")
    assert "differ from the recorded ones" in caplog.text
    assert pipeline.train(store, tiny("theta")) == (training, True)
    assert records(clone) == before
    measured(small_data, clone, "theta", ["gamma"], offset=5.0)
    again, _ = measure(store, training, wanted(training.spec), force=True)
    assert "not the recorded ones" in caplog.text
    # Two of each Δ = 20°, the further Δ with the weights that are there; the record's own numbers stand.
    assert [each.weights_sha256 == actual for each in again.measurements] == [False] * 3 + [True] * 5
    usual = [each for each in again.by_key.values() if each.spec.offset != 5.0]
    assert {each.weights_sha256 for each in usual} == {"0" * 64}


@pytest.mark.parametrize("damage", [b"", b"others", None])
def test_damaged_weights_are_made_again(small_data: Path, trained: Path, tmp_path: Path, damage: bytes | None) -> None:
    shutil.copytree(trained, tmp_path / "results")
    path = tmp_path / "results" / "runs" / run_of(trained, "rbm") / WEIGHTS
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[whole.index(b"\x93NUMPY") + 130] ^= 1
    path.write_bytes(bytes(changed) if damage is None else damage)
    train(small_data, tmp_path / "results", "rbm")
    assert path.read_bytes() == whole


def test_a_failure_while_weights_are_made_again_leaves_the_record(
    small_data: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = records(clone)

    def lost(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(RBM, "fit", lost)
    with pytest.raises(MemoryError):
        train(small_data, clone, "rbm")
    assert records(clone) == before


# Divergence


@pytest.mark.parametrize(
    ("spec", "good"),
    [
        (lambda: tiny("rbm", learning_rate=1000.0), 0),
        (lambda: tiny("theta", batch_size=100, learning_rate=0.3, epochs=6), None),
    ],
)
def test_divergence_is_recorded_once_and_not_tried_again(
    small_data: Path, tmp_path: Path, fits: list[str], spec: Callable[[], TrainSpec], good: int | None
) -> None:
    store = store_of(small_data, tmp_path)
    for _ in range(2):
        with pytest.raises(DivergedError, match="diverged") as raised:
            pipeline.train(store, spec())
    training = raised.value.training
    assert (len(fits), training.state, training.weights_sha256) == (1, "diverged", None)
    assert f"diverged in epoch {len(training.history) + 1}" in str(training.error)
    assert len(training.history) == good if good is not None else 0 < len(training.history) < 6
    assert {path.name for path in store.path(training.run).iterdir()} == {RECORD, "run.lock"}
    with pytest.raises(InputError, match="nothing to measure"):
        measure(store, training, wanted(training.spec))
    # By force it is tried, beside.
    with pytest.raises(DivergedError):
        pipeline.train(store, spec(), force=True)
    assert store.identifiers() == [training.run, f"{training.run}-2"]


def test_who_waited_for_one_that_diverged_does_not_try_it_again(
    small_data: Path, tmp_path: Path, fits: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store, spec = store_of(small_data, tmp_path), tiny("rbm", learning_rate=1000.0)
    with pytest.raises(DivergedError):
        pipeline.train(store, spec)
    # When it looked for the first time, there was none.
    monkeypatch.setattr(Store, "find", lambda *_: None)
    monkeypatch.setattr(Store, "new_id", lambda self, spec, sha: spec.run_id(sha))
    with pytest.raises(DivergedError):
        pipeline.train(store, spec)
    assert len(fits) == 1


# Cut off and resumed


class Killed(BaseException):
    """The end of a process, at a place of our choice."""


def kill_before(patch: pytest.MonkeyPatch, method: str, count: int) -> None:
    """Let the process end when a function is called for the `count`-th time."""
    place = {"checkpoint": (pipeline, "write_arrays"), "weights": (Store, "save_weights"), "record": (Store, "save")}
    owner, name = place[method]
    original, calls = getattr(owner, name), []

    def wrapped(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) == count:
            raise Killed
        return original(*arguments)

    patch.setattr(owner, name, wrapped)


@pytest.mark.parametrize(
    ("model", "method", "count"),
    [
        ("theta", "checkpoint", 1),
        ("theta", "checkpoint", 3),
        ("rbm", "weights", 1),
        ("orbm", "record", 1),
        ("pixels", "record", 1),
    ],
)
def test_cut_off_at_any_write_then_again_gives_the_same_bytes(
    small_data: Path,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    method: str,
    count: int,
) -> None:
    monkeypatch.setattr(pipeline, "CHECKPOINT_SHARE", 1e9)  # a checkpoint after every epoch
    store, seen = store_of(small_data, tmp_path), []
    with monkeypatch.context() as patch:
        kill_before(patch, method, count)
        with pytest.raises(Killed):
            train(small_data, tmp_path, model)
    run = run_of(trained, model)
    assert store.identifiers() == []
    assert store.unfinished() == ([run] if model != "pixels" and count + (method != "checkpoint") > 1 else [])
    leftover = store.path(run, ".checkpoint.npz.xyz.part")
    leftover.write_bytes(b"half")
    again, found = pipeline.train(store, tiny(model), on_epoch=lambda record, _: seen.append(record.epoch))
    assert not found
    assert seen == ([] if method != "checkpoint" else list(range(count, 4)))
    assert lasting(again) == lasting(store_of(small_data, trained).require(run)) | {"made_for": again.made_for.model_dump(mode="json")}  # noqa: E501  # fmt: skip
    assert store.path(run, WEIGHTS).read_bytes() == (trained / "runs" / run / WEIGHTS).read_bytes()
    assert {path.name for path in store.path(run).iterdir()} == {RECORD, WEIGHTS, "run.lock"}


@pytest.mark.parametrize("tensor", ["tied", "full"])
def test_errors_that_are_redrawn_follow_from_the_epoch_alone(
    small_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tensor: str
) -> None:
    monkeypatch.setattr(pipeline, "CHECKPOINT_SHARE", 1e9)  # a checkpoint after every epoch
    errors = {"perturbation__n": 4, "perturbation__p": 0.4, "perturbation__statistics": "before"}
    spec = tiny("theta", tensor=tensor, perturbation__redrawn="epoch", **errors)
    with monkeypatch.context() as patch:
        kill_before(patch, "checkpoint", 3)
        with pytest.raises(Killed):
            train(small_data, tmp_path / "cut", spec)
    whole, cut = (train(small_data, tmp_path / folder, spec) for folder in ("whole", "cut"))
    assert cut.run == whole.run
    stored = [(tmp_path / folder / "runs" / cut.run / WEIGHTS).read_bytes() for folder in ("whole", "cut")]
    assert stored[0] == stored[1]
    # By hand: the seed of an epoch's errors ends in its number.
    images = parts_of(small_data)["train"][0]
    model = build("theta", spec.parameters, seed=0, backend="auto")
    assert isinstance(model, ThetaRBM)
    estimated = model.orientation_estimator()(images)

    def drawn(*epoch: int) -> np.ndarray:
        return perturb(estimated, Perturbation(n=4, p=0.4), 9, generator_of(0, "perturbation", 4, 400, 0, *epoch))

    model.fit(images, orientations=drawn, standardise_by=estimated)
    weights = load_weights(tmp_path / "whole", whole.run)["weights"]
    np.testing.assert_allclose(weights, model.weights_, rtol=1e-4, atol=1e-6)
    # Once and for all, they are those of any perturbed training.
    once = train(small_data, tmp_path, tiny("theta", tensor=tensor, **errors))
    model.fit(images, orientations=drawn(), standardise_by=estimated)
    weights = load_weights(tmp_path, once.run)["weights"]
    np.testing.assert_allclose(weights, model.weights_, rtol=1e-4, atol=1e-6)


# Small batches: an epoch takes long enough to be hit in the middle.
LONG = """
import logging, pathlib, signal, sys
from tests.runs import store_of, tiny
from thetarbm_cli import pipeline
signal.signal(signal.SIGTERM, signal.default_int_handler)
logging.basicConfig(level=logging.INFO)
store = store_of(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
spec = tiny("theta", epochs=30, hidden=100, batch_size=10)
pipeline.train(store, spec, on_epoch=lambda epoch, _: print("epoch", epoch.epoch, file=sys.stderr, flush=True))
"""


def test_killed_terminated_and_interrupted_training_ends_with_equal_bytes(small_data: Path, tmp_path: Path) -> None:
    results, began = tmp_path / "cut", []
    for epoch, number in ((2, signal.SIGKILL), (6, signal.SIGTERM), (10, signal.SIGINT)):
        process = python("-c", LONG, str(small_data), str(results))
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if re.match(rf"epoch {epoch}\b", line):
                process.send_signal(number)
                break
        said += finish(process).err
        began.append(int(found[1]) if (found := re.search(r"after epoch (\d+)", said)) else 0)
        (folder,) = (results / "runs").iterdir()
        names = {path.name for path in folder.iterdir()}
        assert RECORD not in names
        assert number == signal.SIGKILL or not any(name.endswith(".part") for name in names)
    # Each session began where one before was cut off.
    assert began[0] == 0 < began[1] < began[2]
    for folder in (results, tmp_path / "whole"):
        assert finish(python("-c", LONG, str(small_data), str(folder))).code == 0
    run = run_of(results, "theta")
    cut, whole = (files_in(folder / "runs" / run) for folder in (results, tmp_path / "whole"))
    assert cut[WEIGHTS] == whole[WEIGHTS]
    assert cut.keys() == whole.keys() == {RECORD, WEIGHTS, "run.lock"}
    assert record_of(results, run)["history"] == record_of(tmp_path / "whole", run)["history"]


ONCE = """
import pathlib, sys
from tests.runs import measured
measured(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), "theta")
"""


def test_of_several_processes_one_makes_and_the_others_find(small_data: Path, evaluated: Path, tmp_path: Path) -> None:
    processes = [python("-c", ONCE, str(small_data), str(tmp_path)) for _ in range(3)]
    assert [finish(process).code for process in processes] == [0] * 3
    run = run_of(tmp_path, "theta")
    ours, theirs = (store_of(small_data, folder).require(run) for folder in (tmp_path, evaluated))
    assert len(ours.measurements) == len(ours.by_key) == 3
    assert lasting(ours) | {"made_for": 0} == lasting(theirs) | {"made_for": 0}


def test_who_works_on_a_run_is_seen_without_its_lock(small_data: Path, tmp_path: Path) -> None:
    store, seen = store_of(small_data, tmp_path), []
    spec = tiny("rbm")

    def look(*_: Any) -> None:
        (run,) = store.unfinished()
        seen.append(store.holder(run))

    training, _ = pipeline.train(store, spec, on_epoch=look)
    assert [(each.pid, each.step, each.total) for each in seen] == [(os.getpid(), "epoch", 3)] * 3
    assert store.holder(training.run) is None


# Checkpoints


def state_after(epoch: int) -> TrainingState:
    weights = np.full((2, 3), epoch, dtype=np.float32)
    return TrainingState(
        {"weights": weights, "hidden_bias": np.arange(2, dtype=np.float32)},
        {"weights": weights / 3},
        epoch,
        [EpochRecord(number, 1 / number, 0.3) for number in range(1, epoch + 1)],
    )


class Clock:
    """A `time` whose seconds pass only when told to; it is its own costs."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now

    @property
    def seconds(self) -> float:
        return self.now - 1000.0

    cpu_seconds = seconds


def checkpoints(results: Path, clock: Clock) -> Checkpoints:
    return Checkpoints(Store(results), RUN, tiny("rbm"), Backend(), clock)  # type: ignore[arg-type]


times = st.floats(0.001, 100)


@given(epochs=st.lists(times, min_size=1, max_size=60), data=st.data())
def test_all_checkpoints_but_the_last_take_no_more_than_their_share(epochs: list[float], data: st.DataObject) -> None:
    clock, saved = Clock(), []

    def write(*_: Any) -> None:
        saved.append(data.draw(times))
        clock.now += saved[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "time", clock)
        patch.setattr(pipeline, "write_arrays", write)
        made = checkpoints(Path("nowhere"), clock)
        for number, seconds in enumerate(epochs, start=1):
            clock.now += seconds
            made.save(state_after(number))
            assert saved, "the first epoch is saved in any case"
    assert made.seconds == pytest.approx(sum(saved))
    assert sum(saved[:-1]) <= CHECKPOINT_SHARE * clock.seconds * (1 + 1e-9)


def test_the_saved_state_is_the_resumed_state(tmp_path: Path) -> None:
    clock = Clock()
    clock.now += 7
    checkpoints(tmp_path, clock).save(state_after(4))
    second = checkpoints(tmp_path, Clock())
    state, expected = second.resume(), state_after(4)
    assert state is not None
    assert (state.epoch, state.history) == (4, expected.history)
    for ours, theirs in ((state.parameters, expected.parameters), (state.increments, expected.increments)):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name].dtype == np.float32
            np.testing.assert_array_equal(ours[name], theirs[name])
    # Time of the session that was cut off counts.
    assert second.earlier == {"seconds": 7, "cpu_seconds": 7}


@pytest.mark.parametrize(
    "changes",
    [{"format": 1}, {"run": "rbm-ffffffffffff"}, {"history": [{"epoch": 1}]}, {"epoch": None}, {"spec": {}}],
    ids=str,
)
def test_a_foreign_checkpoint_is_not_used(
    tmp_path: Path, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    made = checkpoints(tmp_path, Clock())
    made.save(state_after(2))
    store = Store(tmp_path)
    arrays = store.load_checkpoint(RUN)
    assert arrays is not None
    (progress,), _ = documents.read_lines(arrays["progress"].tobytes())
    text = documents.line_text({**progress, **changes}).encode()
    pipeline.write_arrays(store.path(RUN, CHECKPOINT), {**arrays, "progress": np.frombuffer(text, dtype=np.uint8)})
    second = checkpoints(tmp_path, Clock())
    assert second.resume() is None
    assert "is not used" in caplog.messages[0]
    assert second.earlier["seconds"] == 0
    pipeline.write_arrays(store.path(RUN, CHECKPOINT), {"parameter.weights": np.zeros(3)})
    assert second.resume() is None


# Images


def test_what_is_learned_from(small_data: Path) -> None:
    store, parts = store_of(small_data, Path("nowhere")), parts_of(small_data)
    for learn_from, names in (("train", ["train"]), ("train+valid", ["train", "valid"])):
        data = tiny("rbm", data__learn_from=learn_from).data
        prepared = pipeline.load_data(store, data.dataset, data.source, data.seed)
        images, labels = pipeline.learned_images(prepared, data)
        np.testing.assert_allclose(images, np.concatenate([parts[name][0] for name in names]), rtol=1e-6)
        np.testing.assert_array_equal(labels, np.concatenate([parts[name][1] for name in names]))


def test_data_of_another_checksum_is_refused(small_data: Path, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "results")
    run = run_of(trained, "rbm")
    rewrite(tmp_path / "results", run, {"images_sha256": "0" * 64})
    store = store_of(small_data, tmp_path / "results")
    with pytest.raises(ThetaRBMError, match="checksum 000000000000"):
        measure(store, store.require(run), wanted(tiny("rbm")))


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A user's file of upright and lying bars."""
    rng = np.random.default_rng(0)
    images = rng.random((120, 8, 8)).astype(np.float32) * 0.2
    labels = np.arange(120) % 2
    images[labels == 0, :, 3:5] += 0.7
    images[labels == 1, 3:5, :] += 0.7
    folder = tmp_path / "secret folder"
    folder.mkdir()
    np.savez(folder / "bars.npz", images=images, labels=labels)
    return folder / "bars.npz"


def test_own_images_are_found_by_their_checksum_wherever_their_file_is(own: Path, tmp_path: Path) -> None:
    store = store_of(tmp_path / "data", tmp_path / "results")
    spec = tiny("theta", hidden=10, epochs=1, data__train=None, data__source=str(own))
    training, _ = pipeline.train(store, spec, source=str(own))
    # The record names the file but not its folder.
    assert b"secret" not in store.path(training.run, RECORD).read_bytes()
    assert training.spec.data.source == "bars.npz"
    own.rename(tmp_path / "elsewhere.npz")
    assert measure(store, training, wanted(spec, data__test=None))[0].values["test_error_percent"] < 50
    store.path(training.run, WEIGHTS).unlink()
    assert pipeline.train(store, spec)[0].run == training.run
    # A later file of the same name is another: the run keeps to its own images, and a bare name is no longer enough.
    np.savez(own, images=np.random.default_rng(1).random((60, 8, 8)).astype(np.float32), labels=np.arange(60) % 2)
    assert pipeline.train(store, spec, source=str(own))[0].run != training.run
    assert measure(store, training, wanted(spec, ["gamma"], offset=5.0, data__test=None))[0].run == training.run
    own.unlink()
    with pytest.raises(InputError, match=r"bars\.npz.*several"):
        pipeline.train(store, spec)


# Orientations


@pytest.fixture
def data(small_data: Path, tmp_path: Path) -> Path:
    """A data folder of the test's own."""
    folder = tmp_path / "data"
    shutil.copytree(small_data, folder, ignore=shutil.ignore_patterns("orientations"))
    return folder


@pytest.fixture
def estimated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images each estimate from here on is of."""
    counts: list[int] = []
    histogram = OrientationEstimator.histogram

    def counted(self: OrientationEstimator, images: np.ndarray) -> np.ndarray:
        counts.append(len(images))
        return histogram(self, images)

    monkeypatch.setattr(OrientationEstimator, "histogram", counted)
    return counts


def numbers(data: Path, results: Path, spec: TrainSpec) -> list[dict[str, float | None]]:
    return [each.values for each in measured(data, results, spec).measurements]


@pytest.mark.parametrize("model", ["theta", "orbm", "theta-local", "aligned-pixels"])
def test_kept_orientations_change_no_number_and_damaged_ones_are_not_used(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, estimated: list[int], model: str
) -> None:
    spec = tiny(model, **({"fields": 500, "hidden": 10} if model == "theta-local" else {}))
    # What is left to estimate is the training's own; controls also look for themselves when the SVM is measured.
    own = 310 + (600 if model == "aligned-pixels" else 0)
    first = numbers(data, tmp_path / "first", spec)
    estimated.clear()
    assert numbers(data, tmp_path / "second", spec) == first
    assert sum(estimated) <= own
    for number, path in enumerate(sorted((data / "orientations").glob("*.npz"))):
        path.write_bytes(b"" if number % 2 else path.read_bytes()[:-1] + b"\7")
    assert numbers(data, tmp_path / "damaged", spec) == first
    estimated.clear()
    assert numbers(data, tmp_path / "again", spec) == first
    assert sum(estimated) <= own
    for module in ("pipeline", "evaluation"):
        monkeypatch.setattr(f"thetarbm_cli.{module}.find_orientations", lambda *_, **__: None)
    assert numbers(data, tmp_path / "none", spec) == first


def test_orientations_depend_on_images_estimator_and_rotation(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = store_of(data, data / "results")
    images = np.random.default_rng(0).random((30, 64), dtype=np.float32)
    kinds: list[tuple[Any, np.ndarray, dict[str, Any]]] = [
        (ThetaRBM(), images, {}),
        (ThetaRBM(), images, {"chunk": 7}),
        (ThetaRBM(orientation_scale=1.0), images, {}),
        (ThetaRBM(rotations=12), images, {}),
        (ThetaRBM(), images[:20], {}),
        (ThetaRBM(), images[::-1], {}),
        (ThetaRBM(), images, {"copies": 9, "offset": 20.0}),
        (ThetaRBM(), images, {"copies": 9, "offset": 10.0}),
    ]
    for number, (model, some, how) in enumerate(kinds, start=1):
        found = find_orientations(store, model, some, **how)
        assert found is not None
        np.testing.assert_array_equal(found[0], model.orientation_estimator()(np.ascontiguousarray(some)))
        assert len(list((data / "orientations").glob("*.npz"))) == number
        np.testing.assert_array_equal(find_orientations(store, model, some, **how), found)
    assert find_orientations(store, RBM(), images) is None
    # Those that were made first go when there are too many.
    size = max(path.stat().st_size for path in (data / "orientations").glob("*.npz"))
    monkeypatch.setattr(pipeline, "MOST_ORIENTATION_BYTES", 3 * size)
    find_orientations(store, ThetaRBM(rotations=6), images)
    assert 2 <= len(list((data / "orientations").glob("*.npz"))) <= 4


COUNT, SEEDS = 40_000, 60


def errors_of(n: int, p: float, seed: int = 0) -> np.ndarray:
    """Signed errors, with more rotations than n reaches so that none is folded."""
    orientations = np.random.default_rng(1).integers(0, 101, COUNT)
    perturbed = perturb(orientations, Perturbation(n=n, p=p), 101, np.random.default_rng(seed))
    return (perturbed - orientations + 50) % 101 - 50


@pytest.mark.parametrize(("n", "p"), [(1, 0.1), (2, 0.4), (4, 0.1), (4, 0.4), (30, 0.5)])
def test_the_size_of_an_error_is_binomial_and_its_sign_fair(n: int, p: float) -> None:
    expected = COUNT * scipy.stats.binom.pmf(np.arange(n + 1), n, p)
    # The chi-square approximation needs some images in every bin: rare sizes are put together.
    rare = expected < 20
    usual = np.append(expected[~rare], expected[rare].sum())
    kept = usual > 0
    p_values = []
    for seed in range(SEEDS):
        sizes = np.abs(errors_of(n, p, seed))
        assert sizes.max() <= n
        counts = np.bincount(sizes, minlength=n + 1)
        observed = np.append(counts[~rare], counts[rare].sum())
        p_values.append(scipy.stats.chisquare(observed[kept], usual[kept]).pvalue)
    # One seed may be unlucky; over many, p-values are uniform.
    assert scipy.stats.kstest(p_values, "uniform").pvalue > 0.01
    errors = errors_of(n, p)
    for size in range(1, min(n, 4) + 1):
        plus, minus = np.count_nonzero(errors == size), np.count_nonzero(errors == -size)
        assert plus + minus == 0 or scipy.stats.binomtest(plus, plus + minus).pvalue > 0.01


@given(
    n=st.integers(1, 30), p=st.floats(0.001, 0.999), rotations=st.integers(1, 12), seed=st.integers(0, 1000),
    count=st.integers(1, 50), overflow=st.sampled_from(["modulo", "clip"]),
)  # fmt: skip
def test_a_perturbed_index_is_an_orientation_no_further_than_n(
    n: int, p: float, rotations: int, seed: int, count: int, overflow: Any
) -> None:
    orientations = np.arange(count) % rotations
    before, perturbation = orientations.copy(), Perturbation(n=n, p=p, overflow=overflow)
    perturbed = perturb(orientations, perturbation, rotations, np.random.default_rng(seed))
    np.testing.assert_array_equal(orientations, before)
    assert perturbed.dtype == np.int64
    moved = orientations[:, None] + np.arange(-n, n + 1)
    ways = moved % rotations if overflow == "modulo" else np.clip(moved, 0, rotations - 1)
    assert (perturbed[:, None] == ways).any(axis=1).all()


def test_perturbed_training_sees_perturbed_orientations_and_each_role_errs_on_its_own(
    small_data: Path, tmp_path: Path
) -> None:
    spec, store = tiny("theta", perturbation__n=4, perturbation__p=0.4), store_of(small_data, tmp_path)
    images = parts_of(small_data)["train"][0]
    model = build("theta", spec.parameters, seed=0, backend="auto")
    kinds = [(0, "train"), (0, "svm"), (0, "test"), (1, "train")]
    draws = [
        pipeline.perturbed_orientations(store, model, images, spec.perturbation, seed, role) for seed, role in kinds
    ]
    assert len({draw.tobytes() for draw in draws if draw is not None}) == 4
    steps = np.abs((draws[0] - model.orientation_estimator()(images) + 4) % 9 - 4)  # type: ignore[attr-defined]
    # ε = 0 with probability .6⁴ = .13, so most orientations are off.
    assert np.mean(steps > 0) == pytest.approx(1 - 0.6**4, abs=0.06)
    expected = model.fit(images, orientations=draws[0]).to_arrays()["weights"]
    record = train(small_data, tmp_path, spec)
    np.testing.assert_allclose(load_weights(tmp_path, record.run)["weights"], expected, rtol=1e-4, atol=1e-6)
