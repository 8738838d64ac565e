"""Measuring a run: features of its images, the RBF-SVM's error, the γ-score, all into its record."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import select_backend
from thetarbm_cli.experiments.recorded import checked_record, data_of, model_of
from thetarbm_cli.experiments.rundata import Part, RunData
from thetarbm_cli.experiments.store import RunRecord
from thetarbm_cli.experiments.training_run import Workplace, perturbed_orientations
from thetarbm_cli.measures.gamma import GammaScore, gamma_score
from thetarbm_cli.measures.svm import classify, grid_search
from thetarbm_cli.models.oriented import OrientedRBM
from thetarbm_cli.models.rbm import RBM

# The paper's classifier: C = 10 and "σ = 0.02", read as exp(-0.02 d²).
PENALTY, WIDTH = 10.0, 0.02
GRID_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
GRID_WIDTHS = (0.005, 0.01, 0.02, 0.04, 0.08)
DEFAULT_OFFSET = 20.0
# A plain RBM has no support set of its own: it is judged under the paper's.
GAMMA_ROTATIONS = 9


def evaluate_run(
    place: Workplace,
    run: str,
    *,
    with_gamma: bool = True,
    offset: float = DEFAULT_OFFSET,
    search: bool = False,
    force: bool = False,
    on_step: Callable[[str], None] | None = None,
) -> tuple[RunRecord, bool]:
    """Measure a run and record it; what the record has already is kept.

    Parameters
    ----------
    place : Workplace
    run : str
        Full id of the run.
    with_gamma : bool
        Whether the γ-score is wanted beside the SVM's error.
    offset : float
        Δ of the γ-score's rotations.
    search : bool
        Also choose C and γ of the kernel on the validation images.
    on_step : callable, optional
        Called with a word on what is done next.

    Returns
    -------
    The record, and whether nothing had to be measured

    Raises
    ------
    InputError
        If the run failed, is of another algorithm, its weights are missing, or the offset is out of range.
    """
    with place.store.locked(run):
        record = checked_record(place, run)
        metrics: dict[str, Any] = {} if force or record.metrics is None else dict(record.metrics)
        due = _due(metrics, with_gamma, offset, search)
        if not due:
            return record, True
        model = model_of(place, record)
        data = data_of(place, record)
        started = time.perf_counter()
        metrics.update(_measure(place, record, model, data, due, offset, on_step))
        if isinstance(model, OrientedRBM):
            model.set_params(align=False)
            unaligned = metrics.get("unaligned", {})
            unaligned.update(_measure(place, record, model, data, due - {"grid_search"}, offset, on_step))
            metrics["unaligned"] = unaligned
        timings = {**record.timings, "evaluate_seconds": round(time.perf_counter() - started, 3)}
        record = record.model_copy(update={"metrics": metrics, "timings": timings})
        place.store.save(record)
        return record, False


def _due(metrics: dict[str, Any], with_gamma: bool, offset: float, search: bool) -> set[str]:
    """Names of the measures that the record lacks."""
    due = set()
    if "svm" not in metrics:
        due.add("svm")
    if with_gamma and metrics.get("gamma", {}).get("offset") != offset:
        due.add("gamma")
    if search and "grid_search" not in metrics:
        due.add("grid_search")
    return due


def _measure(
    place: Workplace,
    record: RunRecord,
    model: RBM,
    data: RunData,
    due: set[str],
    offset: float,
    on_step: Callable[[str], None] | None,
) -> dict[str, Any]:
    say = on_step or (lambda step: None)
    metrics: dict[str, Any] = {}
    backend = select_backend(place.backend_name)
    # γ first: it refuses a wrong offset at once.
    if "gamma" in due:
        metrics["gamma"] = {"offset": offset}
        for role, part in (("train", data.train), ("test", data.test)):
            say(f"γ on the {role} images")
            metrics["gamma"][role] = _gamma(model, part()[0], offset)
    if due & {"svm", "grid_search"}:
        train, test = data.train(), data.test()
        say("features")
        train_features, test_features = _svm_features(record, model, train, test)
        if "svm" in due:
            say("SVM")
            result = classify(train_features, train[1], test_features, test[1], C=PENALTY, gamma=WIDTH, backend=backend)
            metrics["svm"] = {"C": PENALTY, "gamma": WIDTH, **asdict(result)}
        if "grid_search" in due:
            say("grid search on the validation images")
            valid = data.valid()
            chosen = grid_search(
                train_features,
                train[1],
                model.transform(valid[0]),
                valid[1],
                C_values=GRID_PENALTIES,
                gamma_values=GRID_WIDTHS,
                backend=backend,
            )
            result = classify(
                train_features,
                train[1],
                test_features,
                test[1],
                C=chosen.C,
                gamma=chosen.gamma,
                backend=backend,
            )
            metrics["grid_search"] = {**asdict(chosen), "test_error_percent": result.test_error_percent}
    return metrics


def _svm_features(
    record: RunRecord, model: RBM, train: Part, test: Part
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features of the SVM's training and test images, from perturbed orientations where the scope says so.

    Each estimate errs on its own: the SVM's training images are not wrong in the way that the RBM has learned.
    """
    perturbation = record.settings.perturbation
    scope = perturbation.scope if perturbation else "rbm"
    wrong = {"rbm": (), "train": ("svm",), "all": ("svm", "test")}[scope]
    features = []
    for role, (images, _) in (("svm", train), ("test", test)):
        orientations = None
        if role in wrong:
            orientations = perturbed_orientations(model, images, record.settings, record.seed, role)
        features.append(model.transform(images, orientations=orientations))
    return features[0], features[1]


def _gamma(model: RBM, images: NDArray[np.float32], offset: float) -> dict[str, Any]:
    """γ-score of a model's features as plain numbers."""
    size = int(np.sqrt(images.shape[1]))
    rotations = model.get_params().get("rotations", GAMMA_ROTATIONS)
    score = gamma_score(model.transform, images, size=size, rotations=rotations, offset=offset)
    return as_plain(score)


def as_plain(score: GammaScore) -> dict[str, Any]:
    """A γ-score as it stands in a record; γ of a dead unit is null."""
    return {
        "mean": _number(score.mean),
        "ratio_of_sums": _number(score.ratio_of_sums),
        "bounded": _number(score.bounded),
        "dead_units": score.dead_units,
        "images": score.images,
        "per_unit": [_number(value) for value in score.per_unit],
    }


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None


def summary(record: RunRecord, cached: bool) -> dict[str, Any]:
    """The main numbers of a measured run, as ``evaluate --json`` gives them."""
    metrics = record.metrics or {}
    gamma = metrics.get("gamma", {})
    row: dict[str, Any] = {
        "run": record.run,
        "model": record.settings.model,
        "sparsity": record.parameters.get("sparsity"),
        "seed": record.seed,
        "test_error_percent": metrics["svm"]["test_error_percent"],
        "gamma_train": gamma.get("train", {}).get("mean"),
        "gamma_test": gamma.get("test", {}).get("mean"),
        "dead_units": gamma.get("test", {}).get("dead_units"),
        "cached": cached,
    }
    if "unaligned" in metrics:
        other = metrics["unaligned"]
        row["test_error_percent_unaligned"] = other["svm"]["test_error_percent"]
        row["gamma_train_unaligned"] = other.get("gamma", {}).get("train", {}).get("mean")
        row["gamma_test_unaligned"] = other.get("gamma", {}).get("test", {}).get("mean")
    if "grid_search" in metrics:
        row["grid_search"] = metrics["grid_search"]
    return row
