"""Prepare images, train a model, measure it: each is found in the store, or made now and kept there.

`train` gives the training of a description, and `measure` what a training lacks. Both may be called by several
processes at once, be killed at any moment, and be called again: a training goes on from its checkpoint bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli import documents, storage
from thetarbm_cli.arrays import read_arrays, write_arrays
from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.data.prepare import prepare, prepared_checksum
from thetarbm_cli.data.prepared import Prepared, PreparedFile, list_prepared, load_prepared
from thetarbm_cli.data.recipes import PARTS
from thetarbm_cli.environment import Costs, describe_environment
from thetarbm_cli.errors import InputError, StorageError, ThetaRBMError
from thetarbm_cli.followup import command_line
from thetarbm_cli.registry import source_names
from thetarbm_cli.specs import Perturbation, TrainData, TrainSpec
from thetarbm_cli.store import CHECKPOINT, WEIGHTS, MadeFor, Store, Training

if TYPE_CHECKING:
    from thetarbm_cli.models import Model
    from thetarbm_cli.models.contrastive_divergence import TrainingState

# Checkpoints may take this share of the training time.
CHECKPOINT_SHARE = 0.02
# Raise when the arrays or the progress of a checkpoint change their form: older ones are then not used.
CHECKPOINT_FORMAT = 2
# Steps of a job, as its progress names them.
PREPARING, TRAINING = "preparing the data", "epoch"
# The position of a role is part of every stored result: append, never reorder.
PERTURBED_ROLES = ("train", "test", "svm")

logger = logging.getLogger("thetarbm")

# Told how far something is: the step, and how much of it is done of how much.
Report = Callable[[str, int, int], None]


def no_progress(step: str, done: int, total: int) -> None:
    """Report nothing."""


# Images


def load_data(
    store: Store, dataset: str, source: str, seed: int, *, sha256: str | None = None, report: Report = no_progress
) -> Prepared:
    """Load a data set, preparing it first if it is not there; of a user's file its prepared copy serves.

    Parameters
    ----------
    source : a source of the data set, or the name or path of a user's file
    sha256 : checksum that the prepared images must have, where it is known
    """
    if source in source_names():
        found = prepare(
            store.data_dir, dataset, source, seed=seed, progress=lambda done, total: report(PREPARING, done, total)
        )
    elif (copy := _prepared_copy(store.data_dir, source, seed, sha256)) is not None:
        found = load_prepared(Path(copy.path))
    else:
        found = prepare(store.data_dir, source=source, seed=seed)
    if sha256 not in (None, found.sha256):
        raise ThetaRBMError(
            f"this needs a {dataset} with the checksum {str(sha256)[:12]}…, the prepared one here has "
            f"{found.sha256[:12]}…; prepare the same data or train again"
        )
    return found


def data_checksum(store: Store, dataset: str, source: str, seed: int) -> str | None:
    """Give the checksum of images that are prepared here, from what lies beside them alone; None if they are not."""
    try:
        if source in source_names():
            return prepared_checksum(store.data_dir, dataset, source, seed=seed)
        copy = _prepared_copy(store.data_dir, source, seed)
        return copy.sha256 if copy else prepared_checksum(store.data_dir, dataset, source, seed=seed)
    except ThetaRBMError:
        return None


def _prepared_copy(data_dir: Path, source: str, seed: int, sha256: str | None = None) -> PreparedFile | None:
    """Find the prepared copy of a user's file by its checksum or, if the file is no longer there, by its name."""
    if sha256 is None and Path(source).is_file():
        return None
    copies = [
        entry
        for entry in list_prepared(data_dir)
        if entry.source not in source_names()
        and (entry.sha256 == sha256 if sha256 else (Path(entry.source).name, entry.seed) == (Path(source).name, seed))
    ]
    if len({entry.sha256 for entry in copies}) > 1:
        found = ", ".join(entry.path for entry in copies)
        raise InputError(f"there is no file {source}, and several of this name were prepared ({found}): give its path")
    return copies[0] if copies else None


