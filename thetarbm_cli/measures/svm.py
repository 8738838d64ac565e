"""The error of an RBF-SVM on features (Table 1), with the semantics of scikit-learn's SVC.

libsvm splits a problem of K classes into K(K − 1)/2 problems of two classes and evaluates the kernel element by
element. Here each pair of classes gets its own small precomputed matrix, which BLAS fills. The solver takes the same
steps, as the kernel agrees with libsvm's to the last float64 digits and libsvm stores it as float32; but the N × N
matrix is never held, and each block of it is computed once. With 10,000 images of 500 features on one core, training
takes 60 % of the time and a fifth of the memory of ``SVC(kernel="precomputed")`` on one kernel matrix, and prediction
less than a third of the time. Where BLAS may use more threads, pairs of classes are solved side by side, one on each
thread, and so are predictions made; this changes no bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from queue import Empty, SimpleQueue
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend, Result, all_finite
from thetarbm_cli.errors import InputError

# The terms of −γ|x − y|² cancel: its error is a few roundings of γ|x|², |x| taken from the centre of the
# data. Up to this γ|x|² of the support vectors x a float32 product leaves a kernel good to 1e-5. A point y
# that lies further out need not be asked: its kernel, exp(−γ(|y| − |x|)²) at most, shrinks faster than the
# error grows.
LARGEST_FLOAT32_EXPONENT = 8.0

# In prediction 2,000 rows keep a kernel block near the processor's cache and the product efficient; many support
# vectors in one class take fewer rows, so that a block and its float64 copy stay below this size.
ROWS_AT_ONCE = 2000
BLOCK_BYTES = 256 * 2**20

Doubles = NDArray[np.float64]


class RBFClassifier:
    """RBF-SVM, one-vs-one: the model of ``SVC(kernel="rbf")``, trained and applied by matrix products.

    Parameters
    ----------
    C : float
        Penalty of the slack.
    gamma : float
        Kernel exp(−gamma·|x − y|²); the paper's "σ = 0.02" is read as this one.
    backend : Backend, optional
        Where the products are computed; NumPy by default. The solver is libsvm, on the host.

    Attributes
    ----------
    classes_ : (K,) array
        Labels, sorted.
    support_ : (M,) array
        Rows of the training features that are support vectors, grouped by class.
    support_counts_ : (K,) array
        Support vectors of each class.
    support_vectors_ : (M, F) array
    dual_coefficients_ : (K − 1, M) array
        As SVC's ``dual_coef_``: column m holds the coefficients of support vector m in the K − 1 machines its class
        takes part in, in the order of the other classes. SVC turns the sign round for two classes alone; here it is
        always libsvm's.
    intercept_ : (K(K − 1)/2,) array
    centre_ : (F,) array
        Mean of the training features, from which distances are computed.

    Examples
    --------
    >>> import numpy as np
    >>> features = np.array([[0.0], [0.1], [1.0], [1.1]], dtype=np.float32)
    >>> RBFClassifier(C=10.0, gamma=1.0).fit(features, np.array([3, 3, 7, 7])).predict(features)
    array([3, 3, 7, 7])
    """

    classes_: NDArray[Any]
    support_: NDArray[np.intp]
    support_counts_: NDArray[np.intp]
    support_vectors_: NDArray[np.floating[Any]]
    dual_coefficients_: Doubles
    intercept_: Doubles
    centre_: Doubles

    def __init__(self, C: float = 10.0, gamma: float = 0.02, backend: Backend | None = None) -> None:
        self.C = _check_positive(C, "C")
        self.gamma = _check_positive(gamma, "gamma")
        self.backend = Backend() if backend is None else backend

    def fit(self, features: Array, labels: NDArray[Any]) -> Self:
        """Train on features (N, F) and their labels (N,).

        Memory beside the features: the kernel blocks within each class and, for each thread, one matrix over the two
        largest classes, in float64 (0.2 GB for 10,000 images of 10 classes, 2.2 GB for 12,000 of 2 classes).
        """
        backend = self.backend
        training = TrainingSet(features, labels, backend, self.gamma)
        rows = training.rows
        coefficients = np.zeros((len(rows) - 1, len(features)))
        intercept = []
        solutions = training.each_pair(lambda i, j, kernel: _solve_pair(kernel, len(rows[i]), self.C))
        for (i, j), (solution, offset) in zip(class_pairs(len(rows)), solutions, strict=True):
            coefficients[j - 1, rows[i]] = solution[: len(rows[i])]
            coefficients[i, rows[j]] = solution[len(rows[i]) :]
            intercept.append(offset)
        used = [np.flatnonzero(np.any(coefficients[:, row] != 0, axis=0)) for row in rows]
        supports = [row[chosen] for row, chosen in zip(rows, used, strict=True)]
        self.classes_ = training.classes
        self.support_ = np.concatenate(supports)
        self.support_counts_ = np.array([len(support) for support in supports])
        self.support_vectors_ = backend.to_host(training.features[backend.asarray(self.support_)])
        self.dual_coefficients_ = coefficients[:, self.support_]
        self.intercept_ = np.array(intercept)
        self.centre_ = backend.to_host(training.centre)
        # What a prediction needs of each class, on the device; what it is taken from is given up class by class.
        places = [backend.asarray(chosen) for chosen in used]
        exponents = [
            float((-right[at, -1]).max()) for right, at in zip(training.rights, places, strict=True) if len(at)
        ]
        self._dtype = product_dtype(max(exponents))
        self._operands = [training.rights.pop(0)[at].astype(self._dtype) for at in places]
        self._coefficients = [backend.asarray(np.ascontiguousarray(coefficients[:, support].T)) for support in supports]
        return self

    def decision_pairs(self, features: Array) -> Doubles:
        """Compute one-vs-one decision values (N, K(K − 1)/2): column (i, j), i < j, is positive where class i wins.

        These are the values of SVC's ``decision_function`` with ``decision_function_shape="ovo"``; for two
        classes alone SVC turns their sign round.
        """
        return np.concatenate(list(self._decision_chunks(features)))

    def predict(self, features: Array) -> NDArray[Any]:
        """Predict the labels (N,) of features (N, F), ties broken as SVC breaks them."""
        numbers = [vote(decisions, len(self.classes_)) for decisions in self._decision_chunks(features)]
        labels: NDArray[Any] = self.classes_[np.concatenate(numbers)]
        return labels

    def _decision_chunks(self, features: Array) -> Iterator[Doubles]:
        """Compute the decision values of some rows at a time, (n, K(K − 1)/2) on the host.

        The kernel is computed class by class of the support vectors, in float32 where that is exact enough. The
        coefficients of a class have one sign in each machine, so that a decision is the difference of two large
        sums: these are in float64 (in float32 they were off by up to 1e-3, and one label of 12,000 with them).
        """
        _check_matrix(features, "given", width=self.support_vectors_.shape[1])
        backend, classes = self.backend, len(self.classes_)
        columns = [
            backend.asarray(np.array([k for k, pair in enumerate(class_pairs(classes)) if number in pair]))
            for number in range(classes)
        ]
        centre, intercept = backend.asarray(self.centre_), backend.asarray(self.intercept_)
        bytes_per_row = (np.dtype(self._dtype).itemsize + 8) * max(int(self.support_counts_.max()), 1)
        rows = max(1, min(ROWS_AT_ONCE, BLOCK_BYTES // bytes_per_row))
        for start in range(0, len(features), rows):
            chunk = backend.asarray(features[start : start + rows])
            _check_finite(chunk, "given")
            sums = partial(self._sums_of_class, left_operand(*centred(chunk, centre, backend), self._dtype, backend))
            decisions = backend.xp.tile(intercept, (len(chunk), 1))
            for number, values in enumerate(backend.map(sums, range(classes))):
                decisions[:, columns[number]] += values
            yield backend.to_host(decisions)

    def _sums_of_class(self, operand: Array, number: int) -> Array:
        """Add up what the support vectors of one class give to the decisions it takes part in, (n, K − 1)."""
        kernel = rbf_kernel(operand, self._operands[number], self.backend)
        return kernel.astype(np.float64) @ self._coefficients[number]


@dataclass(frozen=True)
class Classification:
    """The result of a classifier on the test images.

    Rows of the confusion are classes, columns the labels given; a class without test images has no error.
    """

    test_error_percent: float
    confusion: list[list[int]]
    error_per_class: list[float | None]
    support_vectors: int
    classes: list[Any]


def evaluate_classifier(
    classifier: RBFClassifier, parts: Iterable[tuple[Array, NDArray[np.int64]]], test_labels: NDArray[Any]
) -> Classification:
    """Measure a trained classifier on images (with M labels) that may be seen in several orientations each.

    The decision values of all features of an image are added up, and the pairs of classes vote on the sums. The `parts`
    are some features (m, F) at a time, and the image (m,) that each is of; every image is in one part at least.
    """
    classes = classifier.classes_
    truth = _class_numbers(np.asarray(test_labels), classes, len(test_labels), "test")
    decisions = np.zeros((len(truth), len(class_pairs(len(classes)))))
    for features, rows in parts:
        if rows.max() >= len(truth):
            raise InputError(f"there are labels of {len(truth)} test images but features of image {rows.max()}")
        np.add.at(decisions, rows, classifier.decision_pairs(features))
    given = vote(decisions, len(classes))
    from sklearn.metrics import confusion_matrix

    confusion = confusion_matrix(truth, given, labels=np.arange(len(classes)))
    images = confusion.sum(axis=1)
    wrong = images - confusion.diagonal()
    return Classification(
        test_error_percent=100.0 * int(wrong.sum()) / len(truth),
        confusion=confusion.tolist(),
        error_per_class=[100.0 * int(w) / int(n) if n else None for w, n in zip(wrong, images, strict=True)],
        support_vectors=len(classifier.support_),
        classes=classes.tolist(),
    )


@dataclass(frozen=True)
class GridSearchResult:
    """The C and γ with the smallest validation error, the first of equals, and every pair of the grid with its own."""

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
    """Train the classifier for every C and γ and measure each on the validation images.

    One pair of classes after the other is solved for the whole grid, so that its distances are computed once
    and given up again; of every grid point only the decision values on the validation images are kept.

    Parameters
    ----------
    train_features : (N, F) array
    train_labels : (N,) array
    valid_features : (M, F) array
    valid_labels : (M,) array, or one for each image that `valid_rows` names
    C_values, gamma_values : sequences of positive numbers
    valid_rows : (M,) array, optional
        The image of each row of features, if an image may be seen in several orientations: their decision values are
        added up.
    progress : callable (done, total), optional
        Called after each pair of classes.
    """
    backend = Backend() if backend is None else backend
    if not len(C_values) or not len(gamma_values):
        raise InputError("the grid search needs at least one value of C and one of gamma")
    penalties = [_check_positive(value, "C") for value in C_values]
    gammas = [_check_positive(value, "gamma") for value in gamma_values]
    training = TrainingSet(train_features, train_labels, backend, None)
    _check_matrix(valid_features, "validation", width=train_features.shape[1])
    _check_finite(valid_features, "validation")
    images = np.arange(len(valid_features)) if valid_rows is None else valid_rows
    truth = _class_numbers(np.asarray(valid_labels), training.classes, int(images.max()) + 1, "validation")

    valid_distances = training.distances_to(valid_features)
    pairs = class_pairs(len(training.classes))
    decisions = np.empty((len(penalties), len(gammas), len(truth), len(pairs)))

    def solve(i: int, j: int, distances: Doubles) -> Doubles:
        """Compute the decision values of one pair of classes at all points of the grid, (C, γ, image)."""
        kernel, values = np.empty_like(distances), np.empty((len(penalties), len(gammas), len(truth)))
        to_both = np.concatenate([valid_distances[i], valid_distances[j]], axis=1)
        for g, gamma in enumerate(gammas):
            np.multiply(distances, gamma, out=kernel)
            np.exp(kernel, out=kernel)
            valid_kernel = np.exp(gamma * to_both)
            for c, penalty in enumerate(penalties):
                coefficients, intercept = _solve_pair(kernel, len(training.rows[i]), penalty)
                values[c, g] = np.bincount(images, weights=valid_kernel @ coefficients + intercept)
        return values

    for column, values in enumerate(training.each_pair(solve)):
        decisions[..., column] = values
        if progress is not None:
            progress(column + 1, len(pairs))
    grid = []
    for c, penalty in enumerate(penalties):
        for g, gamma in enumerate(gammas):
            wrong = int(np.count_nonzero(vote(decisions[c, g], len(training.classes)) != truth))
            error = 100.0 * wrong / len(truth)
            grid.append({"C": penalty, "gamma": gamma, "validation_error_percent": error})
    best = min(grid, key=lambda point: point["validation_error_percent"])
    return GridSearchResult(best["C"], best["gamma"], best["validation_error_percent"], grid)


class TrainingSet:
    """Checked training features (N, F), grouped by class, and the matrices of all pairs of classes.

    These hold the kernel exp(−γ d²), or without γ −d². The rows of each of the K classes are in the order of the data:
    the order in which libsvm meets them.
    """

    def __init__(self, features: Array, labels: NDArray[Any], backend: Backend, gamma: float | None) -> None:
        _check_matrix(features, "training")
        _check_finite(features, "training")
        labels = np.asarray(labels)
        if labels.shape != (len(features),):
            raise InputError(f"there are {len(features)} training images but labels of the shape {labels.shape}")
        self.classes, members, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if len(counts) < 2:
            raise InputError(f"the training images are all of class {labels[0]}; a classifier needs two classes")
        if counts.min() < 2:
            rare = self.classes[counts.argmin()]
            raise InputError(f"class {rare} has one training image; a classifier needs at least 2 images of each class")
        self.rows = [np.flatnonzero(members == number) for number in range(len(self.classes))]
        self.backend = backend
        self.gamma = gamma
        self.features = backend.asarray(features)
        self.centre = self.features.mean(axis=0, dtype=np.float64)
        # Products are in float64: float32 distances move dual coefficients by up to 0.04, as the solver then takes
        # other steps.
        scale = 1.0 if gamma is None else gamma
        self.rights = [
            right_operand(*self._centred(number), np.float64, backend, scale=scale) for number in range(len(self.rows))
        ]

    def each_pair(self, use: Callable[[int, int, Doubles], Result]) -> Iterator[Result]:
        """Give, for the pairs of classes i < j in libsvm's order, what `use` makes of i, j and their matrix.

        Each block of it is computed once; the matrix is overwritten by that of a later pair.
        """
        sizes = [len(row) for row in self.rows]
        own = list(
            self.backend.map(lambda number: self._block(self._left(number), number, own=True), range(len(sizes)))
        )
        # One side of the products is held for all classes, the other for those that are at work.
        left = lru_cache(maxsize=2)(self._left)
        two_largest = sum(sorted(sizes)[-2:])
        # One for each thread.
        buffers: SimpleQueue[Doubles] = SimpleQueue()

        def fill_and_use(pair: tuple[int, int]) -> Result:
            i, j = pair
            first, both = sizes[i], sizes[i] + sizes[j]
            try:
                buffer = buffers.get_nowait()
            except Empty:
                buffer = np.empty(two_largest * two_largest)
            matrix = buffer[: both * both].reshape(both, both)
            matrix[:first, :first] = own[i]
            matrix[first:, first:] = own[j]
            matrix[:first, first:] = self._block(left(i), j)
            matrix[first:, :first] = matrix[:first, first:].T
            result = use(i, j, matrix)
            buffers.put(buffer)
            return result

        yield from self.backend.map(fill_and_use, class_pairs(len(sizes)))

    def _centred(self, number: int) -> tuple[Array, Array]:
        """Give the centred features of a class and their squared norms, on the device."""
        return centred(self.features[self.backend.asarray(self.rows[number])], self.centre, self.backend)

    def _left(self, number: int) -> Array:
        return left_operand(*self._centred(number), np.float64, self.backend)

    def _block(self, left: Array, j: int, *, own: bool = False) -> Doubles:
        """Compute the values between the images of a class and those of class j, (n_i, n_j)."""
        values = negative_distances(left, self.rights[j], self.backend)
        if own:
            self.backend.xp.fill_diagonal(values, 0.0)  # an image is at no distance from itself, not at 1e-15
        if self.gamma is not None:
            self.backend.xp.exp(values, out=values)
        return self.backend.to_host(values)

    def distances_to(self, features: Array) -> list[Doubles]:
        """Compute −|x − y|² between features (M, F) and the training images of each class, (M, n_i) each."""
        operand = left_operand(*centred(features, self.centre, self.backend), np.float64, self.backend)
        return [self.backend.to_host(negative_distances(operand, right, self.backend)) for right in self.rights]


def _solve_pair(kernel: Doubles, first: int, C: float) -> tuple[Doubles, float]:
    """Train the machine of two classes i < j with the settings SVC has by default, in libsvm's signs.

    The kernel (n, n) has the `first` rows of class i. Coefficients (n,) are y·α of each image, 0 where it is no support
    vector; a positive decision value votes for class i. The second result is the intercept.
    """
    labels = np.repeat([0, 1], [first, len(kernel) - first])
    from sklearn.svm import SVC

    machine: Any = SVC(C=C, kernel="precomputed").fit(kernel, labels)
    coefficients = np.zeros(len(kernel))
    # With two classes alone SVC turns the signs round, to make a positive value mean the second class.
    coefficients[machine.support_] = -machine.dual_coef_[0]
    return coefficients, -float(machine.intercept_[0])


def class_pairs(classes: int) -> list[tuple[int, int]]:
    """List the pairs (i, j), i < j, of class numbers in libsvm's order."""
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


