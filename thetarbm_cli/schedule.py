"""What is missing of a suite, and who makes it: jobs in this process, in processes beside it, or on a Dask cluster.

A job is one training and the measurements that it lacks. Jobs go to an executor of `concurrent.futures`: joblib's loky
on this machine, `Client.get_executor` on a cluster. Both give a future for each job, so that a death is blamed on the
jobs that were running and on no other: these are tried once more, each alone, when all others are done. Progress is
read from what the holder of a run says of itself.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import signal
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from thetarbm_cli import __version__, followup, storage
from thetarbm_cli.backend import select_backend
from thetarbm_cli.errors import InputError, ThetaRBMError, format_error
from thetarbm_cli.registry import source_names
from thetarbm_cli.specs import ALGORITHM, MeasureSpec, TrainSpec
from thetarbm_cli.store import CHECKPOINT, WEIGHTS, MadeFor, Measurement, Store, Training
from thetarbm_cli.suite import Cell, is_named, seeds_of

# Seconds between two looks at how far jobs are.
POLL_SECONDS = 0.5
# So long a scheduler may take to answer.
PATIENCE_SECONDS = 20
LOST_PROCESS = "its process died twice without a word, as when memory runs out; fewer jobs at once need less"

LOST_SCHEDULER = "the connection to the scheduler was lost; the same command goes on from here"

logger = logging.getLogger("thetarbm")

State = Literal["done", "missing", "failed", "stale", "running"]


# Planning


@dataclass(frozen=True, eq=False)
class Job:
    """A training with the measurements that are asked for; cells of the same training and seed share it.

    Attributes
    ----------
    wanted : all measurements that its cells ask for
    cells : names of these cells
    run : the id of its training, as far as it is known: images that are not prepared yet have no checksum
    reason : why it is due; empty if it is done
    source : path of the user's file that the training's source is the name of
    """

    spec: TrainSpec
    wanted: tuple[MeasureSpec, ...]
    cells: tuple[str, ...]
    run: str | None
    state: State
    reason: str
    made_for: MadeFor = MadeFor()  # noqa: RUF009  never changed
    source: str | None = None
    forced: bool = False

    @property
    def name(self) -> str:
        """What messages and progress call it."""
        return f"{self.cells[0]} seed {self.spec.seed}"

    @property
    def experiment(self) -> str:
        """Name of the first experiment that asks for it."""
        return self.cells[0].partition("/")[0]


class Planner:
    """What a store has of what cells ask for; its records are read once for all questions."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.trainings = store.trainings()
        self._by_cell: dict[tuple[str, int], list[Training]] = {}
        for each in self.trainings:
            self._by_cell.setdefault((each.spec.cell_key, each.spec.seed), []).append(each)
        self._checksums: dict[tuple[str, str, int], str | None] = {}

    def checksum(self, spec: TrainSpec, source: str | None = None) -> str | None:
        """Give the checksum of a training's images, where they are prepared."""
        from thetarbm_cli.pipeline import data_checksum

        key = (spec.data.dataset, source or spec.data.source, spec.data.seed)
        if key not in self._checksums:
            self._checksums[key] = data_checksum(self.store, *key)
        return self._checksums[key]

    def state(
        self, spec: TrainSpec, wanted: Sequence[MeasureSpec], made_for: MadeFor, source: str | None = None
    ) -> tuple[str | None, State, str]:
        """Find the id of a training for cells, the state of what is asked for, and the reason."""
        sha = self.checksum(spec, source)
        same = self._by_cell.get((spec.cell_key, spec.seed), [])
        found = [each for each in same if sha in (None, each.images_sha256)]
        newest = max(found, key=lambda each: (each.state == "done", each.number), default=None)
        run = newest.run if newest else spec.run_id(sha) if sha else None
        if run is not None and self.store.holder(run) is not None:
            return run, "running", "another process works on it"
        if newest is not None:
            lacking = [key.key for key in wanted if not any(key.key in each.by_key for each in found)]
            if newest.state == "diverged":
                return run, "failed", f"diverged before: {newest.error}"
            return (run, "missing", "trained, not measured yet") if lacking else (run, "done", "")
        if run is not None and self.store.path(run, CHECKPOINT).is_file():
            return run, "missing", "cut off: goes on from its checkpoint"
        if same:
            return run, "stale", "data: the prepared images have another checksum"
        changes = [
            _changes(each.spec, spec)
            for each in self.trainings
            if (each.spec.seed, each.made_for.profile) == (spec.seed, made_for.profile)
            and not set(made_for.cells).isdisjoint(each.made_for.cells)
            # What was made on other images is no older form of it.
            and each.spec.data.source == spec.data.source
        ]
        if nearest := min((each for each in changes if each), key=len, default=[]):
            return run, "stale", "; ".join(nearest)
        return run, "missing", "never run"