def learned_images(prepared: Prepared, data: TrainData) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Give the images and labels that a training learns from."""
    subset = prepared.subset(data.train, data.valid, 0)
    images, labels = _part(subset, "train")
    if data.learn_from == "train":
        return images, labels
    more, their_labels = _part(subset, "valid")
    return np.concatenate([images, more]), np.concatenate([labels, their_labels])


def _part(prepared: Prepared, name: Any) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    images, labels = prepared.part(name)
    if len(images) == 0:
        raise InputError(f"{prepared.path} has no {name} images; give it a split that has some")
    return images, labels


# Training


def train(
    store: Store,
    spec: TrainSpec,
    *,
    source: str | None = None,
    backend: str = "auto",
    force: bool = False,
    exact: bool = False,
    made_for: MadeFor | None = None,
    report: Report = no_progress,
    on_epoch: Callable[[Any, int], None] | None = None,
) -> tuple[Training, bool]:
    """Give the training of a description, and whether it was there with its weights.

    Weights are a cache: where those of a recorded training are missing they are made again, and its record stays.

    Parameters
    ----------
    source : path of the user's file that the description's source is the name of, where it may have to be prepared
    force : make a further training beside those that are there
    exact : refuse counts of images that are more than there are; otherwise as many as there are will do
    made_for : noted in the record
    report : told how far it is

    Raises
    ------
    ThetaRBMError
        If training diverges, which is recorded, or did so before.
    """
    data = spec.data
    prepared = load_data(store, data.dataset, source or data.source, data.seed, report=report)
    found = store.find(spec, prepared.sha256)
    if exact and found is None:
        _refuse_missing_images(prepared, data)
    run = store.new_id(spec, prepared.sha256) if force or found is None else found.run
    if not force and found is not None and found.state == "diverged":
        raise DivergedError(f"{found.error}; --force trains it once more", found)
    if not force and found is not None and _has_weights(store, found):
        return found, True
    with store.locked(run) as held:
        found = store.load(run)
        if found is not None and found.state == "done" and _has_weights(store, found):
            # Another process made it meanwhile; one that was killed then may have left its checkpoint.
            store.path(run, CHECKPOINT).unlink(missing_ok=True)
            return found, True
        if found is not None and found.state == "diverged":
            raise DivergedError(f"{found.error}; --force trains it once more", found)
        if found is not None:
            logger.info("the weights of %s are missing: training it again; its record stays as it is", run)

        def tell(step: str, done: int, total: int) -> None:
            held.report(step, done, total)
            report(step, done, total)

        made = _fit(store, spec, run, prepared, select_backend(backend), tell, on_epoch, made_for or MadeFor())
        if found is None:
            store.save(made)
        elif made.weights_sha256 != found.weights_sha256:
            logger.info(
                "the weights of %s differ from the recorded ones, as on another processor; the numbers shown are the "
                "record's, and what is measured from now on names these weights",
                run,
            )
        store.path(run, CHECKPOINT).unlink(missing_ok=True)
    if made.state == "diverged":
        raise DivergedError(str(made.error), made)
    return found or made, False


class DivergedError(ThetaRBMError):
    """A training diverged; its record says so."""

    def __init__(self, message: str, training: Training) -> None:
        super().__init__(message)
        self.training = training


class LoadedRun(NamedTuple):
    """A run: its fitted model, and its record with all its measurements."""

    model: Model
    record: Training


def load_run(run: str, results: str | Path = "results", *, backend: str = "auto") -> LoadedRun:
    """Load a recorded run as a fitted estimator.

    Parameters
    ----------
    run : its id, the beginning of one, or its path
    results : the folder of results, as ``--results`` names it
    backend : auto, numpy or cupy

    Returns
    -------
    model : a fitted scikit-learn transformer of images
    record : settings, history, and numbers: ``record.values["test_error_percent"]``

    Raises
    ------
    InputError
        If there is no such run, or its weights are missing here; the message says how to make them.
    """
    store = Store(Path(results))
    training = store.require(store.find_run(run))
    return LoadedRun(fitted(store, training, backend)[0], training)


def fitted(store: Store, training: Training, backend: str = "auto") -> tuple[Model, str]:
    """Give the fitted model of a training, and the checksum of its weights."""
    from thetarbm_cli.models import build

    found = store.load_weights(training.run)
    if found is None:
        again = command_line("train", *training.spec.words())
        advice = f"train it again: {again}"
        if training.spec.random != "philox":
            advice = f"its random numbers are no longer drawn, so train another one like it: {again}"
        raise InputError(f"the weights of {training.run} are not in {store.path(training.run)}; {advice}")
    arrays, sha256 = found
    spec = training.spec
    model = build(spec.model, spec.parameters, seed=spec.seed, backend=backend)
    try:
        return model.load_arrays(arrays), sha256
    except (LookupError, ValueError, TypeError) as error:
        path = store.path(training.run, WEIGHTS)
        raise InputError(f"{path} has no weights of such a model; remove it, and train again") from error


def _has_weights(store: Store, training: Training) -> bool:
    return store.load_weights(training.run) is not None


def _refuse_missing_images(prepared: Prepared, data: TrainData) -> None:
    """Refuse a part that has fewer images than it was wanted to have."""
    for name, wanted in (("train", data.train), ("valid", data.valid)):
        available = int(np.count_nonzero(prepared.split == PARTS[name]))  # type: ignore[index]
        if wanted is not None and wanted > available:
            raise InputError(
                f"data.{name}={wanted} is more than there are: {prepared.dataset} has {available} {name} images"
            )


def _fit(
    store: Store,
    spec: TrainSpec,
    run: str,
    prepared: Prepared,
    backend: Backend,
    report: Report,
    on_epoch: Callable[[Any, int], None] | None,
    made_for: MadeFor,
) -> Training:
    """Fit the model, from its checkpoint if there is one, and store its weights."""
    from thetarbm_cli.models import build
    from thetarbm_cli.models.contrastive_divergence import DivergenceError

    storage.remove_leftovers(store.path(run))
    images, _ = learned_images(prepared, spec.data)
    costs = Costs()
    model = build(spec.model, spec.parameters, seed=spec.seed, backend=backend.name)
    checkpoints = Checkpoints(store, run, spec, backend, costs)
    resumed = checkpoints.resume()
    if resumed is not None:
        logger.info("resuming %s after epoch %d", run, resumed.epoch)
    history: list[Any] = [] if resumed is None else list(resumed.history)
    epochs = int(spec.parameters.get("epochs", 0))
    report(TRAINING, len(history), epochs)

    def monitor(state: TrainingState) -> None:
        checkpoints.save(state)
        history[:] = state.history
        report(TRAINING, state.epoch, epochs)
        if on_epoch is not None:
            on_epoch(state.history[-1], epochs)

    facts: dict[str, Any] = {"state": "done"}
    try:
        given = orientations_to_learn(store, model, images, spec.perturbation, spec.seed)
        model.fit(images, **given, monitor=monitor, resume=resumed)
        history[:] = model.history_
        facts["weights_sha256"] = store.save_weights(run, model.to_arrays())
    except DivergenceError as error:
        facts = {"state": "diverged", "error": str(error)}
    return Training(
        run=run,
        spec=spec,
        images_sha256=prepared.sha256,
        history=[asdict(epoch) for epoch in history],
        seconds=round(costs.seconds + checkpoints.earlier["seconds"], 3),
        cpu_seconds=round(costs.cpu_seconds + checkpoints.earlier["cpu_seconds"], 3),
        checkpoint_seconds=round(checkpoints.seconds, 3),
        peak_memory_megabytes=costs.peak_megabytes,
        products=model.training_products(*images.shape),
        environment=describe_environment(backend),
        made_for=made_for,
        **facts,
    )


class Checkpoints:
    """Saves what the next epoch needs, spending at most `CHECKPOINT_SHARE` of the time on it."""

    def __init__(self, store: Store, run: str, spec: TrainSpec, backend: Backend, costs: Costs) -> None:
        self._store, self._run, self._spec, self._backend, self._costs = store, run, spec, backend, costs
        self.seconds = 0.0
        # Of the sessions that were cut off.
        self.earlier = {"seconds": 0.0, "cpu_seconds": 0.0}
        self._last_cost, self._last_time = 0.0, time.perf_counter()

    def save(self, state: TrainingState) -> None:
        """Save the state if enough time has passed since the last one to afford it."""
        started = time.perf_counter()
        if self._last_cost > CHECKPOINT_SHARE * (started - self._last_time):
            return
        progress = {
            "format": CHECKPOINT_FORMAT,
            "run": self._run,
            "spec": self._spec.model_dump(mode="json"),
            "seconds": self.earlier["seconds"] + self._costs.seconds,
            "cpu_seconds": self.earlier["cpu_seconds"] + self._costs.cpu_seconds,
            "checkpoint_seconds": self.seconds,
            "epoch": state.epoch,
            "history": [asdict(record) for record in state.history],
        }
        host = state.to_host(self._backend)
        arrays = {
            "progress": np.frombuffer(documents.line_text(progress).encode(), dtype=np.uint8),
            **{f"parameter.{name}": value for name, value in host.parameters.items()},
            **{f"increment.{name}": value for name, value in host.increments.items()},
        }
        write_arrays(self._store.path(self._run, CHECKPOINT), arrays)
        self._last_time = time.perf_counter()
        self._last_cost = self._last_time - started
        self.seconds += self._last_cost

    def resume(self) -> TrainingState | None:
        """Give the last saved state of this run, if there is a whole one."""
        from thetarbm_cli.models.contrastive_divergence import EpochRecord, TrainingState

        arrays = self._store.load_checkpoint(self._run)
        if arrays is None:
            return None
        try:
            progress = checkpoint_progress(arrays)
            if progress["run"] != self._run or TrainSpec.model_validate(progress["spec"]) != self._spec:
                raise ValueError(f"it is of {progress['run']}, or of other settings")
            state = TrainingState(
                parameters=_under(arrays, "parameter."),
                increments=_under(arrays, "increment."),
                epoch=int(progress["epoch"]),
                history=[EpochRecord(**record) for record in progress["history"]],
            )
            self.earlier = {name: float(progress[name]) for name in self.earlier}
            self.seconds = float(progress["checkpoint_seconds"])
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            logger.warning("the checkpoint of %s is not used, training starts anew: %s", self._run, error)
            return None
        return state


def checkpoint_progress(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Read how far a checkpoint is: its description, epochs and times; a `ValueError` if it is not whole."""
    lines, problems = documents.read_lines(arrays["progress"].tobytes())
    if problems or len(lines) != 1:
        raise ValueError("; ".join(problems) or "it does not say how far it is")
    progress = lines[0]
    if progress.get("format") != CHECKPOINT_FORMAT:
        raise ValueError(f"it is of format {progress.get('format')}")
    if len(progress["history"]) != progress["epoch"]:
        raise ValueError(f"it has {len(progress['history'])} epochs in its history, and says {progress['epoch']}")
    return progress


