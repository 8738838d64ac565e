"""``thetarbm info``: versions, backend, threads, folders and what is prepared."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli import __version__
from thetarbm_cli.commands.options import json_option
from thetarbm_cli.commands.session import Session, pass_session
from thetarbm_cli.ui import print_fields

if TYPE_CHECKING:
    from thetarbm_cli.outputs import Info, PreparedFile

# CuPy has another name for every CUDA version; whichever is installed is meant.
DISTRIBUTIONS = {
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "scikit-learn": ("scikit-learn",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
}


@click.command()
@json_option
@pass_session
def command(session: Session) -> None:
    """Show versions, backend, threads, folders and what is prepared."""
    from thetarbm_cli.data.prepare import list_prepared
    from thetarbm_cli.outputs import Info

    backend = session.backend()
    output = Info(
        version=__version__,
        backend=backend.name,
        backend_reason=backend.reason,
        blas=_blas_pools(),
        threads=session.threads,
        data_dir=str(session.data_dir.absolute()),
        results_dir=str(session.results.absolute()),
        prepared=list_prepared(session.data_dir),
        versions={
            "python": platform.python_version(),
            **{name: _version(distributions) for name, distributions in DISTRIBUTIONS.items()},
        },
    )
    if not session.print_json(output):
        print_fields(_as_fields(output))


def _blas_pools() -> list[dict[str, Any]]:
    """Describe the BLAS libraries in this process: NumPy and SciPy bring one each."""
    import numpy  # noqa: F401  its BLAS is looked for
    import scipy.linalg  # noqa: F401  and its
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    return sorted(pools, key=lambda pool: str(pool["filepath"]))


def _version(distributions: tuple[str, ...]) -> str | None:
    """Find the version of the first of the distributions that is installed, without importing it."""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _as_fields(info: Info) -> list[tuple[str, str]]:
    """Lay it out for people: labels and their lines."""
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in info.versions.items())
    lines = {
        "thetarbm": [info.version],
        "with": [versions],
        "backend": [f"{info.backend} ({info.backend_reason})"],
        "threads": [str(info.threads)],
        "blas": [_pool_as_text(pool) for pool in info.blas] or ["none that threadpoolctl knows"],
        "data": [info.data_dir],
        "results": [info.results_dir],
        "prepared": [_file_as_text(file) for file in info.prepared]
        or ["nothing yet; the first command that needs data makes it"],
    }
    return [("" if number else label, line) for label, group in lines.items() for number, line in enumerate(group)]


def _pool_as_text(pool: dict[str, Any]) -> str:
    threads = pool["num_threads"]
    name = " ".join(filter(None, (pool["internal_api"], pool["version"], pool.get("architecture"))))
    return f"{name}, {threads} thread{'' if threads == 1 else 's'}, of {Path(pool['filepath']).parent.name}"


def _file_as_text(file: PreparedFile) -> str:
    splits = ", ".join(f"{part} {count}" for part, count in file.splits)
    return f"{file.dataset} ({file.source}, seed {file.seed}): {splits}"
