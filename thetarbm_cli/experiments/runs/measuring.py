"""The measures of one trained model on its images, as they stand in a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Backend
from thetarbm_cli.experiments.runs.images import RunData
from thetarbm_cli.experiments.runs.memory import refuse_too_large, svm_bytes
from thetarbm_cli.experiments.runs.store import RunRecord
from thetarbm_cli.experiments.runs.training import perturbed_orientations
from thetarbm_cli.measures.gamma import GammaScore, gamma_score
from thetarbm_cli.measures.svm import RBFClassifier, evaluate_classifier, grid_search
from thetarbm_cli.models import Model

GRID_PENALTIES = (1.0, 3.0, 10.0, 30.0, 100.0)
GRID_WIDTHS = (0.005, 0.01, 0.02, 0.04, 0.08)
# A plain RBM has no support set of its own, and a finer one leaves no room for Δ: both are judged under the paper's.
GAMMA_ROTATIONS = 9
# Units whose own γ a record lists; of more it has the mean alone.
MOST_UNITS_LISTED = 2000
# Test images whose features are held at a time.
IMAGES_AT_ONCE = 2000

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
    model: Model
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
            rotations=min(subject.model.get_params().get("rotations", GAMMA_ROTATIONS), GAMMA_ROTATIONS),
            offset=offset,
            progress=progress,
        )
    return as_plain(score)


def measure_error(subject: Subject, *, own_pair: bool, search: bool) -> dict[str, Any]:
    """Error of the RBF-SVM on the test images, with the run's C and γ, with the chosen ones, or with both."""
    train, test = subject.data.train(), subject.data.test()
    valid = subject.data.valid() if search else None
    pairs = _pairs(subject, train[0], "svm")
    units = len(subject.model.get_feature_names_out())
    refuse_too_large(
        svm_bytes(len(pairs.rows), units),
        f"measuring {subject.record.run} with {units} features an image",
        "fewer hidden units or images need less",
    )
    train_features, train_labels = pairs.features(subject.model, slice(None)), train[1][pairs.rows]
    test_pairs = _pairs(subject, test[0], "test")
    metrics: dict[str, Any] = {}

    def error_with(C: float, gamma: float) -> dict[str, Any]:
        with subject.watch(f"SVM, C = {C:g}, γ = {gamma:g}") as progress:
            progress(0, len(test[0]))
            classifier = RBFClassifier(C, gamma, subject.backend).fit(train_features, train_labels)
            result = evaluate_classifier(classifier, test_pairs.parts(subject.model, progress), test[1])
        return asdict(result)

    if own_pair:
        svm = subject.record.settings.svm
        metrics["svm"] = {"C": svm.C, "gamma": svm.gamma, **error_with(svm.C, svm.gamma)}
    if valid is not None:
        images, labels = valid
        valid_pairs = _pairs(subject, images, "valid")
        with subject.watch("grid search on the validation images") as progress:
            chosen = grid_search(
                train_features,
                train_labels,
                valid_pairs.features(subject.model, slice(None)),
                labels,
                C_values=GRID_PENALTIES,
                gamma_values=GRID_WIDTHS,
                valid_rows=valid_pairs.rows,
                backend=subject.backend,
                progress=progress,
            )
        error = error_with(chosen.C, chosen.gamma)["test_error_percent"]
        metrics["grid_search"] = {**asdict(chosen), "test_error_percent": error}
    return metrics


@dataclass(frozen=True)
class Pairs:
    """Images, each once for every orientation that it is seen in.

    Attributes
    ----------
    images : (n, V) array
    rows : (m,) array, ascending
        The image of each pair.
    orientations : (m,) array, or None where the model finds its own
    """

    images: NDArray[np.float32]
    rows: NDArray[np.int64]
    orientations: NDArray[np.int64] | None

    def features(self, model: Model, part: slice) -> NDArray[np.float32]:
        """Features of some of the pairs."""
        given = None if self.orientations is None else self.orientations[part]
        return model.transform(self.images[self.rows[part]], orientations=given)

    def parts(self, model: Model, progress: Progress) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """Features and rows of some images at a time."""
        for first in range(0, len(self.images), IMAGES_AT_ONCE):
            last = min(first + IMAGES_AT_ONCE, len(self.images))
            start, stop = np.searchsorted(self.rows, [first, last])
            part = slice(int(start), int(stop))
            yield self.features(model, part), self.rows[part]
            progress(last, len(self.images))


def _pairs(subject: Subject, images: NDArray[np.float32], role: str) -> Pairs:
    """Images of the SVM with perturbed orientations where the scope says so, or with all that the model supposes.

    Each estimate errs on its own: the SVM's training images are not wrong in the way that the RBM has learned.
    """
    record, model = subject.record, subject.model
    perturbation = record.settings.perturbation
    scope = perturbation.scope if perturbation else "rbm"
    wrong = {"rbm": (), "train": ("svm",), "all": ("svm", "test")}[scope]
    if role in wrong:
        given = perturbed_orientations(model, images, record.settings, record.seed, role)
        return Pairs(images, np.arange(len(images)), given)
    rows, orientations = model.candidate_orientations(images) or (np.arange(len(images)), None)
    return Pairs(images, rows, orientations)


def as_plain(score: GammaScore) -> dict[str, Any]:
    """A γ-score as it stands in a record; γ of a dead unit is null."""
    return {
        "mean": _number(score.mean),
        "ratio_of_sums": _number(score.ratio_of_sums),
        "bounded": _number(score.bounded),
        "dead_units": score.dead_units,
        "images": score.images,
        "per_unit": [_number(value) for value in score.per_unit] if len(score.per_unit) <= MOST_UNITS_LISTED else [],
    }


def _number(value: float) -> float | None:
    return round(float(value), 6) if np.isfinite(value) else None
