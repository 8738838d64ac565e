"""Training of a one-vs-one RBF-SVM: libsvm solves each pair of classes on a matrix that BLAS has filled.

libsvm splits a problem of K classes into K(K − 1)/2 problems of two classes and evaluates the kernel element
by element. Here each pair gets its own small precomputed matrix. The solver takes the same steps, as the
kernel agrees with libsvm's to the last float64 digits and libsvm stores it as float32; but the N × N matrix
is never held, and each block of it is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from thetarbm_cli.backend import Array, Backend
from thetarbm_cli.measures import kernels

DEFAULT_CACHE_MEGABYTES = 200.0

FloatMatrix = NDArray[np.float64]


@dataclass(frozen=True)
class PairSolution:
    """The two-class machine of classes i < j, in libsvm's signs: a positive decision value votes for class i.

    Attributes
    ----------
    coefficients : (n_i + n_j,) array
        y·α of the images of class i, then of class j; 0 where an image is no support vector.
    intercept : float
    """

    coefficients: NDArray[np.float64]
    intercept: float


def class_pairs(classes: int) -> list[tuple[int, int]]:
    """Pairs (i, j), i < j, of class numbers in libsvm's order."""
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


def class_rows(members: NDArray[np.intp], classes: int) -> list[NDArray[np.intp]]:
    """Rows of each class, in the order of the data: the order in which libsvm meets them."""
    return [np.flatnonzero(members == number) for number in range(classes)]


def block_function(
    features: Array, rows: list[NDArray[np.intp]], centre: Array, gamma: float | None, backend: Backend
) -> Callable[[int, int], FloatMatrix]:
    """Blocks between two classes: kernel values exp(−γ d²), or plain −d² if `gamma` is None.

    Products are in float64: float32 distances move dual coefficients by up to 0.04, as the solver then
    takes other steps.

    Returns
    -------
    callable (i, j) -> (n_i, n_j) array on the host
    """
    scale = 1.0 if gamma is None else gamma
    groups = [features[backend.asarray(row)] for row in rows]
    lefts = [kernels.left_operand(group, centre, np.float64, backend) for group in groups]
    rights = [kernels.right_operand(group, centre, np.float64, backend, scale=scale) for group in groups]

    def block(i: int, j: int) -> FloatMatrix:
        values = kernels.negative_distances(lefts[i], rights[j], backend)
        if i == j:
            backend.xp.fill_diagonal(values, 0.0)  # an image is at no distance from itself, not at 1e-15
        if gamma is not None:
            backend.xp.exp(values, out=values)
        return backend.to_host(values)

    return block


def pair_matrices(block: Callable[[int, int], FloatMatrix], sizes: list[int]) -> Iterator[tuple[int, int, FloatMatrix]]:
    """Symmetric matrix over the images of two classes, for each pair; each block is computed once.

    Parameters
    ----------
    block : callable (i, j) -> (n_i, n_j) array
    sizes : n_0, …, n_{K−1}

    Yields
    ------
    i, j : int
    matrix : (n_i + n_j, n_i + n_j) array
        It lies in one buffer for all pairs: use it before the next one is asked for.
    """
    two_largest = sum(sorted(sizes)[-2:])
    buffer = np.empty(two_largest * two_largest)
    own: dict[int, FloatMatrix] = {}
    for i, j in class_pairs(len(sizes)):
        for number in (i, j):
            if number not in own:
                own[number] = block(number, number)
        first, both = sizes[i], sizes[i] + sizes[j]
        matrix = buffer[: both * both].reshape(both, both)
        matrix[:first, :first] = own[i]
        matrix[first:, first:] = own[j]
        matrix[:first, first:] = block(i, j)
        matrix[first:, :first] = matrix[:first, first:].T
        yield i, j, matrix


def solve_pair(
    kernel: FloatMatrix, first: int, C: float, cache_megabytes: float = DEFAULT_CACHE_MEGABYTES
) -> PairSolution:
    """Train the machine of two classes with the settings SVC has by default.

    Parameters
    ----------
    kernel : (n, n) array
        Kernel values; rows of class i first.
    first : int
        Number of rows of class i.
    """
    labels = np.repeat([0, 1], [first, len(kernel) - first])
    machine: Any = SVC(C=C, kernel="precomputed", cache_size=cache_megabytes).fit(kernel, labels)
    coefficients = np.zeros(len(kernel))
    # With two classes alone SVC turns the signs round, to make a positive value mean the second class.
    coefficients[machine.support_] = -machine.dual_coef_[0]
    return PairSolution(coefficients, -float(machine.intercept_[0]))
