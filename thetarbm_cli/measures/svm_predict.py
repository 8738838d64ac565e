"""Prediction of a one-vs-one RBF-SVM by matrix products, and the votes as libsvm counts them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.measures import checks, kernels
from thetarbm_cli.measures.svm_fit import class_pairs

# 2,000 rows keep a kernel block near the processor's cache and the product efficient; many support vectors in
# one class take fewer rows, so that a block and its float64 copy stay below this size.
ROWS_AT_ONCE = 2000
BLOCK_BYTES = 256 * 2**20


@dataclass(frozen=True)
class OneVsOneMachine:
    """A trained machine: what prediction needs, on the host.

    Attributes
    ----------
    support_vectors : (M, F) array
        Grouped by class.
    support_counts : (K,) array
        Support vectors of each class.
    dual_coefficients : (K − 1, M) array
        Column m holds the coefficients of support vector m in the K − 1 machines its class takes part in, in
        the order of the other classes, as in SVC's ``dual_coef_``.
    intercept : (K(K − 1)/2,) array
    centre : (F,) array
        Point near the data from which distances are computed.
    gamma : float
    """

    support_vectors: NDArray[np.floating[Any]]
    support_counts: NDArray[np.intp]
    dual_coefficients: NDArray[np.float64]
    intercept: NDArray[np.float64]
    centre: NDArray[np.float64]
    gamma: float


def decision_chunks(machine: OneVsOneMachine, features: Array, backend: Backend) -> Iterator[NDArray[np.float64]]:
    """Decision values of all pairs of classes, some rows at a time.

    The kernel is computed class by class of the support vectors, in float32 where that is exact enough. The
    coefficients of a class have one sign in each machine, so that a decision is the difference of two large
    sums: these are in float64 (in float32 they were off by up to 1e-3, and one label of 12,000 with them).

    Yields
    ------
    (n, K(K − 1)/2) array on the host
        Column (i, j), i < j, is positive where class i wins.
    """
    classes = len(machine.support_counts)
    bounds = np.concatenate([[0], np.cumsum(machine.support_counts)])
    groups = [slice(bounds[number], bounds[number + 1]) for number in range(classes)]
    columns = [
        backend.asarray(np.array([k for k, pair in enumerate(class_pairs(classes)) if number in pair]))
        for number in range(classes)
    ]
    centre = backend.asarray(machine.centre)
    dtype = kernels.product_dtype(machine.support_vectors, centre, machine.gamma, backend)
    vectors = [
        kernels.right_operand(machine.support_vectors[group], centre, dtype, backend, scale=machine.gamma)
        for group in groups
    ]
    coefficients = [backend.asarray(np.ascontiguousarray(machine.dual_coefficients[:, group].T)) for group in groups]
    intercept = backend.asarray(machine.intercept)
    bytes_per_row = (np.dtype(dtype).itemsize + 8) * max(int(machine.support_counts.max()), 1)
    rows = max(1, min(ROWS_AT_ONCE, BLOCK_BYTES // bytes_per_row))
    for start in range(0, len(features), rows):
        chunk = backend.asarray(features[start : start + rows])
        checks.finite(chunk, "given")
        operand = kernels.left_operand(chunk, centre, dtype, backend)
        decisions = backend.xp.tile(intercept, (len(chunk), 1))
        for number in range(classes):
            kernel = kernels.rbf_kernel(operand, vectors[number], backend)
            decisions[:, columns[number]] += kernel.astype(np.float64) @ coefficients[number]
        yield backend.to_host(decisions)


def vote(decisions: NDArray[np.float64], classes: int) -> NDArray[np.intp]:
    """Class number with most of the pairwise wins, the lowest one among equals, as in libsvm.

    A decision value of exactly 0 is a win of the second class, also as in libsvm.
    """
    votes = np.zeros((len(decisions), classes), dtype=np.int32)
    for column, (i, j) in enumerate(class_pairs(classes)):
        first_wins = decisions[:, column] > 0
        votes[:, i] += first_wins
        votes[:, j] += ~first_wins
    winners: NDArray[np.intp] = votes.argmax(axis=1)
    return winners
