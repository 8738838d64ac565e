"""The restricted Boltzmann machine: how it is fitted, what a fitted one does, and how it is stored.

The other models are RBMs with another step before the network (`_fit_inputs`, `_inputs`, `_images_of`) or another
network (`_initial_parameters`, `_energy_model`).
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from thetarbm_cli.backend import Array, Backend, few_threads, naming_memory, select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.rotation import Rotations
from thetarbm_cli.imaging.standardise import Standardiser, Whitener
from thetarbm_cli.models.base import Images, Model, Orientations, estimator
from thetarbm_cli.models.contrastive_divergence import (
    EnergyModel,
    EpochRecord,
    ImagesOfEpoch,
    Monitor,
    OrientationGroups,
    Trainer,
    TrainingState,
)
from thetarbm_cli.models.couplings import SharedCoupling
from thetarbm_cli.models.seeds import generator_of, seed_of
from thetarbm_cli.models.visible import VisibleUnits
from thetarbm_cli.parameters import RBMParameters

# Inputs of the network that are taken at a time: large enough for the products, small enough for the memory.
CHUNK = 2000

EnergyFunction = Callable[[EnergyModel, Array, OrientationGroups], Array]


@estimator
class RBM(RBMParameters, Model):
    """Restricted Boltzmann machine with Gaussian or Bernoulli visible units.

    Attributes
    ----------
    weights_ : (H, V) array
        W, also as ``components_``.
    hidden_bias_ : (H,) array
        b
    visible_bias_ : (1, V) array
        c
    history_ : list of EpochRecord

    Examples
    --------
    >>> import numpy as np
    >>> from thetarbm_cli.models import RBM
    >>> images = np.random.default_rng(0).random((20, 16), dtype=np.float32)
    >>> RBM(hidden=4, epochs=2).fit(images).transform(images).shape
    (20, 4)
    """

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        orientations: Any = None,
        standardise_by: Any = None,
        monitor: Monitor | None = None,
        resume: TrainingState | None = None,
    ) -> Self:
        """Learn from images.

        Parameters
        ----------
        X : (N, V) or (N, h, w) array
            Images with values in [0, 1]; (N, V) has them flattened row by row.
        y : ignored
        orientations : (N,) array of int, or callable, optional
            Orientation index of each image, instead of the estimated one (models that use orientations). A callable
            gives those of an epoch, by its number from 0; it must give the same again for the same number.
        standardise_by : (N,) array of int, optional
            The orientations that images are standardised by, where they are not the `orientations` that they are seen
            with (models that standardise images within their orientation). What is fitted before the first epoch
            cannot follow a callable: it takes these, or else the estimated ones.
        monitor : callable, optional
            Called with the `TrainingState` after each epoch.
        resume : TrainingState, optional
            A state of an earlier, equal fit to go on from.
        """
        trainer = self.trainer(X, orientations=orientations, standardise_by=standardise_by)
        state = trainer.start()
        if resume is not None:
            state.restore(resume, trainer.model.backend)
        self._finish(trainer, state, self.epochs, monitor)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, orientations: Any = None) -> Self:
        """Learn for one more epoch, from these images, with the standardisation of the first call."""
        if not hasattr(self, "weights_"):
            trainer = self.trainer(X, orientations=orientations)
            state = trainer.start()
        else:
            images, index, by = self._to_learn(X, orientations, None, reset=False)
            trainer = self._trainer_on(self._inputs_to_learn(images, index, by), index, self._parameters())
            state = trainer.start()
            if hasattr(self, "state_"):
                state.restore(self.state_, trainer.model.backend)
        self._finish(trainer, state, state.epoch + 1, None)
        return self

    def trainer(self, X: Any, *, orientations: Any = None, standardise_by: Any = None) -> Trainer:
        """Fit what precedes the network and give a trainer before its first epoch, as `fit` runs it."""
        images, index, by = self._to_learn(X, orientations, standardise_by, reset=True)
        self._warn_of_range(images)
        with few_threads():
            inputs = self._fit_inputs(images, index, by)

        def images_of(epoch: int) -> tuple[Images, Orientations]:
            seen = self._orientations(images, self._check_orientations(orientations(epoch), len(images)))
            return self._inputs_to_learn(images, seen, by), seen

        redrawn = images_of if callable(orientations) and self.uses_orientations else None
        return self._trainer_on(inputs, index, self._initial_parameters(inputs), redrawn)

    def transform(self, X: Any, *, orientations: Any = None, standardise_by: Any = None) -> NDArray[np.float32]:
        """Features of images: p(h = 1 | x, r), (n, H) in [0, 1]; the keywords are as in `fit`."""
        return self._map(X, orientations, EnergyModel.features, standardise_by=standardise_by)

    def with_statistics_of(self, parts: Iterable[tuple[Images, Orientations]]) -> Self:
        """Copy the fitted model, to standardise or whiten by the statistics of these images, not by the training's.

        Images (n, V) and their orientations (n,) come some at a time.
        """
        copied = copy.copy(self)
        if self._standardiser is not None:
            images = (self._to_standardise(part, index, index) for part, index in parts)
            copied._standardiser = self._new_standardiser(self._group_count()).fit_parts(images)
        return copied

    def features_of_rotated_inputs(
        self, images: Array, support: Rotations, orientations: NDArray[np.int64]
    ) -> Iterator[Array]:
        """Take features of images (n, V) that are first standardised, then rotated: (n, H) for one rotation at a time.

        Arrays are where the model computes; orientations (S' + 1, n), on the host, are those of the images and then of
        their rotated copies under each of the support set's rotations.
        """
        model = self._fitted_model()
        own = orientations[0]
        with few_threads():
            given = model.backend.asarray(own) if self.uses_orientations else own
            standardised = self._standardised(*self._to_standardise(images, given, given))

        def in_frame(inputs: Array, seen: Array, by: Array) -> Array:
            return self._in_frame(inputs, seen)

        rotated = self._rotated_inputs(standardised, support, orientations)
        for copied, inputs in zip(orientations[1:], rotated, strict=True):
            with few_threads(len(images), self.hidden):
                features = self._values(model, inputs, copied, EnergyModel.features, inputs_of=in_frame)
            yield features

    def _rotated_inputs(
        self, standardised: Array, support: Rotations, orientations: NDArray[np.int64]
    ) -> Iterator[Array]:
        """Rotated copies of standardised images (n, V), as `_in_frame` takes them."""
        return support.rotate_each(standardised)

    def free_energy(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Free energy of images, (n,): low where the model finds an image likely."""
        return self._map(X, orientations, EnergyModel.free_energy)

    def reconstruct(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """E[x | p(h | x, r), r]: one pass up and down, as images (n, V)."""
        return self._map(
            X,
            orientations,
            lambda model, x, groups: model.reconstruction(model.hidden(x, groups), groups),
            as_images=True,
        )

    def sample(
        self, n_samples: int = 1, *, gibbs_steps: int = 1000, orientation: int = 0, random_state: int = 0
    ) -> NDArray[np.float32]:
        """Draw images from the model by Gibbs chains that start at random hidden states.

        Parameters
        ----------
        n_samples : int
            Number of independent chains.
        gibbs_steps : int
            Full steps of each chain.
        orientation : int
            Orientation index r of the images (models with one slice per orientation).

        Returns
        -------
        (n_samples, V) array, means of the last step
        """
        if n_samples < 1 or gibbs_steps < 1:
            raise InputError(f"n_samples and gibbs_steps must be 1 or above, not {n_samples} and {gibbs_steps}")
        model = self._fitted_model()
        backend = model.backend
        xp = backend.xp
        if not 0 <= orientation < model.orientations:
            raise InputError(f"orientation must be in 0..{model.orientations - 1}, not {orientation}")
        index = np.full(n_samples, orientation, dtype=np.int64)
        groups = OrientationGroups.of(backend, index, model.orientations)
        random = backend.random(seed_of(random_state, "sampling"))
        hidden = xp.empty(model.coupling.hidden_shape(n_samples), dtype=xp.float32)
        # Without an input, every state of a unit is as likely as the others.
        model.coupling.activated(xp.zeros_like(hidden), draw=(random, hidden))
        for _ in range(gibbs_steps):
            mean = model.reconstruction(hidden, groups)
            model.hidden(model.units.sample(mean.copy(), groups, random), groups, draw=(random, hidden))
        return self._images_of(backend.to_host(mean), index)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as plain arrays."""
        check_is_fitted(self, "weights_")
        arrays: dict[str, NDArray[Any]] = dict(self._parameters())
        return arrays if self._standardiser is None else arrays | self._standardiser.to_arrays()

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what another model with equal settings learned; the inverse of `to_arrays`."""
        arrays = dict(arrays)
        self._standardiser: Standardiser | Whitener | None = None
        for kind in (Standardiser, Whitener):
            found = [arrays.pop(name) for name in kind.ARRAYS if name in arrays]
            if len(found) == len(kind.ARRAYS):
                self._standardiser = kind.from_arrays(*found)
        self.n_features_in_ = int(arrays["weights"].shape[-1])
        self._set_parameters(arrays)
        self.history_: list[EpochRecord] = []
        # An optimiser's state of an earlier fit does not belong to these parameters.
        self.__dict__.pop("state_", None)
        return self

    def training_products(self, images: int, pixels: int) -> int:
        """Count the multiply-adds of all products in the learning loop, dense ones and the sparse ones that rotate.

        What is done once to prepare the images is left out; an image that is learned in several orientations counts
        once.
        """
        learned = images - images % min(self.batch_size, images) if self.drop_last else images
        up, down, update = self._products(pixels)
        # A learned variance needs what both phases send down, a tracked one what the probabilities do.
        downs = self.gibbs_steps + {"learned": 2, "tracked": 1}.get(self.variance, 0)
        each = (1 + self.gibbs_steps) * up + downs * down + update + self._bias_products(pixels)
        return round(self.epochs * learned * each)

    def feature_products(self, images: int, pixels: int) -> int:
        """Count the multiply-adds of the network when features are taken; what prepares the images is left out."""
        return round(images * self._products(pixels)[0])

    def _products(self, pixels: int) -> tuple[float, float, float]:
        """Count the multiply-adds of one image on the way up and down, and in the update of W by both phases."""
        dense = self.hidden * pixels
        return dense, dense, 2 * dense

    def _bias_products(self, pixels: int) -> float:
        """Count the multiply-adds of one image in the update of what has a row per orientation: c, perhaps log σ²."""
        rows = self._group_count() * (2 if self.variance == "learned" else 1)
        return float(rows * pixels) if self._group_count() > 1 else 0.0

    def _warn_of_range(self, images: Images) -> None:
        if self.visible == "bernoulli" and not self.standardise and (images.min() < 0 or images.max() > 1):
            warnings.warn(
                f"Bernoulli visible units take values in [0, 1], and the images have {images.min():g} to "
                f"{images.max():g}: divide them by their largest value, or use visible='gaussian'",
                stacklevel=4,
            )

    def _to_learn(
        self, X: Any, orientations: Any, standardise_by: Any, *, reset: bool
    ) -> tuple[Images, Orientations, Orientations]:
        """Check settings and input; give images to learn from, their orientations, and those to standardise them by.

        Where orientations change from epoch to epoch, those to standardise by stand in their place.
        """
        self.check_settings()
        images = self._check_images(X, reset=reset)
        by = self._check_standardise_by(standardise_by, orientations, len(images))
        given = by if callable(orientations) else self._check_orientations(orientations, len(images))
        self._seed = integer_seed(self.random_state)
        with few_threads():
            if callable(orientations):
                given = self._orientations(images, given)
            images, given = self._learned_from(images, given)
            index = self._orientations(images, given)
            return images, index, index if by is None else self._orientations(images, by)

    def _learned_from(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """Images to learn from: once for each candidate orientation; orientations that are given have no others."""
        candidates = self.candidate_orientations(images) if orientations is None else None
        if candidates is None:
            return images, orientations
        rows, index = candidates
        return images[rows], index

    def _orientations(self, images: Images, given: Orientations | None) -> Orientations:
        """Orientation of each image (n,): here one for all, whatever was given."""
        return np.zeros(len(images), dtype=np.int64)

    def _fit_inputs(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        """Fit what precedes the network and return its inputs: images are standardised `by` perhaps others."""
        return self._fit_standardiser(images)

    def _inputs(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        """The network's inputs of images, with what was fitted: a row per image, or as many for each."""
        return self._in_frame(self._standardised(*self._to_standardise(images, orientations, by)), orientations)

    def _to_standardise(
        self, images: Images, orientations: Orientations, by: Orientations
    ) -> tuple[Images, Orientations | None]:
        """What is standardised of images, and by which groups; None for one group of all."""
        return images, None

    def _in_frame(self, standardised: Images, orientations: Orientations) -> Images:
        """The network's inputs of standardised images."""
        return standardised

    def _inputs_to_learn(self, images: Images, orientations: Orientations, by: Orientations) -> Images:
        """The network's inputs for further learning, with what was fitted."""
        return self._inputs(images, orientations, by)

    def _images_of(self, inputs: Images, orientations: Orientations, like: Images | None = None) -> Images:
        """The images of a network's inputs, perhaps of known images; the inverse of `_inputs` as far as it has one."""
        return self._unstandardised(inputs, None, like)

    def _group_count(self) -> int:
        """Orientations that the network tells apart, each with a visible bias of its own: 1, or S."""
        return 1

    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        """Parameters before the first update."""
        shape = (self._group_count(), inputs.shape[1])
        parameters = {
            "weights": self._initial_weights(self.hidden, inputs.shape[1]),
            "hidden_bias": np.zeros(self.hidden, dtype=np.float32),
            "visible_bias": np.zeros(shape, dtype=np.float32),
        }
        if self.variance == "learned":
            parameters["log_variance"] = np.zeros(shape, dtype=np.float32)
        return parameters

    def _initial_weights(self, *shape: int) -> NDArray[np.float32]:
        """Normally distributed weights, the same for all models of a seed and shape."""
        normal = generator_of(self._seed, "initial").standard_normal(shape, dtype=np.float32)
        # A scale beyond float32 gives infinite weights, and training that says so.
        with np.errstate(over="ignore"):
            return np.float32(self.initial_scale) * normal

    def _energy_model(self, backend: Backend, parameters: dict[str, Array]) -> EnergyModel:
        """The network over parameters that are on the backend's device."""
        visible = VisibleUnits(backend, parameters, self.visible)
        return EnergyModel(backend, parameters, visible, SharedCoupling(backend, parameters), self._group_count())

    def _trainer_on(
        self,
        inputs: Images,
        orientations: Orientations,
        parameters: dict[str, NDArray[np.float32]],
        images_of: ImagesOfEpoch | None = None,
    ) -> Trainer:
        backend = select_backend(self.backend)
        with naming_memory(backend, f"{len(inputs)} images in batches of {self.batch_size}"):
            on_device = {name: backend.asarray(value.copy()) for name, value in parameters.items()}
            model = self._energy_model(backend, on_device)
            return Trainer(model, inputs, orientations, self, self._seed, images_of)

    def _finish(self, trainer: Trainer, state: TrainingState, epochs: int, monitor: Monitor | None) -> None:
        """Run the epochs and keep what was learned, on the host."""
        batch = f"batches of {self.batch_size} images and {self.hidden} hidden units"
        with few_threads(self.batch_size, self.hidden), naming_memory(trainer.model.backend, batch):
            trainer.run(state, epochs, self._printing(epochs, monitor) if self.verbose else monitor)
        self.state_ = state.to_host(trainer.model.backend)
        self.history_ = state.history
        self._set_parameters(self.state_.parameters)

    def _printing(self, epochs: int, monitor: Monitor | None) -> Monitor:
        """Make the monitor that also prints how far learning is, as scikit-learn does."""
        began = time.perf_counter()

        def observe(state: TrainingState) -> None:
            nonlocal began
            if monitor is not None:
                monitor(state)
            last, now = state.history[-1], time.perf_counter()
            print(
                f"[{type(self).__name__}] Epoch {state.epoch} of {epochs}, reconstruction error = "
                f"{last.reconstruction_error:.4f}, mean activation = {last.mean_activation:.3f}, "
                f"time = {now - began:.2f}s",
                flush=True,
            )
            began = now

        return observe

    @property
    def _n_features_out(self) -> int:
        return int(self.hidden)

    def _set_parameters(self, parameters: Mapping[str, NDArray[np.float32]]) -> None:
        for name, value in parameters.items():
            setattr(self, f"{name}_", value)
        self.parameter_names_ = tuple(parameters)
        self.components_ = self.weights_

    def _parameters(self) -> dict[str, NDArray[np.float32]]:
        return {name: getattr(self, f"{name}_") for name in self.parameter_names_}

    def _fit_standardiser(self, images: Images, orientations: Orientations | None = None, rotations: int = 1) -> Images:
        """Fit and apply the standardisation or whitening, if there is one."""
        self._standardiser = None
        if self.prepares_inputs:
            made = self._new_standardiser(rotations)
            self._standardiser = made.fit(images) if isinstance(made, Whitener) else made.fit(images, orientations)
        return self._standardised(images, orientations)

    def _new_standardiser(self, rotations: int) -> Standardiser | Whitener:
        return Whitener() if self.whiten else Standardiser(self.floor, rotations)

    def _standardised(self, images: Images, orientations: Orientations | None = None) -> Images:
        if self._standardiser is None:
            return images
        on_host = isinstance(images, np.ndarray)
        standardiser = self._standardiser if on_host else self._on_device(select_backend(self.backend)).standardiser
        standardised: Images = standardiser.transform(images, orientations)
        return standardised

    def _unstandardised(
        self, images: Images, orientations: Orientations | None = None, like: Images | None = None
    ) -> Images:
        """Images in the scale of the user's pixels; whitened ones in the brightness and contrast of others."""
        return images if self._standardiser is None else self._standardiser.inverse(images, orientations, like)

    def _fitted_model(self) -> EnergyModel:
        check_is_fitted(self, "weights_")
        backend = select_backend(self.backend)
        if backend.name != "numpy":
            return self._on_device(backend).model
        return self._energy_model(backend, {**self._parameters()})

    def _on_device(self, backend: Backend) -> _OnDevice:
        """Copy what was learned to the device, once: until the parameters, or a setting, are others."""
        parameters = self._parameters()
        made_of = (*parameters.values(), self._standardiser, tuple(self.get_params().values()))
        kept = _ON_DEVICE.get(self)
        if kept is None or not _same(kept.made_of, made_of):
            for value in parameters.values():
                # Values that were changed in place would not be seen on the device: they are replaced as a whole.
                value.flags.writeable = False
            on_device = {name: backend.asarray(value) for name, value in parameters.items()}
            standardiser = None if self._standardiser is None else self._standardiser.on(backend)
            kept = _OnDevice(made_of, self._energy_model(backend, on_device), standardiser, {})
            _ON_DEVICE[self] = kept
        return kept

    def _map(
        self,
        X: Any,
        orientations: Any,
        function: EnergyFunction,
        *,
        as_images: bool = False,
        standardise_by: Any = None,
    ) -> NDArray[np.float32]:
        """Apply a function of the network to images, chunk by chunk, in the order of the images."""
        model = self._fitted_model()
        images = self._check_images(X, reset=False)
        given = self._check_orientations(orientations, len(images))
        by = self._check_standardise_by(standardise_by, orientations, len(images))
        parts = []
        with few_threads(min(len(images), CHUNK), self.hidden), naming_memory(model.backend, "chunks of images"):
            step = self._images_at_once()
            for first in range(0, len(images), step):
                rows = slice(first, first + step)
                index = self._orientations(images[rows], None if given is None else given[rows])
                others = None if by is None else self._orientations(images[rows], by[rows])
                values = model.backend.to_host(
                    self._values(model, model.backend.asarray(images[rows]), index, function, others)
                )
                parts.append(self._images_of(values, index, images[rows]) if as_images else values)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _images_at_once(self) -> int:
        """Images whose inputs are taken at a time."""
        return CHUNK

    def features(self, images: Array, orientations: Orientations | None = None) -> Array:
        """Take features of a chunk of images (n, V) where they are, on the host or the model's device.

        Orientations (n,) are on the host. Nothing is checked; `transform` does that, and takes any number of images.
        """
        model = self._fitted_model()
        if orientations is None and self.uses_orientations and getattr(self, "align", True):
            orientations = self._orientations(model.backend.to_host(images), None)
        elif orientations is None:
            orientations = np.zeros(len(images), dtype=np.int64)
        return self._values(model, images, orientations, EnergyModel.features)

    def _values(
        self,
        model: EnergyModel,
        images: Array,
        index: Orientations,
        function: EnergyFunction,
        others: Orientations | None = None,
        inputs_of: Callable[[Array, Array, Array], Array] | None = None,
    ) -> Array:
        """Apply a function of the network to images (n, V) on its device, with their orientations on the host.

        Where images are standardised by others than these, the others are given, too. They are images as they are, or
        what `inputs_of` makes the network's inputs of.
        """
        backend, inputs_of = model.backend, inputs_of or self._inputs
        if model.orientations == 1:
            oriented = backend.asarray(index) if self.uses_orientations else index
            inputs = inputs_of(images, oriented, oriented)
            return function(model, inputs, OrientationGroups.single(backend, len(inputs)))
        order = np.argsort(index, kind="stable")
        groups = OrientationGroups.of(backend, index[order], model.orientations)
        places = backend.asarray(order)
        by = groups.index if others is None else backend.asarray(others[order])
        if backend.name == "numpy":
            inputs = np.empty_like(images)
            # One orientation after the other: few images for the processor's cache, one operator for all of them.
            for _, rows in groups.segments:
                inputs[rows] = inputs_of(images[order[rows]], groups.index[rows], by[rows])
        else:
            inputs = inputs_of(images[places], groups.index, by)
        values = function(model, inputs, groups)
        result = backend.xp.empty_like(values)
        result[places] = values
        return result


class _OnDevice(NamedTuple):
    """What was learned, on a device; what it was made of; and what else a model needs there, by name."""

    made_of: tuple[Any, ...]
    model: EnergyModel
    standardiser: Any
    others: dict[str, Any]


# Of fitted models, as long as these are in use; no part of an estimator, which is copied and stored.
_ON_DEVICE: WeakKeyDictionary[RBM, _OnDevice] = WeakKeyDictionary()


def _same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Say whether these are the same objects, and the same settings at the end."""
    return (
        len(one) == len(other)
        and all(a is b for a, b in zip(one[:-1], other[:-1], strict=True))
        and one[-1] == other[-1]
    )


def integer_seed(random_state: Any) -> int:
    """An integer seed from what scikit-learn accepts as a random state."""
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise InputError(f"a seed must be 0 or above, not {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
