"""Train one run, start to finish: find, resume or make it, and record it.

Runs that differ only in what is measured train once: the later ones take the weights of the first. A training has a key
of its own, made of the settings that learning depends on. A file for each key in ``<results>/trainings`` names a run
that has its weights; what it says is checked, and without it a run is trained as any other.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from thetarbm_cli import documents, storage
from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.data.recipes import PARTS
from thetarbm_cli.errors import InputError, StorageError, format_error
from thetarbm_cli.experiments.runs.checkpoints import Checkpointer
from thetarbm_cli.experiments.runs.environment import describe_environment, peak_memory_megabytes, refuse_too_large
from thetarbm_cli.experiments.runs.images import RunData, load_data
from thetarbm_cli.experiments.runs.orientations import OrientationCache, perturbed_orientations
from thetarbm_cli.experiments.runs.record import DataPart, EnvironmentPart, RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM, RunSettings, run_id
from thetarbm_cli.experiments.runs.store import RunContext, RunStore
from thetarbm_cli.models import build
from thetarbm_cli.models.contrastive_divergence import EpochRecord, TrainingState
from thetarbm_cli.models.seeds import AXES

logger = logging.getLogger("thetarbm")

SHARED = "trainings"
# Of a record, those that are none of its measures.
TRAINING_TIMES = ("train_seconds", "checkpoint_seconds")
# Settings of a run that learning does not see; all others are taken for such that it does.
MEASURED_ONLY = ("svm", "features")

EpochObserver = Callable[[EpochRecord, int], None]


@dataclass(frozen=True)
class TrainedRun:
    """A finished training run and whether it was there already."""

    record: RunRecord
    cached: bool


def train_run(
    context: RunContext,
    settings: RunSettings,
    seed: int,
    *,
    force: bool = False,
    exact: Iterable[str] = (),
    on_epoch: EpochObserver | None = None,
    on_data: Callable[[int, int], None] | None = None,
) -> TrainedRun:
    """Give the trained run of these settings: the stored one, or one made or resumed now.

    Parameters
    ----------
    exact : names of settings of the data; a count of images among them is refused if there are fewer. Others take as
        many as there are

    Raises
    ------
    ThetaRBMError
        If training diverges; the run is then recorded as failed and keeps its last checkpoint. So it is after any
        other error, such as a lack of memory. A disk that is full is told and not recorded: the same call goes on.
        A record of a newer version of the program is left alone.

    Notes
    -----
    Weights are a cache, records are the result: where the weights of a measured run are missing, they are made again
    and its record stays as it is. Weights that are not the recorded ones (another processor or library) get a note
    of their own.
    """
    store = context.store
    data = load_data(context.data_dir, settings.data, on_data)
    backend = select_backend(context.backend_name)
    run = run_id(settings, data.checksums, seed, backend.name)
    wanted = settings.data.model_dump(include=set(exact).intersection(PARTS), exclude_none=True)
    if wanted and store.load(run) is None:
        _refuse_missing_images(data, wanted)
    with store.locked(run):
        stored = store.load(run, refuse_newer=True)
        if stored is not None and not force and is_usable(store, stored):
            store.remove_checkpoint(run)  # of a process that was killed once the record was there
            return TrainedRun(stored, cached=True)
        if force:
            store.remove_checkpoint(run)
        kept = stored if stored is not None and stored.is_measured and not force else None
        training = Training(context, backend, settings, seed, run, data, stored)
        # Another process that wants the same training waits and finds it done.
        with storage.locked(training.path.with_suffix("")):
            made = None if force else training.adopt()
            made = made or training.train(on_epoch, record_failure=kept is None)
            # Before the record: with it a run is done, and what is not written by then never will be.
            documents.write(training.path, {"run": run})
            if kept is None:
                store.save(made)
        if store.note_weights(kept or made, made.weights):
            logger.info(
                "the weights of %s that were made here differ from the recorded ones, as on another processor: "
                "%s says where they were made; the numbers shown are the record's",
                run,
                store.weights_note_path(run),
            )
        store.remove_checkpoint(run)
        return TrainedRun(kept or made, cached=False)


def _refuse_missing_images(data: RunData, wanted: dict[str, int]) -> None:
    """Refuse a part that has fewer images than it was wanted to have."""
    for name, part in PARTS.items():
        images = data.tested if name == "test" else data.learned
        count, available = wanted.get(name, 0), np.count_nonzero(images.split == part)
        if count > available:
            raise InputError(
                f"data.{name}={count} is more than there are: {images.dataset} has {available} {name} images"
            )


def describe_run(run: str, settings: RunSettings, seed: int, data: DataPart) -> dict[str, Any]:
    """Give the fields of a record that say what a run is."""
    return {
        "run": run,
        "settings": settings,
        "parameters": settings.complete_parameters,
        "seed": seed,
        "seeds": {"data": settings.data.seed, **{axis: [seed, i] for i, axis in enumerate(AXES) if i}},
        "data": data,
    }


def is_usable(store: RunStore, record: RunRecord) -> bool:
    """Whether a run is done and its weights are whole."""
    if record.state != "done":
        return False
    if store.load_weights(record) is None:
        stays = "; its record stays as it is" if record.is_measured else ""
        logger.info("the weights of %s are missing here: training it again%s", record.run, stays)
        return False
    return True


def training_part(settings: RunSettings) -> dict[str, Any]:
    """Give the settings that learning depends on, as they are hashed."""
    part = {name: value for name, value in settings.canonical().items() if name not in MEASURED_ONLY}
    # Only one protocol learns from validation images; the others differ in what is tested.
    final = part["data"].get("protocol") == "final"
    ignored = {"data": ("test", "gamma", *(() if final else ("protocol", "valid"))), "perturbation": ("scope", "draws")}
    for section, names in ignored.items():
        part[section] = {name: value for name, value in (part[section] or {}).items() if name not in names}
    return part


@dataclass(frozen=True)
class Training:
    """The training of a run: taken over from another that differs only in what is measured, or done, or resumed.

    Attributes
    ----------
    earlier : the record that the run had before: one that is made again is still the one that the cells asked for
    """

    context: RunContext
    backend: Backend
    settings: RunSettings
    seed: int
    run: str
    data: RunData
    earlier: RunRecord | None

    @cached_property
    def key(self) -> str:
        """Name what is learned, whatever is measured of it."""
        return _key(self.settings, self.seed, self.data.checksums["train"], self.backend.name)

    @property
    def path(self) -> Path:
        """The file that names a run with these weights."""
        return self.context.store.folder.parent / SHARED / f"{self.key}.json"

    def find(self) -> RunRecord | None:
        """Find a run that has these weights, made by the same libraries on the same kind of machine."""
        try:
            record = self.context.store.load(str(documents.read(self.path).get("run")))
        except (FileNotFoundError, ValueError):
            return None
        if record is None or record.state != "done" or record.algorithm != ALGORITHM:
            return None
        try:
            key = _key(record.settings, record.seed, record.checksums["train"], record.backend)
        except InputError:
            # A model that there is no longer.
            return None
        is_same = key == self.key and _machine(record.environment) == _machine(describe_environment(self.backend))
        return record if is_same else None

    def adopt(self) -> RunRecord | None:
        """Take over the weights of another run, and give the record of this one; None if there is no other."""
        store, found = self.context.store, self.find()
        if found is None or found.run == self.run:
            return None
        try:
            weights = store.weights_path(found.run).read_bytes()
        except OSError:
            return None
        if hashlib.sha256(weights).hexdigest() != found.weights_sha256:
            return None
        storage.write_bytes(store.weights_path(self.run), weights)
        logger.info("%s has the training of %s, which differs only in what is measured", self.run, found.run)
        # Times and memory are those of the training, wherever it was done.
        timings = {name: found.timings[name] for name in TRAINING_TIMES if name in found.timings}
        return found.model_copy(
            update={
                **self._described,
                "timings": timings,
                "error": None,
                "metrics": None,
                "measured_with": None,
                "trained_as": found.trained_as or found.run,
            }
        )

    @property
    def _described(self) -> dict[str, Any]:
        """Give what its record says, however the training ends."""
        return {
            **describe_run(self.run, self.settings, self.seed, self.data.describe()),
            "cells": self.earlier.cells if self.earlier else [],
            "suite": self.earlier.suite if self.earlier else None,
        }

    def train(self, on_epoch: EpochObserver | None, *, record_failure: bool) -> RunRecord:
        """Train and store the weights; the record is stored only if training fails."""
        store, settings = self.context.store, self.settings
        storage.remove_leftovers(store.path(self.run))
        images, _ = self.data.train()
        parameters = settings.complete_parameters
        model = build(settings.model, parameters, seed=self.seed, backend=self.backend.name)
        units = f" with {parameters['hidden']} hidden units" if "hidden" in parameters else ""
        refuse_too_large(
            model.training_bytes(*images.shape),
            f"training {settings.model}{units}",
            "fewer hidden units or rotations, or a smaller batch_size, need less",
        )
        checkpointer = Checkpointer(store, self.run, self.backend)
        resumed = checkpointer.resume()
        if resumed is not None:
            logger.info("resuming %s after epoch %d", self.run, resumed.epoch)
        history: list[EpochRecord] = [] if resumed is None else list(resumed.history)

        def monitor(state: TrainingState) -> None:
            checkpointer(state)
            history[:] = state.history
            if on_epoch is not None:
                on_epoch(state.history[-1], parameters.get("epochs", state.epoch))

        def record(state: Literal["done", "failed"], **more: Any) -> RunRecord:
            times = (checkpointer.training_seconds, checkpointer.seconds)
            return RunRecord(
                algorithm=ALGORITHM,
                state=state,
                **self._described,
                environment=describe_environment(self.backend),
                history=[asdict(epoch) for epoch in history],
                timings={name: round(time, 3) for name, time in zip(TRAINING_TIMES, times, strict=True)},
                peak_memory_megabytes=peak_memory_megabytes(),
                training_products=model.training_products(*images.shape),
                **more,
            )

        checkpointer.begun = record("failed", error="cut off")
        try:
            cache = OrientationCache(self.context.data_dir)
            orientations = perturbed_orientations(model, images, settings, self.seed, "train", cache)
            model.fit(images, orientations=orientations, monitor=monitor, resume=resumed)
        except (InputError, StorageError):
            # What the user gave is wrong, or the disk is full: there is no run that could have failed.
            raise
        except Exception as error:
            if record_failure:
                store.save(record("failed", error=format_error(error)))
            raise
        history[:] = model.history_
        return record("done", weights_sha256=store.save_weights(self.run, model.to_arrays()))


def _key(settings: RunSettings, seed: int, images: str, backend: str) -> str:
    content = [training_part(settings), seed, images, backend, ALGORITHM]
    return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()[:24]


def _machine(environment: EnvironmentPart) -> dict[str, Any]:
    """Give what the bits of weights may depend on besides the settings: all but the revision of the code."""
    return {name: value for name, value in environment.model_dump().items() if name != "git"}
