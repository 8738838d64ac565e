"""Runs at the tiny profile: the command line in this process or another, on data that loads at once."""

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from thetarbm_cli import documents, storage
from thetarbm_cli.arrays import write_arrays
from thetarbm_cli.cli import main
from thetarbm_cli.data.prepare import Prepared, prepare, read_sidecar, write_sidecar
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.settings import RunSettings, resolve
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.experiments.runs.training import train_run

# For a process of its own: more than any needs on a machine that has much else to do, and less than a test may take.
PATIENCE_SECONDS = 240

MODELS = ("rbm", "orbm", "tirbm", "theta", "pixels", "aligned-pixels")


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
    """The command line in this process."""
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
    """The command line in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("THETARBM_")}
    return subprocess.Popen(
        [sys.executable, "-m", "thetarbm_cli", "--data-dir", str(data_dir), "--results", str(results), *arguments],
        env={**clean, "PYTHONIOENCODING": "utf-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )


def finish(process: subprocess.Popen[str]) -> Outcome:
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
    arrays = {"images": data.images, "labels": data.labels, "split": data.split, "angles": data.angles}
    write_arrays(target, {name: array for name, array in arrays.items() if array is not None})
    write_sidecar(target, {**sidecar, "sha256": storage.sha256_of_file(target)})


@pytest.fixture
def thetarbm(small_data: Path, tmp_path: Path) -> Command:
    """The command line with the small data and a results folder of the test's own."""

    def command(*arguments: str, results: Path = tmp_path / "results", data_dir: Path = small_data) -> Outcome:
        return call(data_dir, results, *arguments)

    return command


# Two folders of tests use these fixtures, which are made once for both.
@cache
def _trained(small_data: Path, base: Path) -> Path:
    results = base / "trained"
    for model in MODELS:
        assert call(small_data, results, "train", "--model", model, "--profile", "tiny").code == 0
    return results


@cache
def _evaluated(small_data: Path, base: Path) -> Path:
    results = base / "evaluated"
    shutil.copytree(_trained(small_data, base), results)
    assert call(small_data, results, "evaluate", "--all").code == 0
    return results


@pytest.fixture(scope="session")
def trained(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with all models trained; tests that change it take a copy."""
    return _trained(small_data, tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def evaluated(small_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained runs, measured."""
    return _evaluated(small_data, tmp_path_factory.getbasetemp())


def context_of(data_dir: Path, results: Path) -> RunContext:
    """The folders as the command line has them: on a GPU where there is one."""
    return RunContext(data_dir, RunStore(results), "auto")


def train(data_dir: Path, results: Path, settings: RunSettings | str, seed: int = 0) -> RunRecord:
    if isinstance(settings, str):
        settings = resolve(settings, profile="tiny")
    return train_run(context_of(data_dir, results), settings, seed).record


def run_of(results: Path, model: str) -> str:
    """Id of the one run of a model."""
    runs = [run for run in RunStore(results).identifiers() if run.rsplit("-", 1)[0] == model]
    assert len(runs) == 1
    return runs[0]


def record_of(results: Path, run: str) -> dict[str, Any]:
    """What a record says, without its checksum."""
    content: dict[str, Any] = json.loads((results / "runs" / run / "run.json").read_text())
    content.pop("checksum", None)
    return content


def rewrite(results: Path, run: str, changes: dict[str, Any]) -> None:
    """Change fields of a record, as a program that writes it so would."""
    documents.write(results / "runs" / run / "run.json", {**record_of(results, run), **changes})


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def parts_of(data_dir: Path, dataset: str = "mnist-rot") -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Images in [0, 1] and labels of the tiny profile's parts, read with NumPy alone."""
    with np.load(next(data_dir.glob(f"{dataset}-[gs]*.npz"))) as archive:
        images = archive["images"].reshape(len(archive["labels"]), -1).astype(np.float32) / np.float32(255)
        labels, split = archive["labels"], archive["split"]
    return {name: (images[split == n], labels[split == n]) for n, name in enumerate(("train", "valid", "test"))}