def vote(decisions: Doubles, classes: int) -> NDArray[np.intp]:
    """Find the class number with most of the pairwise wins, the lowest one among equals, as in libsvm.

    A decision value of exactly 0 is a win of the second class, also as in libsvm.
    """
    wins = np.zeros((len(decisions), classes), dtype=np.int32)
    for column, (i, j) in enumerate(class_pairs(classes)):
        first_wins = decisions[:, column] > 0
        wins[:, i] += first_wins
        wins[:, j] += ~first_wins
    winners: NDArray[np.intp] = wins.argmax(axis=1)
    return winners


# Squared distances and RBF kernels by one matrix product each. With the rows of one side widened to (x, −|x|², 1)
# and those of the other to (2y, 1, −|y|²), one product gives −|x − y|² = 2xy − |x|² − |y|²: BLAS adds the norms too,
# and only the clip and the exp are left.


def centred(features: Array, centre: Array, backend: Backend) -> tuple[Array, Array]:
    """Give features (n, F) from the centre, and their squared norms (n,), in float64.

    Distances do not depend on the centre, but their rounding does: the nearer the rows are to zero, the less cancels.
    """
    rows = backend.asarray(features, dtype=np.float64) - centre
    return rows, backend.xp.einsum("ij,ij->i", rows, rows)


