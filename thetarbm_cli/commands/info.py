"""``thetarbm info``: versions, backend, threads, folders and what is prepared."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import click

from thetarbm_cli import __version__
from thetarbm_cli.commands.session import Session, emit_json, json_option, pass_session

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
def command(session: Session, as_json: bool) -> None:
    """Show versions, backend, threads, folders and what is prepared."""
    from thetarbm_cli.data.prepare import list_prepared

    backend = session.backend()
    sheet = {
        "version": __version__,
        "backend": backend.name,
        "backend_reason": backend.reason,
        "blas": _blas_pools(),
        "threads": session.threads,
        "data_dir": str(session.data_dir.absolute()),
        "results_dir": str(session.results.absolute()),
        "prepared": list_prepared(session.data_dir),
        "versions": {
            "python": platform.python_version(),
            **{name: _version(distributions) for name, distributions in DISTRIBUTIONS.items()},
        },
    }
    if as_json:
        emit_json(sheet)
    else:
        click.echo(_as_text(sheet))


def _blas_pools() -> list[dict[str, Any]]:
    """Describe the BLAS libraries in this process: NumPy and SciPy bring one each."""
    import numpy  # noqa: F401  its BLAS is looked for
    import scipy.linalg  # noqa: F401  and its
    import threadpoolctl

    pools = [pool for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    return sorted(pools, key=lambda pool: str(pool["filepath"]))


def _version(distributions: tuple[str, ...]) -> str | None:
    """Version of the first of the distributions that is installed, without importing it."""
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _as_text(sheet: dict[str, Any]) -> str:
    """Lay the sheet out for people: a label, then its lines."""
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in sheet["versions"].items())
    lines = {
        "thetarbm": [sheet["version"]],
        "with": [versions],
        "backend": [f"{sheet['backend']} ({sheet['backend_reason']})"],
        "threads": [str(sheet["threads"])],
        "blas": [_pool_as_text(pool) for pool in sheet["blas"]] or ["none that threadpoolctl knows"],
        "data": [sheet["data_dir"]],
        "results": [sheet["results_dir"]],
        "prepared": [_entry_as_text(entry) for entry in sheet["prepared"]]
        or ["nothing yet; the first command that needs data makes it"],
    }
    return "\n".join(
        f"{'' if number else label:<10}{line}" for label, group in lines.items() for number, line in enumerate(group)
    )


def _pool_as_text(pool: dict[str, Any]) -> str:
    threads = pool["num_threads"]
    name = " ".join(filter(None, (pool["internal_api"], pool["version"], pool.get("architecture"))))
    return f"{name}, {threads} thread{'' if threads == 1 else 's'}, of {Path(pool['filepath']).parent.name}"


def _entry_as_text(entry: dict[str, Any]) -> str:
    splits = ", ".join(f"{part} {count}" for part, count in entry["splits"].items())
    return f"{entry['dataset']} ({entry['source']}, seed {entry['seed']}): {splits}"
