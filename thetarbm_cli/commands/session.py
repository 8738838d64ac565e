"""What every command shares: folders, backend, threads, and how results and progress are shown."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from thetarbm_cli.commands.progress import Display, Progress, print_message

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
        if not self.quiet:
            print_message(message)

    def print_json(self, output: Output) -> bool:
        """Print the output of a command on stdout if it is asked for as JSON; say whether it is.

        Optional fields that nobody set are left out.
        """
        if self.as_json:
            content = output.model_dump(mode="json", exclude_unset=True)
            click.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
        return self.as_json

    @contextmanager
    def progress(self, label: str) -> Iterator[Progress]:
        """Show progress of one long step: a bar on a terminal, a line at its end in a log; nothing if none is made."""
        with Display(self.quiet) as display, display.step(label) as progress:
            yield progress


pass_session = click.make_pass_decorator(Session)
