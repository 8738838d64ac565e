"""Speed of what is measured on features, and of what is done to images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from skimage.transform import rotate
from sklearn.svm import SVC

from thetarbm_cli.benchmarks.timing import compare, seconds_of
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.measures.gamma import gamma_score
from thetarbm_cli.measures.svm import RBFClassifier
from thetarbm_cli.models import RBM, ThetaRBM

Images = NDArray[np.float32]


def svm_ratios(train: Images, labels: NDArray[np.int64], test: Images, hidden: int) -> tuple[float, float]:
    """Time of scikit-learn's SVC by ours, for the fit and for the prediction, on features of a real RBM."""
    model = RBM(hidden, epochs=3, backend="numpy").fit(train)
    features, tested = model.transform(train), model.transform(test)
    theirs, ours = SVC(C=10, gamma=0.02), RBFClassifier(10, 0.02)
    fit = compare(lambda: theirs.fit(features, labels), lambda: ours.fit(features, labels), 1)
    predict = compare(lambda: theirs.predict(tested), lambda: ours.predict(tested), 1)
    return fit.ratio, predict.ratio


def orientation_seconds(images: Images) -> float:
    """Seconds of the default estimator."""
    estimator = OrientationEstimator()
    estimator(images[:100])
    return seconds_of(lambda: estimator(images))


def rotation_ratio(images: Images) -> float:
    """Time of scikit-image's rotation by ours."""
    size = int(np.sqrt(images.shape[1]))
    turns = Rotations(size, 9)
    stack = images.reshape(-1, size, size)
    return compare(lambda: [rotate(image, 40) for image in stack], lambda: turns.turn_by(images, 1), 3).ratio


def gamma_ratio(train: Images, images: Images, hidden: int) -> float:
    """Time of the θ-RBM's γ-score by that of its matrix products alone."""
    model = ThetaRBM(hidden, epochs=1, backend="numpy").fit(train)
    size = int(np.sqrt(images.shape[1]))
    weights = np.ascontiguousarray(model.weights_)

    def products() -> None:
        for first in range(0, len(images), 1000):
            for _ in range(model.rotations + 1):
                images[first : first + 1000] @ weights.T

    return compare(lambda: gamma_score(model.transform, images, size=size), products, 1).ratio
