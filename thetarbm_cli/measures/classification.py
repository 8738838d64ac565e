"""The classification error of features (Table 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.measures import checks, svm_fit, svm_predict
from thetarbm_cli.measures.svm import RBFClassifier


@dataclass(frozen=True)
class Classification:
    """What a classifier does on the test images.

    Attributes
    ----------
    test_error_percent : float
    confusion : list of list of int
        Test images by class (row) and label given (column).
    error_per_class : list of float or None
        Percent; None for a class without test images.
    support_vectors : int
    classes : list
        Labels of rows and columns.
    """

    test_error_percent: float
    confusion: list[list[int]]
    error_per_class: list[float | None]
    support_vectors: int
    classes: list[Any]


def classify(
    train_features: Array,
    train_labels: NDArray[Any],
    test_features: Array,
    test_labels: NDArray[Any],
    *,
    C: float = 10.0,
    gamma: float = 0.02,
    backend: Backend | None = None,
) -> Classification:
    """Train an RBF-SVM on features (N, F) and measure it on the test features (M, F).

    Raises
    ------
    InputError
        If the features are not finite or differ in width, the labels do not fit, or `C` or `gamma` is not
        positive.
    """
    classifier = RBFClassifier(C, gamma, backend)
    checks.feature_matrix(train_features, "training")
    checks.feature_matrix(test_features, "test", width=train_features.shape[1])
    checks.finite(test_features, "test")
    # Everything that can be wrong is refused before the training, which takes its time.
    classes, _ = checks.training_labels(np.asarray(train_labels), len(train_features))
    checks.known_labels(np.asarray(test_labels), classes, len(test_features), "test")
    classifier.fit(train_features, train_labels)
    return judge(classifier, [(test_features, np.arange(len(test_features)))], test_labels)


def judge(
    classifier: RBFClassifier, parts: Iterable[tuple[Array, NDArray[np.int64]]], test_labels: NDArray[Any]
) -> Classification:
    """Measure a trained classifier on images that may be seen in several ways each.

    The decision values of all features of an image are added up, and the pairs of classes vote on the sums.

    Parameters
    ----------
    classifier : RBFClassifier
    parts : iterable of (features, rows)
        Some features (m, F) at a time, and the image (m,) that each is of; every image is in one part at least.
    test_labels : (M,) array
        Labels of the images.

    Raises
    ------
    InputError
        If features are not finite or of another width, or a label is unknown.
    """
    classes = classifier.classes_
    truth = checks.known_labels(np.asarray(test_labels), classes, len(test_labels), "test")
    decisions = np.zeros((len(truth), len(svm_fit.class_pairs(len(classes)))))
    for features, rows in parts:
        np.add.at(decisions, rows, classifier.decision_pairs(features))
    given = svm_predict.vote(decisions, len(classes))
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (truth, given), 1)
    images = confusion.sum(axis=1)
    wrong = images - confusion.diagonal()
    return Classification(
        test_error_percent=100.0 * int(wrong.sum()) / len(truth),
        confusion=confusion.tolist(),
        error_per_class=[100.0 * int(w) / int(n) if n else None for w, n in zip(wrong, images, strict=True)],
        support_vectors=len(classifier.support_),
        classes=classes.tolist(),
    )