def left_operand(rows: Array, norms: Array, dtype: Any, backend: Backend) -> Array:
    """Make rows ``(x, −|x|², 1)`` of centred features, (n, F + 2)."""
    operand = backend.xp.empty((len(rows), rows.shape[1] + 2), dtype=dtype)
    operand[:, :-2] = rows
    operand[:, -2] = -norms
    operand[:, -1] = 1.0
    return operand


def right_operand(rows: Array, norms: Array, dtype: Any, backend: Backend, *, scale: float = 1.0) -> Array:
    """Make rows `scale` · ``(2y, 1, −|y|²)`` of centred features, (n, F + 2)."""
    operand = backend.xp.empty((len(rows), rows.shape[1] + 2), dtype=dtype)
    operand[:, :-2] = (2.0 * scale) * rows
    operand[:, -2] = scale
    operand[:, -1] = -scale * norms
    return operand


def negative_distances(left: Array, right: Array, backend: Backend) -> Array:
    """Compute −`scale` · |x − y|² for all pairs of rows of two operands, clipped at 0, (n, m)."""
    product = left @ right.T
    return backend.xp.minimum(product, 0.0, out=product)


def rbf_kernel(left: Array, right: Array, backend: Backend) -> Array:
    """Compute exp(−`scale` · |x − y|²) for all pairs of rows of two operands, (n, m); `scale` is the kernel's γ."""
    exponents = negative_distances(left, right, backend)
    return backend.xp.exp(exponents, out=exponents)


