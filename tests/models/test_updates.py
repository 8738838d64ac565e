"""Every kind of update against the naive trainer, over several epochs with short last batches."""

from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from skimage.transform import rotate

from tests.models.exact import turns
from tests.models.naive import NaiveTrainer
from tests.models.small import AUTHORS_SETTINGS
from thetarbm_cli.backend import select_backend
from thetarbm_cli.imaging.rotation import Rotations, rotation_matrix, rotation_operators
from thetarbm_cli.models import RBM, AugmentedRBM, OrientedRBM, ThetaRBM, TransformInvariantRBM
from thetarbm_cli.models.seeds import generator_of, seed_of

SIZE, ROTATIONS, COUNT = 4, 5, 25

MODELS: dict[str, tuple[type[RBM], str, dict[str, Any]]] = {
    "rbm": (RBM, "shared", {}),
    "tirbm": (TransformInvariantRBM, "pooled", {}),
    "theta-tied": (ThetaRBM, "tied", {"tensor": "tied"}),
    "theta-full": (ThetaRBM, "full", {"tensor": "full"}),
    "theta-independent": (ThetaRBM, "full", {"tensor": "full", "initial": "independent"}),
    "theta-permutation": (ThetaRBM, "full", {"tensor": "full", "rotation": "permutation"}),
    "theta-tied-one-bias": (ThetaRBM, "tied", {"tensor": "tied", "visible_biases": "one"}),
    "theta-full-one-bias": (ThetaRBM, "full", {"tensor": "full", "visible_biases": "one"}),
}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"momentum": 0.0, "sparsity": None, "drop_last": True},
    "paper": {},
    "cd-3": {"gibbs_steps": 3, "visible_sampling": "sample"},
    "schedules": {"rate_decay": 0.7, "initial_momentum": 0.3, "momentum_epochs": 2, "weight_decay": 0.05},
    "sparsity of weights": {"sparsity_form": "bias+weights", "sparsity_weight": 3.0, "sparsity": 0.1},
    "learned variance": {"variance": "learned", "weight_decay": 0.01},
    "learned variance, drawn": {"variance": "learned", "visible_sampling": "sample", "gibbs_steps": 2},
    "bernoulli": {"visible": "bernoulli"},
    "bernoulli, drawn": {"visible": "bernoulli", "visible_sampling": "sample", "gibbs_steps": 2},
}
TRACKED: dict[str, dict[str, Any]] = {
    "tracked variance": {"variance": "tracked", "sparsity_form": "bias+weights"},
    "of its authors": {**AUTHORS_SETTINGS, "rotation": "bilinear"},
}


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, settings) for name in ("rbm", "tirbm", "theta-tied", "theta-full") for settings in SETTINGS),
        *((f"theta-{tensor}-one-bias", settings) for tensor in ("tied", "full") for settings in SETTINGS),
        *((name, "learned variance") for name in ("theta-independent", "theta-permutation")),
        *(("tirbm", settings) for settings in TRACKED),
    ],
)
def test_training_is_the_naive_loop(name: str, settings: str) -> None:
    model_class, form, own = MODELS[name]
    common: dict[str, Any] = {
        "hidden": 6, "batch_size": 10, "learning_rate": 0.1, "initial_scale": 0.3, "standardise": False,
        "random_state": 5,
    }  # fmt: skip
    if model_class is not RBM:
        common["rotations"] = ROTATIONS
    common = {**own, **(SETTINGS | TRACKED)[settings], **common}
    model = model_class(**{**common, "epochs": 3})
    random = np.random.default_rng(8)
    images = random.random((COUNT, SIZE * SIZE), dtype=np.float32)
    index = random.integers(0, ROTATIONS, COUNT) if model_class is ThetaRBM else None
    operators = turns(SIZE, ROTATIONS)
    if "rotation" in own:
        operators = [operator.toarray() for operator in rotation_operators(SIZE, ROTATIONS, own["rotation"])]

    states: list[dict[str, np.ndarray]] = []
    backend = select_backend()
    model.fit(images, orientations=index, monitor=lambda state: states.append(state.to_host(backend).parameters))
    # The state before the first update is that of a fit without epochs.
    start = model_class(**{**common, "epochs": 0}).fit(images, orientations=index)
    parameters = {key: value.astype(np.float64) for key, value in start.state_.parameters.items()}
    # A tracked σ starts below the deviation of the pixels, as 6 cluster centres explain some of it.
    assert settings not in TRACKED or 0 < parameters["sigma"][0] < images.std()
    increments = {key: np.zeros_like(value) for key, value in parameters.items()}
    inputs = images.astype(np.float64)
    if form == "tied":
        assert index is not None
        inputs = np.stack([operators[s].T @ x for s, x in zip(index, inputs, strict=True)])
        if model.visible == "bernoulli":
            form = "shared"
    naive = NaiveTrainer(form, model.get_params(), operators, in_frame=name.startswith("theta-tied"))
    for epoch, state in enumerate(states):
        naive.epoch(parameters, increments, inputs, index, epoch)
        for key, value in state.items():
            np.testing.assert_allclose(value, parameters[key], rtol=1e-4, atol=1e-5, err_msg=f"{key}, {epoch}")
    for key, value in model.state_.increments.items():
        np.testing.assert_allclose(value, increments[key], rtol=1e-3, atol=1e-5, err_msg=key)


