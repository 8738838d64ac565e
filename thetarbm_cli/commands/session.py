"""What every command shares: folders, backend, threads, and how results and progress are shown."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli import ui

if TYPE_CHECKING:
    from thetarbm_cli.backend import Backend
    from thetarbm_cli.experiments.runs.store import RunContext, RunStore
    from thetarbm_cli.outputs import Output


@dataclass(frozen=True)
class Session:
    """The global options of one call, and whether it asks for JSON."""

    data_dir: Path
    results: Path
    backend_name: str
    threads: int
    quiet: bool
    as_json: bool = False

    @classmethod
    def open(cls, data_dir: Path | None, results: Path | None, backend: str, threads: int, quiet: bool) -> Session:
        """Fill in the default folders and set the number of BLAS threads for this process.

        The limit is set in the environment, before NumPy is imported, so that the pools of NumPy and SciPy
        never start more threads than they may use.
        """
        import platformdirs

        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[variable] = str(threads)
        return cls(
            data_dir=data_dir or platformdirs.user_cache_path("thetarbm"),
            results=results or Path("results"),
            backend_name=backend,
            threads=threads,
            quiet=quiet,
        )

    def backend(self) -> Backend:
        """Select the backend that was asked for."""
        from thetarbm_cli.backend import select_backend

        return select_backend(self.backend_name)

    def run_context(self, store: RunStore | None = None) -> RunContext:
        """Put folders and backend together as the experiments take them; the runs are those of --results, or others."""
        from thetarbm_cli.experiments.runs.store import RunContext, RunStore

        return RunContext(self.data_dir, store or RunStore(self.results), self.backend_name)

    def say(self, message: str) -> None:
        """Print a message for people on stderr."""
        ui.say(message, quiet=self.quiet)

    def print_json(self, output: Output) -> bool:
        """Print the output of a command on stdout if it is asked for as JSON; say whether it is."""
        if self.as_json:
            ui.print_json(output)
        return self.as_json

    def progress(self, label: str) -> AbstractContextManager[ui.Progress]:
        """Show one long step."""
        return ui.progress(label, quiet=self.quiet)


pass_session = click.make_pass_decorator(Session)
