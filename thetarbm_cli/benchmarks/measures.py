"""Speed of what is measured on features, and of what is done to images."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from skimage.transform import rotate
from sklearn.svm import SVC

from thetarbm_cli.benchmarks.timing import Comparison, compare, seconds_of
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.measures.gamma import DEFAULT_CHUNK, gamma_score
from thetarbm_cli.measures.svm import RBFClassifier
from thetarbm_cli.models import RBM, ThetaRBM

Images = NDArray[np.float32]


def svm_comparisons(
    train: Images, labels: NDArray[np.int64], test: Images, hidden: int, epochs: int
) -> tuple[Comparison, Comparison, int]:
    """scikit-learn's SVC against ours on features of an RBM: the fit, the prediction, and the support vectors.

    The RBM is trained with the settings of the suite's: with 10,000 images and 30 epochs it is the suite's run.
    """
    model = RBM(hidden, epochs=epochs, backend="numpy").fit(train)
    features, tested = model.transform(train), model.transform(test)
    theirs, ours = SVC(C=10, gamma=0.02), RBFClassifier(10, 0.02)
    fit = compare(lambda: theirs.fit(features, labels), lambda: ours.fit(features, labels), 2, warm=True)
    predict = compare(lambda: theirs.predict(tested), lambda: ours.predict(tested), 2, warm=True)
    return fit, predict, len(ours.support_)


def orientation_seconds(images: Images) -> float:
    """Seconds of the default estimator."""
    estimator = OrientationEstimator()
    estimator(images[:100])
    return seconds_of(lambda: estimator(images))


def rotation_comparison(images: Images) -> Comparison:
    """scikit-image's rotation against ours."""
    size = int(np.sqrt(images.shape[1]))
    turns = Rotations(size, 9)
    stack = images.reshape(-1, size, size)
    return compare(lambda: [rotate(image, 40) for image in stack], lambda: turns.rotate_by(images, 1), 3)


def gamma_comparison(train: Images, images: Images, hidden: int) -> Comparison:
    """The θ-RBM's γ-score against its matrix products alone: each image as it is and turned S ways."""
    model = ThetaRBM(hidden, epochs=1, backend="numpy").fit(train)
    size = int(np.sqrt(images.shape[1]))
    weights = np.ascontiguousarray(model.weights_)

    def products() -> None:
        for first in range(0, len(images), DEFAULT_CHUNK):
            for _ in range(model.rotations + 1):
                images[first : first + DEFAULT_CHUNK] @ weights.T

    gamma_score(model.transform, images[:DEFAULT_CHUNK], size=size)
    return compare(lambda: gamma_score(model.transform, images, size=size), products, 3, warm=True)
