"""What a fitted model does for its users: features, energies, reconstructions, samples, and storage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from thetarbm_cli.backend import Array, Backend, select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.imaging.standardise import Standardiser
from thetarbm_cli.models.groups import Groups
from thetarbm_cli.models.machine import Machine
from thetarbm_cli.models.seeds import seed_of
from thetarbm_cli.models.update import EpochRecord

Images = NDArray[np.float32]
Orientations = NDArray[np.int64]

MachineFunction = Callable[[Machine, Array, Groups | None], Array]

# Rows that are turned into features at a time: large enough for the products, small enough for the memory.
CHUNK = 2000


class FittedMachine(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Everything that needs learned parameters but no learning; `BoltzmannEstimator` adds the learning."""

    hidden: int
    visible: str
    standardise: bool | None
    floor: float
    backend: str
    history_: list[EpochRecord]
    parameter_names_: tuple[str, ...]
    weights_: NDArray[np.float32]
    _standardiser: Standardiser | None

    @abstractmethod
    def _inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """The machine's inputs (n, V) and groups (n,) of images, with what was fitted."""

    def _groups_of(self, images: Images, orientations: Orientations | None) -> Orientations | None:
        """Group of each image (n,), given or found, for machines that treat each orientation by itself."""
        return None

    @abstractmethod
    def _machine(self, backend: Backend, parameters: dict[str, Array]) -> Machine:
        """The machine over parameters that are on the backend's device."""

    def transform(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Features of images: p(h = 1 | x, r), (n, H) in [0, 1]."""
        return self._map(X, orientations, lambda machine, x, groups: machine.features(x, groups))

    def free_energy(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """Free energy of images, (n,): low where the model finds an image likely."""
        return self._map(X, orientations, lambda machine, x, groups: machine.free_energy(x, groups))

    def reconstruct(self, X: Any, *, orientations: Any = None) -> NDArray[np.float32]:
        """E[x | p(h | x, r), r]: one pass up and down, as images (n, V)."""

        def up_and_down(machine: Machine, x: Array, groups: Groups | None) -> Array:
            hidden = machine.interaction.probabilities(machine.visible.drive(x, groups), groups)
            return machine.visible.mean(machine.interaction.field(hidden, groups), groups)

        return self._map(X, orientations, up_and_down, as_images=True)

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
        machine = self._fitted_machine()
        backend = machine.backend
        xp = backend.xp
        if not 0 <= orientation < machine.groups:
            raise InputError(f"orientation must be in 0..{machine.groups - 1}, not {orientation}")
        index = np.full(n_samples, orientation, dtype=np.int64)
        groups = Groups.of(backend, index, machine.groups)
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
        return self._images_of(backend.to_host(mean), index)

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
        arrays = dict(arrays)
        mean, scale = arrays.pop("standard_mean", None), arrays.pop("standard_scale", None)
        self._standardiser = None
        if mean is not None and scale is not None:
            self._standardiser = Standardiser.from_arrays(mean, scale, floor=self.floor)
        self.n_features_in_ = int(arrays["weights"].shape[-1])
        self._set_parameters(arrays)
        self.history_ = []
        # An optimiser's state of an earlier fit does not belong to these parameters.
        self.__dict__.pop("state_", None)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

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
        self._standardiser = None
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

    def _fitted_machine(self) -> Machine:
        check_is_fitted(self, "weights_")
        backend = select_backend(self.backend)
        on_device = {name: backend.asarray(value) for name, value in self._parameters().items()}
        return self._machine(backend, on_device)

    def _map(
        self, X: Any, orientations: Any, function: MachineFunction, *, as_images: bool = False
    ) -> NDArray[np.float32]:
        """Apply a function of the machine to images, chunk by chunk, in the order of the images."""
        machine = self._fitted_machine()
        images = self._check_images(X, reset=False)
        given = self._check_orientations(orientations, len(images))
        parts = []
        for first in range(0, len(images), CHUNK):
            rows = slice(first, first + CHUNK)
            indices = None if given is None else given[rows]
            parts.append(self._map_chunk(machine, images[rows], indices, function, as_images))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _map_chunk(
        self,
        machine: Machine,
        images: Images,
        orientations: Orientations | None,
        function: MachineFunction,
        as_images: bool,
    ) -> NDArray[np.float32]:
        backend = machine.backend
        groups = self._groups_of(images, orientations)
        if groups is None:
            inputs, _ = self._inputs(images, orientations)
            values = backend.to_host(function(machine, backend.asarray(inputs), None))
            return self._images_of(values, None) if as_images else values
        order = np.argsort(groups, kind="stable")
        groups = groups[order]
        described = Groups.of(backend, groups, machine.groups)
        inputs = np.empty_like(images)
        # One orientation after the other: few images for the processor's cache, and one operator for all of them.
        for _, rows in described.segments:
            inputs[rows], _ = self._inputs(images[order[rows]], groups[rows])
        values = backend.to_host(function(machine, backend.asarray(inputs), described))
        result = np.empty_like(values)
        result[order] = self._images_of(values, groups) if as_images else values
        return result
