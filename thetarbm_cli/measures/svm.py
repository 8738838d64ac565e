"""The error of an RBF-SVM on features (Table 1), with the semantics of scikit-learn's SVC.

libsvm splits a problem of K classes into K(K − 1)/2 problems of two classes and evaluates the kernel element by
element. Here matrix products fill the kernel of each pair of classes, which SVC then solves as a precomputed one: the
same steps to the same model, several times as fast, and no more than some blocks of the N × N matrix are held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend, all_finite
from thetarbm_cli.errors import InputError

# Rows whose kernel with all support vectors is held at a time: fewer, where that would take more than so many bytes.
ROWS_AT_ONCE = 500
BLOCK_BYTES = 64 * 2**20
# Rows whose distances say how large distances are.
SAMPLED_DISTANCES = 1000

Doubles = NDArray[np.float64]


class RBFClassifier:
    """RBF-SVM, one-vs-one: the model of ``SVC(kernel="rbf")``, trained and applied by matrix products.

    Trained on a single class, which SVC refuses, it predicts that class.

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
    support_, support_counts_, support_vectors_ : (M,), (K,) and (M, F) arrays
        Rows of the training features that are support vectors, grouped by class; how many of each class; the vectors.
    dual_coefficients_, intercept_ : (K − 1, M) and (K(K − 1)/2,) arrays
        As SVC's, which turns their sign round for two classes alone; here it is always libsvm's. Column m has the
        coefficients of support vector m in the pairs that its class is in, in the order of the other classes.
    """

    def __init__(self, C: float = 10.0, gamma: float = 0.02, backend: Backend | None = None) -> None:
        self.C = _check_positive(C, "C")
        self.gamma = _check_positive(gamma, "gamma")
        self.backend = Backend() if backend is None else backend

    def fit(self, features: Array, labels: NDArray[Any]) -> Self:
        """Train on features (N, F) and their labels (N,).

        Memory beside the features: these in float64, the kernel within each class and, for each thread, the kernel of
        two classes (0.3 GB for 10,000 images of 10 classes, 2.1 GB for 12,000 of 2 classes).
        """
        _check_features(features, "training")
        labels = _check_labels(labels, len(features), "training")
        # Before there are threads, which would all import it.
        from sklearn.svm import SVC

        backend, features = self.backend, self.backend.asarray(features)
        self.classes_, numbers = np.unique(labels, return_inverse=True)
        self._centre = features.mean(axis=0, dtype=np.float64)
        rows = [np.flatnonzero(numbers == number) for number in range(len(self.classes_))]
        points = [self._scaled(features[backend.asarray(row)]) for row in rows]
        within = list(backend.map(lambda own: backend.to_host(rbf_kernel(own, own, backend)), points))

        def solve(pair: tuple[int, int]) -> Any:
            i, j = pair
            across = backend.to_host(rbf_kernel(points[i], points[j], backend))
            kernel = np.block([[within[i], across], [across.T, within[j]]])
            # Without a seed, SVC would draw one from NumPy's global numbers.
            return SVC(C=self.C, kernel="precomputed", random_state=0).fit(kernel, np.repeat([0, 1], across.shape))

        pairs, intercept = class_pairs(len(rows)), []
        coefficients = np.zeros((len(rows) - 1, len(labels)))
        for (i, j), solution in zip(pairs, backend.map(solve, pairs), strict=True):
            support = np.concatenate([rows[i], rows[j]])[solution.support_]
            # With two classes alone SVC turns the signs round, to make a positive value mean the second class.
            coefficients[np.where(numbers[support] == i, j - 1, i), support] = -solution.dual_coef_[0]
            intercept.append(-solution.intercept_[0])
        self.support_ = np.concatenate([row[coefficients[:, row].any(axis=0)] for row in rows])
        self.support_counts_ = np.bincount(numbers[self.support_], minlength=len(rows))
        self.dual_coefficients_: Doubles = coefficients[:, self.support_]
        self.intercept_: Doubles = np.array(intercept)
        vectors = features[backend.asarray(self.support_)]
        self.support_vectors_, self._support_points = backend.to_host(vectors), self._scaled(vectors)
        return self

    def decision_pairs(self, features: Array) -> Doubles:
        """Compute one-vs-one decision values (N, K(K − 1)/2): column (i, j), i < j, is positive where class i wins."""
        return np.concatenate(list(self._decision_chunks(features)))

    def predict(self, features: Array) -> NDArray[Any]:
        """Predict the labels (N,) of features (N, F), ties broken as SVC breaks them."""
        numbers = [vote(decisions, len(self.classes_)) for decisions in self._decision_chunks(features)]
        return self.classes_.take(np.concatenate(numbers))

    def _decision_chunks(self, features: Array) -> Iterator[Doubles]:
        """Compute the decision values of some rows at a time, (n, K(K − 1)/2) on the host."""
        _check_features(features, "given", width=self.support_vectors_.shape[1])
        backend, pairs = self.backend, class_pairs(len(self.classes_))
        coefficients = backend.asarray(self.dual_coefficients_.T)
        ends = np.cumsum(self.support_counts_).tolist()
        rows = max(1, min(ROWS_AT_ONCE, BLOCK_BYTES // (8 * len(coefficients) + 1)))

        def decide(start: int) -> Doubles:
            chunk = self._scaled(backend.asarray(features[start : start + rows]))
            kernel = rbf_kernel(chunk, self._support_points, backend)
            decisions = np.tile(self.intercept_, (len(chunk), 1))
            for number, (first, last) in enumerate(pairwise([0, *ends])):
                columns = [column for column, pair in enumerate(pairs) if number in pair]
                decisions[:, columns] += backend.to_host(kernel[:, first:last] @ coefficients[first:last])
            return decisions

        yield from backend.map(decide, range(0, len(features), rows))

    def _scaled(self, features: Array) -> Array:
        """Give features in float64 and the scale of `rbf_kernel`, from the centre, so that less cancels."""
        return (features - self._centre) * math.sqrt(2 * self.gamma)


@dataclass(frozen=True)
class Classification:
    """The result of a classifier on the test images.

    Classes are those of the training or of the test images. Rows of the confusion are classes, columns the labels
    given; a class without test images has no error.
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
    are some features (m, F) at a time, and the image (m,) that each is of; every image is in one part at least. An
    image of a class that no training image has is an error.
    """
    known, truth = classifier.classes_, _check_labels(test_labels, len(test_labels), "test")
    decisions = np.zeros((len(truth), len(class_pairs(len(known)))))
    for features, rows in parts:
        if rows.max() >= len(truth):
            raise InputError(f"there are labels of {len(truth)} test images but features of image {rows.max()}")
        np.add.at(decisions, rows, classifier.decision_pairs(features))
    given = known[vote(decisions, len(known))]
    classes = np.union1d(known, truth)
    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (np.searchsorted(classes, truth), np.searchsorted(classes, given)), 1)
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
    """The C and γ with the smallest validation error, and every point of the grid with its own."""

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

    Where an image may be seen in several orientations, `valid_rows` names the image of each row of features, whose
    decision values are added up. Of several points with the smallest error the first is chosen. `progress` is told
    how many points are done, and of how many.
    """
    points = [(_check_positive(C, "C"), _check_positive(gamma, "gamma")) for C in C_values for gamma in gamma_values]
    if not points:
        raise InputError("the grid search needs at least one value of C and one of gamma")
    # Before anything is trained.
    _check_features(valid_features, "validation", width=train_features.shape[-1])
    rows = np.arange(len(valid_features)) if valid_rows is None else valid_rows
    _check_labels(valid_labels, int(rows.max()) + 1, "validation")
    grid = []
    for done, (C, gamma) in enumerate(points, start=1):
        classifier = RBFClassifier(C, gamma, backend).fit(train_features, train_labels)
        error = evaluate_classifier(classifier, [(valid_features, rows)], valid_labels).test_error_percent
        grid.append({"C": C, "gamma": gamma, "validation_error_percent": error})
        if progress is not None:
            progress(done, len(points))
    best = min(grid, key=lambda point: point["validation_error_percent"])
    return GridSearchResult(best["C"], best["gamma"], best["validation_error_percent"], grid)


