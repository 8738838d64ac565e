"""Choice of C and γ of the RBF-SVM on validation images, with the distances computed once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend, NumpyBackend
from thetarbm_cli.errors import InputError
from thetarbm_cli.measures import checks, kernels, svm_fit, svm_predict


@dataclass(frozen=True)
class GridSearchResult:
    """The pair with the smallest validation error, and the whole grid.

    Attributes
    ----------
    C, gamma : float
        The chosen pair; the first of equals, in the order of `grid`.
    validation_error_percent : float
    grid : list of {"C", "gamma", "validation_error_percent"}
        Every pair, C in the outer loop.
    """

    C: float
    gamma: float
    validation_error_percent: float
    grid: list[dict[str, float]]


def grid_search(
    train_features: Array,
    train_labels: NDArray[Any],
    valid_features: Array,
    valid_labels: NDArray[Any],
    *,
    C_values: Sequence[float],
    gamma_values: Sequence[float],
    valid_rows: NDArray[np.int64] | None = None,
    backend: Backend | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> GridSearchResult:
    """Train an RBF-SVM for every C and γ and measure each on the validation images.

    One pair of classes after the other is solved for the whole grid, so that its distances are computed once
    and given up again; of every grid point only the votes on the validation images are kept.

    Parameters
    ----------
    train_features : (N, F) array
    train_labels : (N,) array
    valid_features : (M, F) array
    valid_labels : (M,) array, or one for each image that `valid_rows` tells of
    C_values, gamma_values : sequences of positive numbers
    valid_rows : (M,) array, optional
        The image of each row of features, if an image may be seen in several ways: their decision values are added up.
    progress : callable (done, total), optional
        Called after each solved pair of classes of each grid point.

    Raises
    ------
    InputError
        If the features are not finite or differ in width, the labels do not fit, or the grid is empty or
        holds a value that is not positive.
    """
    backend = NumpyBackend() if backend is None else backend
    if not len(C_values) or not len(gamma_values):
        raise InputError("the grid search needs at least one value of C and one of gamma")
    penalties = [checks.positive(value, "C") for value in C_values]
    gammas = [checks.positive(value, "gamma") for value in gamma_values]
    checks.feature_matrix(train_features, "training")
    checks.feature_matrix(valid_features, "validation", width=train_features.shape[1])
    checks.finite(train_features, "training")
    checks.finite(valid_features, "validation")
    classes, members = checks.training_labels(np.asarray(train_labels), len(train_features))
    images = np.arange(len(valid_features)) if valid_rows is None else valid_rows
    truth = checks.known_labels(np.asarray(valid_labels), classes, int(images.max()) + 1, "validation")

    rows = svm_fit.class_rows(members, len(classes))
    sizes = [len(row) for row in rows]
    device = backend.asarray(train_features)
    centre = device.mean(axis=0, dtype=np.float64)
    valid_distances = _distances_by_class(valid_features, device, rows, centre, backend)
    pairs = svm_fit.class_pairs(len(classes))
    decisions = np.empty((len(penalties), len(gammas), len(truth), len(pairs)))
    total, done = len(pairs) * len(gammas) * len(penalties), 0
    block = svm_fit.block_function(device, rows, centre, None, backend)
    kernel = np.empty(0)
    for column, (i, j, distances) in enumerate(svm_fit.pair_matrices(block, sizes)):
        kernel = kernel if kernel.shape == distances.shape else np.empty_like(distances)
        to_both = np.concatenate([valid_distances[i], valid_distances[j]], axis=1)
        for g, gamma in enumerate(gammas):
            np.multiply(distances, gamma, out=kernel)
            np.exp(kernel, out=kernel)
            valid_kernel = np.exp(gamma * to_both)
            for c, penalty in enumerate(penalties):
                solution = svm_fit.solve_pair(kernel, sizes[i], penalty)
                values = valid_kernel @ solution.coefficients + solution.intercept
                decisions[c, g, :, column] = np.bincount(images, weights=values)
                done += 1
                if progress is not None:
                    progress(done, total)
    return _choose(penalties, gammas, decisions, truth, len(classes))


def _distances_by_class(
    valid: Array, train: Array, rows: list[NDArray[np.intp]], centre: Array, backend: Backend
) -> list[NDArray[np.float64]]:
    """−|x − y|² between the validation images and the training images of each class, (M, n_i) each."""
    operand = kernels.left_operand(valid, centre, np.float64, backend)
    groups = (train[backend.asarray(row)] for row in rows)
    rights = (kernels.right_operand(group, centre, np.float64, backend) for group in groups)
    return [backend.to_host(kernels.negative_distances(operand, right, backend)) for right in rights]


def _choose(
    penalties: list[float],
    gammas: list[float],
    decisions: NDArray[np.float64],
    truth: NDArray[np.intp],
    classes: int,
) -> GridSearchResult:
    """Count the errors of each grid point by the votes of its decision values (C, γ, M, pairs)."""
    grid = []
    for c, penalty in enumerate(penalties):
        for g, gamma in enumerate(gammas):
            wrong = int(np.count_nonzero(svm_predict.vote(decisions[c, g], classes) != truth))
            error = 100.0 * wrong / len(truth)
            grid.append({"C": penalty, "gamma": gamma, "validation_error_percent": error})
    best = min(grid, key=lambda point: point["validation_error_percent"])
    return GridSearchResult(best["C"], best["gamma"], best["validation_error_percent"], grid)
