"""Time what is done to images and to features: orientation, rotation, γ-score and classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray
from skimage.transform import rotate
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from benchmarks.epochs import Images, Sizes
from benchmarks.report import Part, Ratio
from benchmarks.timing import Job, compare, seconds_of, shares
from thetarbm_cli.backend import Backend, cores
from thetarbm_cli.imaging.orientation import OrientationEstimator
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.imaging.standardise import Standardiser
from thetarbm_cli.measures.gamma import DEFAULT_CHUNK, GammaAccumulator, gamma_score
from thetarbm_cli.measures.svm import RBFClassifier
from thetarbm_cli.models import RBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.pipeline import find_orientations
from thetarbm_cli.store import Store

# The γ-score's rotations of an image.
_COPIES, _OFFSET = 9, 20.0


def measure_ratios(images: Images, labels: NDArray[np.int64], test: Images, sizes: Sizes) -> Iterator[Ratio]:
    """Compare classifier, rotation and γ-score with other libraries or their limit; time the orientations."""
    yield from _svm(images, labels, test[: sizes.svm_tested], sizes)
    oriented = test[: sizes.oriented]
    estimator = OrientationEstimator()
    estimator(oriented[:100])
    # The goal is 15 s for 50,000 images.
    goal = round(15.0 * len(oriented) / 50_000, 3)
    name = f"orientation of {len(oriented):,} images"
    yield Ratio.of(name, seconds_of(lambda: estimator(oriented)), goal, at_most=True, unit="s")
    yield _rotation(test[: sizes.rotated_by_peer])
    yield from _gamma(images, np.concatenate([images, test])[: sizes.gamma_images], sizes)


def _svm(train: Images, labels: NDArray[np.int64], test: Images, sizes: Sizes) -> Iterator[Ratio]:
    """Compare scikit-learn's SVC with ours on features of an RBM: the fit, and the prediction.

    The RBM is trained with the settings of the suite's: with 10,000 images and 30 epochs it is the suite's run. SVC
    uses one core; ours is measured on one, and on all, which a Python user gets.
    """
    model = RBM(sizes.hidden, epochs=sizes.svm_epochs, backend="numpy").fit(train)
    features, tested = model.transform(train), model.transform(test)
    theirs, ours = SVC(C=10, gamma=0.02), RBFClassifier(10, 0.02)
    for threads in sorted({1, cores()}):
        with threadpool_limits(threads, user_api="blas"):
            fit = compare(lambda: theirs.fit(features, labels), lambda: ours.fit(features, labels), 2, warm=True)
            predict = compare(lambda: theirs.predict(tested), lambda: ours.predict(tested), 2, warm=True)
        on = "" if threads == 1 else f", {threads} threads"
        yield Ratio.compared(f"SVC.fit / our fit{on}", fit, 4.0, note=f"{len(train):,} images")
        note = f"{len(ours.support_):,} support vectors, {len(test):,} images"
        yield Ratio.compared(f"SVC.predict / our prediction{on}", predict, 8.0, note=note)


def _rotation(images: Images) -> Ratio:
    """Compare scikit-image's rotation with ours."""
    size = int(np.sqrt(images.shape[1]))
    rotations = Rotations(size, 9)
    stack = images.reshape(-1, size, size)
    times = compare(lambda: [rotate(image, 40) for image in stack], lambda: rotations.rotate_by(images, 1), 3)
    return Ratio.compared("scikit-image rotation / ours", times, 10.0, note=f"{len(images):,} images")


