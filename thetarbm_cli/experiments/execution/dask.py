"""Make runs on a Dask cluster.

Workers that see the results folder of the client write into it, and a run that lost its worker goes on from its
checkpoint on another. Workers that do not see it work in a folder of their own and hand record and weights back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from thetarbm_cli import __version__, documents, storage
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.execution.job import (
    LostProcessError,
    Outcome,
    Report,
    RunReport,
    failed,
    longest_first,
    run_job,
    seldom,
    tell_nobody,
    training_of,
)
from thetarbm_cli.experiments.execution.plan import PlannedRun
from thetarbm_cli.experiments.runs.record import RunRecord
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunContext, RunStore

# So long a scheduler may take to answer.
PATIENCE_SECONDS = 20

logger = logging.getLogger("thetarbm")


@dataclass(frozen=True)
class WorkerContext:
    """Tell a worker where and with what the client makes runs, and its version.

    Attributes
    ----------
    client : the client's folders and backend, whose paths are absolute
    token : a file in the results folder; who sees it sees the folder. None if records are to be handed back
    topic : of the events by which workers say how far they are
    """

    client: RunContext
    token: Path | None
    topic: str = ""
    version: str = __version__
    algorithm: int = ALGORITHM


@dataclass(frozen=True)
class WorkerResult:
    """Carry the outcome of a run, and what the client has to store itself."""

    outcome: Outcome
    record: str | None = None
    weights: bytes | None = None


def run_on_worker(worker: WorkerContext, planned: PlannedRun) -> WorkerResult:
    """Make a run on a worker."""
    if (worker.version, worker.algorithm) != (__version__, ALGORITHM):
        raise InputError(
            f"a worker has thetarbm {__version__} (algorithm {ALGORITHM}), the client {worker.version} "
            f"(algorithm {worker.algorithm}); install the same on both"
        )
    report = _reporter(worker.topic, planned)
    if worker.token is not None and worker.token.is_file():
        return WorkerResult(run_job(worker.client, planned, report))
    with tempfile.TemporaryDirectory(prefix="thetarbm-") as folder:
        own_store = RunStore(Path(folder), shipped=False)
        context = replace(worker.client, data_dir=_own_data_dir(worker.client.data_dir), store=own_store)
        outcome = run_job(context, planned, report)
        names = context.store.identifiers()
        if not names:
            return WorkerResult(outcome)
        weights = context.store.weights_path(names[0])
        return WorkerResult(
            outcome,
            context.store.record_path(names[0]).read_text(encoding="utf-8"),
            weights.read_bytes() if weights.is_file() else None,
        )


def _reporter(topic: str, planned: PlannedRun) -> Report:
    """Report by events, which the client is told of by the scheduler."""

    def send(*words: str | int) -> None:
        from distributed import get_worker

        # Outside a worker, nobody asks.
        with contextlib.suppress(ValueError):
            get_worker().log_event(topic, [planned.name, *words])

    return seldom(send)


def _own_data_dir(clients: Path) -> Path:
    """The client's data folder if it is here too, else this machine's own."""
    import platformdirs

    given = os.environ.get("THETARBM_DATA_DIR")
    if given:
        return Path(given)
    return clients if clients.is_dir() else platformdirs.user_cache_path("thetarbm")


@dataclass(frozen=True)
class DaskExecutor:
    """An existing cluster, or one of worker processes on this machine.

    Attributes
    ----------
    scheduler : address of the scheduler; None starts a local cluster on the loopback device
    workers : processes of the local cluster
    shared : whether workers that see the client's results folder write into it
    """

    scheduler: str | None = None
    workers: int = 1
    shared: bool = True

    def __call__(
        self, context: RunContext, runs: Sequence[PlannedRun], keep_going: bool, on_report: RunReport = tell_nobody
    ) -> Iterator[tuple[PlannedRun, Outcome]]:
        """Yield each run with its outcome."""
        if not runs:
            return
        by_name, topic = {run.name: run for run in runs}, f"thetarbm-{uuid.uuid4().hex}"
        token_path = context.store.folder.absolute() / "seen"
        with (
            _connected(self.scheduler, self.workers) as client,
            storage.temporary_beside(token_path) if self.shared else contextlib.nullcontext() as token,
        ):
            _check_versions(client)
            client.subscribe_topic(topic, lambda event: on_report(by_name[event[1][0]], *event[1][1:]))
            worker = WorkerContext(context.absolute(), token, topic)
            ordered = longest_first(runs)
            first = {training_of(run): run for run in reversed(ordered)}
            # All are given to the cluster at once: those that wait for the training of another come last.
            ordered.sort(key=lambda run: run is not first[training_of(run)])
            yield from _finish_runs(client, context, worker, ordered, keep_going)


def _finish_runs(
    client: Any, context: RunContext, worker: WorkerContext, runs: Sequence[PlannedRun], keep_going: bool
) -> Iterator[tuple[PlannedRun, Outcome]]:
    """Outcomes as they come.

    Dask blames the death of a worker on all that waited there. Runs that it gives up are therefore tried once more,
    each alone, when all others are done: one whose workers die again is to blame itself.
    """
    suspects: list[PlannedRun] = []
    for run, outcome in _outcomes(client, context, worker, runs):
        if isinstance(outcome, LostProcessError) and len(runs) > 1:
            logger.warning("the workers of %s died; it is tried once more after the others", run.labels[0])
            suspects.append(run)
            continue
        ended = outcome if isinstance(outcome, Outcome) else failed(context, run, outcome)
        yield run, ended
        if ended.state == "failed" and not keep_going:
            return
    for suspect in suspects:
        for ending in _finish_runs(client, context, worker, [suspect], keep_going):
            yield ending
            if ending[1].state == "failed" and not keep_going:
                return


def _outcomes(
    client: Any, context: RunContext, worker: WorkerContext, runs: Sequence[PlannedRun]
) -> Iterator[tuple[PlannedRun, Outcome | Exception]]:
    """Give runs to the cluster and yield each with what came of it; who stops asking cancels the rest."""
    from distributed import as_completed

    # A run is never pure for Dask: the store decides what is done already.
    futures = {client.submit(run_on_worker, worker, run, pure=False): run for run in runs}
    try:
        for future in as_completed(list(futures)):
            if future.cancelled():
                if client.status != "running":
                    raise ThetaRBMError("the connection to the scheduler was lost; the same command goes on from here")
                continue
            yield futures[future], _receive(context, futures[future], future)
    finally:
        with contextlib.suppress(Exception):
            client.cancel([future for future in futures if not future.done()])


def _receive(context: RunContext, planned: PlannedRun, future: Any) -> Outcome | Exception:
    """The outcome of a future, or its error; what was handed back is stored."""
    from distributed import KilledWorker

    try:
        result: WorkerResult = future.result()
        if result.record is not None:
            _store(context, result.record, result.weights, planned.forced)
    except KilledWorker:
        return LostProcessError()
    except Exception as error:  # noqa: BLE001  whatever happens to one run must not end the others
        return error
    return result.outcome


def _store(context: RunContext, text: str, weights: bytes | None, force: bool) -> None:
    """Keep what a worker made: as the record, or beside one that has numbers."""
    record, store = RunRecord.model_validate(documents.parse(text)), context.store
    with store.locked(record.run):
        stored = store.load(record.run, refuse_newer=True)
        kept = stored if stored is not None and stored.is_measured and not force else None
        if kept is None:
            store.save(record)
        if weights is not None:
            storage.write_bytes(store.weights_path(record.run), weights)
            store.note_weights(kept or record, record.weights)
            if kept is not None and (measured := record.measurement()):
                store.add_measures(kept, measured)
        store.remove_checkpoint(record.run)


@contextlib.contextmanager
def _connected(scheduler: str | None, workers: int) -> Iterator[Any]:
    """A client of the scheduler, or of a local cluster that ends with the block."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError("--executor dask needs the extra cluster: pip install 'thetarbm[cluster]'") from error
    # It tells of a lost scheduler by a traceback; here it is told by an error of one sentence.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    if scheduler is None:
        with (
            LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address="127.0.0.1:0",
            ) as cluster,
            Client(cluster) as client,
        ):
            yield client
        return
    try:
        client = Client(scheduler, timeout=PATIENCE_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise ThetaRBMError(f"no Dask scheduler answers at {scheduler}; start one or check the address") from error
    with client:
        yield client


def _check_versions(client: Any) -> None:
    """Refuse a scheduler or workers without this version of the package, which could not even read a run.

    Workers that come later tell another version themselves (`run_on_worker`).
    """

    # Inside, so that it travels as code: who lacks the package has no function of it either.
    def version_there() -> str | None:
        try:
            import thetarbm_cli
        except ImportError:
            return None
        return thetarbm_cli.__version__

    workers = client.run(version_there)
    if not workers:
        logger.warning("the scheduler has no workers yet; the runs wait for the first")
    versions = {"the scheduler": client.run_on_scheduler(version_there)}
    versions |= {f"the worker at {address}": version for address, version in workers.items()}
    for context, version in versions.items():
        if version != __version__:
            found = f"thetarbm {version}" if version else "no thetarbm"
            raise ThetaRBMError(f"{context} has {found}, the client {__version__}; install the same on both")
