"""How the four estimators learn: settings, checks, and fitting by the one loop."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from thetarbm_cli.backend import Backend, select_backend
from thetarbm_cli.errors import InputError
from thetarbm_cli.models.inference import FittedMachine, Images, Orientations
from thetarbm_cli.models.learning import Learning
from thetarbm_cli.models.seeds import generator_of
from thetarbm_cli.models.training import Monitor, Trainer
from thetarbm_cli.models.update import TrainingState
from thetarbm_cli.models.visible import KINDS


class BoltzmannEstimator(FittedMachine):
    """Base of the estimators; see `RBM` for the parameters that all share.

    A subclass says how images become the machine's inputs (`_fit_inputs`, `_inputs`) and what the machine is
    (`_initial_parameters`, `_machine`).
    """

    epochs: int
    batch_size: int
    learning_rate: float
    rate_decay: float
    momentum: float
    initial_momentum: float | None
    momentum_epochs: int
    weight_decay: float
    gibbs_steps: int
    visible_sampling: str
    sparsity: float | None
    sparsity_weight: float
    sparsity_form: str
    variance: str
    initial_scale: float
    random_state: Any
    # Forms of the variance of Gaussian units that the model knows.
    variances: ClassVar[tuple[str, ...]] = ("fixed", "learned")

    @abstractmethod
    def _fit_inputs(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """Fit what precedes the machine and return the machine's inputs and groups."""

    @abstractmethod
    def _initial_parameters(self, inputs: Images) -> dict[str, NDArray[np.float32]]:
        """Parameters before the first update."""

    def _learned_from(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """Images to learn from, and their orientations: as they are given, unless a model makes more of them."""
        return images, orientations

    def _inputs_to_learn(self, images: Images, orientations: Orientations | None) -> tuple[Images, Orientations | None]:
        """The machine's inputs for further learning, with what was fitted."""
        return self._inputs(images, orientations)

    def _group_count(self) -> int:
        """Rows of the visible bias: 1, or the number of orientations."""
        return 1

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
        trainer = self.trainer(X, orientations=orientations)
        state = trainer.start()
        if resume is not None:
            self._restore(state, resume, trainer.machine.backend)
        self._finish(trainer, state, self.epochs, monitor)
        return self

    def partial_fit(self, X: Any, y: Any = None, *, orientations: Any = None) -> Self:
        """Learn for one more epoch, from these images, with the standardisation of the first call."""
        if not hasattr(self, "weights_"):
            trainer = self.trainer(X, orientations=orientations)
            state = trainer.start()
        else:
            images = self._check_images(X, reset=False)
            given = self._check_orientations(orientations, len(images))
            self._seed = _integer_seed(self.random_state)
            inputs, groups = self._inputs_to_learn(*self._learned_from(images, given))
            trainer = self._trainer_on(inputs, groups, self._parameters())
            state = trainer.start()
            if hasattr(self, "state_"):
                self._restore(state, self.state_, trainer.machine.backend)
        self._finish(trainer, state, state.epoch + 1, None)
        return self

    def trainer(self, X: Any, *, orientations: Any = None) -> Trainer:
        """Fit what precedes the machine and give a trainer before its first epoch, as `fit` runs it."""
        self.check_settings()
        images = self._check_images(X, reset=True)
        given = self._check_orientations(orientations, len(images))
        self._seed = _integer_seed(self.random_state)
        inputs, groups = self._fit_inputs(*self._learned_from(images, given))
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
        self.history_ = state.history
        self._set_parameters(self.state_.parameters)

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
        """Raise an `InputError` for the first setting that is out of range."""
        self._learning()
        if self.hidden < 1:
            raise InputError(f"hidden must be 1 or above, not {self.hidden}")
        if not 0 <= self.floor < math.inf:
            raise InputError(f"floor must be 0 or above, not {self.floor}")
        if not 0 <= self.initial_scale < math.inf:
            raise InputError(f"initial_scale must be 0 or above, not {self.initial_scale}")
        if self.visible not in KINDS:
            raise InputError(f"visible must be one of {', '.join(KINDS)}, not {self.visible!r}")
        if self.variance not in self.variances:
            raise InputError(f"variance must be one of {', '.join(self.variances)}, not {self.variance!r}")
        if self.visible == "bernoulli" and self.variance != "fixed":
            raise InputError("Bernoulli visible units have no variance to learn: use variance='fixed'")

    def _initial_weights(self, *shape: int) -> NDArray[np.float32]:
        """Normally distributed weights, the same for all models of a seed and shape."""
        normal = generator_of(self._seed, "initial").standard_normal(shape, dtype=np.float32)
        # A scale beyond float32 gives infinite weights, and training that says so.
        with np.errstate(over="ignore"):
            return np.float32(self.initial_scale) * normal

    def _visible_parameters(self, pixels: int) -> dict[str, NDArray[np.float32]]:
        shape = (self._group_count(), pixels)
        parameters = {"visible_bias": np.zeros(shape, dtype=np.float32)}
        if self.variance == "learned":
            parameters["log_variance"] = np.zeros(shape, dtype=np.float32)
        return parameters


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
