"""What may go: runs that the suite no longer asks for, and weights, which are a cache."""

from __future__ import annotations

import shutil
from pathlib import Path

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.runs.record import SuitePart
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.suite.schema import Suite
from thetarbm_cli.outputs import Removal


def stale_runs(context: RunContext, suite: Suite, identity: SuitePart) -> list[Removal]:
    """List runs made for this suite that no cell of any profile asks for now, or by an older version of the algorithm.

    Only what is surely the suite's is stale: not what was made by hand, nor for another suite, nor what does not say
    for which, as records from before they named it. Packed records stay.
    """
    cells = [cell for profile in suite.profiles for cell in suite.cells(profile)]
    found = []
    own = set(context.store.own_identifiers())
    for record in context.store.load_all():
        if record.suite != identity or record.run not in own:
            continue
        if record.algorithm != ALGORITHM:
            reason = f"made by version {record.algorithm} of the algorithm, this is {ALGORITHM}"
        elif not any(cell.fits(record, any_source=True) for cell in cells):
            reason = f"made for {', '.join(record.cells)} with settings that the suite no longer has"
        else:
            continue
        if not context.store.is_held(record.run):
            found.append(_removal(record.run, context.store.path(record.run), reason))
    return found


def all_weights(context: RunContext) -> list[Removal]:
    """List the weights of measured runs; they are made again when something needs them."""
    found = []
    for record in context.store.load_all():
        path = context.store.weights_path(record.run)
        if record.metrics and path.is_file() and not context.store.is_held(record.run):
            found.append(_removal(record.run, path, "weights of a measured run"))
    return found


def remove(removals: list[Removal]) -> None:
    """Remove them."""
    for removal in removals:
        path = Path(removal.path)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise ThetaRBMError(f"cannot remove {path}: {error.strerror}") from error


def _removal(run: str, path: Path, reason: str) -> Removal:
    """Say what may go, why, and how much room it takes."""
    files = path.rglob("*") if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files if file.is_file())
    return Removal(run=run, path=str(path), reason=reason, bytes=size)