def _changes(old: TrainSpec, new: TrainSpec) -> list[str]:
    """Name each difference, as ``floor changed from 0.0 to 0.1``."""
    before, after = ({"model": each.model, **each.named(), "algorithm": each.algorithm} for each in (old, new))
    return [
        f"{name} changed from {_word(before.get(name))} to {_word(after.get(name))}"
        for name in dict.fromkeys((*after, *before))
        if before.get(name) != after.get(name)
    ]


def _word(value: Any) -> str:
    return "none" if value is None else str(value)


def plan(
    store: Store,
    cells: Sequence[Cell],
    *,
    seeds: int | None = None,
    only_seed: int | None = None,
    forced: Sequence[str] = (),
    suite: str = "",
) -> list[Job]:
    """Give all jobs of these cells, in the order of the cells, each seed in turn.

    Parameters
    ----------
    seeds : number of seeds, instead of each cell's own
    only_seed : this seed, instead of all from 0
    forced : names of experiments or cells whose trainings are made once more
    suite : name of the suite's file, for the records
    """
    groups: dict[str, tuple[TrainSpec, list[Cell]]] = {}
    for cell in cells:
        for seed in range(seeds_of(cell, seeds)) if only_seed is None else [only_seed]:
            spec = cell.train_spec(seed)
            groups.setdefault(spec.key, (spec, []))[1].append(cell)
    planner, jobs = Planner(store), []
    for spec, sharing in groups.values():
        wanted = tuple({each.key: each for cell in sharing for each in cell.measure_specs}.values())
        names = tuple(cell.name for cell in sharing)
        given = str(sharing[0].given.get("data.source", "generated"))
        source = None if given in source_names() else given
        made_for = MadeFor(profile=sharing[0].profile, suite=suite, cells=names)
        run, state, reason = planner.state(spec, wanted, made_for, source)
        is_forced = any(is_named(cell, name) for cell in sharing for name in forced)
        if is_forced and state != "running":
            state, reason = "missing", "forced"
        jobs.append(Job(spec, wanted, names, run, state, reason, made_for, source, is_forced))
    return jobs


def cost(job: Job) -> float:
    """Count the products of a job, by which the longest are made first."""
    from thetarbm_cli.models import build

    pixels, data = 784, job.spec.data
    model = build(job.spec.model, job.spec.parameters)
    train = data.train or (12_000 if data.learn_from == "train+valid" else 10_000)
    total = model.training_products(train, pixels) or 0
    for spec in job.wanted:
        images = train if spec.part == "train" else spec.count or 50_000
        copies = 10 if spec.measure in ("gamma", "invariance") else 1
        total += (model.feature_products(min(images, spec.first or images), pixels) or 0) * copies
        if spec.svm is not None:
            # Of the SVM's fit and predictions, per image.
            total += 15 * 500 * pixels * (train + images) // 2
    return float(total)


# Making


@dataclass(frozen=True)
class Done:
    """How a job ended; the traceback is of an error that is not one of ours, for --debug."""

    state: Literal["done", "cached", "failed"]
    run: str | None
    error: str | None = None
    seconds: float = 0.0
    numbers: tuple[tuple[str, float], ...] = ()
    traceback: str | None = None

    @property
    def values(self) -> dict[str, float]:
        """The main numbers by name."""
        return dict(self.numbers)


@dataclass(frozen=True)
class HandedBack:
    """What a worker without the client's folder hands back: how it ended, and what it made."""

    done: Done
    training: dict[str, Any] | None = None
    measurements: tuple[dict[str, Any], ...] = ()
    weights: bytes | None = None


@dataclass(frozen=True)
class Elsewhere:
    """Tell a worker of a cluster about its client.

    Attributes
    ----------
    token : a file in the client's results folder: a worker that sees it sees the folder
    """

    token: Path | None
    version: str = __version__
    algorithm: int = ALGORITHM


def do(store: Store, backend: str, job: Job) -> Done:
    """Train and measure; whatever happens is told as how it ended."""
    from thetarbm_cli.evaluation import measure
    from thetarbm_cli.pipeline import DivergedError, train
    from thetarbm_cli.results import main_numbers

    started = time.perf_counter()
    try:
        training, found = train(
            store, job.spec, source=job.source, backend=backend, force=job.forced, made_for=job.made_for
        )
        training, measured = measure(store, training, job.wanted, backend=backend)
    except DivergedError as error:
        return Done("failed", error.training.run, str(error), time.perf_counter() - started)
    except Exception as error:  # noqa: BLE001  whatever happens to one job must not end the others
        trace = None if isinstance(error, ThetaRBMError) else traceback.format_exc()
        return Done("failed", job.run, format_error(error), time.perf_counter() - started, traceback=trace)
    state: Literal["done", "cached"] = "cached" if found and measured else "done"
    numbers = tuple(main_numbers(training).items())
    return Done(state, training.run, None, time.perf_counter() - started, numbers)