def median_factor(
    features: NDArray[np.floating[Any]], images: NDArray[np.int64], generator: np.random.Generator
) -> float:
    """Compute 1 / the median squared distance between features of different images; 1 where that is 0.

    At most `SAMPLED_DISTANCES` rows of features (N, F) are compared, drawn at random; `images` (N,) names the image of
    each row.
    """
    chosen = generator.permutation(len(features))[:SAMPLED_DISTANCES]
    points, of = features[chosen].astype(np.float64), images[chosen]
    points -= points.mean(axis=0)
    lengths = np.einsum("ij,ij->i", points, points)
    squares = lengths[:, None] + lengths - 2 * points @ points.T
    distances = np.maximum(squares[np.triu(of[:, None] != of)], 0)
    median = float(np.median(distances)) if distances.size else 0.0
    return 1 / median if median > 0 else 1.0


def rbf_kernel(left: Array, right: Array, backend: Backend) -> Array:
    """Compute exp(−|x − y|² / 2) for all pairs of rows of two float64 matrices by one product, (n, m)."""
    xp = backend.xp
    values = left @ right.T
    values -= xp.einsum("ij,ij->i", left, left)[:, None] / 2
    values -= xp.einsum("ij,ij->i", right, right) / 2
    xp.exp(xp.minimum(values, 0.0, out=values), out=values)
    if left is right:
        xp.fill_diagonal(values, 1.0)  # a point is at no distance from itself, not at 1e-15
    return values


def class_pairs(classes: int) -> list[tuple[int, int]]:
    """List the pairs (i, j), i < j, of class numbers in libsvm's order."""
    return list(combinations(range(classes), 2))


def vote(decisions: Doubles, classes: int) -> NDArray[np.intp]:
    """Find the class number with most of the pairwise wins, the lowest one among equals, as in libsvm.

    A decision value of exactly 0 is a win of the second class, also as in libsvm.
    """
    wins = np.zeros((len(decisions), classes), dtype=np.int32)
    for (i, j), values in zip(class_pairs(classes), decisions.T, strict=True):
        wins[:, i] += values > 0
        wins[:, j] += ~(values > 0)
    return np.asarray(wins.argmax(axis=1))


def _check_positive(value: float, name: str) -> float:
    """Return `value` as a float, or refuse one that is not a positive finite number."""
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} is {value}, but it must be a positive number")
    return float(value)


def _check_features(features: Array, what: str, *, width: int | None = None) -> None:
    """Refuse features that are no matrix, empty, not finite, or of another number of columns than `width`."""
    if features.ndim != 2 or 0 in features.shape:
        raise InputError(f"the {what} features have the shape {features.shape}; give one row for each image")
    if width is not None and features.shape[1] != width:
        given = f"the {what} features have {features.shape[1]} columns, the training features {width}"
        raise InputError(f"{given}; give features of the same model")
    if not all_finite(features):
        raise InputError(f"the {what} features have NaN or infinite values; train the model again or correct the file")


def _check_labels(labels: NDArray[Any], images: int, what: str) -> NDArray[Any]:
    """Return the labels of so many images as an array, or refuse another number of them."""
    labels = np.asarray(labels)
    if labels.shape != (images,):
        raise InputError(f"there are {images} {what} images but labels of the shape {labels.shape}")
    return labels