def _gamma(train: Images, images: Images, sizes: Sizes) -> Iterator[Ratio]:
    """Compare γ-scores with their matrix products alone: each image as it is and rotated S ways.

    Orientations are known, as for the second model on the same images. The TI-RBM has none, and rotates every copy.
    """
    theta = ThetaRBM(sizes.hidden, epochs=1, backend="numpy").fit(train)
    pooled = TransformInvariantRBM(sizes.hidden, epochs=1, backend="numpy").fit(train[: sizes.images // 10])
    # A ninth of the images: each takes nine times as long.
    few = images[: max(2, len(images) // pooled.rotations)]
    for name, model, seen, goal, products in (
        ("θ-RBM γ-score / its products, second model", theta, images, 2.0, _COPIES + 1),
        ("TI-RBM γ-score / its products", pooled, few, 1.5, (_COPIES + 1) * pooled.rotations),
    ):
        times = compare(_score(model, seen), _products(model, seen, products), 3)
        yield Ratio.compared(name, times, goal, at_most=True, note=f"{len(seen):,} images")


def _score(model: RBM, images: Images, *, known: bool = True) -> Job:
    """Make a job that computes a γ-score; where orientations are known, from the first call on."""
    folder = TemporaryDirectory()  # it goes with the job

    def score() -> object:
        kept: dict[str, Any] = {"chunk": DEFAULT_CHUNK, "copies": _COPIES, "offset": _OFFSET}
        found = find_orientations(Store(Path(folder.name), Path(folder.name)), model, images, **kept) if known else None
        size = int(np.sqrt(images.shape[1]))
        return gamma_score(
            model.transform,
            images,
            size=size,
            rotations=_COPIES,
            offset=_OFFSET,
            orientations=None if found is None else lambda batch, first, n: found[n, first : first + len(batch)],
        )

    return score


def _products(model: RBM, images: Images, times: int) -> Job:
    """Make a job that multiplies every chunk of images with the weights, so many times."""
    weights = np.ascontiguousarray(model.weights_)

    def products() -> None:
        for first in range(0, len(images), DEFAULT_CHUNK):
            for _ in range(times):
                images[first : first + DEFAULT_CHUNK] @ weights.T

    return products


def gamma_parts(train: Images, images: Images, sizes: Sizes) -> list[Part]:
    """Find where the time of the tied θ-RBM's γ-score goes: every image as it is and rotated nine ways."""
    model = ThetaRBM(sizes.hidden, epochs=1, backend="numpy").fit(train)
    size = model.size_
    weights = np.ascontiguousarray(model.weights_)
    copies, back = Rotations(size, _COPIES, offset=_OFFSET), Rotations(size, model.rotations)
    estimator: OrientationEstimator = model.orientation_estimator()
    chunks = [images[first : first + DEFAULT_CHUNK] for first in range(0, len(images), DEFAULT_CHUNK)]
    # Features are taken of images that are sorted by orientation.
    orders = [np.sort(estimator(chunk)) for chunk in chunks]
    standardiser = Standardiser(rotations=model.rotations).fit(train, estimator(train))
    features = model.transform(chunks[0])
    accumulator = GammaAccumulator(sizes.hidden)

    def each(job: Callable[[Images, Any], object], times: int = _COPIES + 1) -> Job:
        def over_chunks() -> None:
            for chunk, order in zip(chunks, orders, strict=True):
                for _ in range(times):
                    job(chunk, order)

        return over_chunks

    def add(chunk: Images, order: Any) -> None:
        own = features[: len(chunk)]
        accumulator.add(own, (own for _ in range(_COPIES)))

    parts = {
        "dominant orientations": each(lambda chunk, order: estimator(chunk)),
        "products with the weights": each(lambda chunk, order: chunk @ weights.T),
        "turning back, T_s'x": each(lambda chunk, order: back.rotate(chunk, order, transpose=True)),
        "turning the copies": each(lambda chunk, order: [None for _ in copies.rotate_each(chunk)], 1),
        "float64 sums": each(add, 1),
        "sigmoid": each(lambda chunk, order: Backend().sigmoid(features[: len(chunk)])),
        "standardisation": each(standardiser.transform),
    }

    first = Part.all_of("γ-score", shares(_score(model, images, known=False), parts, sizes.rounds))
    del parts["dominant orientations"]
    return [
        *first,
        *Part.all_of("γ, second", shares(_score(model, images), parts, sizes.rounds)),
        *_pooled_parts(train, images[: max(2, len(images) // 10)], sizes),
    ]


def _pooled_parts(train: Images, images: Images, sizes: Sizes) -> list[Part]:
    """Find where the time of the TI-RBM's γ-score goes: every copy is rotated S ways again."""
    model = TransformInvariantRBM(sizes.hidden, epochs=1, backend="numpy").fit(train[: sizes.images // 10])
    own = Rotations(model.size_, model.rotations)
    room = np.zeros((model.rotations, len(images), sizes.hidden), dtype=np.float32)

    def each(job: Callable[[], object]) -> Job:
        return lambda: [job() for _ in range(_COPIES + 1)]

    parts = {
        "products with the weights": _products(model, images, (_COPIES + 1) * model.rotations),
        "rotating, T_s x": each(lambda: own.rotate_all(images)),
        "softmax over rotations": each(lambda: Backend().softmax(room)),
        "sum over rotations": each(lambda: room.sum(axis=0)),
    }
    return Part.all_of("γ, TI-RBM", shares(_score(model, images), parts, sizes.rounds))
