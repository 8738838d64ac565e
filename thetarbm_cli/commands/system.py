"""``thetarbm prepare-data``, ``verify`` and ``info``: images, mathematics, and what is installed."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from thetarbm_cli import __version__
from thetarbm_cli.commands.common import Session, UserPath, images_option, json_option, pass_session
from thetarbm_cli.errors import EXIT_FAILED
from thetarbm_cli.registry import DATASETS, source_names
from thetarbm_cli.ui import print_fields, print_table, print_text, state_cell

if TYPE_CHECKING:
    from thetarbm_cli.data.prepared import Prepared, PreparedData, PreparedFile
    from thetarbm_cli.environment import Info
    from thetarbm_cli.measures.theory import Check

# Data sets that are made from what is in the package.
SHIPPED = [entry.name for entry in DATASETS if entry.shipped]
# More classes than these are summed up in a line of their own.
MOST_CLASSES_SHOWN = 12
# CuPy has another name for every CUDA version; whichever is installed is meant.
DISTRIBUTIONS = {
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "scikit-learn": ("scikit-learn",),
    "cupy": ("cupy-cuda12x", "cupy-cuda13x", "cupy"),
}


@click.command("prepare-data")
@click.option(
    "--dataset",
    type=click.Choice([*DATASETS.names, "all"]),
    help=f"What to prepare; all is {' and '.join(SHIPPED)} [default: mnist-rot].",
)
@images_option
@click.option(
    "--archive",
    type=UserPath(),
    help="Local copy of the official archive, mnist_rotation_new.zip or a folder with its two files; "
    "for fashion-rot, the folder of Fashion-MNIST's four files.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    help="Seed of choice and angles.",
)
@click.option("--force", is_flag=True, help="Make the data again even if it is there.")
@json_option
@pass_session
def prepare_data(
    session: Session,
    dataset: str | None,
    source: str,
    archive: Path | None,
    seed: int,
    force: bool,
) -> None:
    """Prepare a data set, or your own images.

    The data is made once and found again; a damaged file is made again. A preview picture is put next to it.
    """
    from thetarbm_cli.data.prepare import prepare
    from thetarbm_cli.data.prepared import PreparedSets
    from thetarbm_cli.errors import InputError

    if dataset is not None and source not in source_names():
        raise InputError(f"--dataset is not for your own images: leave it out with --source {source}")
    names = SHIPPED if dataset == "all" else [dataset or "mnist-rot"]
    found = []
    for name in names:
        options: dict[str, Any] = {"source": source, "archive": archive}
        if dataset == "all" and source not in DATASETS[name].sources:
            options = {}
        with session.progress(f"preparing {name if source in source_names() else source}") as progress:
            prepared = prepare(session.data_dir, name, seed=seed, force=force, progress=progress, **options)
        found.append(_describe(session, prepared))
    if not session.print_json(PreparedSets(datasets=found) if dataset == "all" else found[0]):
        for data in found:
            print_text(f"{data.dataset} ({data.source}, seed {data.seed}){', cached' if data.cached else ''}")
            print_fields(_data_fields(data), indent=2)


def _describe(session: Session, prepared: Prepared) -> PreparedData:
    """Gather what is printed about one data set."""
    from thetarbm_cli.data.prepare import orientation_shares, recognise_archive
    from thetarbm_cli.data.prepared import PreparedData, summarise
    from thetarbm_cli.reporting.figures.images import find_or_write_preview

    with session.progress(f"orientations of {prepared.dataset}") as progress:
        shares = orientation_shares(prepared, progress)
    recognised = recognise_archive(prepared)
    archive: dict[str, Any] = {"archive": recognised} if recognised else {}
    return PreparedData(
        dataset=prepared.dataset,
        source=prepared.source,
        seed=prepared.seed,
        path=str(prepared.path),
        sha256=prepared.sha256,
        **dict(summarise(prepared)),
        orientations=shares,
        preview=str(find_or_write_preview(prepared)),
        cached=prepared.cached,
        **archive,
    )


def _data_fields(data: PreparedData) -> list[tuple[str, str]]:
    """Lay a data set out for people."""
    step = 360 / len(data.orientations)
    shares = "  ".join(f"{index * step:g}° {share:.1%}" for index, share in enumerate(data.orientations))
    return [
        *((part, f"{count:>6} images  {_classes_as_text(data.classes[part])}") for part, count in data.splits),
        *([("archive", data.archive)] if data.archive else []),
        ("pixels", f"mean {data.pixel_mean:.4f}, std {data.pixel_std:.4f}"),
        ("orientations", shares),
        ("sha256", data.sha256),
        ("file", data.path),
        ("preview", data.preview),
    ]


def _classes_as_text(classes: dict[str, int]) -> str:
    if not classes:
        return ""
    if len(classes) > MOST_CLASSES_SHOWN:
        return f"{len(classes)} classes of {min(classes.values())} to {max(classes.values())}"
    return "  ".join(f"{label}: {count}" for label, count in classes.items())


@click.command("verify")
@click.option("--rotations", type=click.IntRange(2, 72), default=9, help="S of the support set.")
@click.option("--size", type=click.IntRange(4, 40), default=28, help="Side of the images.")
@json_option
@pass_session
def verify(session: Session, rotations: int, size: int) -> int:
    """Check the paper's mathematics numerically, on the shipped digits.

    Under exact (permutation) rotations every claim must hold to rounding; for bilinear and nearest ones the
    measured deviation is shown. Exit code 1 if an exact claim fails.
    """
    from thetarbm_cli.data.sources.mnist import sample_digits
    from thetarbm_cli.measures import theory
    from thetarbm_cli.parameters import ROTATION_KINDS

    checks: list[Check] = []
    with session.progress("checking") as progress:

        def note(check: Check) -> None:
            checks.append(check)
            progress(len(checks), len(ROTATION_KINDS) * len(theory.TOLERANCES))

        theory.verify(sample_digits(1000, size), rotations=rotations, on_check=note)
    output = theory.Verified(passed=all(check.passed for check in checks), checks=checks)
    if not session.print_json(output):
        rows = [(check.rotation, check.name, f"{check.value:.3g}", state_cell(_verdict(check))) for check in checks]
        print_table(("rotation", "check", "deviation", "verdict"), rows)
        click.echo("every exact claim holds" if output.passed else "an exact claim fails")
    return 0 if output.passed else EXIT_FAILED


def _verdict(check: Check) -> str:
    return "measured" if not check.exact else "pass" if check.passed else "FAIL"


@click.command("info")
@json_option
@pass_session
def info(session: Session) -> None:
    """Show versions, backend, threads, folders and what is prepared."""
    from thetarbm_cli.data.prepare import list_prepared
    from thetarbm_cli.environment import Info

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
        print_fields(_info_fields(output))


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


def _info_fields(found: Info) -> list[tuple[str, str]]:
    """Lay it out for people: labels and their lines."""
    versions = ", ".join(f"{name} {version or 'not installed'}" for name, version in found.versions.items())
    lines = {
        "thetarbm": [found.version],
        "with": [versions],
        "backend": [f"{found.backend} ({found.backend_reason})"],
        "threads": [str(found.threads)],
        "blas": [_pool_as_text(pool) for pool in found.blas] or ["none that threadpoolctl knows"],
        "data": [found.data_dir],
        "results": [found.results_dir],
        "prepared": [_file_as_text(file) for file in found.prepared]
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
