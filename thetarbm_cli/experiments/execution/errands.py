"""What a Dask worker does: a job of the suite, in the client's folder or in one of its own."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from thetarbm_cli import __version__
from thetarbm_cli.errors import InputError
from thetarbm_cli.experiments.execution.job import Job, Outcome, do_job
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunStore
from thetarbm_cli.experiments.runs.training import Workplace


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


def run_errand(errand: Errand, job: Job) -> Delivery:
    """Do a job on a worker."""
    if (errand.version, errand.algorithm) != (__version__, ALGORITHM):
        raise InputError(
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