def product_dtype(exponent: float) -> Any:
    """Choose float32 where it is exact enough for support vectors x with a γ|x|² of at most this, else float64."""
    return np.float32 if exponent <= LARGEST_FLOAT32_EXPONENT else np.float64


def _check_positive(value: float, name: str) -> float:
    """Return `value` as a float, or refuse one that is not a positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} is {value}, but it must be a positive number")
    return float(value)


def _check_matrix(features: Array, what: str, *, width: int | None = None) -> None:
    """Refuse features that are no matrix, are empty, or have another number of columns than `width`."""
    if features.ndim != 2 or 0 in features.shape:
        raise InputError(f"the {what} features have the shape {features.shape}; give one row for each image")
    if width is not None and features.shape[1] != width:
        raise InputError(
            f"the {what} features have {features.shape[1]} columns, the training features {width}; "
            "give features of the same model"
        )


def _check_finite(features: Array, what: str) -> None:
    if not all_finite(features):
        raise InputError(f"the {what} features have NaN or infinite values; train the model again or correct the file")


def _class_numbers(labels: NDArray[Any], classes: NDArray[Any], images: int, what: str) -> NDArray[np.intp]:
    """Give the class number of each label, refusing a class that the training images do not have."""
    if labels.shape != (images,):
        raise InputError(f"there are {images} {what} images but labels of the shape {labels.shape}")
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise InputError(f"the {what} images have class {unknown[0]}, which no training image has")
    return np.searchsorted(classes, labels)
