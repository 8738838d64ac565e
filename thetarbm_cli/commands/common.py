"""What commands share: the global options of a call, and options that several have, each declared once."""

from __future__ import annotations

import math
import os
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from thetarbm_cli import followup, ui
from thetarbm_cli.commands.completion import complete_profiles, complete_settings, complete_sources
from thetarbm_cli.errors import did_you_mean
from thetarbm_cli.registry import GENERATED, Registry, offered_sources, source_names

if TYPE_CHECKING:
    from thetarbm_cli.backend import Backend
    from thetarbm_cli.store import Store


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

    def store(self, results: Path | None = None) -> Store:
        """Open the store of --results, or of another folder."""
        from thetarbm_cli.store import Store

        return Store(results or self.results, self.data_dir)

    def say(self, message: str) -> None:
        """Print a message for people on stderr."""
        ui.say(message, quiet=self.quiet)

    def print_json(self, output: Any) -> bool:
        """Print the output of a command on stdout if it is asked for as JSON; say whether it is."""
        if self.as_json:
            ui.print_json(output)
        return self.as_json

    def progress(self, label: str) -> AbstractContextManager[ui.Progress]:
        """Show one long step."""
        return ui.progress(label, quiet=self.quiet)


pass_session = click.make_pass_decorator(Session)


class UserPath(click.Path):
    """A path in which ``~`` is the user's home also where the shell leaves it, as in ``--out=~/x`` or a variable."""

    def __init__(self, **options: Any) -> None:
        super().__init__(path_type=Path, **options)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Expand and check."""
        return super().convert(os.path.expanduser(value), param, ctx)


class Source(click.ParamType):  # type: ignore[type-arg]
    """A source of images: a name, or the path of a file as for `UserPath`."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Expand a path, and refuse what is neither that nor a name."""
        source = os.path.expanduser(str(value))
        is_path = source.endswith(".npz") or os.path.exists(source)
        if source != GENERATED and not is_path and source not in source_names():
            names = ", ".join(offered_sources())
            hint = did_you_mean(source, offered_sources(), f"use {names}, or the path of a .npz file")
            self.fail(f"unknown source {source!r}: {hint}", param, ctx)
        return source


class RegistryChoice(click.Choice):  # type: ignore[type-arg]  # Generic since click 8.4 only
    """A name from a registry; plug-ins are looked for only when a name is unknown or all are shown."""

    def __init__(self, registry: Registry[Any]) -> None:
        super().__init__(list(registry.own))
        self._registry = registry

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Check a name."""
        return super().convert(value, param, ctx) if value in self.choices else self._all().convert(value, param, ctx)

    def get_metavar(self, param: click.Parameter, *context: Any, **named: Any) -> str | None:
        """List the names for the help; click gives a context since 8.2, by name."""
        return self._all().get_metavar(param, *context, **named)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Complete a name."""
        return self._all().shell_complete(ctx, param, incomplete)

    def _all(self) -> click.Choice[str]:
        return click.Choice(self._registry.names)


class NumberList(click.ParamType):  # type: ignore[type-arg]
    """Numbers with commas between them."""

    name = "numbers"

    def __init__(self, kind: type[int] | type[float], low: float, high: float = math.inf) -> None:
        self.kind, self.low, self.high = kind, low, high

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse and check ``1,2,3``."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(self.kind(word) for word in value.split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of {self.kind.__name__} numbers such as {self.low:g},…", param, ctx)
        for number in numbers:
            if not self.low <= number <= self.high:
                self.fail(f"{number} is outside {self.low:g}…{self.high:g}", param, ctx)
        return numbers


def _repeat_suite(ctx: click.Context, param: click.Parameter, suite: Path | None) -> Path | None:
    """Let the commands that this call prints take the same suite."""
    if not ctx.resilient_parsing:
        followup.repeat(replace(followup.call_options(), suite=suite))
    return suite


def _note_json(ctx: click.Context, param: click.Parameter, as_json: bool) -> None:
    """Let the session of this call print JSON."""
    if as_json and not ctx.resilient_parsing:
        ctx.obj = replace(ctx.obj, as_json=True)


json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    expose_value=False,
    callback=_note_json,
    help="Print one JSON object on stdout.",
)

suite_option = click.option(
    "--suite",
    "suite_path",
    type=UserPath(dir_okay=False),
    callback=_repeat_suite,
    help="Another suite [default: experiments.yaml of this folder, else the shipped one].",
)

profile_option = click.option(
    "--profile",
    default="paper",
    shell_complete=complete_profiles,
    help="Size of the runs: paper, quick, tiny, or your own.",
)

# Of commands that work on the suite, which names a source.
source_option = click.option(
    "--source",
    type=Source(),
    shell_complete=complete_sources,
    help="Source of the images instead of the suite's: bilinear, official, or FILE.npz.",
)

# Of commands that work on images of one source.
images_option = click.option(
    "--source",
    type=Source(),
    default=GENERATED,
    shell_complete=complete_sources,
    metavar="|".join([*offered_sources(), "FILE.npz"]),
    help="Where the images come from, or a file of yours: arrays images, and perhaps labels and split.",
)

seeds_option = click.option(
    "--seeds", type=click.IntRange(min=1), help="Seeds of every cell [default: those of the profile]."
)

seed_option = click.option(
    "--seed", type=click.IntRange(min=0), default=0, help="Seed of weights, batches and sampling."
)

set_option = click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    shell_complete=complete_settings,
    help="Any other setting of the model, or of the run as data.KEY, svm.KEY and (train) perturbation.KEY.",
)

jobs_option = click.option("-j", "--jobs", type=click.IntRange(min=1), default=1, help="Runs at a time.")