def test_the_tied_network_is_that_of_its_slices_seen_in_the_frame_of_one_matrix() -> None:
    """The paper's Gaussian network with W_s = M T_s' in the image's own frame, and the slope of its M."""
    rate, momentum, size = 0.1, 0.9, 10
    random = np.random.default_rng(8)
    images = random.random((COUNT, SIZE * SIZE), dtype=np.float32)
    index = random.integers(0, ROTATIONS, COUNT)
    settings: dict[str, Any] = {
        "hidden": 6, "rotations": ROTATIONS, "batch_size": size, "learning_rate": rate, "momentum": momentum,
        "sparsity": None, "weight_decay": 0.0, "standardise": False, "initial_scale": 0.3,
    }  # fmt: skip
    model = ThetaRBM(epochs=3, **settings).fit(images, orientations=index)
    turned = turns(SIZE, ROTATIONS)
    matrix = ThetaRBM(epochs=0, **settings).fit(images, orientations=index).weights_.astype(np.float64)
    hidden_bias, visible_bias = np.zeros(6), np.zeros((ROTATIONS, SIZE * SIZE))
    moves = [np.zeros_like(matrix), np.zeros_like(hidden_bias), np.zeros_like(visible_bias)]
    for epoch in range(3):
        order = generator_of(0, "order", epoch).permutation(COUNT)
        uniforms = np.random.Generator(np.random.Philox(seed_of(0, "sampling", epoch)))
        for first in range(0, COUNT, size):
            rows = sorted(order[first : first + size], key=lambda row: index[row])
            numbers = uniforms.random((len(rows), 6), dtype=np.float32)
            slopes = [np.zeros_like(move) for move in moves]
            for row, number in zip(rows, numbers, strict=True):
                s, x = index[row], images[row].astype(np.float64)
                slices = matrix @ turned[s].T
                up = expit(hidden_bias + slices @ x)
                guess = visible_bias[s] + slices.T @ (number < up)
                down = expit(hidden_bias + slices @ guess)
                # ∂(h'M T'x)/∂M = h (T'x)'
                slopes[0] += (np.outer(up, x) - np.outer(down, guess)) @ turned[s]
                slopes[1] += up - down
                slopes[2][s] += x - guess
            for move, slope in zip(moves, slopes, strict=True):
                move[...] = momentum * move + rate / len(rows) * slope
            matrix, hidden_bias, visible_bias = matrix + moves[0], hidden_bias + moves[1], visible_bias + moves[2]
    np.testing.assert_allclose(model.weights_, matrix, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.hidden_bias_, hidden_bias, rtol=1e-4, atol=1e-5)
    for s in range(ROTATIONS):
        np.testing.assert_allclose(model.visible_bias_[s], turned[s].T @ visible_bias[s], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("own", [{}, {"visible_biases": "one"}, {"tensor": "full"}], ids=str)
def test_orientations_that_are_redrawn_are_those_of_the_epoch(own: dict[str, Any]) -> None:
    """The naive loop again, on images that each epoch sees in other orientations, and that keep their statistics."""
    random = np.random.default_rng(8)
    images = random.random((COUNT, SIZE * SIZE), dtype=np.float32)
    estimated, *drawn = random.integers(0, ROTATIONS, (4, COUNT))
    # Groups of one image have no statistics of their own.
    estimated[: 2 * ROTATIONS] = np.arange(2 * ROTATIONS) % ROTATIONS
    settings: dict[str, Any] = {"hidden": 6, "rotations": ROTATIONS, "batch_size": 10, "initial_scale": 0.3, **own}
    asked: list[int] = []

    def of_epoch(epoch: int) -> np.ndarray:
        asked.append(epoch)
        found: np.ndarray = drawn[epoch]
        return found

    model = ThetaRBM(epochs=3, **settings)
    model.fit(images, orientations=of_epoch, standardise_by=estimated)
    assert asked == [0, 1, 2]
    start = ThetaRBM(epochs=0, **settings).fit(images, orientations=drawn[0]).state_.parameters
    parameters = {key: value.astype(np.float64) for key, value in start.items()}
    increments = {key: np.zeros_like(value) for key, value in parameters.items()}
    standardised = images.astype(np.float64)
    for s in range(ROTATIONS):
        group = standardised[estimated == s]
        standardised[estimated == s] = (group - group.mean(axis=0)) / group.std(axis=0)
    operators, is_tied = turns(SIZE, ROTATIONS), model.tensor == "tied"
    naive = NaiveTrainer(model.tensor, model.get_params(), operators, in_frame=is_tied)
    for epoch, index in enumerate(drawn):
        inputs = standardised
        if is_tied:
            inputs = np.stack([operators[s].T @ x for s, x in zip(index, standardised, strict=True)])
        naive.epoch(parameters, increments, inputs, index, epoch)
    for key, value in model.state_.parameters.items():
        np.testing.assert_allclose(value, parameters[key], rtol=1e-4, atol=1e-5, err_msg=key)
    # The features of images that are standardised by others than they are seen with.
    given: dict[str, Any] = {"orientations": drawn[2], "standardise_by": estimated}
    features = [
        naive.hidden_probabilities(parameters, operators[s].T @ x if is_tied else x, s)[0]
        for s, x in zip(drawn[2], standardised, strict=True)
    ]
    np.testing.assert_allclose(model.transform(images, **given), features, rtol=0, atol=1e-4)


def test_an_oriented_network_aligns_images_anew_in_each_epoch() -> None:
    images = np.random.default_rng(9).random((30, SIZE * SIZE), dtype=np.float32)
    estimated, *drawn = np.random.default_rng(10).integers(0, ROTATIONS, (4, 30))
    settings: dict[str, Any] = {"hidden": 5, "batch_size": 7}
    oriented = OrientedRBM(rotations=ROTATIONS, epochs=3, **settings)
    oriented.fit(images, orientations=lambda epoch: drawn[epoch], standardise_by=estimated)
    # Its statistics are those of the images that are aligned by the others.
    aligned = [oriented.aligned(images, index) for index in (estimated, *drawn)]
    mean, scale = aligned[0].mean(axis=0), aligned[0].std(axis=0)
    plain = RBM(standardise=False, **settings)
    for each in aligned[1:]:
        plain.partial_fit((each - mean) / np.where(scale > 1e-6, scale, 1))
    np.testing.assert_allclose(oriented.weights_, plain.weights_, rtol=0, atol=1e-5)


def test_with_exact_rotations_one_bias_of_a_tied_network_is_that_of_its_slices() -> None:
    """Lemma 1 with the paper's c, which has no orientation: it is seen in two frames, and is the same."""
    random = np.random.default_rng(8)
    images = random.random((COUNT, SIZE * SIZE), dtype=np.float32)
    index = random.integers(0, ROTATIONS, COUNT)
    common: dict[str, Any] = {"hidden": 6, "rotations": ROTATIONS, "rotation": "permutation", "visible_biases": "one"}
    tied, full = (ThetaRBM(tensor=tensor, batch_size=10, **common) for tensor in ("tied", "full"))
    for model in (tied, full):
        model.fit(images, orientations=index)
        assert model.visible_bias_.shape == (1, SIZE * SIZE)
    np.testing.assert_allclose(tied.visible_bias_, full.visible_bias_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(tied.tensor_, full.tensor_, rtol=0, atol=1e-5)
    for method in ("free_energy", "reconstruct"):
        ours, theirs = (getattr(model, method)(images, orientations=index) for model in (tied, full))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("turn", "degrees"),
    [("back", -72.0), ("forth", 72.0), ("radians", -72 * 180 / np.pi), ("index", -1.0)],
)
def test_the_oriented_network_is_an_rbm_on_images_rotated_back_or_by_mistake(turn: str, degrees: float) -> None:
    images = np.random.default_rng(9).random((30, SIZE * SIZE), dtype=np.float32)
    index = np.random.default_rng(10).integers(0, ROTATIONS, 30)
    common: dict[str, Any] = {"hidden": 5, "epochs": 3, "batch_size": 7}
    oriented = OrientedRBM(rotations=ROTATIONS, turn=turn, **common).fit(images, orientations=index)
    pictures = images.reshape(-1, SIZE, SIZE)
    aligned = np.stack(
        [rotate(x, degrees * s, order=1, clip=False).ravel() for s, x in zip(index, pictures, strict=True)]
    )
    np.testing.assert_allclose(aligned_by(oriented, images, index), aligned, rtol=0, atol=1e-5)
    plain = RBM(**common).fit(aligned)
    np.testing.assert_allclose(oriented.weights_, plain.weights_, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        oriented.transform(images, orientations=index), plain.transform(aligned), rtol=0, atol=1e-5
    )
    # Not aligned at evaluation: the features of the images as they are.
    oriented.set_params(align=False)
    np.testing.assert_allclose(oriented.transform(images), plain.transform(images), rtol=0, atol=1e-5)


def aligned_by(model: OrientedRBM, images: np.ndarray, index: np.ndarray) -> np.ndarray:
    """What a model makes of images, where its network is."""
    backend = select_backend()
    found = backend.to_host(model.aligned(backend.asarray(images), backend.asarray(index)))
    np.testing.assert_allclose(model.aligned(images, index), found, rtol=0, atol=1e-6)
    return found


def test_the_augmented_network_is_an_rbm_on_rotated_copies() -> None:
    images = np.random.default_rng(9).random((15, 49), dtype=np.float32)
    settings: dict[str, Any] = {"hidden": 5, "epochs": 3, "batch_size": 10, "initial_scale": 0.3}
    copies = [
        rotate(image.reshape(7, 7).astype(np.float64), 72 * s, order=1, clip=False).ravel()
        for s in range(5)
        for image in images
    ]
    plain = RBM(**settings).fit(np.array(copies))
    augmented = AugmentedRBM(rotations=5, **settings).fit(images)
    np.testing.assert_allclose(augmented.weights_, plain.weights_, rtol=0, atol=1e-4)
    np.testing.assert_allclose(augmented.transform(images), plain.transform(images), rtol=0, atol=1e-4)


def test_leftover_images_count_for_nothing() -> None:
    """Not in the update (as the naive loop has it), nor in what the history says of an epoch."""
    images = np.random.default_rng(3).random((25, 9), dtype=np.float32)
    model = RBM(hidden=4, epochs=1, batch_size=10, drop_last=True, learning_rate=1e-12).fit(images)
    seen = images[generator_of(0, "order", 0).permutation(25)[:20]]
    assert model.history_[0].mean_activation == pytest.approx(model.transform(seen).mean(), abs=1e-6)
    # With one batch of all images, which a larger one is, nothing is left over.
    whole, dropping = (RBM(hidden=4, epochs=2, batch_size=40, drop_last=drop).fit(images) for drop in (False, True))
    assert np.array_equal(whole.weights_, dropping.weights_)


@pytest.mark.parametrize(
    ("turn", "step"), [("back", -72), ("forth", 72), ("radians", -72 * 180 / np.pi), ("index", -1)]
)
def test_copies_of_standardised_images_are_aligned_by_one_rotation(turn: str, step: float) -> None:
    """From the frame of an image's own orientation to that of the copy's, whatever an image is rotated by for each."""
    random = np.random.default_rng(4)
    images, seen = random.random((12, SIZE * SIZE), dtype=np.float32), random.integers(0, ROTATIONS, (4, 12))
    model = OrientedRBM(hidden=3, epochs=1, rotations=ROTATIONS, turn=turn).fit(images, orientations=seen[0])
    standardised = model._standardised(model.aligned(images, seen[0]))
    copies = model._rotated_inputs(standardised, Rotations(SIZE, 3, "bilinear", 20.0), seen)
    for copy, found in enumerate(copies, start=1):
        for image, row in enumerate(found):
            angle = 120 * (copy - 1) + 20 + step * (seen[copy, image] - seen[0, image])
            np.testing.assert_allclose(row, rotation_matrix(SIZE, angle) @ standardised[image], rtol=0, atol=1e-4)
