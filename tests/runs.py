"""Runs at the tiny profile: through Python or the command line, on data that loads at once."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thetarbm_cli import documents, evaluation, pipeline, storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.data.prepare import prepare
from thetarbm_cli.data.prepared import Prepared, read_sidecar, write_sidecar
from thetarbm_cli.parameters import declared
from thetarbm_cli.specs import MeasureSpec, TrainSpec, measure_specs, measuring, train_spec
from thetarbm_cli.store import MadeFor, Store, Training

# For a process of its own: more than any needs on a machine that has much else to do, and less than a test may take.
PATIENCE_SECONDS = 240

MODELS = ("rbm", "orbm", "tirbm", "theta", "pixels", "aligned-pixels")
# The settings of the profile tiny.
TINY: dict[str, Any] = {"data.train": 300, "data.valid": 100, "hidden": 40, "epochs": 3}
# What it measures with.
TINY_MEASURING: dict[str, Any] = {"data.test": 300}


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """What it printed: exactly one JSON object."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    def assert_refused(self, *words: str, code: int = 2) -> None:
        """One sentence on stderr after whatever was said before it, and nothing on stdout."""
        assert (self.code, self.out) == (code, "")
        assert "Traceback" not in self.err
        sentence = self.err.splitlines()[-1]
        assert sentence.startswith("error: ")
        assert "unexpected" not in sentence
        for word in words:
            assert word in sentence


Command = Callable[..., Outcome]


@contextlib.contextmanager
def process_as_before() -> Iterator[None]:
    """Undo what the command line does to its process."""
    logger = logging.getLogger("thetarbm")
    before = logger.handlers[:], logger.level, logger.propagate
    on_terminate, variables = signal.getsignal(signal.SIGTERM), dict(os.environ)
    try:
        yield
    finally:
        logger.handlers[:], logger.level, logger.propagate = before
        signal.signal(signal.SIGTERM, on_terminate)
        os.environ.clear()
        os.environ.update(variables)


def call(data_dir: Path, results: Path, *arguments: str) -> Outcome:
    """Call the command line in this process."""
    from thetarbm_cli.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        process_as_before(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.raises(SystemExit) as left,
    ):
        main(["--data-dir", str(data_dir), "--results", str(results), *arguments])
    return Outcome(int(left.value.code or 0), out.getvalue(), err.getvalue())


def spawn(data_dir: Path, results: Path, *arguments: str) -> subprocess.Popen[str]:
    """Call the command line in a process of its own."""
    return python("-m", "thetarbm_cli", "--data-dir", str(data_dir), "--results", str(results), *arguments)


