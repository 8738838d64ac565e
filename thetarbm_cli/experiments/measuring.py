"""The measures of one trained model on its images, as they stand in a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Backend
from thetarbm_cli.experiments.memory import feature_bytes, refuse_too_large
from thetarbm_cli.experiments.rundata import Part, RunData
from thetarbm_cli.experiments.store import RunRecord
from thetarbm_cli.experiments.training_run import perturbed_orientations
from thetarbm_cli.measures.gamma import GammaScore, gamma_score
from thetarbm_cli.measures.svm import classify, grid_search
from thetarbm_cli.models.rbm import RBM

# The paper's classifier: C = 10 and "σ = 0.02", read as exp(-0.02 d²).
PENALTY, WIDTH = 10.0, 0.02
GRID_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
GRID_WIDTHS = (0.005, 0.01, 0.02, 0.04, 0.08)
# A plain RBM has no support set of its own: it is judged under the paper's.
GAMMA_ROTATIONS = 9

Progress = Callable[[int, int], None]
# Opened with a word on what is done next; gives what takes the progress (done, total).
Watch = Callable[[str], AbstractContextManager[Progress]]


@contextmanager
def unwatched(label: str) -> Iterator[Progress]:
    """Show nothing."""
    yield lambda done, total: None


@dataclass(frozen=True)
class Subject:
    """What is measured: a model as it was recorded, and its images."""

    record: RunRecord
    model: RBM
    data: RunData
    backend: Backend
    watch: Watch


def measure_gamma(subject: Subject, role: str, offset: float) -> dict[str, Any]:
    """γ-score of the model's features on its train or test images, as plain numbers."""
    images, _ = subject.data.train() if role == "train" else subject.data.test()
    with subject.watch(f"γ on the {role} images, Δ = {offset:g}°") as progress:
        score = gamma_score(
            subject.model.transform,
            images,
            size=int(np.sqrt(images.shape[1])),
            rotations=subject.model.get_params().get("rotations", GAMMA_ROTATIONS),
            offset=offset,
            progress=progress,
        )
    return as_plain(score)


def measure_error(subject: Subject, *, paper_pair: bool, search: bool) -> dict[str, Any]:
    """Error of the RBF-SVM on the test images, with the paper's C and γ, with the chosen ones, or with both."""
    train, test = subject.data.train(), subject.data.test()
    units = len(subject.model.get_feature_names_out())
    refuse_too_large(
        feature_bytes(len(train[0]) + len(test[0]), units),
        f"measuring {subject.record.run} with {units} features an image",
        "fewer hidden units or images need less",
    )
    train_features, test_features = _svm_features(subject, train, test)
    metrics: dict[str, Any] = {}

    def error_with(C: float, gamma: float) -> dict[str, Any]:
        with subject.watch(f"SVM, C = {C:g}, γ = {gamma:g}") as progress:
            progress(0, 1)
            result = classify(
                train_features, train[1], test_features, test[1], C=C, gamma=gamma, backend=subject.backend
            )
            progress(1, 1)
        return asdict(result)

    if paper_pair:
        metrics["svm"] = {"C": PENALTY, "gamma": WIDTH, **error_with(PENALTY, WIDTH)}
    if search:
        images, labels = subject.data.valid()
        with subject.watch("grid search on the validation images") as progress:
            chosen = grid_search(
                train_features,
                train[1],
                subject.model.transform(images),
                labels,
                C_values=GRID_PENALTIES,
                gamma_values=GRID_WIDTHS,
                backend=subject.backend,
                progress=progress,
            )
        error = error_with(chosen.C, chosen.gamma)["test_error_percent"]
        metrics["grid_search"] = {**asdict(chosen), "test_error_percent": error}
    return metrics


def _svm_features(subject: Subject, train: Part, test: Part) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features of the SVM's training and test images, from perturbed orientations where the scope says so.

    Each estimate errs on its own: the SVM's training images are not wrong in the way that the RBM has learned.
    """
    record, model = subject.record, subject.model
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
