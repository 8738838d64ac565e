"""Checkpoints of training: all that the next epoch needs, written often enough and never too often."""

from __future__ import annotations

import json
import logging
import time
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from thetarbm_cli import documents
from thetarbm_cli.backend import Backend
from thetarbm_cli.experiments.runs.record import History, RunRecord
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.models.contrastive_divergence import EpochRecord, TrainingState

# Checkpoints may take this share of the training time.
SHARE = 0.02
# Raise when the arrays or the progress of a checkpoint change their form: older ones are then not used.
FORMAT = 1

logger = logging.getLogger("thetarbm")


class Checkpointer:
    """Saves states of a run, spending at most `SHARE` of the time on it.

    Attributes
    ----------
    begun : the record as it is when training begins, so that settings can be shown before there is another
    """

    def __init__(self, store: RunStore, run: str, backend: Backend) -> None:
        self.store = store
        self.begun: RunRecord | None = None
        self.run = run
        self.backend = backend
        self.seconds = 0.0
        self._last_cost = 0.0
        self._started = self._last_time = time.perf_counter()
        self._earlier_seconds = 0.0

    @property
    def training_seconds(self) -> float:
        """Time of training so far, with that of the sessions that were cut off."""
        return self._earlier_seconds + time.perf_counter() - self._started

    def __call__(self, state: TrainingState) -> None:
        """Save the state if enough time has passed since the last one to afford it."""
        started = time.perf_counter()
        if self._last_cost > SHARE * (started - self._last_time):
            return
        progress = {
            "format": FORMAT,
            "run": self.run,
            "begun": self.begun.document() if self.begun else None,
            "training_seconds": self.training_seconds,
            "checkpoint_seconds": self.seconds,
        }
        self.store.save_checkpoint(self.run, to_arrays(state.to_host(self.backend), progress))
        self._last_time = time.perf_counter()
        self._last_cost = self._last_time - started
        self.seconds += self._last_cost

    def resume(self) -> TrainingState | None:
        """The last saved state of this run, if there is a whole one."""
        arrays = self.store.load_checkpoint(self.run)
        if arrays is None:
            return None
        try:
            state, progress = from_arrays(arrays)
            # The id fixes names and shapes of all arrays, so a checkpoint of the same run fits.
            if (progress["format"], progress["run"]) != (FORMAT, self.run):
                raise ValueError(f"it is of format {progress['format']} and run {progress['run']}")
            seconds, self.seconds = float(progress["training_seconds"]), float(progress["checkpoint_seconds"])
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            logger.warning("the checkpoint of %s is not used, training starts anew: %s", self.run, error)
            return None
        self._earlier_seconds = seconds
        return state


def to_arrays(state: TrainingState, progress: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """A host state as plain arrays; `progress` is stored with it."""
    content = {**progress, "epoch": state.epoch, "history": [asdict(record) for record in state.history]}
    return {
        "progress": np.frombuffer(json.dumps(content).encode(), dtype=np.uint8),
        **{f"parameter.{name}": value for name, value in state.parameters.items()},
        **{f"increment.{name}": value for name, value in state.increments.items()},
    }


def from_arrays(arrays: dict[str, NDArray[Any]]) -> tuple[TrainingState, dict[str, Any]]:
    """The inverse of `to_arrays`."""
    progress = documents.parse(arrays["progress"].tobytes().decode())
    TypeAdapter(History).validate_python(progress["history"])
    if len(progress["history"]) != progress["epoch"]:
        raise ValueError(f"it has {len(progress['history'])} epochs in its history, and says {progress['epoch']}")
    state = TrainingState(
        parameters=_under(arrays, "parameter."),
        increments=_under(arrays, "increment."),
        epoch=int(progress["epoch"]),
        history=[EpochRecord(**record) for record in progress["history"]],
    )
    return state, progress


def _under(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
