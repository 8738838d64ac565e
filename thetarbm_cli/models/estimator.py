"""What the four estimators share: parameters, checks, fitting, features, energies, sampling and storage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from thetarbm_cli.backend import Array, Backend, select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.standardise import Standardiser
from thetarbm_cli.models.groups import Groups
from thetarbm_cli.models.learning import Learning
from thetarbm_cli.models.seeds import generator_of, seed_of
from thetarbm_cli.models.training import EpochRecord, Machine, Monitor, Trainer, TrainingState
from thetarbm_cli.models.visible import KINDS, VARIANCES

Images = NDArray[np.float32]
Orientations = NDArray[np.int64]

# Rows that are turned into features at a time: large enough for the products, small enough for the memory.
CHUNK = 2000


class BoltzmannEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of the estimators; see `RBM` for the parameters that all share.

    A subclass says how images become the machine's inputs (`_fit_inputs`, `_inputs`) and what the machine is
    (`_initial_parameters`, `_machine`).
    """

    hidden: int
    visible: str
    variance: str
    standardise: bool | None
    floor: float
    initial_scale: float
    random_state: Any
    backend: str

    # -- what a subclass defines ----------------------------------------------------------------------------------

    @abstractmethod
    def _fit_inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """Fit what precedes the machine and return the machine's inputs and groups."""

    @abstractmethod
    def _inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """The machine's inputs (n, V) and groups (n,) of images, with what was fitted."""

    @abstractmethod
    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        """Parameters before the first update."""

    @abstractmethod
    def _machine(self, backend: Backend, parameters: dict[str, Array]) -> Machine:
        """The machine over parameters that are on the backend's device."""

    def _group_count(self) -> int:
        """Rows of the visible bias: 1, or the number of orientations."""
        return 1

    # -- fitting --------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        orientations: Any = None,
        monitor: Monitor | None = None,
        resume: TrainingState | None = None,
    ) -> Self:
        """Learn from images.

        Parameters
        ----------
        X : (N, V) array
            Images, flattened row by row, with values in [0, 1].
        y : ignored
        orientations : (N,) array of int, optional
            Orientation index of each image, instead of the estimated one (models that use orientations).
        monitor : callable, optional
            Called with the `TrainingState` after each epoch.
        resume : TrainingState, optional
            A state of an earlier, equal fit to go on from.
        """
        images = self._check_images(X, reset=True)
        trainer = self._trainer(images, self._check_orientations(orientations, len(images)))
        state = trainer.start()
        if resume is not None:
            self._restore(state, resume, trainer.machine.backend)
        self._finish(trainer, state, self.epochs, monitor)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, orientations: Any = None) -> Self:
        """Learn for one more epoch, from these images, with the standardisation of the first call."""
        first = not hasattr(self, "weights_")
        images = self._check_images(X, reset=first)
        given = self._check_orientations(orientations, len(images))
        if first:
            trainer = self._trainer(images, given)
            state = trainer.start()
        else:
            inputs, groups = self._inputs(images, given)
            trainer = self._trainer_on(inputs, groups, self._parameters())
            state = trainer.start()
            self._restore(state, self.state_, trainer.machine.backend)
        self._finish(trainer, state, state.epoch + 1, None)
        return self

    def _trainer(self, images: Images, orientations: Orientations | None) -> Trainer:
        """Fit what precedes the machine, make its first parameters and a trainer."""
        self.check_settings()
        self._seed = _integer_seed(self.random_state)
        inputs, groups = self._fit_inputs(images, orientations)
        return self._trainer_on(inputs, groups, self._initial_parameters(inputs))

    def _trainer_on(
        self, inputs: Images, groups: Orientations | None, parameters: dict[str, NDArray[np.float32]]
    ) -> Trainer:
        backend = select_backend(self.backend)
        on_device = {name: backend.asarray(value.copy()) for name, value in parameters.items()}
        machine = self._machine(backend, on_device)
        return Trainer(machine, backend.asarray(inputs), groups, self._learning(), self._seed)

    @staticmethod
    def _restore(state: TrainingState, saved: TrainingState, backend: Backend) -> None:
        for ours, theirs in (
            (state.parameters, saved.parameters),
            (state.increments, saved.increments),
        ):
            for name in ours:
                ours[name][...] = backend.asarray(theirs[name])
        state.epoch = saved.epoch
        state.history = list(saved.history)

    def _finish(self, trainer: Trainer, state: TrainingState, epochs: int, monitor: Monitor | None) -> None:
        """Run the epochs and keep what was learned, on the host."""
        trainer.run(state, epochs, monitor)
        self.state_ = host_state(state, trainer.machine.backend)
        self.history_: list[EpochRecord] = state.history
        self._set_parameters(self.state_.parameters)

    def _set_parameters(self, parameters: Mapping[str, NDArray[np.float32]]) -> None:
        for name, value in parameters.items():
            setattr(self, f"{name}_", value)
        self.parameter_names_ = tuple(parameters)
        self.components_ = self.weights_

    def _parameters(self) -> dict[str, NDArray[np.float32]]:
        return {name: getattr(self, f"{name}_") for name in self.parameter_names_}

    # -- what users of a fitted model call -----------------------------------------------------------------------

    def transform(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Features of images: p(h = 1 | x, r), (n, H) in [0, 1]."""
        return self._map(X, orientations, lambda machine, x, groups: machine.features(x, groups))

    def free_energy(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Free energy of images, (n,): low where the model finds an image likely."""
        return self._map(X, orientations, lambda machine, x, groups: machine.free_energy(x, groups))

    def reconstruct(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """E[x | p(h | x, r), r]: one pass up and down, as images (n, V)."""
        inputs, groups, order = self._sorted_inputs(X, orientations)
        machine = self._fitted_machine()

        def pass_down(x: Array, g: Groups | None) -> Array:
            hidden = machine.interaction.probabilities(machine.visible.drive(x, g), g)
            return machine.visible.mean(machine.interaction.field(hidden, g), g)

        means = self._chunked(machine, inputs, groups, pass_down)
        return self._unsorted(self._images_of(means, groups), order)

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
        machine = self._fitted_machine()
        backend = machine.backend
        xp = backend.xp
        if not 0 <= orientation < max(machine.groups, 1):
            raise InputError(f"orientation must be in 0..{machine.groups - 1}, not {orientation}")
        index = np.full(n_samples, orientation, dtype=np.int64)
        groups = Groups.of(backend, index, machine.groups) if machine.groups > 1 else None
        random = backend.random(seed_of(random_state, "sampling"))
        shape = machine.interaction.hidden_shape(n_samples)
        uniforms = xp.empty((n_samples, shape[-1]), dtype=xp.float32)
        hidden = xp.empty(shape, dtype=xp.float32)
        states = 1 if len(shape) == 2 else shape[0] + 1
        probabilities = xp.full(shape, 0.5 if states == 1 else 1 / states, dtype=xp.float32)
        for _ in range(gibbs_steps):
            random.uniform(uniforms)
            machine.interaction.sample(probabilities, uniforms, out=hidden)
            mean = machine.visible.mean(machine.interaction.field(hidden, groups), groups)
            drawn = machine.visible.sample(mean.copy(), groups, random)
            probabilities = machine.interaction.probabilities(machine.visible.drive(drawn, groups), groups)
        return self._images_of(backend.to_host(mean), index if machine.groups > 1 else None)

    # -- storage without pickle -----------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that was learned, as plain arrays."""
        check_is_fitted(self, "weights_")
        arrays: dict[str, NDArray[Any]] = dict(self._parameters())
        if self._standardiser is not None:
            arrays["standard_mean"] = self._standardiser.mean_
            arrays["standard_scale"] = self._standardiser.scale_
        return arrays

    def load_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what another estimator with equal settings learned; the inverse of `to_arrays`."""
        self.check_settings()
        self._seed = _integer_seed(self.random_state)
        arrays = dict(arrays)
        mean, scale = arrays.pop("standard_mean", None), arrays.pop("standard_scale", None)
        self._standardiser = None
        if mean is not None and scale is not None:
            self._standardiser = Standardiser.from_arrays(mean, scale, floor=self.floor)
        self.n_features_in_ = int(arrays["weights"].shape[-1])
        self._set_parameters(arrays)
        self.history_ = []
        return self

    # -- inner parts ----------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return int(self.hidden)

    def _learning(self) -> Learning:
        return Learning(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            rate_decay=self.rate_decay,
            momentum=self.momentum,
            initial_momentum=self.initial_momentum,
            momentum_epochs=self.momentum_epochs,
            weight_decay=self.weight_decay,
            gibbs_steps=self.gibbs_steps,
            visible_sampling=self.visible_sampling,
            sparsity=self.sparsity,
            sparsity_weight=self.sparsity_weight,
            sparsity_form=self.sparsity_form,
        )

    def check_settings(self) -> None:
        self._learning()
        if self.hidden < 1:
            raise InputError(f"hidden must be 1 or above, not {self.hidden}")
        if self.visible not in KINDS:
            raise InputError(f"visible must be one of {', '.join(KINDS)}, not {self.visible!r}")
        if self.variance not in VARIANCES:
            raise InputError(f"variance must be one of {', '.join(VARIANCES)}, not {self.variance!r}")
        if self.visible == "bernoulli" and self.variance != "fixed":
            raise InputError("Bernoulli visible units have no variance to learn: use variance='fixed'")

    def _check_images(self, X: Any, *, reset: bool) -> Images:
        """Validate images as scikit-learn does: 2-D, finite, float32, as wide as at fit."""
        images: Images = validate_data(
            self, X, reset=reset, dtype=np.float32, order="C", accept_sparse=False, ensure_min_samples=1
        )
        return images

    def _check_orientations(self, orientations: Any, count: int) -> Orientations | None:
        if orientations is None:
            return None
        index = np.asarray(orientations)
        if index.shape != (count,) or not np.issubdtype(index.dtype, np.integer):
            raise InputError(f"orientations must be {count} integers, one per image")
        return index.astype(np.int64)

    def _fit_standardiser(
        self, images: Images, orientations: Orientations | None = None, rotations: int | None = None
    ) -> Images:
        """Fit and apply the standardisation; none for Bernoulli units unless asked for."""
        wanted = self.visible == "gaussian" if self.standardise is None else self.standardise
        self._standardiser: Standardiser | None = None
        if wanted:
            self._standardiser = Standardiser(self.floor, rotations).fit(images, orientations)
        return self._standardised(images, orientations)

    def _standardised(self, images: Images, orientations: Orientations | None = None) -> Images:
        return images if self._standardiser is None else self._standardiser.transform(images, orientations)

    def _unstandardised(self, images: Images, orientations: Orientations | None = None) -> Images:
        """Images in the scale of the user's pixels."""
        return images if self._standardiser is None else self._standardiser.inverse(images, orientations)

    def _images_of(self, inputs: Images, groups: Orientations | None) -> Images:
        """The images of a machine's inputs; the inverse of `_inputs` as far as there is one."""
        return self._unstandardised(inputs)

    def _initial_weights(self, *shape: int) -> NDArray[np.float32]:
        """Normally distributed weights, the same for all models of a seed and shape."""
        normal = generator_of(self._seed, "initial").standard_normal(shape, dtype=np.float32)
        return np.float32(self.initial_scale) * normal

    def _visible_parameters(self, pixels: int) -> dict[str, NDArray[np.float32]]:
        shape = (self._group_count(), pixels)
        parameters = {"visible_bias": np.zeros(shape, dtype=np.float32)}
        if self.variance == "learned":
            parameters["log_variance"] = np.zeros(shape, dtype=np.float32)
        return parameters

    def _fitted_machine(self) -> Machine:
        check_is_fitted(self, "weights_")
        backend = select_backend(self.backend)
        on_device = {name: backend.asarray(value) for name, value in self._parameters().items()}
        return self._machine(backend, on_device)

    def _sorted_inputs(
        self, X: Any, orientations: Any
    ) -> tuple[Images, Orientations | None, NDArray[np.int64] | None]:
        """Inputs and groups, sorted by group where there are groups, and the order that sorted them."""
        check_is_fitted(self, "weights_")
        images = self._check_images(X, reset=False)
        inputs, groups = self._inputs(images, self._check_orientations(orientations, len(images)))
        if groups is None:
            return inputs, None, None
        order = np.argsort(groups, kind="stable")
        return inputs[order], groups[order], order

    @staticmethod
    def _unsorted(values: NDArray[Any], order: NDArray[np.int64] | None) -> NDArray[Any]:
        if order is None:
            return values
        result = np.empty_like(values)
        result[order] = values
        return result

    def _map(self, X: Any, orientations: Any, function: Any) -> NDArray[np.float32]:
        """Apply a function of the machine to images, chunk by chunk, in the order of the images."""
        inputs, groups, order = self._sorted_inputs(X, orientations)
        machine = self._fitted_machine()
        values = self._chunked(machine, inputs, groups, lambda x, g: function(machine, x, g))
        return self._unsorted(values, order)

    @staticmethod
    def _chunked(
        machine: Machine, inputs: Images, groups: Orientations | None, function: Any
    ) -> NDArray[np.float32]:
        backend = machine.backend
        parts = []
        for first in range(0, len(inputs), CHUNK):
            rows = slice(first, first + CHUNK)
            described = None
            if groups is not None and machine.groups > 1:
                described = Groups.of(backend, groups[rows], machine.groups)
            parts.append(backend.to_host(function(backend.asarray(inputs[rows]), described)))
        return np.concatenate(parts)


def host_state(state: TrainingState, backend: Backend) -> TrainingState:
    """Copy a state to the host."""
    return TrainingState(
        {name: np.array(backend.to_host(value)) for name, value in state.parameters.items()},
        {name: np.array(backend.to_host(value)) for name, value in state.increments.items()},
        state.epoch,
        list(state.history),
    )


def _integer_seed(random_state: Any) -> int:
    """An integer seed from what scikit-learn accepts as a random state."""
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise InputError(f"a seed must be 0 or above, not {random_state}")
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
