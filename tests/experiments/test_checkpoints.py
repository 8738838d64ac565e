from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thetarbm_cli.backend import Backend
from thetarbm_cli.experiments.runs import checkpoints
from thetarbm_cli.experiments.runs.checkpoints import FORMAT, SHARE, Checkpointer
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.models.contrastive_divergence import EpochRecord, TrainingState

RUN = "rbm-0123456789ab"


def state_after(epoch: int) -> TrainingState:
    weights = np.full((2, 3), epoch, dtype=np.float32)
    return TrainingState(
        {"weights": weights, "hidden_bias": np.arange(2, dtype=np.float32)},
        {"weights": weights / 3},
        epoch,
        [EpochRecord(number, 1 / number, 0.3) for number in range(1, epoch + 1)],
    )


class Clock:
    """A `time` whose seconds pass only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def perf_counter(self) -> float:
        return self.now


class CountingStore(RunStore):
    """Saves nothing, at a cost."""

    def __init__(self, clock: Clock, costs: Callable[[], float]) -> None:
        super().__init__(Path("nowhere"))
        self.clock, self.costs = clock, costs
        self.saved: list[float] = []

    def save_checkpoint(self, run: str, arrays: dict[str, Any]) -> None:
        self.saved.append(self.costs())
        self.clock.now += self.saved[-1]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(checkpoints, "time", clock)
    return clock


def run_epochs(clock: Clock, store: CountingStore, epochs: list[float]) -> Checkpointer:
    checkpointer = Checkpointer(store, RUN, Backend())
    for number, seconds in enumerate(epochs, start=1):
        clock.now += seconds
        checkpointer(state_after(number))
    return checkpointer


times = st.floats(0.001, 100)


@given(epochs=st.lists(times, min_size=1, max_size=60), data=st.data())
def test_all_checkpoints_but_the_last_take_no_more_than_their_share(epochs: list[float], data: st.DataObject) -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoints, "time", clock)
        store = CountingStore(clock, lambda: data.draw(times))
        checkpointer = run_epochs(clock, store, epochs)
        elapsed = clock.now - 1000.0
        assert checkpointer.seconds == pytest.approx(sum(store.saved))
        assert checkpointer.training_seconds == pytest.approx(elapsed)
    assert sum(store.saved[:-1]) <= SHARE * elapsed * (1 + 1e-9)


@pytest.mark.parametrize(("cost", "epochs", "saved"), [(0.001, [1.0] * 10, 10), (50.0, [0.001, 1.0], 1)])
def test_the_first_epoch_is_always_saved_and_each_that_is_cheap(
    clock: Clock, cost: float, epochs: list[float], saved: int
) -> None:
    store = CountingStore(clock, lambda: cost)
    run_epochs(clock, store, epochs)
    assert len(store.saved) == saved


def test_saved_state_is_the_resumed_state(tmp_path: Path, clock: Clock) -> None:
    store = RunStore(tmp_path)
    first = Checkpointer(store, RUN, Backend())
    clock.now += 7
    first(state_after(4))
    clock.now += 100
    second = Checkpointer(store, RUN, Backend())
    state, expected = second.resume(), state_after(4)
    assert state.epoch == 4
    assert state.history == expected.history
    for ours, theirs in ((state.parameters, expected.parameters), (state.increments, expected.increments)):
        assert ours.keys() == theirs.keys()
        for name in ours:
            assert ours[name].dtype == np.float32
            np.testing.assert_array_equal(ours[name], theirs[name])
    # Time of the session that was cut off counts; the pause between the two does not.
    clock.now += 2
    assert second.training_seconds == pytest.approx(9)


@pytest.mark.parametrize(
    "changes",
    [{"format": FORMAT + 1}, {"run": "rbm-ffffffffffff"}, {"history": [{"epoch": 1}]}, {"epoch": None}],
    ids=str,
)
def test_foreign_checkpoint_is_not_used(
    tmp_path: Path, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    store = RunStore(tmp_path)
    Checkpointer(store, RUN, Backend())(state_after(2))
    arrays = store.load_checkpoint(RUN)
    content = json.dumps({**json.loads(arrays["progress"].tobytes()), **changes}).encode()
    store.save_checkpoint(RUN, {**arrays, "progress": np.frombuffer(content, dtype=np.uint8)})
    checkpointer = Checkpointer(store, RUN, Backend())
    assert checkpointer.resume() is None
    assert "is not used" in caplog.messages[0]
    assert checkpointer.training_seconds < 60
    store.save_checkpoint(RUN, {"parameter.weights": np.zeros(3)})
    assert checkpointer.resume() is None