def python(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Start a Python with these arguments."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    return subprocess.Popen(
        [sys.executable, *arguments],
        env={**clean, "PYTHONIOENCODING": "utf-8", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait for the end of a process."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return Outcome(process.returncode, out, err)


@cache
def make_small_data(data_dir: Path, base: Path) -> Path:
    """The folder of `small_data`."""
    folder = base / "small"
    for dataset in ("mnist-rot", "mnist"):
        whole = prepare(data_dir, dataset)
        write_prepared(whole.subset(300, 100, 300), folder / whole.path.name, read_sidecar(whole.path))
    return folder


@pytest.fixture(scope="session")
def small_data(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder whose mnist-rot and mnist have no more than the images that the tiny profile takes of them."""
    return make_small_data(data_dir, tmp_path_factory.getbasetemp())


def write_prepared(data: Prepared, target: Path, sidecar: dict[str, Any]) -> None:
    """Write a prepared data set."""
    arrays = {"images": data.images, "labels": data.labels, "split": data.split, "angles": data.angles}
    write_arrays(target, {name: array for name, array in arrays.items() if array is not None})
    write_sidecar(target, {**sidecar, "sha256": storage.sha256_of_file(target)})


@pytest.fixture
def thetarbm(small_data: Path, tmp_path: Path) -> Command:
    """The command line with the small data and a results folder of the test's own."""

    def command(*arguments: str, results: Path = tmp_path / "results", data_dir: Path = small_data) -> Outcome:
        return call(data_dir, results, *arguments)

    return command


def tiny(model: str, seed: int = 0, **settings: Any) -> TrainSpec:
    """Describe a training of the tiny profile; of a setting's name a dot is written as two underscores."""
    usual = {name: value for name, value in TINY.items() if "." in name or name in declared(model)}
    return train_spec(model, {**usual, **_dotted(settings)}, seed=seed)


def wanted(train: TrainSpec, measures: Iterable[str] = ("error", "gamma"), **settings: Any) -> list[MeasureSpec]:
    """Describe measurements of the tiny profile."""
    return measure_specs(train, measures, measuring({**TINY_MEASURING, **_dotted(settings)}))


def _dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("__", "."): value for name, value in settings.items()}


def store_of(data_dir: Path, results: Path) -> Store:
    """The folders as a store, without packs inside the package."""
    return Store(results, data_dir, shipped=False)


def train(data_dir: Path, results: Path, spec: TrainSpec | str, **options: Any) -> Training:
    """Train, or find, a training; of a model's name at the tiny profile."""
    spec = tiny(spec) if isinstance(spec, str) else spec
    return pipeline.train(store_of(data_dir, results), spec, **options)[0]


def measured(
    data_dir: Path, results: Path, spec: TrainSpec | str, measures: Iterable[str] = ("error", "gamma"), **settings: Any
) -> Training:
    """Train and measure what is lacking."""
    training = train(data_dir, results, spec)
    return evaluation.measure(store_of(data_dir, results), training, wanted(training.spec, measures, **settings))[0]


# Fixtures of several folders of tests, made once for all.
@cache
def _trained(small_data: Path, base: Path) -> Path:
    results = base / "trained"
    for model in MODELS:
        train(small_data, results, model, made_for=MadeFor(profile="tiny"))
    return results


@cache
def _evaluated(small_data: Path, base: Path) -> Path:
    results = base / "evaluated"
    shutil.copytree(_trained(small_data, base), results)
    for model in MODELS:
        measured(small_data, results, model)
    return results


@pytest.fixture(scope="session")
def trained(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with all models trained; tests that change it take a copy."""
    return _trained(small_data, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def evaluated(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained runs, measured."""
    return _evaluated(small_data, tmp_path_factory.getbasetemp())


def run_of(results: Path, model: str) -> str:
    """Id of the one run of a model."""
    runs = [run for run in Store(results, shipped=False).identifiers() if run.rsplit("-", 1)[0] == model]
    assert len(runs) == 1
    return runs[0]


def record_of(results: Path, run: str) -> dict[str, Any]:
    """What a record says, without its checksum."""
    return documents.read(results / "runs" / run / "run.json")


def rewrite(results: Path, run: str, changes: Mapping[str, Any]) -> None:
    """Change fields of a record, as a program that writes it so would."""
    documents.write(results / "runs" / run / "run.json", {**record_of(results, run), **changes})


def lasting(training: Training) -> dict[str, Any]:
    """What equal trainings have in common with their measurements: no times, no memory, no place."""
    own = {"seconds", "cpu_seconds", "checkpoint_seconds", "peak_memory_megabytes", "environment"}
    measurements = [each.model_dump(mode="json", exclude=own) for each in training.measurements]
    return {**training.model_dump(mode="json", exclude=own), "measurements": measurements}


def files_in(folder: Path) -> dict[str, bytes]:
    """Content of all files by name."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def parts_of(data_dir: Path, dataset: str = "mnist-rot") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Images in [0, 1] and labels of the tiny profile's parts, read with NumPy alone."""
    with np.load(next(data_dir.glob(f"{dataset}-[gs]*.npz"))) as archive:
        images = archive["images"].reshape(len(archive["labels"]), -1).astype(np.float32) / np.float32(255)
        labels, split = archive["labels"], archive["split"]
    return {name: (images[split == n], labels[split == n]) for n, name in enumerate(("train", "valid", "test"))}
