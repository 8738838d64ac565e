"""RBF-SVM with the semantics of scikit-learn's SVC."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from thetarbm_cli.backend import Array, Backend, NumpyBackend
from thetarbm_cli.measures import checks, svm_fit, svm_predict


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
    cache_megabytes : float
        libsvm's cache of one pair of classes; more than its float32 kernel matrix is never used.

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
        As SVC's ``dual_coef_``. SVC turns the sign round for two classes alone; here it is always libsvm's.
    intercept_ : (K(K − 1)/2,) array

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
    dual_coefficients_: NDArray[np.float64]
    intercept_: NDArray[np.float64]

    def __init__(
        self,
        C: float = 10.0,
        gamma: float = 0.02,
        backend: Backend | None = None,
        cache_megabytes: float = svm_fit.DEFAULT_CACHE_MEGABYTES,
    ) -> None:
        self.C = checks.positive(C, "C")
        self.gamma = checks.positive(gamma, "gamma")
        self.cache_megabytes = checks.positive(cache_megabytes, "cache_megabytes")
        self.backend: Backend = NumpyBackend() if backend is None else backend

    def fit(self, features: Array, labels: NDArray[Any]) -> Self:
        """Train on features (N, F) and their labels (N,).

        Memory beside the features: the kernel blocks within each class and one matrix over the two largest
        classes, in float64 (0.2 GB for 10,000 images of 10 classes, 2.2 GB for 12,000 of 2 classes).

        Raises
        ------
        InputError
            If features are not finite, or the labels are of one class, or a class has fewer than 2 images.
        """
        checks.feature_matrix(features, "training")
        checks.finite(features, "training")
        classes, members = checks.training_labels(np.asarray(labels), len(features))
        rows = svm_fit.class_rows(members, len(classes))
        sizes = [len(row) for row in rows]
        device = self.backend.asarray(features)
        centre = device.mean(axis=0, dtype=np.float64)
        block = svm_fit.block_function(device, rows, centre, self.gamma, self.backend)
        coefficients = np.zeros((len(classes) - 1, len(features)))
        intercept = []
        for i, j, kernel in svm_fit.pair_matrices(block, sizes):
            solution = svm_fit.solve_pair(kernel, sizes[i], self.C, self.cache_megabytes)
            coefficients[j - 1, rows[i]] = solution.coefficients[: sizes[i]]
            coefficients[i, rows[j]] = solution.coefficients[sizes[i] :]
            intercept.append(solution.intercept)
        supports = [row[np.any(coefficients[:, row] != 0, axis=0)] for row in rows]
        self.classes_ = classes
        self.support_ = np.concatenate(supports)
        self.support_counts_ = np.array([len(support) for support in supports])
        self.support_vectors_ = self.backend.to_host(device[self.backend.asarray(self.support_)])
        self.dual_coefficients_ = coefficients[:, self.support_]
        self.intercept_ = np.array(intercept)
        self._machine = svm_predict.OneVsOneMachine(
            self.support_vectors_,
            self.support_counts_,
            self.dual_coefficients_,
            self.intercept_,
            self.backend.to_host(centre),
            self.gamma,
        )
        return self

    def decision_pairs(self, features: Array) -> NDArray[np.float64]:
        """One-vs-one decision values (N, K(K − 1)/2): column (i, j), i < j, is positive where class i wins.

        These are the values of SVC's ``decision_function`` with ``decision_function_shape="ovo"``; for two
        classes alone SVC turns their sign round.
        """
        self._check_width(features)
        return np.concatenate(list(svm_predict.decision_chunks(self._machine, features, self.backend)))

    def predict(self, features: Array) -> NDArray[Any]:
        """Labels (N,) of features (N, F), ties broken as SVC breaks them."""
        self._check_width(features)
        chunks = svm_predict.decision_chunks(self._machine, features, self.backend)
        numbers = [svm_predict.vote(decisions, len(self.classes_)) for decisions in chunks]
        return self.classes_[np.concatenate(numbers)]

    def _check_width(self, features: Array) -> None:
        checks.feature_matrix(features, "given", width=self.support_vectors_.shape[1])
