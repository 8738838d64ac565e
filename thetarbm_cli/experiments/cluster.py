"""The suite on a Dask cluster.

Workers that see the results folder of the client write into it, and a run that lost its worker goes on from its
checkpoint on another. Workers that do not see it work in a folder of their own and hand record and weights back.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thetarbm_cli import __version__, storage
from thetarbm_cli.errors import InputError, ThetaRBMError
from thetarbm_cli.experiments.executors import failed
from thetarbm_cli.experiments.settings import ALGORITHM
from thetarbm_cli.experiments.store import RunRecord, RunStore
from thetarbm_cli.experiments.training_run import Workplace
from thetarbm_cli.experiments.work import Job, Outcome, do_job

PATIENCE_SECONDS = 20


@dataclass(frozen=True)
class Errand:
    """What a worker is told beside the job: the client's folders, backend and version.

    Attributes
    ----------
    token : a file in the results folder; who sees it sees the folder. None if records are to be handed back
    """

    results: Path
    data_dir: Path
    backend_name: str
    token: Path | None
    version: str = __version__
    algorithm: int = ALGORITHM


@dataclass(frozen=True)
class Delivery:
    """What a worker gives back: the outcome, and what the client has to store itself."""

    outcome: Outcome
    record: str | None = None
    weights: bytes | None = None


@dataclass(frozen=True)
class DaskExecutor:
    """An existing cluster, or one of worker processes on this machine.

    Attributes
    ----------
    scheduler : address of the scheduler; None starts a local cluster on the loopback device
    workers : processes of the local cluster
    shared : whether workers write into the client's results folder; None lets them look
    """

    scheduler: str | None = None
    workers: int = 1
    shared: bool | None = None

    def __call__(self, place: Workplace, jobs: Sequence[Job], keep_going: bool) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome."""
        if not jobs:
            return
        with _connected(self.scheduler, self.workers) as client, _token(place, self.shared) as token:
            errand = Errand(place.store.folder.parent.absolute(), place.data_dir.absolute(), place.backend_name, token)
            yield from _deliveries(client, place, errand, jobs, keep_going)


def run_errand(errand: Errand, job: Job) -> Delivery:
    """Do a job on a worker."""
    if (errand.version, errand.algorithm) != (__version__, ALGORITHM):
        raise ThetaRBMError(
            f"a worker has thetarbm {__version__} (algorithm {ALGORITHM}), the client {errand.version} "
            f"(algorithm {errand.algorithm}); install the same on both"
        )
    if errand.token is not None and errand.token.is_file():
        place = Workplace(errand.data_dir, RunStore(errand.results), errand.backend_name)
        return Delivery(do_job(place, job))
    with tempfile.TemporaryDirectory(prefix="thetarbm-") as folder:
        place = Workplace(_own_data_dir(errand), RunStore(Path(folder)), errand.backend_name)
        outcome = do_job(place, job)
        names = place.store.identifiers()
        if not names:
            return Delivery(outcome)
        weights = place.store.weights_path(names[0])
        return Delivery(
            outcome,
            (place.store.path(names[0]) / "run.json").read_text(encoding="utf-8"),
            weights.read_bytes() if weights.is_file() else None,
        )


def _own_data_dir(errand: Errand) -> Path:
    """The client's data folder if it is here too, else this machine's own."""
    import platformdirs

    given = os.environ.get("THETARBM_DATA_DIR")
    if given:
        return Path(given)
    return errand.data_dir if errand.data_dir.is_dir() else platformdirs.user_cache_path("thetarbm")


def _deliveries(
    client: Any, place: Workplace, errand: Errand, jobs: Sequence[Job], keep_going: bool
) -> Iterator[tuple[Job, Outcome]]:
    from distributed import as_completed

    # A job is never pure for Dask: the store decides what is done already.
    futures = {client.submit(run_errand, errand, job, pure=False): job for job in jobs}
    try:
        for future in as_completed(list(futures)):
            if future.cancelled():
                if client.status != "running":
                    raise ThetaRBMError("the connection to the scheduler was lost; the same command goes on from here")
                continue
            outcome = _receive(place, future)
            yield futures[future], outcome
            if outcome.state == "failed" and not keep_going:
                waiting = [other for other in futures if not other.done()]
                client.cancel(waiting)
                return
    finally:
        with contextlib.suppress(Exception):
            client.cancel([future for future in futures if not future.done()])


def _receive(place: Workplace, future: Any) -> Outcome:
    """The outcome of a future; what was handed back is stored."""
    error = future.exception()
    if error is not None:
        return failed(error)
    delivery: Delivery = future.result()
    if delivery.record is not None:
        record = RunRecord.model_validate_json(delivery.record)
        with place.store.locked(record.run):
            if delivery.weights is not None:
                storage.write_bytes(place.store.weights_path(record.run), delivery.weights)
            place.store.save(record)
            place.store.remove_checkpoint(record.run)
    return delivery.outcome


@contextlib.contextmanager
def _connected(scheduler: str | None, workers: int) -> Iterator[Any]:
    """A client of the scheduler, or of a local cluster that ends with the block."""
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError("--executor dask needs the extra cluster: pip install 'thetarbm[cluster]'") from error
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


@contextlib.contextmanager
def _token(place: Workplace, shared: bool | None) -> Iterator[Path | None]:
    """A file in the results folder by which workers find out whether they see it."""
    if shared is False:
        yield None
        return
    token = place.store.folder.absolute() / f".seen-{uuid.uuid4().hex}.part"
    storage.write_text(token, "")
    try:
        yield token
    finally:
        token.unlink(missing_ok=True)