def _under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}


# Orientations

# Raise by hand whenever an estimator of the same settings would find others.
ORIENTATIONS_VERSION = 1
# What the folder of orientations may hold; beyond it, those that were made first go.
MOST_ORIENTATION_BYTES = 256 << 20


def find_orientations(
    store: Store,
    model: Model,
    images: NDArray[np.float32],
    *,
    chunk: int | None = None,
    copies: int = 0,
    offset: float = 0,
) -> NDArray[np.int64] | None:
    """Give a model's orientations of images, (1, N), and of rotated copies of them, (copies + 1, N).

    They depend on the images and the estimator alone, not on what a model has learned, and are kept for all models.
    None for a model that has no use for them, or an estimator of its own.

    Parameters
    ----------
    chunk : images that are looked at together, as the last bit of a sum may depend on it; all by default
    copies : number S of rotations by 360°·s/S + `offset`
    """
    from thetarbm_cli.imaging.orientation import OrientationEstimator

    if not model.uses_orientations or not getattr(model, "align", True):
        return None
    estimator = model.orientation_estimator()
    if type(estimator) is not OrientationEstimator:
        return None
    depends = {
        "version": ORIENTATIONS_VERSION,
        "images": hashlib.sha256(np.ascontiguousarray(images).data).hexdigest(),
        "shape": images.shape,
        "chunk": chunk,
        "estimator": asdict(estimator),
        "copies": [copies, offset],
        "machine": _arithmetic(),
    }
    name = hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()
    path = store.data_dir / "orientations" / f"{name}.npz"

    def read() -> NDArray[Any] | None:
        try:
            found = read_arrays(path).get("orientations")
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            logger.info("%s is not used, the orientations are found again: %s", path, error)
            return None
        return found if found is not None and found.shape == (copies + 1, len(images)) else None

    def make(held: Any = None) -> NDArray[Any]:
        return _estimate(estimator, images, chunk or len(images), copies, offset)

    def make_and_keep(held: Any) -> NDArray[Any]:
        found = make()
        write_arrays(path, {"orientations": found})
        _forget_oldest(path.parent)
        return found

    try:
        found, _ = storage.get_or_make(path, read, make_and_keep)
    except StorageError as error:
        logger.debug("orientations are not kept: %s", error)
        found = make()
    return found.astype(np.int64)