def _work(
    store: Store, backend: str, job: Job, client: Elsewhere | None, options: followup.CallOptions
) -> Done | HandedBack:
    """Do a job in another process, which leaves with its client and is not stopped by a Ctrl-C that is told to it."""
    followup.repeat(options)
    if client is None:
        # The client decides what happens on Ctrl-C.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        _leave_with_parent()
        return do(store, backend, job)
    if (client.version, client.algorithm) != (__version__, ALGORITHM):
        raise InputError(
            f"a worker has thetarbm {__version__} (algorithm {ALGORITHM}), the client {client.version} "
            f"(algorithm {client.algorithm}); install the same on both"
        )
    if client.token is not None and client.token.is_file():
        return do(store, backend, job)
    with tempfile.TemporaryDirectory(prefix="thetarbm-") as folder:
        given = os.environ.get("THETARBM_DATA_DIR")
        data_dir = Path(given) if given else store.data_dir if store.data_dir.is_dir() else None
        own = Store(Path(folder), data_dir, shipped=False)
        done = do(own, backend, replace(job, forced=False))
        made = own.trainings()
        if not made:
            return HandedBack(done)
        weights = own.path(made[0].run, WEIGHTS)
        return HandedBack(
            done,
            made[0].model_dump(mode="json"),
            tuple(each.model_dump(mode="json") for each in made[0].measurements),
            weights.read_bytes() if weights.is_file() else None,
        )


_watching = threading.Lock()


def _leave_with_parent() -> None:
    """End this process when the one that started it is gone."""
    if not _watching.acquire(blocking=False):
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def run(
    store: Store,
    jobs: Sequence[Job],
    *,
    backend: str = "auto",
    n_jobs: int = 1,
    dask: bool = False,
    scheduler: str | None = None,
    shared: bool = True,
    keep_going: bool = True,
    poll: Callable[[Sequence[Job]], None] = lambda running: None,
) -> Iterator[tuple[Job, Done]]:
    """Make jobs and yield each as it ends; those that have started are finished, also after one has failed.

    Parameters
    ----------
    n_jobs : processes at a time; a single one is this one, and with `dask` workers of a local cluster
    scheduler : address of a Dask scheduler; without, a local cluster on the loopback device
    shared : whether workers that see the client's results folder write into it
    keep_going : whether others are started after one has failed
    poll : called a few times a second with the jobs that may be at work
    """
    if not jobs:
        return
    if not dask and (n_jobs == 1 or len(jobs) == 1):
        yield from _one_by_one(store, jobs, backend, keep_going, poll)
        return
    if scheduler is None:
        # Processes of this machine compute on what is found here: none takes something else halfway.
        backend = select_backend(backend).name
    ordered = sorted(jobs, key=cost, reverse=True)
    suspects: list[Job] = []
    with _executor(store, n_jobs, dask, scheduler, shared) as (new_executor, places, client):
        # The list of suspects grows while the first batch is made.
        for batch in itertools.chain([ordered], ([job] for job in suspects)):
            waiting = list(batch)
            for job, done in _side_by_side(store.absolute(), waiting, backend, new_executor, places, client, poll):
                if done is None and batch is ordered:
                    logger.warning("the process of %s died; it is tried once more after the others", job.name)
                    suspects.append(job)
                    continue
                ended = done or Done("failed", job.run, LOST_PROCESS)
                if ended.state == "failed" and not keep_going:
                    waiting.clear()
                    suspects.clear()
                yield job, ended


def _one_by_one(
    store: Store, jobs: Sequence[Job], backend: str, keep_going: bool, poll: Callable[[Sequence[Job]], None]
) -> Iterator[tuple[Job, Done]]:
    """Make jobs in this process; a thread looks how far they are."""
    current: list[Job] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(POLL_SECONDS):
            poll(list(current))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        for job in jobs:
            current[:] = [job]
            poll([job])
            done = do(store, backend, job)
            current.clear()
            yield job, done
            if done.state == "failed" and not keep_going:
                return
    finally:
        ended.set()
        watcher.join()


