"""What may go: runs that the suite no longer asks for, and weights, which are a cache."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from thetarbm_cli.errors import ThetaRBMError
from thetarbm_cli.experiments.runs.record import RunRecord, SuitePart
from thetarbm_cli.experiments.runs.settings import ALGORITHM
from thetarbm_cli.experiments.runs.store import RunContext
from thetarbm_cli.experiments.suite.schema import Suite


@dataclass(frozen=True)
class Removal:
    """A folder or file that may go, and why."""

    run: str
    path: Path
    reason: str

    @property
    def bytes(self) -> int:
        """How much room it takes."""
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(file.stat().st_size for file in files if file.is_file())


def stale_runs(context: RunContext, suite: Suite, identity: SuitePart) -> list[Removal]:
    """Runs made for this suite that no cell of any profile asks for now, or by an older version of the algorithm.

    Only what is surely the suite's is stale: not what was made by hand, nor for another suite, nor what does not say
    for which, as records from before they named it.
    """
    cells = [cell for profile in suite.profiles for cell in suite.cells(profile)]
    found = []
    for record in context.store.load_all():
        if record.suite != identity:
            continue
        reason = _why_stale(record, any(cell.fits(record, any_source=True) for cell in cells))
        if reason and not context.store.is_held(record.run):
            found.append(Removal(record.run, context.store.path(record.run), reason))
    return found


def all_weights(context: RunContext) -> list[Removal]:
    """Weights of measured runs; they are made again when something needs them."""
    found = []
    for record in context.store.load_all():
        path = context.store.weights_path(record.run)
        if record.metrics and path.is_file() and not context.store.is_held(record.run):
            found.append(Removal(record.run, path, "weights of a measured run"))
    return found


def remove(removals: list[Removal]) -> None:
    """Remove them."""
    for removal in removals:
        try:
            if removal.path.is_dir():
                shutil.rmtree(removal.path)
            else:
                removal.path.unlink(missing_ok=True)
        except OSError as error:
            raise ThetaRBMError(f"cannot remove {removal.path}: {error.strerror}") from error


def _why_stale(record: RunRecord, wanted: bool) -> str:
    if record.algorithm != ALGORITHM:
        return f"made by version {record.algorithm} of the algorithm, this is {ALGORITHM}"
    if not wanted:
        return f"made for {', '.join(record.cells)} with settings that the suite no longer has"
    return ""