def _estimate(
    estimator: Any, images: NDArray[np.float32], chunk: int, copies: int, offset: float
) -> NDArray[np.unsignedinteger[Any]]:
    from thetarbm_cli.imaging.rotation import Rotations

    found = np.zeros((copies + 1, len(images)), dtype=np.min_scalar_type(estimator.rotations - 1))
    support = Rotations(math.isqrt(images.shape[1]), copies, "bilinear", offset) if copies else None
    for first in range(0, len(images), chunk):
        batch = np.asarray(images[first : first + chunk], dtype=np.float32)
        found[0, first : first + len(batch)] = estimator(batch)
        for copy, rotated in enumerate(support.rotate_each(batch) if support else (), start=1):
            found[copy, first : first + len(batch)] = estimator(rotated)
    return found


def _forget_oldest(folder: Path) -> None:
    """Remove what was made first until the rest is small enough."""
    files = sorted(((path.stat(), path) for path in folder.glob("*.npz")), key=lambda each: each[0].st_mtime)
    size = sum(status.st_size for status, _ in files)
    for status, path in files:
        if size <= MOST_ORIENTATION_BYTES:
            break
        path.unlink(missing_ok=True)
        size -= status.st_size


def _arithmetic() -> list[Any]:
    """Name what else the last bit of a sum depends on."""
    from threadpoolctl import threadpool_info

    names = ("internal_api", "version", "architecture", "num_threads")
    pools = [[pool.get(name) for name in names] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return [np.__version__, platform.machine(), sorted(pools, key=str)]


def perturb(
    orientations: NDArray[np.int64], perturbation: Perturbation, rotations: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """Perturb indices s (N,) as s ← s ± ε, ε ~ Binomial(n, p), the sign fair.

    An index out of 0, …, S − 1 goes on at the other end (modulo S) or, clipped, is the last one there.
    """
    errors = generator.binomial(perturbation.n, perturbation.p, size=len(orientations))
    signs = 2 * generator.integers(0, 2, size=len(orientations)) - 1
    moved = orientations + signs * errors
    return moved % rotations if perturbation.overflow == "modulo" else moved.clip(0, rotations - 1)


def perturbed_orientations(
    store: Store, model: Any, images: NDArray[np.float32], perturbation: Perturbation | None, seed: int, role: str
) -> NDArray[np.int64] | None:
    """Give perturbed orientations for Table 3; None where a model estimates its own.

    The roles are ``train`` (the RBM's training images), ``svm`` (the same images, for the SVM) and ``test``; each has a
    draw of its own.
    """
    if perturbation is None:
        return None
    estimated = estimated_orientations(store, model, images)
    return perturb(estimated, perturbation, model.rotations, _errors_of(perturbation, seed, role))


def estimated_orientations(store: Store, model: Any, images: NDArray[np.float32]) -> NDArray[np.int64]:
    """Give the orientations that a model estimates, before they are perturbed."""
    known = find_orientations(store, model, images)
    estimated: NDArray[np.int64] = model.orientation_estimator()(images) if known is None else known[0]
    return estimated


def orientations_to_learn(
    store: Store, model: Any, images: NDArray[np.float32], perturbation: Perturbation | None, seed: int
) -> dict[str, Any]:
    """Give the keywords by which `fit` learns of perturbed orientations, perhaps others in each epoch."""
    if perturbation is None:
        return {"orientations": None}
    estimated = estimated_orientations(store, model, images)

    def of_epoch(*epoch: int) -> NDArray[np.int64]:
        return perturb(estimated, perturbation, model.rotations, _errors_of(perturbation, seed, "train", *epoch))

    given = {"orientations": of_epoch if perturbation.redrawn == "epoch" else of_epoch()}
    return given if perturbation.statistics == "after" else {**given, "standardise_by": estimated}


def _errors_of(perturbation: Perturbation, seed: int, role: str, *epoch: int) -> np.random.Generator:
    """Give the generator of a role's errors; those of an epoch follow from its number, so that training resumes."""
    from thetarbm_cli.models.seeds import generator_of

    n, p = perturbation.n, round(1000 * perturbation.p)
    return generator_of(seed, "perturbation", n, p, PERTURBED_ROLES.index(role), *epoch)