def _side_by_side(
    store: Store,
    waiting: list[Job],
    backend: str,
    new_executor: Callable[[], Any],
    places: Callable[[], int],
    client: Elsewhere | None,
    poll: Callable[[Sequence[Job]], None],
) -> Iterator[tuple[Job, Done | None]]:
    """Give jobs to an executor and yield each with how it ended; None if its process died.

    No more jobs are given than there are places for, so that a death concerns those alone. Who takes jobs out of
    `waiting` ends it when the others are done.
    """
    options = followup.call_options()
    futures: dict[Future[Done | HandedBack], Job] = {}
    executor, broken = new_executor(), False
    try:
        while waiting or futures:
            while waiting and not broken and len(futures) < places():
                job = waiting.pop(0)
                futures[executor.submit(_work, store, backend, job, client, options)] = job
            finished, _ = wait(futures, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            poll([job for future, job in futures.items() if future not in finished])
            for future in finished:
                job = futures.pop(future)
                done = _ended(store, job, future)
                broken = broken or (done is None and client is None)
                yield job, done
            if broken and not futures:
                # The pool is gone with its jobs; a new one makes what has not begun.
                broken = False
                executor = new_executor()
    finally:
        if futures and client is None:
            # Loky stumbles over a job that is cancelled or not handed out yet; the latter takes it a moment.
            until = time.monotonic() + PATIENCE_SECONDS
            while any(not (each.running() or each.done()) for each in futures) and time.monotonic() < until:
                time.sleep(0.01)
            # Jobs resume from their checkpoints: to wait for them would keep the user waiting for nothing.
            executor.shutdown(wait=False, kill_workers=True)
        elif client is not None:
            for future in futures:
                future.cancel()


def _ended(store: Store, job: Job, future: Future[Done | HandedBack]) -> Done | None:
    """Say how a job ended, and store what was handed back; None if its process died."""
    try:
        result = future.result()
        return _store(store, job, result) if isinstance(result, HandedBack) else result
    except BrokenProcessPool:
        return None
    except CancelledError as error:
        raise ThetaRBMError(LOST_SCHEDULER) from error
    except Exception as error:  # noqa: BLE001  whatever happens to one job must not end the others
        if type(error).__name__ == "KilledWorker":
            return None
        return Done("failed", job.run, format_error(error))


def _store(store: Store, job: Job, handed: HandedBack) -> Done:
    """Keep what a worker made: as a training, or as measurements of the one that is there."""
    if handed.training is None:
        return handed.done
    made = Training.model_validate(handed.training)
    found = None if job.forced else store.find(made.spec, made.images_sha256)
    run = found.run if found else store.new_id(made.spec, made.images_sha256)
    with store.locked(run):
        # Another process may have made it meanwhile.
        found = store.load(run)
        if handed.weights is not None and store.load_weights(run) is None:
            storage.write_bytes(store.path(run, WEIGHTS), handed.weights)
        if found is None:
            store.save(made.model_copy(update={"run": run}))
        known = found.by_key if found else {}
        for content in handed.measurements:
            measurement = Measurement.model_validate({**content, "run": run})
            if measurement.spec.key not in known:
                store.add(measurement)
        store.path(run, CHECKPOINT).unlink(missing_ok=True)
    return replace(handed.done, run=run)


@contextlib.contextmanager
def _executor(
    store: Store, n_jobs: int, dask: bool, scheduler: str | None, shared: bool
) -> Iterator[tuple[Callable[[], Any], Callable[[], int], Elsewhere | None]]:
    """Open what runs jobs: functions that give an executor and its number of places, and what workers are told."""
    if not dask:
        from joblib.externals.loky import get_reusable_executor  # type: ignore[import-untyped]

        yield lambda: get_reusable_executor(max_workers=n_jobs, timeout=60), lambda: n_jobs, None
        return
    token = storage.temporary_beside(store.folder.absolute() / "seen") if shared else contextlib.nullcontext()
    with _connected(scheduler, n_jobs) as client, token as path:
        _check_versions(client)
        # A job is never pure for Dask: the store decides what is done already. A first one waits for the first worker.
        yield lambda: client.get_executor(pure=False), lambda: _places(client), Elsewhere(path)


@contextlib.contextmanager
def _connected(scheduler: str | None, workers: int) -> Iterator[Any]:
    """Connect to the scheduler, or to a local cluster that ends with the block."""
    try:
        from dask import config
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise InputError(
            "--executor dask needs Dask: install it beside thetarbm with pip install dask distributed"
        ) from error
    # It tells of a lost scheduler by a traceback; here it is told by an error of one sentence.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
    if scheduler is None:
        with (
            # A death is blamed, and the job tried once more, here.
            config.set({"distributed.scheduler.allowed-failures": 0}),
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


def _places(client: Any) -> int:
    """Count the threads of all workers there are, and one where there are none yet."""
    try:
        return max(1, int(sum(client.nthreads().values())))
    except Exception as error:
        raise ThetaRBMError(LOST_SCHEDULER) from error


def _check_versions(client: Any) -> None:
    """Refuse a scheduler or workers without this version of the package, which could not even read a job.

    Workers that come later tell another version themselves.
    """

    # Inside, so that it travels as code: one that lacks the package has no function of it either.
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
    for place, version in versions.items():
        if version != __version__:
            found = f"thetarbm {version}" if version else "no thetarbm"
            raise ThetaRBMError(f"{place} has {found}, the client {__version__}; install the same on both")
